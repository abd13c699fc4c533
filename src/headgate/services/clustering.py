"""Clustering of a table: scheduled in the log, carried out, completed or given up.

Ingestion comes first: what changes rows of the files is refused while a clustering is planned, or, with
`clustering.allow_updates`, wins and cancels it. No row is changed, whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headgate.compacting import Rewriting
from headgate.core.compaction.clusters import plan_clustering
from headgate.core.compaction.plans import details, in_plans, without_pending
from headgate.core.compaction.segments import Group, Segment
from headgate.core.windows import window_of
from headgate.engines import rewriter_for
from headgate.errors import ConflictError, HeadgateError
from headgate.iceberg.binding import bind_text
from headgate.iceberg.clustering import clustering_by
from headgate.iceberg.directories import written_by
from headgate.iceberg.planning import plan
from headgate.iceberg.rewriting import Clustering, RewriteGroup, Rewriter, Rewritten
from headgate.iceberg.snapshot import snapshot_id
from headgate.iceberg.target import Target
from headgate.model.clustering import ClusteringReport
from headgate.model.compaction import CompactionProgress
from headgate.model.identifiers import TxId
from headgate.model.json_object import Json, encode
from headgate.model.plan import Service
from headgate.model.state import LakeState
from headgate.preparation import virtual_path
from headgate.refusals import TransactionConflictError
from headgate.services.segments import LiveTable, live_table
from headgate.services.undisturbed import undisturbed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.lake import Lake
    from headgate.transaction import Transaction

SERVICE: Service = "clustering"
REMARK = "headgate.clustering"
"""The remark of a completion, which its snapshot keeps: by what it clustered."""


@dataclass
class Clusterer:
    """One clustering of a table, through one handle of a lake."""

    lake: Lake
    name: str
    args: Sequence[str] = ()
    spark: SparkSession | None = None
    progress: Callable[[CompactionProgress], None] = lambda _: None
    rewriter: Callable[[Target, SparkSession | None], Rewriter] = rewriter_for
    plans: list[str] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    done: list[tuple[RewriteGroup, Rewritten]] = field(default_factory=list)

    def run(self, by: Sequence[str], zorder: bool, where: str | None) -> ClusteringReport:
        """Clusters all files of the table, or of the paths that can hold rows which `where` selects.

        One plan after the other, each a part of the groups. If one cannot be completed it is cancelled and
        its error raised; those before it are complete.
        """
        state, live, chosen = undisturbed(self.lake._checkpoints, lambda: self._looked_at(where))
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

    def _looked_at(self, where: str | None) -> tuple[LakeState, LiveTable, tuple[Segment, ...]]:
        """The newest version, the table there, and the files of it that are to be clustered."""
        lake, state = self.lake, self.lake._refreshed()
        live = live_table(lake._table_loader(), state, self.name, lake.divisor)
        return state, live, self._chosen(live, where)

    def _chosen(self, live: LiveTable, where: str | None) -> tuple[Segment, ...]:
        if where is None:
            return live.segments
        loader, metadata = self.lake._table_loader(), live.metadata
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
        """The groups with their files as they are now, and all deletes of these."""
        live = live_table(self.lake._table_loader(), tx.reached, self.name, self.lake.divisor)
        present = {segment.file for segment in live.segments}
        gone = [file for group in groups for file in group.files if file not in present]
        if gone:
            raise ConflictError(
                f"{self.name}: {len(gone)} files that were to be clustered are gone, as {min(gone)}",
                "run it again; nothing was changed",
            )
        return live.rewrite_groups(groups)

    def _give_up(self, scheduled: TxId, error: BaseException) -> None:
        """Cancels the plan, because of an error that is more important than whether this succeeds.

        Whatever the error left in doubt, the log decides: what is complete cannot be cancelled any more.
        """
        try:
            newest = self.lake._refreshed()
            if scheduled in newest.plans:
                self.lake._run((*self.args, "--cancel"), lambda tx: tx.cancel(scheduled), newest)
        except TransactionConflictError:
            return  # somebody else ended it
        except (HeadgateError, KeyboardInterrupt) as second:
            error.add_note(
                f"the plan {scheduled} stays until headgate recover, or headgate timeline "
                f"{self.lake.place} --cancel {scheduled} ({second})"
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
    """Whether one clustering by the same columns made all of the group.

    Told by the snapshots that the table keeps: of an older one it is not known, and it is done again.
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
