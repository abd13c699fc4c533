"""The log of a lake: reading it forward from a known state, and back from a known end.

States are values. A transaction follows the log from its own state, whatever other threads do with the same
log. The log itself only remembers the newest state that any thread has seen: a warm handle starts there.

The handles of a process on one lake share a memory of its log (`LogMemory`), and take turns to claim the next
version. Otherwise they would race each other for versions, and read from storage what another one has just
written. The memory saves time and decides nothing; other processes have their own.

Versions are also found by time, and the next one is dated. The times of versions
(`core.history.commit_time.time_of`) never go back from one to the next, so bisection finds a version: it
reads some seventeen records of a hundred thousand.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from math import inf
from typing import Any, TypeAlias, TypeVar

from headgate.core.compaction.windows import boundary_at_or_before
from headgate.core.history.commit_time import NO_LAKE_BEFORE, is_far, time_of
from headgate.core.history.fold import follow
from headgate.errors import CorruptLakeError, NotFoundError, StorageError
from headgate.log.driver import Driver, Waiting
from headgate.log.head import (
    MAX_RECORDS,
    RECORDS_AT_ONCE,
    Chain,
    FollowLog,
    Hole,
    LostEnd,
    NotFound,
    Reached,
)
from headgate.log.layout import RecordLayout, checkpoint_key, entry_key
from headgate.log.lost_end import REOPEN, REPAIR, LostEndError, lost_end
from headgate.log.strategy import LAYOUTS, CommitStrategy, layout_named, strategy_named
from headgate.model.identifiers import GENESIS, Version
from headgate.model.identity import LakeIdentity
from headgate.model.json_object import digest
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.storage.capabilities import KnowsItsPlace, Tail
from headgate.system.host import renew_after_fork

T = TypeVar("T")

QUIET_SECONDS = 60.0
"""How long a writer trusts that the newest record that it knows still exists, without checking."""
RECEIPTS_READ = 2
"""For how many later versions a writer on nearby storage looks for receipts. One writer may have died."""

Published: TypeAlias = Callable[[Version], tuple[Version, str] | None]
"""A version after the given one in which a table was published, and the object that shows it; None if none
is known."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far reading got: the state reached and the records read. `ended`: nothing follows yet."""

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
        """Lets one thread of this process at a time claim a version: they would only compete with each other.

        Nothing depends on it: other processes do not take turns.
        """
        return self._memory.turn

    @property
    def pressure(self) -> Pressure:
        """How often the writers of this process lost recently."""
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
        """Shares with the other handles, after this one has read the log by itself.

        `before` is from before that. What the others knew then must be in the log. If it is not, the lake was
        replaced or set back, and handles that open it from now on must not rely on it.
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
            memory.hear(self._memory.heard_at)
            self._memory = memory

    def companion(self, name: str, make: Callable[[], T]) -> T:
        """What those who share this log also share."""
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
        """The state at a boundary, if it was passed recently."""
        return self._memory.boundaries.get(boundary)

    def note_opened(self, began: float) -> None:
        """Notes that opening, which began at a time on the clock of the host, found the log whole."""
        self._memory.hear(began)

    def begin_at(self, checkpoint: LakeState) -> None:
        """Takes a checkpoint as the newest known state, if it is newer than what is known."""
        self._memory.see(checkpoint)

    # --- reading -----------------------------------------------------------------------------------------

    def strategy(self, state: LakeState, waiting: Waiting) -> CommitStrategy:
        """How the version after `state` is claimed."""
        driver = replace(self.driver, waiting=waiting)
        return strategy_named(state.next_strategy, driver, ordered_listing=self.identity.ordered_listing)

    def absorb(self, state: LakeState, data: bytes) -> Entry:
        """The entry whose record bytes are known to be committed as the version after `state`."""
        version = state.version.next()
        known = self._memory.recent.get(version)
        if known is not None and known.data == data:
            return known
        record, after = follow(state, data, self._layout(state).record_key(version))
        entry = Entry(record, data, after)
        self._memory.remember(entry)
        self._memory.hear(self.driver.host.elapsed())
        return entry

    def advance(self, state: LakeState, at_most: int) -> Progress:
        """Reads up to `at_most` records after `state`, all in parallel."""
        assert at_most >= 1
        return self.catch_up(state, at_most, at_most)

    def follow_seen(self, state: LakeState) -> Progress:
        """Continues from `state` to the newest version that is known without a request.

        Requests from storage only records that are no longer in memory.
        """
        records: list[Record] = []
        goal = self.newest.version
        while state.version < goal:
            missing = goal.number - state.version.number
            progress = self.advance(state, min(RECORDS_AT_ONCE, missing))
            if progress.ended:
                raise CorruptLakeError(f"the record of version {progress.state.version.next()} is gone")
            state = progress.state
            records.extend(progress.records)
        return Progress(state, tuple(records), ended=False)

    def catch_up(
        self,
        state: LakeState,
        at_once: int,
        at_most: int = MAX_RECORDS,
        *,
        to_be_sure: bool = False,
        across_boundary: bool = False,
    ) -> Progress:
        """Reads everything after `state`, or the next `at_most` records.

        Reads `at_once` records at a time, and more if there are many. `to_be_sure`: checks for signs that the
        log was once longer, and raises `LostEndError` if there are any. `across_boundary`: also if the next
        version is a boundary, because the caller has not looked for its checkpoint.
        """
        window = ACROSS_BOUNDARIES if across_boundary else self.identity.divisor
        records: list[Record] = []

        def after(state: LakeState, data: bytes) -> LakeState:
            entry = self.absorb(state, data)
            records.append(entry.record)
            return entry.state

        for data in self._remembered(state, at_most):
            state = after(state, data)
        follower = FollowLog(
            state,
            Chain(lambda known: known.version, self._layout, after),
            at_once,
            at_most - len(records),
            window if to_be_sure else None,
        )
        reached = self._reached(self.driver.run(follower))
        if not reached.ended and at_most == MAX_RECORDS:
            raise StorageError(
                f"{self.driver.store.describe()}: the log grows faster than it can be read; version "
                f"{reached.state.version} is not the newest yet"
            )
        return Progress(reached.state, tuple(records), reached.ended)

    def _remembered(self, state: LakeState, at_most: int) -> Iterator[bytes]:
        """The records after `state` that need no request."""
        expected = state.digest
        for number in range(state.version.number + 1, state.version.number + at_most + 1):
            known = self._memory.recent.get(Version(number))
            if known is None or known.record.previous != expected:
                return
            expected = known.state.digest
            yield known.data

    def _reached(self, result: Reached[LakeState] | Hole | LostEnd | NotFound) -> Reached[LakeState]:
        match result:
            case Reached():
                return result
            case NotFound(error):
                raise error
            case Hole(version, key):
                raise CorruptLakeError(
                    f"the record of version {version} ({key}) is gone, although later versions exist",
                    REPAIR,
                )
            case LostEnd(head, version, sign):
                lost = lost_end(self.driver.store.describe(), head, version, sign)
                self.doubt_end(lost)
                raise lost

    def require_record(self, state: LakeState, *, if_there: bool = False) -> None:
        """Raises `CorruptLakeError` unless the record of `state`, which came from a checkpoint, exists.

        `if_there`: only if it exists and is another one.
        """
        try:
            data, origin = self._read_one(state.version)
        except CorruptLakeError:
            if if_there:
                return
            raise
        # The strategy too: a reader that looks for the next record in the wrong place finds nothing.
        said = Record.decode(data, state.version, origin).next_strategy
        if (digest(data), said) != (state.digest, state.next_strategy):
            raise CorruptLakeError(
                f"the checkpoint of version {state.version} ({checkpoint_key(state.version)}) was made from "
                f"another record than the one in the log ({origin})",
                "one of the two was changed after it was written; compare the record with a backup, and if "
                "it is right delete the checkpoint",
            )

    def confirm_end(self, state: LakeState, published_after: Published = lambda _: None) -> Progress:
        """Checks that the log still ends where a commit on top of `state` assumes, and reads what is newer.

        Raises `LostEndError` if the record of `state` is gone, or if there are signs of later versions whose
        records are gone. On nearby storage every commit looks, without a request, also at what
        `published_after` returns. Elsewhere it sends requests only if this process has not read or written
        the log for a while, so writers that commit often pay nothing; a loss in between is detected when a
        lake is opened.
        """
        now = self.driver.host.elapsed()
        if self._memory.trusts(now) and not self._seems_lost(state, published_after):
            return Progress(state, (), ended=False)
        try:
            self._require_no_other_twin(state)
            self._require_own_record(state)
            progress = self.catch_up(state, 1, to_be_sure=True, across_boundary=True)
            self._require_published(progress.state, published_after)
        except LostEndError as error:
            # What was read on the way would count as having heard of the log.
            self.doubt_end(error)
            raise
        self._memory.trust(now)
        return progress

    def _seems_lost(self, state: LakeState, published_after: Published) -> bool:
        """Whether nearby storage shows, without a request, that records may be lost from `state` on."""
        own = self._layout(state).record_key(state.version)
        receipts = [entry_key(Version(state.version.number + more)) for more in range(1, RECEIPTS_READ + 1)]
        found = self.driver.peek([own, *receipts])
        if found is None:
            return False
        if state.version != GENESIS and not _may_be(found[own], state.digest):
            return True  # or its strategy has another layout: requests will tell
        shown = any(found[key] is not None for key in receipts)
        shown = shown or published_after(state.version) is not None
        return shown and not self._is_decided_after(state)

    def _require_published(self, state: LakeState, published_after: Published) -> None:
        """Raises `LostEndError` if a table was published in a version after `state`, which has no record."""
        sign = published_after(state.version)
        if sign is not None and not self._is_decided_after(state):
            raise lost_end(self.driver.store.describe(), state.version, *sign)

    def _is_decided_after(self, state: LakeState) -> bool:
        """Whether the next version has a record. Asked last: all that shows it is written after it."""
        return self.driver.get(self._layout(state).record_key(state.version.next())) is not None

    def doubt_end(self, error: LostEndError) -> None:
        """Makes the next commit of this process look at the log before it decides, after `error`.

        Otherwise a handle that has just learnt of a loss would go on deciding versions on top of it.
        """
        place = self._place()
        shared = self._memory if place is None else self.driver.host.common().get(place, self._memory)
        for memory in (self._memory, shared):
            memory.doubt(error)

    def _require_no_other_twin(self, state: LakeState) -> None:
        """Raises `LostEndError` while what contradicted a commit of this process is still there."""
        for sign, seen in self._memory.contradictions():
            data = self.driver.get(sign)
            if data is not None and digest(data) == seen:
                raise LostEndError(
                    f"{self.driver.store.describe()}: {sign} still shows that the log had lost its end, as "
                    f"an earlier commit of this process found; this transaction builds on version "
                    f"{state.version}, and was not committed",
                    REPAIR,
                )

    def _require_own_record(self, state: LakeState) -> None:
        if state.version == GENESIS:
            return  # it is checked on opening, and never changes
        likely = self._layout(state)
        # The first one unless the strategy has changed at this very version.
        keys = dict.fromkeys(layout.record_key(state.version) for layout in (likely, *LAYOUTS.values()))
        data = next(filter(None, map(self.driver.get, keys)), None)
        if data is None or digest(data) != state.digest:
            found = "gone: the end of the log is lost" if data is None else "a different one now"
            raise LostEndError(
                f"{self.driver.store.describe()}: this transaction builds on version {state.version}, which "
                f"was committed, but its record ({next(iter(keys))}) is {found}; nothing was changed",
                REPAIR if data is None else REOPEN,
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
        """The record of a version that is known to be committed. Not checked against the next one."""
        return self.read_decided(version)[0]

    def read_decided(self, version: Version) -> tuple[Record, str]:
        """The record of a version that is known to be committed, and its digest. Likewise not checked."""
        data, origin = self._read_one(version)
        return Record.decode(data, version, origin), digest(data)

    def unread(self, versions: range) -> int:
        """How many records of consecutive versions would have to be requested."""
        return len(versions) - sum(version.number in versions for version in tuple(self._memory.recent))

    def data(self, version: Version) -> bytes:
        """The bytes of the record of a version that is known to be committed. Likewise not checked."""
        return self._read_one(version)[0]

    def _read_anywhere(self, numbers: range) -> list[tuple[bytes, str]]:
        """Records of versions that are known to be committed, with any strategy."""
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

    def _layout(self, state: LakeState) -> RecordLayout:
        return layout_named(state.next_strategy)


def _may_be(found: Tail | None, expected: str) -> bool:
    """Whether the end of an object can be that of the object with a digest."""
    return found is not None and (len(found.data) < found.object_bytes or digest(found.data) == expected)


ACROSS_BOUNDARIES = 2 * MAX_RECORDS
"""A window so long that no version is at its end."""
RECENT_RECORDS = 256
"""How many records are kept, so that transactions do not fetch the same record again."""
RECENT_BOUNDARIES = 16
"""How many boundary states are kept, until their checkpoints are written."""
MAX_PRESSURE = 6
"""How many losses in a row are remembered."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A committed record with its bytes, and the state after it."""

    record: Record
    data: bytes
    state: LakeState


