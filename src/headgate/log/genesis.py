"""Version 0: the identity of the lake, decided like every other version and published as `headgate.json`.

1. GET `headgate.json` and record 0: neither may be there. LIST the log: it must be empty.
2. Decide version 0 with FileTracker, on every storage: the strategy of the lake is part of what is being
   decided, and two racing inits that would choose different strategies must still agree on one lake.
3. Create `headgate.json` with the decided bytes, also if another init won.

A crash in 2 leaves attempts at version 0, which the next init completes: the lake may then have the identity
that the dead process proposed. A crash between 2 and 3 leaves a lake without `headgate.json`: readers and
later inits use record 0, which has the same bytes.
"""

from __future__ import annotations

from headgate.errors import AlreadyExistsError, CommitUnknownError, CorruptLakeError, NotFoundError
from headgate.log.driver import Driver
from headgate.log.layout import IDENTITY, LOG, TRACKER
from headgate.log.machine import Committed, Lost, Unknown
from headgate.log.strategy import strategy_named
from headgate.model.identifiers import GENESIS, StrategyName
from headgate.model.identity import LakeIdentity
from headgate.model.json_object import digest
from headgate.storage.capabilities import HoldObject, PutIfAbsent
from headgate.storage.requests import Create, Failed, perform

# The copy first, since it is there as a rule. An init that died after the decision left only the record.
_KEYS = (IDENTITY, TRACKER.record_key(GENESIS))


def refuse_existing(driver: Driver) -> None:
    """Raises `AlreadyExistsError` if there is a lake, `CorruptLakeError` if there are records without one.

    A new identity above the records of another lake would make the loss final: only their digests would
    distinguish them from ours.
    """
    _refuse_identity(driver)
    remains = [key for key in driver.keys(LOG) if not _is_of_an_init(key)]
    if not remains:
        return
    # Again, after the listing: a lake that was made since the first look can have commits by now, and these
    # are no remains.
    _refuse_identity(driver)
    raise CorruptLakeError(
        f"{driver.store.describe()}: there is no lake, but there are {len(remains)} objects of a log, "
        f"such as {remains[0]}; nothing was changed",
        f"restore {IDENTITY} and {TRACKER.record_key(GENESIS)} from a backup, or choose another location",
    )


def _refuse_identity(driver: Driver) -> None:
    for key in _KEYS:
        found = driver.get(key)
        if found is not None:
            raise _already_exists(driver, found)


def _is_of_an_init(key: str) -> bool:
    """Whether it belongs to version 0: another init is running, or died there."""
    return key.startswith(TRACKER.attempts(GENESIS)) or key == TRACKER.index_key(GENESIS)


def decide_identity(driver: Driver, identity: LakeIdentity) -> None:
    """Makes `identity` that of the lake at this location; `AlreadyExistsError` if there is another one."""
    decide_identity_bytes(driver, identity.encode(), ordered_listing=identity.ordered_listing)


def decide_identity_bytes(driver: Driver, data: bytes, *, ordered_listing: bool) -> None:
    """The same, with the exact bytes that the identity has elsewhere. Idempotent."""
    strategy = strategy_named(StrategyName.FILETRACKER.value, driver, ordered_listing=ordered_listing)
    match strategy.publish(GENESIS, data, driver.host.new_txid()):
        case Committed():
            # Also if another init completed our proposal: that one ends with `AlreadyExistsError`.
            copy_identity(driver, data)
        case Lost(other):
            # The winner may have died before it published them. They are decided, so any process may.
            copy_identity(driver, other)
            raise _already_exists(driver, other)
        case Unknown(_, claimant, error):
            # Nothing is undone: another init may complete what we proposed.
            raise CommitUnknownError(
                f"{driver.store.describe()}: cannot determine yet whether the lake was created: "
                f"{error.problem}",
                "run init again: it creates the lake, or reports that it exists",
                GENESIS.number,
                claimant.text,
            ) from error


def read_identity(driver: Driver) -> tuple[LakeIdentity, bytes]:
    """The identity of the lake and its bytes; `NotFoundError` if there is no lake.

    Ties the store to the object, if possible: then it never writes into another lake at this location.
    """
    for key in _KEYS:
        # Hold first, then read: what is read is what is held. The other way round, the directory could be
        # replaced in between, and this handle would write into another lake.
        if isinstance(driver.store, HoldObject) and not driver.store.hold(key):
            continue
        data = driver.get(key)
        if data is not None:
            return LakeIdentity.decode(data, f"{driver.store.describe()}/{key}"), data
    raise NotFoundError(
        f"there is no lake at {driver.store.describe()}",
        "check the location, or create a lake there with `headgate init` or Lake.init",
    )


def require_decided(driver: Driver, identity: str) -> None:
    """Raises `CorruptLakeError` unless record 0 exists, and its digest is `identity`."""
    place, key = driver.store.describe(), TRACKER.record_key(GENESIS)
    data = driver.get(key)
    if data is None:
        raise CorruptLakeError(
            f"{place}: {IDENTITY} exists, but the record of version 0 ({key}) is gone",
            "stop writing to this lake; restore control/ from a backup",
        )
    if digest(data) != identity:
        raise CorruptLakeError(
            f"{place}: {IDENTITY} differs from what was committed as version 0 ({key})",
            f"stop writing to this lake; if {IDENTITY} was edited, copy that record over it",
        )


def copy_identity(driver: Driver, data: bytes) -> None:
    """Publishes what was committed as version 0 as `headgate.json`, unless that exists."""
    # Never replaced where that can be avoided: handles that are open hold the object that is there. So it is
    # read first, and created rather than put, in case another process publishes it between the two.
    if driver.get(IDENTITY) is not None:
        return
    if isinstance(driver.store, PutIfAbsent):
        answer = perform(driver.store, Create(IDENTITY, data))
        if not isinstance(answer, Failed):
            return
    # No create, or one that failed: replacing is harmless for the content, since every process publishes the
    # same bytes.
    driver.put(IDENTITY, data)


def _already_exists(driver: Driver, data: bytes) -> AlreadyExistsError:
    identity = LakeIdentity.decode(data, IDENTITY)
    return AlreadyExistsError(
        f"a lake already exists at {driver.store.describe()} "
        f"(id {identity.lake_id}, created {identity.created_at:%Y-%m-%d %H:%M} UTC)",
        "open it, or choose another location",
    )
