"""Checkpoints: the state of the lake at boundaries, so that opening it costs the same at any length.

Checkpoints are derived. One that is missing, damaged or of a later release costs reading more records, and
nothing else; the writer that passes a boundary writes its checkpoint, or the next writer that notices does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.commit.genesis import require_decided
from headgate.commit.layout import CHECKPOINTS, LAST_CHECKPOINT, checkpoint_key, checkpoint_version
from headgate.commit.log import RECORDS_AT_ONCE, CommitLog, Progress
from headgate.core.windows import boundary_at_or_before
from headgate.errors import CorruptLakeError, NotFoundError, UnsupportedError
from headgate.model.identifiers import GENESIS, Version
from headgate.model.json_object import Json, JsonObject, encode
from headgate.model.state import LakeState
from headgate.storage.capabilities import ListInPages
from headgate.storage.listing import all_keys


@dataclass
class Checkpoints:
    """The checkpoints of one lake, seen from one handle. `newest_known` only moves forward.

    `unusable` are those that were looked for and are missing or damaged: a writer that has their state may
    write them again. `replica`: the advice where to start says that the lake is, or was, a replica. It is
    read on opening anyway, so whoever wants to write knows that the mark of a replica is worth a look.
    """

    log: CommitLog
    genesis: LakeState
    newest_known: Version = field(default=GENESIS)
    unusable: set[Version] = field(default_factory=set)
    replica: bool = False

    def open(self) -> LakeState:
        """The newest state of the lake, read from the newest checkpoint on.

        Costs `last.json`, one checkpoint, and at most as many records as a window has. `CorruptLakeError` if
        the log does not begin with the identity of this lake, or is gone.
        """
        return self._lead(self.genesis)

    def refresh(self) -> LakeState:
        """The newest state of the lake, read from what this handle knows; from a checkpoint if that is far.

        One GET when nothing is new; never more than two windows of records.
        """
        progress = self.log.catch_up(self.log.newest, 1, at_most=self._window)
        return progress.state if progress.ended else self._lead(progress.state)

    def at_or_before(self, version: Version) -> LakeState:
        """The state of the last readable checkpoint that is not above `version`."""
        boundary = boundary_at_or_before(version, self._window)
        if boundary == GENESIS:
            return self.genesis
        return self._load(boundary) or self._newest_listed(GENESIS, below=boundary) or self.genesis

    def write_due(self, version: Version) -> bool:
        """Writes the checkpoint that the commit of `version` makes due; False if there is nothing to do."""
        due = boundary_at_or_before(version, self._window)
        state = self.log.state_at_boundary(due)
        if due == GENESIS or state is None or (version != due and self._is_written(due)):
            return False
        self.write(state)
        return True

    def write(self, state: LakeState) -> None:
        """Writes the checkpoint of a state at a boundary. Idempotent: the bytes are the same each time."""
        self.log.driver.put(checkpoint_key(state.version), state.encode())
        self.unusable.discard(state.version)
        if state.version > self.newest_known:
            self.point_to(state.version)

    def point_to(self, boundary: Version) -> None:
        """Makes `last.json` name the checkpoint of a boundary."""
        self._advise(boundary)
        self.newest_known = max(self.newest_known, boundary)

    def note_replica(self, replica: bool) -> None:
        """Makes the advice say whether the lake is a replica, for handles that open it from now on."""
        self.replica = replica
        self._advise(self.newest_known)

    def _advise(self, version: Version) -> None:
        # Only advice where to start: a late write may set it back, which costs a listing.
        remark: dict[str, Json] = {"replica": True} if self.replica else {}
        self.log.driver.put(LAST_CHECKPOINT, encode({"version": version.number, **remark}))

    @property
    def _window(self) -> int:
        return self.log.identity.divisor

    def _is_written(self, due: Version) -> bool:
        """Whether somebody else, who passed the boundary, has written its checkpoint."""
        if due in self.unusable:
            return False
        if due > self.newest_known:
            self.newest_known = max(self.newest_known, self._last() or GENESIS)
        return due <= self.newest_known

    def _lead(self, state: LakeState) -> LakeState:
        """The newest state of the lake, from the best checkpoint above `state`, or from `state`.

        `last.json` tells which one. If a full window follows the one it names, it was set back by a late
        write, and the listing is asked once.
        """
        hinted = self._hinted(above=state.version)
        if hinted is not None:
            progress = self._follow(hinted)
            if progress.ended:
                return progress.state
            state = progress.state
        progress = self._follow(self._newest_listed(above=state.version) or state)
        return progress.state if progress.ended else self.log.catch_up(progress.state, RECORDS_AT_ONCE).state

    def _follow(self, start: LakeState) -> Progress:
        """Reads the window after `start`. If it is empty, makes sure that the record of `start` is there."""
        try:
            # One less than a window: the request that is left looks at the record of `start`, or behind.
            progress = self.log.catch_up(start, self._window - 1, at_most=self._window)
        except CorruptLakeError:
            if start.version == GENESIS:
                self._require_identity()  # says so if it is the first link that is wrong
            raise
        if progress.state.version == GENESIS:
            self._require_identity()
        elif not progress.records:
            self.log.require_record(start)
        # Only now: a transaction may build upon what the log has seen.
        self.log.begin_at(start)
        return progress

    def _require_identity(self) -> None:
        require_decided(self.log.driver, self.genesis.identity)

    def _hinted(self, above: Version) -> LakeState | None:
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
            return None  # advice that cannot be read: the listing tells the same

    def _load(self, version: Version) -> LakeState | None:
        """The state in a checkpoint, or None: it is derived from the records, which are read instead."""
        key = checkpoint_key(version)
        data = self.log.driver.get(key)
        try:
            state = None if data is None else LakeState.decode(data, version, key)
        except CorruptLakeError:
            state = None
        except UnsupportedError:
            return None  # of a later release, which can read it: it must stay
        if state is not None and state.identity != self.genesis.identity:
            self._require_identity()  # record 0 knows whether we or the checkpoint are of another lake
            state = None
        if state is None:
            self.unusable.add(version)
            return None
        self.newest_known = max(self.newest_known, version)
        return state

    def _newest_listed(self, above: Version, below: Version | None = None) -> LakeState | None:
        for version in sorted(listed_checkpoints(self.log.driver), reverse=True):
            if above < version and (below is None or version < below):
                state = self._load(version)
                if state is not None:
                    return state
        return None


def listed_checkpoints(place: ListInPages, above: Version = GENESIS) -> list[Version]:
    """The versions of all checkpoints, or of those above a version, from one listing."""
    found = (checkpoint_version(key) for key in all_keys(place, CHECKPOINTS, after=checkpoint_key(above)))
    return [version for version in found if version is not None]


def state_at(checkpoints: Checkpoints, newest: LakeState, version: Version) -> LakeState:
    """The state at `version`, which must not be above `newest`."""
    if version > newest.version:
        raise NotFoundError(
            f"version {version} does not exist; the newest is {newest.version}",
            f"choose a version from 0 to {newest.version}",
        )
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