class LogMemory:
    """Safe to share between threads. Contains only committed records, and the states after them."""

    def __init__(self, genesis: LakeState, divisor: int) -> None:
        self.lock = threading.Lock()
        self.turn = threading.RLock()
        """Lets one thread at a time claim a version.

        A lock that knows its owner, so that a thread that may have taken it can try to release it.
        """
        self.newest = genesis
        self.heard_at: float | None = None
        """When the log was last opened, or a record read or decided, on the clock of the host."""
        self.in_doubt = False
        """Whether the log had lost its end when this process last looked; see `CommitLog.doubt_end`."""
        self._contradictions: dict[str, str] = {}
        """What contradicted commits of this process: the digests of objects, by key."""
        self.boundaries: dict[Version, LakeState] = {genesis.version: genesis}
        self.recent: dict[Version, Entry] = {}
        self.pressure = Pressure()
        self._divisor = divisor
        self._companions: dict[str, Any] = {}
        renew_after_fork(self)

    def after_fork(self) -> None:
        self.lock = threading.Lock()
        self.turn = threading.RLock()

    def trusts(self, now: float) -> bool:
        """Whether this process read or committed a record so recently that it need not check the log."""
        return not self.in_doubt and self.heard_at is not None and now - self.heard_at < QUIET_SECONDS

    def hear(self, at: float | None) -> None:
        if at is not None:
            self.heard_at = at if self.heard_at is None else max(self.heard_at, at)

    def doubt(self, error: LostEndError) -> None:
        with self.lock:
            self.in_doubt, self.heard_at = True, None
            if error.sign is not None:
                self._contradictions[error.sign[0]] = error.sign[1]

    def contradictions(self) -> list[tuple[str, str]]:
        with self.lock:
            return list(self._contradictions.items())

    def trust(self, now: float) -> None:
        """The log was looked at, and is whole."""
        with self.lock:
            self.in_doubt, self.heard_at = False, now
            self._contradictions.clear()

    def remember(self, entry: Entry) -> None:
        with self.lock:
            self._see(entry.state)
            self.recent[entry.record.version] = entry
            while len(self.recent) > RECENT_RECORDS:
                del self.recent[next(iter(self.recent))]

    def see(self, state: LakeState) -> None:
        """Takes `state` as the newest one, if it is newer than what is known."""
        with self.lock:
            self._see(state)

    def companion(self, name: str, make: Callable[[], T]) -> T:
        """What others store with the log for as long as it is remembered; created when first requested."""
        with self.lock:
            if name not in self._companions:
                self._companions[name] = make()
            found: T = self._companions[name]
            return found

    def _see(self, state: LakeState) -> None:
        if state.version > self.newest.version:
            self.newest = state
        if state.version == boundary_at_or_before(state.version, self._divisor):
            self.boundaries[state.version] = state
            while len(self.boundaries) > RECENT_BOUNDARIES:
                del self.boundaries[min(self.boundaries)]


