"""The log of a lake: reading it forward from a known state, and back from a known end.

States are values. A transaction follows the log from its own state, whatever other threads do with the same
log; the log itself only remembers the newest state that anybody has seen, so that a warm handle starts there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from headgate.commit.driver import Driver, Waiting
from headgate.commit.layout import RecordLayout, checkpoint_key
from headgate.commit.strategy import LAYOUTS, CommitStrategy, layout_named, strategy_named
from headgate.core.chain import follow
from headgate.core.windows import boundary_at_or_before
from headgate.errors import CorruptLakeError, StorageError
from headgate.forks import renew_after_fork
from headgate.model.identifiers import Version
from headgate.model.identity import LakeIdentity
from headgate.model.json_object import digest
from headgate.model.record import Record
from headgate.model.state import LakeState

RECENT_RECORDS = 256
"""How many records a handle keeps, so that its transactions do not fetch the same record again."""
RECENT_BOUNDARIES = 16
"""How many boundary states a handle keeps, until their checkpoints are written."""
RECORDS_AT_ONCE = 64
MAX_RECORDS_BEHIND = 10_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A decided record with its bytes, and the state after it."""

    record: Record
    data: bytes
    state: LakeState


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
        self._lock = threading.Lock()
        self.turn = threading.RLock()
        """Lets one thread of this handle at a time claim a version: they would only race each other for it.

        Nothing depends on it: other handles and other processes take no turns. Of the kind that knows its
        owner, so that whoever may have taken it can try to give it back.
        """
        self._newest = genesis
        self._boundaries: dict[Version, LakeState] = {genesis.version: genesis}
        self._recent: dict[Version, Entry] = {}
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self.turn = threading.RLock()

    @property
    def newest(self) -> LakeState:
        """The newest state that this handle has seen."""
        return self._newest

    def state_at_boundary(self, boundary: Version) -> LakeState | None:
        """The state at a boundary, if this handle passed it a short while ago."""
        return self._boundaries.get(boundary)

    def begin_at(self, checkpoint: LakeState) -> None:
        """Takes a checkpoint for the newest known state, if it is newer than what is known."""
        with self._lock:
            self._see(checkpoint)

    def strategy(self, state: LakeState, waiting: Waiting) -> CommitStrategy:
        """How the version after `state` is claimed."""
        driver = replace(self.driver, waiting=waiting)
        return strategy_named(state.next_strategy, driver, ordered_listing=self.identity.ordered_listing)

    def absorb(self, state: LakeState, data: bytes) -> Entry:
        """The entry whose record bytes are known to be decided for the version after `state`."""
        version = state.version.next()
        known = self._recent.get(version)
        if known is not None and known.data == data:
            return known
        record, after = follow(state, data, self._layout(state).record_key(version))
        entry = Entry(record, data, after)
        self._remember(entry)
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
        """Goes on from `state` to the newest version that this handle has seen.

        Asks storage only for records that the handle no longer keeps.
        """
        records: list[Record] = []
        goal = self._newest.version
        while state.version < goal:
            missing = goal.number - state.version.number
            known = self._recent.get(state.version.next()) is not None
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
        return self.driver.host.together([partial(self._read_one, Version(number)) for number in numbers])

    def _read_one(self, version: Version) -> tuple[bytes, str]:
        likely = layout_named(self._newest.next_strategy)
        # The likely place first; a version is decided in one layout only, so the order is a matter of cost.
        keys = dict.fromkeys(layout.record_key(version) for layout in (likely, *LAYOUTS.values()))
        known = self._recent.get(version)
        for key in keys:
            data = known.data if known is not None else self.driver.get(key)
            if data is not None:
                return data, key
        raise CorruptLakeError(f"the record of version {version} ({next(iter(keys))}) is gone")

    def _fetch(self, layout: RecordLayout, first: Version, count: int) -> list[bytes | None]:
        versions = [Version(first.number + offset) for offset in range(count)]
        return self.driver.host.together([partial(self._fetch_one, layout, version) for version in versions])

    def _fetch_decided(self, layout: RecordLayout, version: Version) -> bytes:
        data = self._fetch_one(layout, version)
        if data is None:
            raise CorruptLakeError(
                f"the record of version {version} ({layout.record_key(version)}) is gone, although later "
                "versions are there"
            )
        return data

    def _fetch_one(self, layout: RecordLayout, version: Version) -> bytes | None:
        known = self._recent.get(version)
        return known.data if known is not None else self.driver.get(layout.record_key(version))

    def _layout(self, state: LakeState) -> RecordLayout:
        return layout_named(state.next_strategy)

    def _remember(self, entry: Entry) -> None:
        with self._lock:
            self._see(entry.state)
            self._recent[entry.record.version] = entry
            while len(self._recent) > RECENT_RECORDS:
                del self._recent[next(iter(self._recent))]

    def _see(self, state: LakeState) -> None:
        if state.version > self._newest.version:
            self._newest = state
        if state.version == boundary_at_or_before(state.version, self.identity.divisor):
            self._boundaries[state.version] = state
            while len(self._boundaries) > RECENT_BOUNDARIES:
                del self._boundaries[min(self._boundaries)]
