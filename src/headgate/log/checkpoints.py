"""Checkpoints: the state of the lake at boundaries, so that opening it costs the same at any length.

Writing, after the commit of a version at a boundary, or of a later one if that writer died:

1. PUT the checkpoint. Every writer writes the same bytes, so two of them at once do no harm.
2. PUT `last.json`, the advice where to start, so that it never names a checkpoint that was not written.

Opening:

1. GET `last.json`, then the checkpoint that it names.
2. GET the records of the window after it, and look for signs of later versions (see `head`).
3. If a full window follows, or there is no advice: LIST the checkpoints, and start at the newest.
4. Only when the log was followed to its end, take the result for the state of the lake.

Checkpoints are derived. One that is missing, damaged or of a later release costs reading more records, and
nothing else. A crash before 1 leaves the boundary without one: a later writer or recovery writes it. A crash
between 1 and 2 leaves advice that is a window or more too old, which costs a listing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from headgate.core.compaction.windows import boundary_at_or_before
from headgate.core.input.arguments import require_version
from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.log.genesis import require_decided
from headgate.log.head import RECORDS_AT_ONCE
from headgate.log.layout import CHECKPOINTS, LAST_CHECKPOINT, checkpoint_key, checkpoint_version
from headgate.log.log import CommitLog, Progress
from headgate.model.identifiers import GENESIS, Version
from headgate.model.json_object import Json, JsonObject, encode
from headgate.model.state import LakeState
from headgate.storage.capabilities import ListInPages
from headgate.storage.requests import all_keys

T = TypeVar("T")

TRIES = 5
"""How often something is read again because an expire came between."""


@dataclass
class Checkpoints:
    """The checkpoints of one lake, seen from one handle. `newest_known` only moves forward.

    `unusable` are those that are missing or damaged: a writer that has their state may write them again.
    `replica`: the hint in `last.json` says that the lake is, or was, a replica. It is read on opening anyway,
    so a writer knows whether it has to check for the mark of a replica. `looked_at` is the fence
    (`LakeState`) up to which this handle has checked and found no mark.
    """

    log: CommitLog
    genesis: LakeState
    newest_known: Version = field(default=GENESIS)
    unusable: set[Version] = field(default_factory=set)
    replica: bool = False
    looked_at: Version | None = None

    def open(self) -> LakeState:
        """The newest state of the lake, read from the newest checkpoint on.

        Costs `last.json`, one checkpoint, and at most as many records as a window has. `CorruptLakeError` if
        the log does not begin with the identity of this lake, or is gone.
        """
        began = self.log.driver.host.elapsed()
        newest = self._lead(self.genesis)
        self.log.note_opened(began)
        return newest

    def refresh(self) -> LakeState:
        """The newest state of the lake, read from what this handle knows, or from a checkpoint if that is far
        behind.

        One GET if nothing is new; never more than two windows of records.
        """
        progress = self.log.catch_up(self.log.newest, 1, at_most=self._window)
        return progress.state if progress.ended else self._lead(progress.state)

    def read_undisturbed(self, look: Callable[[], T]) -> T:
        """What `look` finds, which begins with the newest version each time; again if an expire disturbed it.

        Files can go that were still needed when it began. What is missing although nothing was expired
        meanwhile is damage.
        """
        for _ in range(TRIES - 1):
            known = self.log.newest.retention.by
            try:
                return look()
            except CorruptLakeError:
                if self.refresh().retention.by == known:
                    raise
        return look()

    def may_be_replica(self, state: LakeState) -> bool:
        """Whether to check for the mark of a replica before a commit on `state`. Sends no request.

        The advice of opening says so, or `state` has a fence that this handle has not looked behind.
        """
        return self.replica or state.fence not in (None, self.looked_at)

    def at_or_before(self, version: Version) -> LakeState:
        """The state of the last readable checkpoint that is not above `version`."""
        boundary = boundary_at_or_before(version, self._window)
        if boundary == GENESIS:
            return self.genesis
        return self._load(boundary) or self._newest_listed(GENESIS, below=boundary) or self.genesis

    def write_due(self, version: Version) -> bool:
        """Writes the checkpoint for the commit of `version`, if it has one.

        False if there is nothing to do.
        """
        due = boundary_at_or_before(version, self._window)
        # None if this process has not passed the boundary, by a commit or by reading: then its writer
        # writes the checkpoint, or recovery does.
        state = self.log.state_at_boundary(due)
        # The writer of the boundary itself writes without asking. Others ask once whether that one did.
        if due == GENESIS or state is None or (version != due and self._is_written(due)):
            return False
        self.write(state)
        return True

    def write(self, state: LakeState) -> None:
        """Writes the checkpoint of a state at a boundary. Idempotent: the bytes are the same each time."""
        # Before the advice, which must not name what is not there. A crash in between costs a listing.
        self.log.driver.put(checkpoint_key(state.version), state.encode())
        self.unusable.discard(state.version)
        if state.version > self.newest_known:
            self.point_to(state.version)

    def point_to(self, boundary: Version) -> None:
        """Makes `last.json` name the checkpoint of a boundary."""
        self._advise(boundary)
        self.newest_known = max(self.newest_known, boundary)

    def note_replica(self, replica: bool) -> None:
        """Makes `last.json` say whether the lake is a replica, for handles that open it from now on."""
        self.replica = replica
        self._advise(self.newest_known)

    def _advise(self, version: Version) -> None:
        # Not in one step with what is there: of two writers, the one that arrives last wins, and a late write
        # may set the advice back by any distance. Readers expect that: it costs them a listing.
        remark: dict[str, Json] = {"replica": True} if self.replica else {}
        self.log.driver.put(LAST_CHECKPOINT, encode({"version": version.number, **remark}))

    @property
    def _window(self) -> int:
        return self.log.identity.divisor

    def _is_written(self, due: Version) -> bool:
        """Whether another process, which passed the boundary, has written its checkpoint."""
        if due in self.unusable:
            return False
        if due > self.newest_known:
            self.newest_known = max(self.newest_known, self._last() or GENESIS)
        return due <= self.newest_known

    def _lead(self, state: LakeState) -> LakeState:
        """The newest state of the lake, from the best checkpoint above `state`, or from `state`.

        `last.json` says which one. If a full window follows the one it names, a late write has set it back,
        and the checkpoints are listed once.
        """
        hinted = self._load_hinted(above=state.version)
        if hinted is not None:
            # One window is enough if the advice is right: at the next boundary there is a newer checkpoint.
            progress = self._follow(hinted)
            if progress.ended:
                return progress.state
            state = progress.state
        progress = self._follow(self._newest_listed(above=state.version) or state)
        if progress.ended:
            return progress.state
        # Newer checkpoints are missing, or were written after the listing: the records say the same.
        return self.log.catch_up(progress.state, RECORDS_AT_ONCE, to_be_sure=True).state

    def _follow(self, start: LakeState) -> Progress:
        """Reads the window after `start`. If it is empty, checks that the record of `start` exists.

        Raises `CorruptLakeError` if there are signs that the log was once longer.
        """
        try:
            progress = self._read_window(start)
        except CorruptLakeError:
            # Says so if it is the start that is wrong.
            if start.version == GENESIS:
                self._require_identity()
            else:
                self.log.require_record(start, if_there=True)
            raise
        # Each record that was read was checked against the one before it. If there was none, the start itself
        # is checked: a checkpoint can outlive its record, and nothing may be committed on top of it then.
        if progress.state.version == GENESIS:
            self._require_identity()
        elif not progress.records:
            self.log.require_record(start)
        # Only now: other threads may build a transaction on what the log has seen.
        self.log.begin_at(start)
        return progress

    def _read_window(self, start: LakeState) -> Progress:
        # Two less than a window at first: the requests that are left look for signs of later versions, and at
        # the record of `start` or at the next boundary. So opening costs at most as many requests as a window
        # has.
        inside = self.log.catch_up(
            start, max(1, self._window - 2), at_most=max(1, self._window - 1), to_be_sure=True
        )
        if inside.ended:
            return inside
        boundary = self.log.catch_up(inside.state, 1, at_most=1)
        return Progress(boundary.state, inside.records + boundary.records, boundary.ended)

    def _require_identity(self) -> None:
        require_decided(self.log.driver, self.genesis.identity)

    def _load_hinted(self, above: Version) -> LakeState | None:
        last = self._last()
        return None if last is None or last <= above else self._load(last)

    def _last(self) -> Version | None:
        data = self.log.driver.get(LAST_CHECKPOINT)
        if data is None:
            return None
        try:
            advice = JsonObject.parse(data, LAST_CHECKPOINT)
            self.replica = advice.fields.get("replica") is True
            return advice.version("version")
        except CorruptLakeError:
            return None  # advice that cannot be read: the listing shows the same

    def _load(self, version: Version) -> LakeState | None:
        """The state in a checkpoint, or None: it is derived from the records, which are read instead."""
        key = checkpoint_key(version)
        data = self.log.driver.get(key)
        try:
            state = None if data is None else LakeState.decode(data, version, key)
        except CorruptLakeError:
            state = None
        except UnsupportedError:
            # Of a later release, which can read it. It is not noted as unusable: a writer of this release
            # would replace it.
            return None
        if state is not None and state.identity != self.genesis.identity:
            self._require_identity()  # record 0 knows whether we or the checkpoint are of another lake
            state = None
        if state is None:
            # A writer that gets to the same state may write it again, without asking for it once more.
            self.unusable.add(version)
            return None
        self.newest_known = max(self.newest_known, version)
        return state

    def _newest_listed(self, above: Version, below: Version | None = None) -> LakeState | None:
        # The newest first, and the ones before it in case it cannot be read.
        for version in sorted(list_checkpoints(self.log.driver), reverse=True):
            if above < version and (below is None or version < below):
                state = self._load(version)
                if state is not None:
                    return state
        return None


def list_checkpoints(place: ListInPages, above: Version = GENESIS) -> list[Version]:
    """The versions of all checkpoints, or of those above a version, from one listing."""
    found = (checkpoint_version(key) for key in all_keys(place, CHECKPOINTS, after=checkpoint_key(above)))
    return [version for version in found if version is not None]


def state_at(checkpoints: Checkpoints, newest: LakeState, version: Version) -> LakeState:
    """The state at `version`, which must not be above `newest`."""
    require_version(newest, version)
    if version == newest.version:
        return newest
    state = checkpoints.at_or_before(version)
    while state.version < version:
        missing = version.number - state.version.number
        progress = checkpoints.log.advance(state, min(missing, RECORDS_AT_ONCE))
        state = progress.state
        if progress.ended:
            raise CorruptLakeError(f"the record of version {state.version.next()} is gone")
    return state