@dataclass(slots=True)
class Pressure:
    """How much other processes compete: they do not go away with the transaction that lost to them.

    Changed by the thread that has the turn, or has waited for it in vain: then it is slightly wrong, which
    costs a wait that is too long or too short.
    """

    losses: int = 0
    """How many there were of late. Each win halves them."""
    calm_at: float = -inf
    """When to try again, on the clock of the host."""
    attempt_seconds: float = 0.0
    """How long the last attempt took."""

    def note_loss(self) -> None:
        self.losses = min(MAX_PRESSURE, self.losses + 1)

    def note_win(self) -> None:
        self.losses //= 2


def version_at(log: CommitLog, newest: LakeState, moment: datetime, now: datetime | None = None) -> Version:
    """The newest version that was committed at or before `moment`.

    If clocks leave open which version that is, it is an older one if `now` is given: see `time_of`.
    `NotFoundError` if the lake did not exist yet.
    """
    # Versions up to `known` are at or before the moment; those from `late` on are after it.
    known, late = 0, newest.version.number + 1
    while late - known > 1:
        middle = (known + late) // 2
        if _time(log, newest, Version(middle), now) <= moment:
            known = middle
        else:
            late = middle
    if known == 0 and moment < (made := _time(log, newest, GENESIS, now)):
        raise NotFoundError(
            f"the lake did not exist at {moment.isoformat()}; it was created at {made.isoformat()}",
            "choose a later time",
        )
    return Version(known)


