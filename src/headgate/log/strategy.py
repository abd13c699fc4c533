"""The commit strategies behind one contract.

For one version at most one record is ever decided. A decided record never changes and never disappears.
`Committed` is returned only for the decided record; `Lost` only if ours is not and never will be. Both are
returned only once readers see the decided record. Strategies never retry a lost version: that is the
transaction's business.

A process that dies inside `publish` leaves the version open, proposed or decided. The next writer of the
version finds out which by its own claim; nobody has to release anything.

The strategy of version N + 1 is a field of record N. Every writer of N + 1 has read record N, so all of them
use the same strategy, also while a lake changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Protocol

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.log.cleanup import CleanedUp, CleanUp
from headgate.log.conditional import ConditionalPublish
from headgate.log.driver import Driver
from headgate.log.filetracker import FileTrackerPublish
from headgate.log.head import Chain, FollowLog, NotFound, Reached
from headgate.log.layout import PLAIN, TRACKER, RecordLayout
from headgate.log.machine import Committed, Lost, Machine, Outcome, Rejected, Unknown
from headgate.log.rename import RenamePublish
from headgate.model.identifiers import StrategyName, TxId, Version
from headgate.storage.capabilities import PutIfAbsent, RenameNoReplace


class CommitStrategy(Protocol):
    """How versions are claimed and read."""

    @property
    def layout(self) -> RecordLayout: ...

    def publish(self, version: Version, record: bytes, claimant: TxId) -> Outcome:
        """Claims `version` for `record`. The caller has read the record before it.

        `claimant` is fresh for each call: requests of an earlier one may still arrive, and a process that was
        forked in between must not use the same claimant. Raises a `StorageError` if our record certainly is
        not and will not be decided, and nobody's record is known.
        """
        ...

    def resolve(self, version: Version, record: bytes, claimant: TxId) -> Outcome:
        """Resolves a version whose `publish` ended in `Unknown`, or never returned. `record` is the same."""
        ...

    def read(self, version: Version) -> bytes | None:
        """The decided record, or None if there is none that readers can see."""
        ...

    def head(self, at_least: Version) -> Version:
        """The newest decided version, given one that is decided."""
        ...


@dataclass(frozen=True, slots=True)
class MachineStrategy:
    """A strategy whose protocol is a machine, created for each version."""

    driver: Driver
    layout: RecordLayout
    claim: Callable[[Version, bytes, TxId, bool], Machine[Committed | Lost | Unknown | Rejected]]

    def publish(self, version: Version, record: bytes, claimant: TxId) -> Outcome:
        return self._run(self.claim(version, record, claimant, False))

    def resolve(self, version: Version, record: bytes, claimant: TxId) -> Outcome:
        # In doubt: the first claim may have proposed the record, and its requests may still arrive. Without
        # the doubt, a refusal of our first request would be reported as a failure, and another client could
        # complete that proposal afterwards. Under a fresh claimant: late requests of the first claim belong
        # to its ballots, and must not count as ours.
        return self._run(self.claim(version, record, claimant, True))

    def _run(self, machine: Machine[Committed | Lost | Unknown | Rejected]) -> Outcome:
        result = self.driver.run(machine)
        if isinstance(result, Rejected):
            # Not an outcome: ours is not decided, and nobody's record is known. The caller may retry.
            raise result.error
        return result

    def read(self, version: Version) -> bytes | None:
        # A decided record is never replaced, so a GET that finds it needs no second look.
        return self.driver.get(self.layout.record_key(version))

    def head(self, at_least: Version) -> Version:
        result = self.driver.run(FollowLog(at_least, versions_in(self.layout)))
        if isinstance(result, NotFound):
            raise result.error
        if not isinstance(result, Reached):
            raise CorruptLakeError(f"{self.driver.store.describe()}: {result}")
        version: Version = result.state
        return version


def versions_in(layout: RecordLayout) -> Chain[Version]:
    """Follows a log whose records all have one layout, regardless of their content."""
    return Chain(lambda version: version, lambda _: layout, lambda version, _: version.next())


LAYOUTS: Mapping[StrategyName, RecordLayout] = MappingProxyType(
    {
        StrategyName.CONDITIONAL: PLAIN,
        StrategyName.RENAME: PLAIN,
        StrategyName.FILETRACKER: TRACKER,
    }
)
"""Where the records of each strategy lie."""


def strategy_named(name: str, driver: Driver, *, ordered_listing: bool) -> CommitStrategy:
    """The strategy that a record names.

    `UnsupportedError` if this release, or the store, does not have it.
    """
    match known_strategy(name):
        case StrategyName.CONDITIONAL as strategy:
            _require(driver, PutIfAbsent, name, "create an object only if it is absent")
            return MachineStrategy(driver, LAYOUTS[strategy], ConditionalPublish)
        case StrategyName.RENAME as strategy:
            _require(driver, RenameNoReplace, name, "rename without replacing in one step")
            return MachineStrategy(driver, LAYOUTS[strategy], RenamePublish)
        case StrategyName.FILETRACKER as strategy:
            # What the probe found when the lake was made, not what this store says of itself.
            claim = partial(FileTrackerPublish, ordered_listing=ordered_listing)
            return MachineStrategy(driver, LAYOUTS[strategy], claim)


def copying_strategy(name: str, driver: Driver, *, ordered_listing: bool) -> CommitStrategy:
    """A strategy that stores its records where `name` stores them, with the means that the store has.

    For records that are committed elsewhere and copied: a lake that changed its strategy has records of both.
    """
    if known_strategy(name) is StrategyName.FILETRACKER:
        return strategy_named(name, driver, ordered_listing=ordered_listing)
    # Conditional write and rename keep records under the same names, and both refuse to replace: the copy can
    # use either. A store with neither gets the first one's error.
    able = isinstance(driver.store, PutIfAbsent) or not isinstance(driver.store, RenameNoReplace)
    usable = StrategyName.CONDITIONAL if able else StrategyName.RENAME
    return strategy_named(usable.value, driver, ordered_listing=ordered_listing)


def layout_named(name: str) -> RecordLayout:
    """Where the records of a strategy are; `UnsupportedError` for an unknown strategy.

    Guessing would be worse than an error: a reader that searches the wrong location treats an old version as
    the newest one.
    """
    return LAYOUTS[known_strategy(name)]


def known_strategy(name: str) -> StrategyName:
    """The strategy that a record names; `UnsupportedError` if it belongs to a later release."""
    strategy = StrategyName.find(name)
    if strategy is None:
        known = ", ".join(map(str, StrategyName))
        raise UnsupportedError(
            f"the lake uses the commit strategy {name!r}, but this release knows only {known}",
            "upgrade headgate: this release can neither open this lake nor follow it any further",
        )
    return strategy


def clean_up(driver: Driver) -> CleanedUp:
    """Removes what committed versions left behind under FileTracker."""
    return driver.run(CleanUp())


def _require(driver: Driver, promise: type, name: str, ability: str) -> None:
    if not isinstance(driver.store, promise):
        raise UnsupportedError(
            f"{driver.store.describe()}: the strategy {name!r} needs a storage that can {ability}",
            "open the lake through the storage it was made for, or choose another strategy",
        )
