"""Checkpoints: the state of the lake at boundaries, so that opening it costs the same at any length.

Checkpoints are derived. One that is missing or damaged costs reading more records, nothing else; the writer
that passes a boundary writes its checkpoint, or the next writer that notices does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.commit.layout import CHECKPOINTS, LAST_CHECKPOINT, checkpoint_key, checkpoint_version
from headgate.commit.log import RECORDS_AT_ONCE, CommitLog
from headgate.core.windows import boundary_at_or_before
from headgate.errors import CorruptLakeError, NotFoundError
from headgate.model.identifiers import GENESIS, Version
from headgate.model.json_object import JsonObject, encode
from headgate.model.state import LakeState
from headgate.storage.capabilities import Store
from headgate.storage.listing import all_keys


@dataclass
class Checkpoints:
    """The checkpoints of one lake, seen from one handle. `newest_known` only moves forward."""

    log: CommitLog
    genesis: LakeState
    newest_known: Version = field(default=GENESIS)

    def newest(self) -> LakeState:
        """The state of the newest readable checkpoint, or of the empty lake."""
        last = self._last()
        state = None if last is None else self._load(last)
        if state is None:
            state = self._newest_listed(below=None)
        self.newest_known = max(self.newest_known, state.version)
        return state

    def at_or_before(self, version: Version) -> LakeState:
        """The state of the last readable checkpoint that is not above `version`."""
        boundary = boundary_at_or_before(version, self.log.identity.divisor)
        if boundary == GENESIS:
            return self.genesis
        return self._load(boundary) or self._newest_listed(below=boundary)

    def write_due(self, version: Version) -> bool:
        """Writes the checkpoint that the commit of `version` makes due; False if there is nothing to do."""
        due = boundary_at_or_before(version, self.log.identity.divisor)
        state = self.log.state_at_boundary(due)
        if due == GENESIS or state is None or (version != due and self._is_written(due)):
            return False
        self.log.driver.put(checkpoint_key(due), state.encode())
        if due > self.newest_known:
            # Only advice where to start: racing writers may set it back by a window, which costs a few reads.
            self.log.driver.put(LAST_CHECKPOINT, encode({"version": due.number}))
            self.newest_known = due
        return True

    def _is_written(self, due: Version) -> bool:
        """Whether somebody else, who passed the boundary, has written its checkpoint."""
        if due > self.newest_known:
            self.newest_known = max(self.newest_known, self._last() or GENESIS)
        return due <= self.newest_known

    def _last(self) -> Version | None:
        data = self.log.driver.get(LAST_CHECKPOINT)
        if data is None:
            return None
        try:
            return Version(JsonObject.parse(data, LAST_CHECKPOINT).number("version"))
        except CorruptLakeError:
            return None  # advice that cannot be read: the listing tells the same

    def _load(self, version: Version) -> LakeState | None:
        key = checkpoint_key(version)
        data = self.log.driver.get(key)
        if data is None:
            return None
        try:
            return LakeState.decode(data, version, key)
        except CorruptLakeError:
            return None  # derived from the records, which are read instead

    def _newest_listed(self, below: Version | None) -> LakeState:
        versions = sorted(listed_checkpoints(self.log.driver.store), reverse=True)
        for version in versions:
            if below is None or version < below:
                state = self._load(version)
                if state is not None:
                    return state
        return self.genesis


def listed_checkpoints(store: Store) -> list[Version]:
    """The versions of all checkpoints, from one listing."""
    found = (checkpoint_version(key) for key in all_keys(store, CHECKPOINTS))
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