def commit_time(log: CommitLog, newest: LakeState, now: datetime) -> datetime:
    """The time of a commit on top of `newest`, for a writer whose clock shows `now`.

    The time of the previous version, if that is later: otherwise versions could not be found by time. But if
    the log has jumped over the time of this clock, then another clock was ahead, and the time is set back.
    Reads nothing unless this clock is far behind the log.
    """
    last = time_of_newest(log, newest)
    if now >= last or (is_far(last, now) and _is_jumped_over(log, newest, now)):
        return now
    return last


def time_of_newest(log: CommitLog, newest: LakeState) -> datetime:
    """The time of the newest version; for a lake without commits, the time of its creation."""
    return newest.committed_at or log.identity.created_at


def _is_jumped_over(log: CommitLog, newest: LakeState, now: datetime) -> bool:
    """Whether nothing was committed for long around `now`, although later versions are dated after it.

    A clock that is behind usually shows a time at which there were commits. Then it jumped over nothing.
    """
    try:
        before = version_at(log, newest, now)
    except NotFoundError:
        return now >= NO_LAKE_BEFORE and is_far(_time(log, newest, GENESIS), NO_LAKE_BEFORE)
    return is_far(_time(log, newest, before.next()), _time(log, newest, before))


def _time(log: CommitLog, newest: LakeState, version: Version, now: datetime | None = None) -> datetime:
    raw = log.identity.created_at if version == GENESIS else log.record(version).committed_at
    return time_of(newest.set_backs, version.number, raw, now)
