"""The log of a lake: reading it forward from a known state, and back from a known end.

States are values. A transaction follows the log from its own state, whatever other threads do with the same
log; the log itself only remembers the newest state that anybody has seen, so that a warm handle starts there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from headgate.commit.driver import Driver, Waiting
from headgate.commit.layout import RecordLayout, checkpoint_key
from headgate.commit.memory import Entry, LogMemory, Pressure
from headgate.commit.strategy import LAYOUTS, CommitStrategy, layout_named, strategy_named
from headgate.core.chain import follow
from headgate.errors import CorruptLakeError, StorageError
from headgate.model.identifiers import GENESIS, Version
from headgate.model.identity import LakeIdentity
from headgate.model.json_object import digest
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.storage.capabilities import KnowsItsPlace

T = TypeVar("T")

RECORDS_AT_ONCE = 64
MAX_RECORDS_BEHIND = 10_000_000


@dataclass(frozen=True, slots=True)
class Progress:
    """How far reading got: the state reached and what was read on the way. `ended`: nothing follows yet."""

    state: LakeState
    records: tuple[Record, ...]
    ended: bool


class CommitLog:
    """Safe to share between threads."""

    def __init__(self, driver: Driver, identity: LakeIdentity, genesis: LakeState) -> None:
        self.driver = driver
        self.identity = identity
        self._memory = LogMemory(genesis, identity.divisor)

    # --- what is known without asking --------------------------------------------------------------------

    @property
    def turn(self) -> threading.RLock:
        """Lets one thread of this process at a time claim a version: they would only race each other for it.

        Nothing depends on it: other processes take no turns.
        """
        return self._memory.turn

    @property
    def pressure(self) -> Pressure:
        """How much the writers of this process lost of late."""
        return self._memory.pressure

    @property
    def newest(self) -> LakeState:
        """The newest state that this handle, or one that it shares with, has seen."""
        return self._memory.newest

    def shared_before(self) -> tuple[LogMemory, LakeState] | None:
        """What the handles of this process on the same lake share, and how far they are: for `share`."""
        place = self._place()
        if place is None:
            return None
        memory = self.driver.host.common().setdefault(place, self._memory)
        return memory, memory.newest

    def share(self, before: tuple[LogMemory, LakeState] | None) -> None:
        """Shares with the other handles, now that this one has read the log by itself.

        `before` is from before it did. What they knew then must be in the log: if it is not, the lake was
        replaced or set back, and they must not be believed by those who open it from now on.
        """
        place = self._place()
        if before is None or place is None:
            return
        memory, known = before
        if not self._has(known):
            self.driver.host.common()[place] = self._memory
        elif memory is not self._memory:
            for entry in self._memory.recent.values():
                memory.remember(entry)
            memory.see(self._memory.newest)
            self._memory = memory

    def companion(self, name: str, make: Callable[[], T]) -> T:
        """What those who share this log share besides."""
        return self._memory.companion(name, make)

    def _place(self) -> tuple[object, ...] | None:
        store = self.driver.store
        place = store.place() if isinstance(store, KnowsItsPlace) else None
        return None if place is None else (place, self.identity.lake_id)

    def _has(self, state: LakeState) -> bool:
        if state.version in (GENESIS, self.newest.version):
            return state.version == GENESIS or state.digest == self.newest.digest
        try:
            return state.version < self.newest.version and digest(self.data(state.version)) == state.digest
        except CorruptLakeError:  # its record is gone
            return False

    def state_at_boundary(self, boundary: Version) -> LakeState | None:
        """The state at a boundary, if it was passed a short while ago."""
        return self._memory.boundaries.get(boundary)

    def begin_at(self, checkpoint: LakeState) -> None:
        """Takes a checkpoint for the newest known state, if it is newer than what is known."""
        self._memory.see(checkpoint)

    # --- reading -----------------------------------------------------------------------------------------

    def strategy(self, state: LakeState, waiting: Waiting) -> CommitStrategy:
        """How the version after `state` is claimed."""
        driver = replace(self.driver, waiting=waiting)
        return strategy_named(state.next_strategy, driver, ordered_listing=self.identity.ordered_listing)

    def absorb(self, state: LakeState, data: bytes) -> Entry:
        """The entry whose record bytes are known to be decided for the version after `state`."""
        version = state.version.next()
        known = self._memory.recent.get(version)
        if known is not None and known.data == data:
            return known
        record, after = follow(state, data, self._layout(state).record_key(version))
        entry = Entry(record, data, after)
        self._memory.remember(entry)
        return entry

    def advance(self, state: LakeState, at_most: int) -> Progress:
        """Reads up to `at_most` records after `state`, all at once."""
        assert at_most >= 1
        records: list[Record] = []
        layout = self._layout(state)
        fetched = self._fetch(layout, state.version.next(), at_most)
        for position, data in enumerate(fetched):
            if data is None and any(later is not None for later in fetched[position + 1 :]):
                # It may have been decided between our requests; otherwise the log has a hole.
                data = self._fetch_decided(layout, state.version.next())
            if data is None:
                return Progress(state, tuple(records), ended=True)
            entry = self.absorb(state, data)
            records.append(entry.record)
            state = entry.state
            if self._layout(state).index != layout.index:
                break  # the next record lies elsewhere: the rest of this batch was a wrong guess
        return Progress(state, tuple(records), ended=False)

    def follow_seen(self, state: LakeState) -> Progress:
        """Goes on from `state` to the newest version that is known without asking.

        Asks storage only for records that are no longer kept.
        """
        records: list[Record] = []
        goal = self.newest.version
        while state.version < goal:
            missing = goal.number - state.version.number
            known = self._memory.recent.get(state.version.next()) is not None
            progress = self.advance(state, 1 if known else min(RECORDS_AT_ONCE, missing))
            if progress.ended:
                raise CorruptLakeError(f"the record of version {progress.state.version.next()} is gone")
            state = progress.state
            records.extend(progress.records)
        return Progress(state, tuple(records), ended=False)

    def catch_up(self, state: LakeState, at_once: int, at_most: int | None = None) -> Progress:
        """Reads everything after `state`, or the next `at_most` records.

        `at_once` records are read at a time, and more if there are many.
        """
        records: list[Record] = []
        limit = MAX_RECORDS_BEHIND if at_most is None else at_most
        while len(records) < limit:
            progress = self.advance(state, min(at_once, limit - len(records)))
            state = progress.state
            records.extend(progress.records)
            if progress.ended:
                return Progress(state, tuple(records), ended=True)
            at_once = min(RECORDS_AT_ONCE, 2 * at_once)
        if at_most is not None:
            return Progress(state, tuple(records), ended=False)
        raise StorageError(
            f"{self.driver.store.describe()}: still not at the head at version {state.version}"
        )

    def require_record(self, state: LakeState) -> None:
        """Raises `CorruptLakeError` unless the record of `state`, which came from a checkpoint, is there."""
        data, origin = self._read_one(state.version)
        # The strategy too: a reader that looks for the next record in the wrong place finds nothing.
        said = Record.decode(data, state.version, origin).next_strategy
        if (digest(data), said) != (state.digest, state.next_strategy):
            raise CorruptLakeError(
                f"the record of version {state.version} ({origin}) is not the one that its checkpoint "
                f"({checkpoint_key(state.version)}) was made from",
                "one of the two was changed after it was written; compare the record with a backup, and if "
                "it is right delete the checkpoint",
            )

    def records_down(self, newest: LakeState, count: int) -> Iterator[Record]:
        """The records from the one of `newest` downwards, at most `count`, each checked against the next."""
        expected = newest.digest
        version = newest.version.number
        lowest = max(1, version - count + 1)
        while version >= lowest:
            first = max(lowest, version - RECORDS_AT_ONCE + 1)
            batch = self._read_anywhere(range(version, first - 1, -1))
            for number, (data, origin) in zip(range(version, first - 1, -1), batch, strict=True):
                if digest(data) != expected:
                    raise CorruptLakeError(
                        f"the record of version {number} ({origin}) has digest {digest(data)}, "
                        f"but version {number + 1} was committed on top of {expected}"
                    )
                record = Record.decode(data, Version(number), origin)
                expected = record.previous
                yield record
            version = first - 1

    def record(self, version: Version) -> Record:
        """The record of a version that is known to be decided. Not checked against the one after it."""
        return self.decided(version)[0]

    def decided(self, version: Version) -> tuple[Record, str]:
        """The record of a version that is known to be decided, and its digest. Likewise not checked."""
        data, origin = self._read_one(version)
        return Record.decode(data, version, origin), digest(data)

    def data(self, version: Version) -> bytes:
        """The bytes of the record of a version that is known to be decided. Likewise not checked."""
        return self._read_one(version)[0]

    def _read_anywhere(self, numbers: range) -> list[tuple[bytes, str]]:
        """Records of versions that are known to be decided, whichever strategy decided them."""
        return self.driver.fetch_at_once([partial(self._read_one, Version(number)) for number in numbers])

    def _read_one(self, version: Version) -> tuple[bytes, str]:
        likely = layout_named(self.newest.next_strategy)
        # The likely place first; a version is decided in one layout only, so the order is a matter of cost.
        keys = dict.fromkeys(layout.record_key(version) for layout in (likely, *LAYOUTS.values()))
        known = self._memory.recent.get(version)
        for key in keys:
            data = known.data if known is not None else self.driver.get(key)
            if data is not None:
                return data, key
        raise CorruptLakeError(f"the record of version {version} ({next(iter(keys))}) is gone")

    def _fetch(self, layout: RecordLayout, first: Version, count: int) -> list[bytes | None]:
        versions = [Version(first.number + offset) for offset in range(count)]
        return self.driver.fetch_at_once([partial(self._fetch_one, layout, version) for version in versions])

    def _fetch_decided(self, layout: RecordLayout, version: Version) -> bytes:
        data = self._fetch_one(layout, version)
        if data is None:
            raise CorruptLakeError(
                f"the record of version {version} ({layout.record_key(version)}) is gone, although later "
                "versions are there"
            )
        return data

    def _fetch_one(self, layout: RecordLayout, version: Version) -> bytes | None:
        known = self._memory.recent.get(version)
        return known.data if known is not None else self.driver.get(layout.record_key(version))

    def _layout(self, state: LakeState) -> RecordLayout:
        return layout_named(state.next_strategy)
