"""Metrics: what one handle of a lake has done so far, and the size of a lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.model.json_object import Json


@dataclass(frozen=True, slots=True)
class HookTotals:
    """The totals of one hook over all versions: how often it was tried, and for how long."""

    done: int = 0
    failed: int = 0
    attempts: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Json]:
        return {
            "done": self.done,
            "failed": self.failed,
            "attempts": self.attempts,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class Metrics:
    """Counts and times since the handle was opened.

    `attempts` are the versions that were tried for `commits`: the difference was lost to other writers.
    `conflicts` are commits that the rules rejected, by the name of the rule. `failures` are commits that
    failed with an error, by its kind, including those that were then retried. `unknown_outcomes` are those
    whose answer was lost, regardless of how they were resolved later. `commit_seconds` is the time from the
    first attempt to the outcome, of which `waited_seconds` was spent waiting for other writers. Rows and
    bytes are those of data files. `bytes_read` and `bytes_written` are those of requests by this process,
    without what Spark transfers by itself.
    """

    commits: int = 0
    attempts: int = 0
    commit_seconds: float = 0.0
    waited_seconds: float = 0.0
    postponed: int = 0
    conflicts: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    unknown_outcomes: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    data_bytes_added: int = 0
    hooks: Mapping[str, HookTotals] = field(default_factory=dict)
    recoveries: int = 0
    recovered_entries: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)
    bytes_read: int = 0
    bytes_written: int = 0

    def to_json(self) -> dict[str, Json]:
        return {
            "commits": self.commits,
            "attempts": self.attempts,
            "commit_seconds": self.commit_seconds,
            "waited_seconds": self.waited_seconds,
            "postponed": self.postponed,
            "conflicts": dict(self.conflicts),
            "failures": dict(self.failures),
            "unknown_outcomes": self.unknown_outcomes,
            "rows_added": self.rows_added,
            "rows_removed": self.rows_removed,
            "data_bytes_added": self.data_bytes_added,
            "hooks": {name: hook.to_json() for name, hook in self.hooks.items()},
            "recoveries": self.recoveries,
            "recovered_entries": self.recovered_entries,
            "requests": dict(self.requests),
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
        }


@dataclass(frozen=True, slots=True)
class Size:
    """Objects on storage, and their bytes."""

    objects: int = 0
    bytes: int = 0

    def without(self, *parts: Size) -> Size:
        """What remains without some parts, which may have been measured slightly later; never below zero."""
        objects = self.objects - sum(part.objects for part in parts)
        return Size(max(0, objects), max(0, self.bytes - sum(part.bytes for part in parts)))


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table at the newest version: rows that a read returns, and its data and delete files."""

    rows: int = 0
    files: int = 0
    delete_files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Activity:
    """The sums of the control entries of the newest versions, regardless of who committed them.

    `recovered` are versions whose writers died before they wrote their entry; `without_entry` have none yet.
    `failures` and `unknown_outcomes` are as in `Metrics`. A commit that failed has no version: its handle
    counts it in the entry of the next version that it commits, so the last failures of a handle are missing.
    """

    commits: int = 0
    attempts: int = 0
    recovered: int = 0
    without_entry: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    unknown_outcomes: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)
    commit_seconds: float = 0.0
    waited_seconds: float = 0.0
    rows_added: int = 0
    rows_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    hooks: Mapping[str, HookTotals] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LakeMetrics:
    """A lake at its newest version.

    `lake` is everything on storage, `log` what is below `control/`, `history` the rest without the data and
    delete files of the newest version: files of older versions, metadata, and files that no version needs.
    The three are None if the storage lists no sizes.
    """

    version: int
    activity: Activity
    tables: Mapping[str, TableSize]
    lake: Size | None = None
    log: Size | None = None
    history: Size | None = None
