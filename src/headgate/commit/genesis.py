"""Version 0: the identity of the lake, decided like every other version and published as `headgate.json`.

It is decided with FileTracker on every storage, because the strategy of the lake is part of what is being
decided: two racing inits that would choose different strategies must still agree on one lake.
"""

from __future__ import annotations

from headgate.commit.driver import Driver
from headgate.commit.layout import IDENTITY, TRACKER
from headgate.commit.outcome import Committed, Lost, Unknown
from headgate.commit.strategy import strategy_named
from headgate.errors import AlreadyExistsError, CommitUnknownError, NotFoundError
from headgate.model.identifiers import GENESIS
from headgate.model.identity import LakeIdentity
from headgate.model.strategy import StrategyName


def refuse_existing(driver: Driver) -> None:
    """Raises `AlreadyExistsError` if there is a lake."""
    found = _published(driver)
    if found is not None:
        raise _already_exists(driver, found)


def decide_identity(driver: Driver, identity: LakeIdentity) -> None:
    """Makes `identity` that of the lake at this place; `AlreadyExistsError` if it has another one."""
    strategy = strategy_named(
        StrategyName.FILETRACKER.value, driver, ordered_listing=identity.ordered_listing
    )
    data = identity.encode()
    match strategy.publish(GENESIS, data, driver.host.new_txid()):
        case Committed():
            driver.put(IDENTITY, data)
        case Lost(other):
            # Whoever won may have died before publishing it; its bytes are decided, so anybody may.
            driver.put(IDENTITY, other)
            raise _already_exists(driver, other)
        case Unknown(_, claimant):
            raise CommitUnknownError(
                f"{driver.store.describe()}: no answer: whether the lake was made cannot be told",
                "run init again: it makes the lake, or says that it exists",
                GENESIS.number,
                claimant.text,
            )


def read_identity(driver: Driver) -> tuple[LakeIdentity, bytes]:
    """The identity of the lake and its bytes; `NotFoundError` if there is no lake."""
    data = _published(driver)
    if data is None:
        raise NotFoundError(
            f"there is no lake at {driver.store.describe()}",
            "check the place, or make a lake there with `headgate init` or Lake.init",
        )
    return LakeIdentity.decode(data, f"{driver.store.describe()}/{IDENTITY}"), data


def _published(driver: Driver) -> bytes | None:
    # An init that died after the decision left the record of version 0 without its copy.
    return driver.get(IDENTITY) or driver.get(TRACKER.record_key(GENESIS))


def _already_exists(driver: Driver, data: bytes) -> AlreadyExistsError:
    identity = LakeIdentity.decode(data, IDENTITY)
    return AlreadyExistsError(
        f"there is a lake at {driver.store.describe()} already "
        f"(id {identity.lake_id}, made {identity.created_at:%Y-%m-%d %H:%M} UTC)",
        "open it, or choose another place",
    )
