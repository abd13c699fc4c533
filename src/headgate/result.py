"""What became of a transaction, and of a look at the storage, for the caller."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.choice import Verdict
from headgate.model.probe import ProbeReport
from headgate.model.row_counts import RowCounts


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of a transaction.

    `attempts` counts the versions that were tried, over all runs of the operation; `waited_seconds` is the
    time lost to other writers. `postponed` names work that was due after the commit and failed; the next
    writer does it. The commit itself is not affected.

    `already_committed`: the application had committed this batch, or a later one, before. Nothing was
    written, and `txid`, that of this transaction, stands nowhere in the log. The lake remembers only the
    newest batch of each application: `version` is the one that committed it, and `newest_batch` is its
    number. So `version` is that of the repeated batch itself if `newest_batch` is its number; if it is
    higher, all that can be said is that nothing of this batch is missing at `version`.

    `rows` counts those that deletes, updates, merges and upserts changed; None if there was none of these. If
    they found no row to change and there was nothing else to do, no version was made: `changed` is False, and
    `version` is the one that they looked at.
    """

    version: int
    txid: str
    attempts: int
    waited_seconds: float = 0.0
    already_committed: bool = False
    newest_batch: int | None = None
    rows: RowCounts | None = None
    postponed: tuple[str, ...] = ()
    hook_failures: tuple[str, ...] = ()
    changed: bool = True


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `Lake.doctor` found: the storage's promises, and what each strategy would be worth here."""

    place: str
    strategy: str
    report: ProbeReport
    verdicts: tuple[Verdict, ...]

    @property
    def safe(self) -> bool:
        """Whether the strategy that the lake uses now is safe on its storage."""
        return any(verdict.safe for verdict in self.verdicts if verdict.strategy.value == self.strategy)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What became of a transaction: committed as `version`, or never (`version` is None).

    `cancelled_by` is the version that cancelled it just now, if one had to; `hook_failures` are its hooks.
    """

    txid: str
    version: int | None
    cancelled_by: int | None = None
    hook_failures: tuple[str, ...] = ()

    @property
    def committed(self) -> bool:
        return self.version is not None
