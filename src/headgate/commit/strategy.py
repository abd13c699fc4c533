"""The commit strategies behind one contract.

For one version at most one record is ever decided. A decided record never changes and never disappears.
`Committed` is returned only for the decided record; `Lost` only if ours is not and never will be. Strategies
never retry a lost version: that is the transaction's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Protocol

from headgate.commit.cleanup import CleanedUp, CleanUp
from headgate.commit.conditional import ConditionalPublish
from headgate.commit.driver import Driver
from headgate.commit.filetracker import FileTrackerPublish
from headgate.commit.head import FindHead, NotFound
from headgate.commit.layout import PLAIN, TRACKER, RecordLayout
from headgate.commit.machine import Machine
from headgate.commit.outcome import Committed, Lost, Outcome, Rejected, Unknown
from headgate.commit.rename import RenamePublish
from headgate.errors import UnsupportedError
from headgate.model.identifiers import TxId, Version
from headgate.model.strategy import StrategyName
from headgate.storage.capabilities import PutIfAbsent, RenameNoReplace


class CommitStrategy(Protocol):
    """How versions are claimed and read."""

    @property
    def layout(self) -> RecordLayout: ...

    def publish(self, version: Version, record: bytes, claimant: TxId) -> Outcome:
        """Claims `version` for `record`. The caller has read the record before it.

        `claimant` is fresh for each call: requests of an earlier one may still arrive, and a process that was
        forked in between must not claim in the same name. Raises a `StorageError` if ours certainly is not
        and will not be decided, and nobody's record is known.
        """
        ...

    def resolve(self, version: Version, record: bytes, claimant: TxId) -> Outcome:
        """Settles a version whose `publish` ended in `Unknown`, or never returned. `record` is the same."""
        ...

    def read(self, version: Version) -> bytes | None:
        """The decided record, or None if there is none that readers can see."""
        ...

    def head(self, at_least: Version) -> Version:
        """The newest decided version, given one that is decided."""
        ...


@dataclass(frozen=True, slots=True)
class MachineStrategy:
    """A strategy whose protocol is a machine, made anew for each version."""

    driver: Driver
    layout: RecordLayout
    claim: Callable[[Version, bytes, TxId, bool], Machine[Committed | Lost | Unknown | Rejected]]

    def publish(self, version: Version, record: bytes, claimant: TxId) -> Outcome:
        return self._run(self.claim(version, record, claimant, False))

    def resolve(self, version: Version, record: bytes, claimant: TxId) -> Outcome:
        return self._run(self.claim(version, record, claimant, True))

    def _run(self, machine: Machine[Committed | Lost | Unknown | Rejected]) -> Outcome:
        result = self.driver.run(machine)
        if isinstance(result, Rejected):
            raise result.error
        return result

    def read(self, version: Version) -> bytes | None:
        return self.driver.get(self.layout.record_key(version))

    def head(self, at_least: Version) -> Version:
        result = self.driver.run(FindHead(self.layout, at_least))
        if isinstance(result, NotFound):
            raise result.error
        return result


LAYOUTS: Mapping[StrategyName, RecordLayout] = MappingProxyType(
    {
        StrategyName.CONDITIONAL: PLAIN,
        StrategyName.RENAME: PLAIN,
        StrategyName.FILETRACKER: TRACKER,
    }
)
"""Where the records of each strategy lie."""


def strategy_named(name: str, driver: Driver, *, ordered_listing: bool) -> CommitStrategy:
    """The strategy that a record names; `UnsupportedError` if we, or the store, do not have it."""
    match known_strategy(name):
        case StrategyName.CONDITIONAL as strategy:
            _require(driver, PutIfAbsent, name, "create an object only if it is absent")
            return MachineStrategy(driver, LAYOUTS[strategy], ConditionalPublish)
        case StrategyName.RENAME as strategy:
            _require(driver, RenameNoReplace, name, "rename without replacing in one step")
            return MachineStrategy(driver, LAYOUTS[strategy], RenamePublish)
        case StrategyName.FILETRACKER as strategy:
            claim = partial(FileTrackerPublish, ordered_listing=ordered_listing)
            return MachineStrategy(driver, LAYOUTS[strategy], claim)


def copying_strategy(name: str, driver: Driver, *, ordered_listing: bool) -> CommitStrategy:
    """A strategy that keeps its records where `name` keeps them, with the means that the store has.

    For records that are decided elsewhere and copied: a lake that changed its strategy has records of both.
    """
    if known_strategy(name) is StrategyName.FILETRACKER:
        return strategy_named(name, driver, ordered_listing=ordered_listing)
    able = isinstance(driver.store, PutIfAbsent) or not isinstance(driver.store, RenameNoReplace)
    usable = StrategyName.CONDITIONAL if able else StrategyName.RENAME
    return strategy_named(usable.value, driver, ordered_listing=ordered_listing)


def layout_named(name: str) -> RecordLayout:
    """Where the records of a strategy lie; `UnsupportedError` for a strategy that we do not know.

    Guessing would be worse than refusing: a reader that looks in the wrong place takes an old version for
    the newest one.
    """
    return LAYOUTS[known_strategy(name)]


def known_strategy(name: str) -> StrategyName:
    """The strategy that a record names; `UnsupportedError` if it is one of a later release."""
    strategy = StrategyName.find(name)
    if strategy is None:
        known = ", ".join(map(str, StrategyName))
        raise UnsupportedError(
            f"the lake uses the commit strategy {name!r}, and this release knows only {known}",
            "upgrade headgate: this release can neither open this lake nor follow it any further",
        )
    return strategy


def clean_up(driver: Driver) -> CleanedUp:
    """Removes what decided versions left behind under FileTracker."""
    return driver.run(CleanUp())


def _require(driver: Driver, promise: type, name: str, ability: str) -> None:
    if not isinstance(driver.store, promise):
        raise UnsupportedError(
            f"{driver.store.describe()}: the strategy {name!r} needs a storage that can {ability}",
            "open the lake through the storage it was made for, or choose another strategy",
        )
