"""What a compaction has done so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headgate.iceberg.rewriting import RewriteGroup, Rewritten
from headgate.model.compaction import CompactionReport
from headgate.model.plan import PendingPlan
from headgate.result import CommitResult


@dataclass
class Tally:
    """Counts what is committed, and nothing else."""

    planned: list[str] = field(default_factory=list)
    taken_over: list[str] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    tables: dict[str, None] = field(default_factory=dict)
    done: list[tuple[RewriteGroup, Rewritten]] = field(default_factory=list)

    def scheduled(self, result: CommitResult) -> None:
        self.planned.append(result.txid)
        self.versions.append(result.version)

    def complete(
        self,
        plan: PendingPlan,
        table: str,
        result: CommitResult,
        done: Sequence[tuple[RewriteGroup, Rewritten]],
    ) -> None:
        self.completed.append(plan.txid.text)
        self.versions.append(result.version)
        self.tables[table] = None
        self.done += done

    def gave_up(self, plan: PendingPlan, result: CommitResult, reason: str) -> None:
        self.cancelled.append(plan.txid.text)
        self.reasons.append(reason)
        self.versions.append(result.version)

    def report(self, until: int) -> CompactionReport:
        read = [planned.file for group, _ in self.done for planned in group.files]
        written = [file for _, made in self.done for file in made.files]
        rows = sum(file.record_count for file in written)
        return CompactionReport(
            until=until,
            tables=tuple(self.tables),
            planned=tuple(self.planned),
            taken_over=tuple(self.taken_over),
            completed=tuple(self.completed),
            cancelled=tuple(self.cancelled),
            reasons=tuple(self.reasons),
            groups=len(self.done),
            files_in=len(read),
            files_out=len(written),
            bytes_in=sum(file.size_bytes for file in read),
            bytes_out=sum(file.size_bytes for file in written),
            rows=rows,
            rows_dropped=sum(file.record_count for file in read) - rows,
            versions=tuple(sorted(self.versions)),
        )
