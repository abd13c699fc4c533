"""Clusters a table: schedules a plan in the log, carries it out, and completes or cancels it.

While a clustering is planned, changes to rows of its files are rejected, or, with `clustering.allow_updates`,
win and cancel the clustering. Appends are never rejected. A clustering never changes a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headgate.arrow.row_order import clustering_by
from headgate.core.compaction.eligible import Group, Segment, plan_clustering
from headgate.core.compaction.plans import details, in_plans, without_pending
from headgate.core.compaction.windows import window_of
from headgate.errors import ConflictError, HeadgateError
from headgate.iceberg.format.directories import Target, written_by
from headgate.iceberg.format.snapshot import snapshot_id
from headgate.iceberg.predicate.binding import bind_text
from headgate.iceberg.scan.engine import Clustering, RewriteGroup, Rewriter, Rewritten
from headgate.iceberg.scan.planning import plan
from headgate.maintenance.live_segments import LiveTable, live_table
from headgate.model.identifiers import TxId
from headgate.model.json_object import Json, encode
from headgate.model.plan import Service
from headgate.model.reports import ClusteringReport, CompactionProgress
from headgate.model.state import LakeState
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.engines import rewriter_for
from headgate.transaction.handle import LakeHandle
from headgate.transaction.rewrite import Rewriting
from headgate.transaction.table_metadata import virtual_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.transaction.transaction import Transaction

SERVICE: Service = "clustering"
REMARK = "headgate.clustering"
"""The remark in the snapshot of a completed clustering: the columns by which it clustered."""


@dataclass
class Clusterer:
    """One clustering of a table, through one handle of a lake."""

    lake: LakeHandle
    name: str
    args: Sequence[str] = ()
    spark: SparkSession | None = None
    progress: Callable[[CompactionProgress], None] = lambda _: None
    rewriter: Callable[[Target, SparkSession | None], Rewriter] = rewriter_for
    plans: list[str] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    done: list[tuple[RewriteGroup, Rewritten]] = field(default_factory=list)

    def run(self, by: Sequence[str], zorder: bool, where: str | None) -> ClusteringReport:
        """Clusters all files of the table, or of the paths that can contain rows that `where` selects.

        Runs one plan after the other, each for a part of the groups. If a plan cannot be completed, cancels
        it and raises its error; the plans before it are complete.
        """
        state, live, chosen = self.lake.checkpoints.read_undisturbed(lambda: self._look(where))
        clustering = clustering_by(by, live.metadata.schema, self.name, z=zorder)
        plans = [one for one in state.plans.values() if one.table == live.metadata.uuid]
        free = without_pending(chosen, plans)
        newest = state.version.number
        complete = plan_clustering(free, newest, self.lake.divisor)
        groups = [group for group in complete if not _is_clustered(live, group, clustering)]
        for part in in_plans(groups, live.policy):
            self._cluster(part, clustering)
        return self._report(
            clustering,
            files_recent=len(free) - _files(complete),
            complete_at=window_of(newest + 1, 1, self.lake.divisor).last,
            files_pending=len(chosen) - len(free),
            files_clustered=_files(complete) - _files(groups),
        )

    def _look(self, where: str | None) -> tuple[LakeState, LiveTable, tuple[Segment, ...]]:
        """The newest version, the table at that version, and its files to cluster."""
        lake, state = self.lake, self.lake.refresh()
        live = live_table(lake.loader(), state, self.name, lake.divisor)
        return state, live, self._chosen(live, where)

    def _chosen(self, live: LiveTable, where: str | None) -> tuple[Segment, ...]:
        if where is None:
            return live.segments
        loader, metadata = self.lake.loader(), live.metadata
        found = plan(loader, metadata, bind_text(where, metadata.schema)).files
        paths = {virtual_path(self.name, planned.file, metadata) for planned in found}
        return tuple(segment for segment in live.segments if segment.path in paths)

    # --- one plan -----------------------------------------------------------------------------------------

    def _cluster(self, groups: Sequence[Group], clustering: Clustering) -> None:
        scheduled = self._schedule(groups, clustering)
        try:
            self._carry_out(scheduled, groups, clustering)
        except (HeadgateError, KeyboardInterrupt) as error:
            self._give_up(scheduled, error)
            raise

    def _schedule(self, groups: Sequence[Group], clustering: Clustering) -> TxId:
        files = [segment.file for group in groups for segment in group.segments]
        told: dict[str, Json] = {"by": list(clustering.columns), "zorder": clustering.zorder}
        with self.lake.transaction(self.args) as tx:
            scheduled = tx.plan(
                SERVICE, self.name, files, {group.path for group in groups}, {**details(groups), **told}
            )
        self.plans.append(scheduled.text)
        self.versions.append(tx.result.version)
        return scheduled

    def _carry_out(self, scheduled: TxId, groups: Sequence[Group], clustering: Clustering) -> None:
        done: list[tuple[RewriteGroup, Rewritten]] = []

        def on_group(group: RewriteGroup, written: Rewritten) -> None:
            done.append((group, written))
            self._tell(groups, done)

        with self.lake.transaction(self.args, properties={REMARK: _remark(clustering)}) as tx:
            tx.complete(scheduled)
            work = self._groups_now(tx, groups)
            tx.table(self.name)._rewrite(
                lambda target: Rewriting(work, self.rewriter(target, self.spark), clustering, on_group)
            )
        self.versions.append(tx.result.version)
        self.done += done

    def _groups_now(self, tx: Transaction, groups: Sequence[Group]) -> list[RewriteGroup]:
        """The groups with the current state of their files, and all deletes that apply to them."""
        live = live_table(self.lake.loader(), tx.reached, self.name, self.lake.divisor)
        present = {segment.file for segment in live.segments}
        gone = [file for group in groups for file in group.files if file not in present]
        if gone:
            raise ConflictError(
                f"{self.name}: another commit removed {len(gone)} files of the clustering, such as "
                f"{min(gone)}",
                "run the clustering again; nothing was changed",
            )
        return live.rewrite_groups(groups)

    def _give_up(self, scheduled: TxId, error: BaseException) -> None:
        """Cancels the plan because of `error`, which is raised even if the cancellation fails.

        If the outcome of the plan is unknown, the log decides: a completed plan cannot be cancelled.
        """
        try:
            newest = self.lake.refresh()
            if scheduled in newest.plans:
                self.lake.run((*self.args, "--cancel"), lambda tx: tx.cancel(scheduled), newest)
        except TransactionConflictError:
            return  # another process ended it
        except (HeadgateError, KeyboardInterrupt) as second:
            error.add_note(
                f"the plan {scheduled} stays pending until you run headgate recover, or headgate timeline "
                f"{self.lake.driver.store.describe()} --cancel {scheduled} ({second})"
            )

    def _tell(self, groups: Sequence[Group], done: Sequence[tuple[RewriteGroup, Rewritten]]) -> None:
        read = [planned.file for group, _ in done for planned in group.files]
        self.progress(
            CompactionProgress(
                self.name,
                done[-1][0].path,
                len(read),
                _files(groups),
                sum(file.size_bytes for file in read),
                sum(group.size_bytes for group in groups),
            )
        )

    def _report(self, clustering: Clustering, **left: int) -> ClusteringReport:
        read = [planned.file for group, _ in self.done for planned in group.files]
        written = [file for _, made in self.done for file in made.files]
        rows = sum(file.record_count for file in written)
        return ClusteringReport(
            table=self.name,
            by=clustering.columns,
            zorder=clustering.zorder,
            groups=len(self.done),
            files_in=len(read),
            files_out=len(written),
            bytes_in=sum(file.size_bytes for file in read),
            bytes_out=sum(file.size_bytes for file in written),
            rows=rows,
            rows_dropped=sum(file.record_count for file in read) - rows,
            plans=tuple(self.plans),
            versions=tuple(self.versions),
            **left,
        )


def _files(groups: Sequence[Group]) -> int:
    return sum(len(group.segments) for group in groups)


def _remark(clustering: Clustering) -> str:
    return encode({"by": list(clustering.columns), "zorder": clustering.zorder}).decode()


def _is_clustered(live: LiveTable, group: Group, clustering: Clustering) -> bool:
    """Whether one clustering by the same columns wrote all files of the group.

    Read from the snapshots that the table keeps. Older clusterings are unknown, and are done again.
    """
    writers = {written_by(segment.file) for segment in group.segments}
    if len(writers) > 1 or any(segment.covers != group.window for segment in group.segments):
        return False
    (writer,) = writers
    if writer is None:
        return False
    made = snapshot_id(writer, live.metadata.uuid)
    snapshots = {raw["snapshot-id"]: raw.get("summary", {}) for raw in live.metadata.fields["snapshots"]}
    return bool(snapshots.get(made, {}).get(REMARK) == _remark(clustering))
