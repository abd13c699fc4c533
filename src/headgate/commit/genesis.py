"""Version 0: the identity of the lake, decided like every other version and published as `headgate.json`.

It is decided with FileTracker on every storage, because the strategy of the lake is part of what is being
decided: two racing inits that would choose different strategies must still agree on one lake.
"""

from __future__ import annotations

from headgate.commit.driver import Driver
from headgate.commit.layout import IDENTITY, LOG, TRACKER
from headgate.commit.outcome import Committed, Lost, Unknown
from headgate.commit.strategy import strategy_named
from headgate.errors import AlreadyExistsError, CommitUnknownError, CorruptLakeError, NotFoundError
from headgate.model.identifiers import GENESIS
from headgate.model.identity import LakeIdentity
from headgate.model.json_object import digest
from headgate.model.strategy import StrategyName
from headgate.storage.capabilities import HoldObject, PutIfAbsent
from headgate.storage.requests import Create, Failed, perform

# An init that died after the decision left the record of version 0 without its copy.
_KEYS = (IDENTITY, TRACKER.record_key(GENESIS))


def refuse_existing(driver: Driver) -> None:
    """Raises `AlreadyExistsError` if there is a lake, `CorruptLakeError` if there are records without one.

    A new identity above the records of another lake would make the loss final: they could be told apart from
    ours by nothing but their digests.
    """
    _refuse_identity(driver)
    remains = [key for key in driver.keys(LOG) if not _is_of_an_init(key)]
    if not remains:
        return
    _refuse_identity(driver)  # again: a lake that was made meanwhile can have commits by now
    raise CorruptLakeError(
        f"{driver.store.describe()}: there is no lake, but there are {len(remains)} objects of the log of "
        f"one, such as {remains[0]}; nothing was changed",
        f"bring {IDENTITY} and {TRACKER.record_key(GENESIS)} back from a backup, or choose another place",
    )


def _refuse_identity(driver: Driver) -> None:
    for key in _KEYS:
        found = driver.get(key)
        if found is not None:
            raise _already_exists(driver, found)


def _is_of_an_init(key: str) -> bool:
    """Whether it belongs to version 0: another init is at work, or died there."""
    return key.startswith(TRACKER.attempts(GENESIS)) or key == TRACKER.index_key(GENESIS)


def decide_identity(driver: Driver, identity: LakeIdentity) -> None:
    """Makes `identity` that of the lake at this place; `AlreadyExistsError` if it has another one."""
    decide_identity_bytes(driver, identity.encode(), ordered_listing=identity.ordered_listing)


def decide_identity_bytes(driver: Driver, data: bytes, *, ordered_listing: bool) -> None:
    """Likewise, with the very bytes that the identity has elsewhere. Idempotent."""
    strategy = strategy_named(StrategyName.FILETRACKER.value, driver, ordered_listing=ordered_listing)
    match strategy.publish(GENESIS, data, driver.host.new_txid()):
        case Committed():
            copy_identity(driver, data)
        case Lost(other):
            # Whoever won may have died before publishing it; its bytes are decided, so anybody may.
            copy_identity(driver, other)
            raise _already_exists(driver, other)
        case Unknown(_, claimant, error):
            raise CommitUnknownError(
                f"{driver.store.describe()}: whether the lake was made cannot be told: {error.problem}",
                "run init again: it makes the lake, or says that it exists",
                GENESIS.number,
                claimant.text,
            ) from error


def read_identity(driver: Driver) -> tuple[LakeIdentity, bytes]:
    """The identity of the lake and its bytes; `NotFoundError` if there is no lake.

    A store that can be tied to the object it came from is: it never writes into another lake at this place.
    """
    for key in _KEYS:
        # Held first, read then: what is read is what is held.
        if isinstance(driver.store, HoldObject) and not driver.store.hold(key):
            continue
        data = driver.get(key)
        if data is not None:
            return LakeIdentity.decode(data, f"{driver.store.describe()}/{key}"), data
    raise NotFoundError(
        f"there is no lake at {driver.store.describe()}",
        "check the place, or make a lake there with `headgate init` or Lake.init",
    )


def require_decided(driver: Driver, identity: str) -> None:
    """Raises `CorruptLakeError` unless record 0 is there, and its digest is `identity`."""
    place, key = driver.store.describe(), TRACKER.record_key(GENESIS)
    data = driver.get(key)
    if data is None:
        raise CorruptLakeError(
            f"{place}: {IDENTITY} is there, but the record of version 0 ({key}) is gone",
            "stop writing to this lake; bring its directory control/ back from a backup",
        )
    if digest(data) != identity:
        raise CorruptLakeError(
            f"{place}: {IDENTITY} is not what was decided as version 0 ({key})",
            f"stop writing to this lake; if {IDENTITY} was edited, make it a copy of that record again",
        )


def copy_identity(driver: Driver, data: bytes) -> None:
    """Publishes what was decided as version 0 as `headgate.json`, unless that is there."""
    # Never replaced where that can be avoided: handles that are open hold the object that is there.
    if driver.get(IDENTITY) is not None:
        return
    if isinstance(driver.store, PutIfAbsent):
        answer = perform(driver.store, Create(IDENTITY, data))
        if not isinstance(answer, Failed):
            return
    driver.put(IDENTITY, data)


def _already_exists(driver: Driver, data: bytes) -> AlreadyExistsError:
    identity = LakeIdentity.decode(data, IDENTITY)
    return AlreadyExistsError(
        f"there is a lake at {driver.store.describe()} already "
        f"(id {identity.lake_id}, made {identity.created_at:%Y-%m-%d %H:%M} UTC)",
        "open it, or choose another place",
    )
