"""What one handle of a lake has done so far, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate.model.json_object import Json


@dataclass(frozen=True, slots=True)
class HookTotals:
    """What became of one hook over all versions: how often it was tried, and for how long."""

    done: int = 0
    failed: int = 0
    attempts: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Metrics:
    """Counts and times since the handle was opened.

    `attempts` are the versions that were tried for `commits`: what is more than one for each was lost to
    others. `conflicts` are commits that the rules refused, by the name of the rule. `commit_seconds` is the
    time from the first try to the decision, of which `waited_seconds` was spent to let others pass. Rows and
    bytes are those of data files; `bytes_read` and `bytes_written` those of requests by this process, without
    what Spark moves by itself.
    """

    commits: int = 0
    attempts: int = 0
    commit_seconds: float = 0.0
    waited_seconds: float = 0.0
    postponed: int = 0
    conflicts: Mapping[str, int] = field(default_factory=dict)
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
            "rows_added": self.rows_added,
            "rows_removed": self.rows_removed,
            "data_bytes_added": self.data_bytes_added,
            "hooks": {
                name: {
                    "done": hook.done,
                    "failed": hook.failed,
                    "attempts": hook.attempts,
                    "seconds": hook.seconds,
                }
                for name, hook in self.hooks.items()
            },
            "recoveries": self.recoveries,
            "recovered_entries": self.recovered_entries,
            "requests": dict(self.requests),
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
        }
