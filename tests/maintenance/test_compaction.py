"""Compaction of tables: no row changes, boundaries stay exact, and whoever meets others loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.arrow.data_files import read_rows
from headgate.arrow.rewrite import ArrowRewriter
from headgate.core.compaction.touched import intents_of
from headgate.core.input.arguments import found_table
from headgate.iceberg.format.data_file import Content as FileContent
from headgate.iceberg.format.data_file import Status
from headgate.iceberg.format.directories import Target
from headgate.iceberg.scan.engine import Clustering, Content, RewriteGroup, Rewritten
from headgate.iceberg.scan.planning import plan
from headgate.maintenance.clustering import Clusterer
from headgate.maintenance.compaction import MAX_IN_VAIN, CompactionInterrupt, Compactor
from headgate.model.identifiers import TxId
from headgate.model.reports import CompactionProgress
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Put, Request, all_keys
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Proceed, intercepted
from tests.maintenance.concurrently import Beside
from tests.row_deletes import note_delete

NAME = "shop.orders"
DIVISOR = 4
AT_ONCE = timedelta(0)


def made(store: Any = None, *, partition_by: Sequence[str] = (), **options: Any) -> hg.Lake:
    lake = hg.Lake.init(MemoryStore("compaction") if store is None else store, divisor=DIVISOR)
    lake.create_table(NAME, "id BIGINT, part STRING, n BIGINT", partition_by=partition_by, **options)
    return lake


def rows(*ids: int) -> pa.Table:
    parts = ["a" if number % 2 else "b" for number in ids]
    zeros = pa.array([0] * len(ids), pa.int64())
    return pa.table({"id": pa.array(ids, pa.int64()), "part": parts, "n": zeros})


def filled(lake: hg.Lake, until: int, name: str = NAME, each: int = 2) -> hg.Lake:
    """Appends some rows at a time, until the lake has a version."""
    while lake.version < until:
        first = lake.version * 10
        lake.table(name).append(rows(*range(first, first + each)))
    return lake


def other(lake: hg.Lake) -> hg.Lake:
    return hg.Lake.open(Inspector(lake).store)


def content(lake: hg.Lake, name: str = NAME, version: int | None = None) -> list[tuple[Any, ...]]:
    found = other(lake).table(name).read_arrow(version=version).to_pylist()
    return sorted(tuple(map(str, row.values())) for row in found)


def windows(lake: hg.Lake, name: str = NAME) -> list[str]:
    """What the live files cover."""
    view = other(lake).table(name)._view()
    return sorted(f"L{p.covers.level} {p.covers}" for p in plan(view.loader, view.metadata, None).files)


def sound(lake: hg.Lake) -> bool:
    return other(lake).fsck(deep=True).ok


# --- what it does -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition_by", [[], ["part"]], ids=["whole", "partitioned"])
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_small_files_become_one_for_each_window(
    tmp_path: Path, partition_by: list[str], on_disk: bool
) -> None:
    store = LocalStore(tmp_path / "lake", fsync=False) if on_disk else MemoryStore()
    lake = filled(made(store, partition_by=partition_by), 20)
    before, versions = content(lake), {v: content(lake, version=v) for v in (5, 16, 19, 20)}
    told: list[CompactionProgress] = []
    report = lake.compact(progress=told.append)
    paths = len(partition_by) + 1
    # 20 is 1·16 + 1·4: the windows that are complete. Three small files of a window are less than four.
    assert windows(lake) == sorted(["L2 1-16", "L1 17-20"] * paths)
    assert content(lake) == before
    for version, then in versions.items():
        assert content(lake, version=version) == then
    assert (report.files_in, report.files_out, report.groups) == (19 * paths, 2 * paths, 2 * paths)
    assert (report.rows, report.rows_dropped, report.tables) == (38, 0, (NAME,))
    assert report.planned == report.completed and len(report.planned) == 1
    assert report.versions == (21, 22) and report.until == 22
    assert report.bytes_out == sum(file.size_bytes for file in other(lake).table(NAME).files())
    assert [one.files_done for one in told] == sorted(one.files_done for one in told)
    assert (told[-1].files_done, told[-1].bytes_done) == (told[-1].files, told[-1].bytes)
    assert sound(lake)
    assert not lake.compact().changed
    assert not other(lake).compact().changed


def test_files_are_in_the_order_of_the_table_and_of_its_target_size() -> None:
    lake = made(sort_by=["id desc"], properties={"write.target-file-size-bytes": "6000"})
    table = lake.table(NAME)
    for number in range(19):
        ids = [(number * 7919 + step * 104729) % 1_000_003 for step in range(1200)]
        table.append(rows(*ids))
    before = content(lake)
    report = lake.compact()
    files = other(lake).table(NAME).files()
    assert content(lake) == before
    sizes = [file.size_bytes for file in files]
    assert report.files_out == len(files) > 3
    assert min(sizes) > 6_000 * 0.6 and max(sizes) < 6_000 * 1.5
    for file in files:
        stored = pq.read_table(
            pa.BufferReader(Inspector(lake).driver.get(Inspector(lake).loader().key(file.path)) or b"")
        )
        ids = stored.column("id").to_pylist()
        assert ids == sorted(ids, reverse=True)
    assert not lake.compact().changed


def test_deleted_rows_are_dropped_and_idle_delete_files_leave_the_table() -> None:
    lake = filled(made(), 8)
    table = lake.table(NAME)
    for version in (9, 10, 11):
        table.delete(f"id = {(version - 7) * 10}")
    table.update({"n": "7"}, where="id = 41")
    filled(lake, 16)
    before = content(lake)
    assert table.snapshot is not None and table.snapshot.delete_files == 4
    report = lake.compact()
    assert content(lake) == before
    assert report.rows_dropped == 4
    after = other(lake).table(NAME)
    assert after.snapshot is not None
    assert (after.snapshot.delete_files, after.snapshot.rows, after.snapshot.files) == (0, len(before), 1)
    assert after.snapshot.size_bytes == sum(file.size_bytes for file in after.files())
    removed = [e for e in _entries(lake) if e.file.content is FileContent.POSITION_DELETES]
    assert [entry.status for entry in removed] == [Status.DELETED] * 4
    summary = after._view().metadata.snapshot["summary"]  # type: ignore[index]
    assert summary["removed-delete-files"] == "4"
    assert summary["total-delete-files"] == summary["total-position-deletes"] == "0"
    assert sound(lake)


def _entries(lake: hg.Lake) -> list[Any]:
    view = other(lake).table(NAME)._view()
    return [e for group in view.loader.entries(view.loader.manifests(view.metadata)) for e in group]


def test_other_removals_drop_idle_delete_files_too() -> None:
    lake = filled(made(), 4)
    table = lake.table(NAME)
    table.delete("id = 10")
    table.overwrite(rows(1), where="id < 1000")
    snapshot = other(lake).table(NAME).snapshot
    assert snapshot is not None and (snapshot.delete_files, snapshot.rows) == (0, 1)
    assert sound(lake)
    assert {row["_change_type"] for row in table.changes_arrow(5).to_pylist()} == {"delete", "insert"}


def test_a_delete_file_that_still_tells_of_a_live_file_stays() -> None:
    lake = filled(made(), 3)
    lake.table(NAME).delete("id in (10, 20)")
    filled(lake, 6)
    with lake.transaction() as tx:
        tx.table(NAME).overwrite(rows(15), where="id >= 10 and id < 20")
    snapshot = other(lake).table(NAME).snapshot
    assert snapshot is not None and snapshot.delete_files == 1
    assert "20" not in [row[0] for row in content(lake)]
    assert sound(lake)


def test_many_deleted_rows_are_reason_enough() -> None:
    lake = made(properties={"compaction.delete_share": "0.5"})
    lake.table(NAME).append(rows(*range(10)))
    lake.table(NAME).delete("id < 5")
    filled(lake, 4)
    lake.table(NAME).delete("id = 5")
    assert not lake.compact().changed  # the last one was deleted after the window
    lake.table(NAME).set_properties({"compaction.delete_share": "0.4"})
    report = lake.compact()
    assert (report.files_in, report.rows_dropped) == (2, 5)
    assert windows(lake) == ["L1 1-4"]
    # The delete of version 5 is carried over to the new file, at its version.
    snapshot = other(lake).table(NAME).snapshot
    assert snapshot is not None and (snapshot.delete_files, snapshot.rows) == (1, 6)
    assert sound(lake)


def test_a_window_of_which_every_row_is_deleted_becomes_nothing() -> None:
    lake = made()
    lake.table(NAME).append(rows(1, 2, 3))
    # In two steps: deleting all rows of a file takes the file away.
    lake.table(NAME).delete("id = 1")
    view = lake.table(NAME)
    with lake.transaction() as tx:
        note_delete(tx, NAME, "id > 1")
    assert len(view.files()) == 1
    report = lake.compact()
    assert (report.files_in, report.files_out, report.rows_dropped) == (1, 0, 3)
    assert content(lake) == [] and other(lake).table(NAME).files() == ()
    assert sound(lake)


def test_evolved_schemas_and_older_specs() -> None:
    lake = made(partition_by=["part"])
    table = lake.table(NAME)
    table.append(rows(1, 2))
    table.append(rows(3, 4))
    table.append(rows(5, 6))  # version 4
    table.add_column("note", "STRUCT<a: INT, b: ARRAY<STRING>>")
    table.rename_column("n", "count")
    table.drop_column("count")
    note = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    filled_in = pa.table(
        {
            "id": [7, 8],
            "part": ["a", "b"],
            "note": pa.array([{"a": 1, "b": ["x", None]}, None], note),
        }
    )
    table.append(filled_in)  # version 8
    table.replace_partition_by(["bucket(2, id)"])
    for number in range(6):
        table.append(filled_in.set_column(0, "id", pa.array([10 + number, 20 + number])))
    lake.set_properties({"compaction.min_inputs": "2"})
    assert lake.version == 16
    before, versions = content(lake), {v: content(lake, version=v) for v in range(2, 17)}
    report = lake.compact()
    assert report.changed
    assert content(lake) == before
    for version, then in versions.items():
        assert content(lake, version=version) == then
    specs = {(file.spec_id, window) for file, window in _specs(lake)}
    assert {spec for spec, _ in specs} == {0, 1}
    assert {window for _, window in specs} == {"1-16"}
    assert sound(lake)


def _specs(lake: hg.Lake) -> list[tuple[Any, str]]:
    view = other(lake).table(NAME)._view()
    return [(p.file, str(p.covers)) for p in plan(view.loader, view.metadata, None).files]


def test_each_of_many_tables_and_no_more_than_asked_for() -> None:
    lake = made()
    names = [NAME]
    for number in range(3):
        names.append(f"shop.t{number}")
        lake.create_table(names[-1], "id BIGINT, part STRING, n BIGINT")
    while lake.version < 31:
        with lake.transaction() as tx:
            for name in names[: 1 + lake.version % 4]:
                tx.table(name).append(rows(lake.version))
    before = {name: content(lake, name) for name in names}
    report = lake.compact(table="shop.t0")
    assert report.tables == ("shop.t0",)
    rest = lake.compact()
    assert set(rest.tables) <= {*names} - {"shop.t0"} and NAME in rest.tables
    assert {name: content(lake, name) for name in names} == before
    assert not lake.compact().changed
    with pytest.raises(hg.NotFoundError, match=r"shop\.none"):
        lake.compact(table="shop.none")
    assert sound(lake)


def test_settings_are_checked() -> None:
    lake = made()
    few, none = "compaction.min_inputs", "compaction.delete_share"
    for wrong in ({few: "1"}, {few: "4.5"}, {few: ""}, {none: "0"}):
        with pytest.raises(hg.InvalidInputError, match="cannot be"):
            lake.set_properties(wrong)
        with pytest.raises(hg.InvalidInputError, match="cannot be"):
            lake.table(NAME).set_properties(wrong)
    for share in ("1.1", "nan", "many", "-1"):
        with pytest.raises(hg.InvalidInputError, match="greater than 0 and at most 1"):
            lake.set_properties({"compaction.delete_share": share})
    for size in ("0", "-1", "big"):
        with pytest.raises(hg.InvalidInputError, match="at least 1"):
            lake.table(NAME).set_properties({"write.target-file-size-bytes": size})
    assert lake.version == 1


def test_a_table_overrules_its_lake_and_lower_limits_are_heard_at_once() -> None:
    lake = filled(made(), 4)
    assert not lake.compact().changed
    lake.set_properties({"compaction.min_inputs": "100"})
    lake.table(NAME).set_properties({"compaction.min_inputs": "3"})
    assert lake.compact().files_in == 3


# --- what is looked at --------------------------------------------------------------------------------------


def test_records_of_compaction_are_no_intents() -> None:
    lake = filled(made(partition_by=["part"]), 8)
    report = lake.compact()
    uuid = found_table(Inspector(lake).refresh(), NAME).uuid
    touched = intents_of([Inspector(lake).record(8)])
    assert touched.paths == {(uuid, "part=a"), (uuid, "part=b")}
    assert intents_of([Inspector(lake).record(version) for version in report.versions]).paths == frozenset()


def test_a_second_look_passes_over_tables_that_nothing_was_done_to() -> None:
    store, asked = MemoryStore(), []

    def listening(request: Request, proceed: Proceed) -> Answer:
        asked.append(getattr(request, "key", ""))
        return proceed(request)

    lake = made(store)
    lake.create_table("shop.busy", "id BIGINT, part STRING, n BIGINT")
    filled(lake, 8)
    watching = hg.Lake.open(intercepted(store, listening))
    assert watching.compact().changed
    filled(other(lake), 16, "shop.busy")
    asked.clear()
    assert watching.compact().tables == ("shop.busy",)
    assert asked and not [key for key in asked if "/orders/" in key]
    # Renamed tables are the same ones, and settings are heard.
    other(lake).rename_table("shop.busy", "shop.idle")
    filled(other(lake), 32, "shop.idle")
    assert watching.compact().tables == ("shop.idle",)
    other(lake).set_properties({"compaction.min_inputs": "2"})
    asked.clear()
    watching.compact()
    assert [key for key in asked if "/orders/" in key]


def test_what_is_due_is_shown_and_nothing_is_done() -> None:
    lake = filled(made(partition_by=["part"]), 17)
    version = lake.version
    (shown,) = lake.compaction_outlook(NAME)
    assert lake.version == version == shown.version
    assert [path.path for path in shown.paths] == ["/shop/orders/part=a", "/shop/orders/part=b"]
    for path in shown.paths:
        assert [(level.level, level.segments, level.small) for level in path.levels] == [(0, 16, 16)]
        assert [str(group.window) for group in path.due] == ["1-16"]
        assert "15 files" in str(path.due[0])
    lake.compact()
    (after,) = lake.compaction_outlook(NAME)
    assert after.due == ()
    assert [level.level for level in after.paths[0].levels] == [0, 2]


# --- beside others ------------------------------------------------------------------------------------------


@dataclass
class Meanwhile:
    """Rewrites as Arrow does, and lets something happen before each group, or after all of them."""

    happens: Callable[[], object]
    late: bool = False
    times: int = 1

    def __call__(self, target: Target, spark: object) -> Meanwhile:
        return self

    def rewrite(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> Iterator[Rewritten]:
        if not self.late:
            self._act()
        yield from ArrowRewriter().rewrite(target, groups, clustering)
        if self.late:
            self._act()

    def _act(self) -> None:
        if self.times:
            self.times -= 1
            self.happens()


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_rows_that_are_changed_meanwhile_are_carried(late: bool) -> None:
    # Of each file a row stays: one that is emptied is taken away, and that is no carrying matter.
    lake = filled(made(partition_by=["part"]), 20, each=4)
    lake.table(NAME).delete("id = 20")
    base = {v: content(lake, version=v) for v in range(2, 22)}

    def happens() -> None:
        other(lake).table(NAME).delete("id in (30, 61, 180)")
        other(lake).table(NAME).update({"n": "5"}, where="id = 41")
        other(lake).table(NAME).append(rows(1, 2))

    report = Compactor(Inspector(lake).handle, rewriter=Meanwhile(happens, late)).run()
    assert report.completed and not report.cancelled
    ids = {row[0]: row[2] for row in content(lake)}
    assert not {"20", "30", "61", "180"} & set(ids)
    assert ids["41"] == "5" and ids["1"] == "0"
    assert len(ids) == 19 * 4 - 4 + 2
    assert require_exact(lake, base) >= 2
    assert sound(lake)


def require_exact(lake: hg.Lake, versions: dict[int, list[tuple[Any, ...]]]) -> int:
    """The table at each boundary that no live file straddles is what its current files say."""
    view = other(lake).table(NAME)._view()
    files = plan(view.loader, view.metadata, None).files
    checked = 0
    for version, then in versions.items():
        if any(planned.covers.straddles(version) for planned in files):
            continue
        old = [planned.as_of(version) for planned in files if planned.covers.last <= version]
        found = read_rows(Inspector(lake).driver, view.loader, old, view.metadata.schema).to_pylist()
        assert sorted(tuple(map(str, row.values())) for row in found) == then, version
        checked += 1
    return checked


def test_a_delete_is_carried_over_a_compaction_of_several_windows() -> None:
    lake = filled(made(), 20)
    tx = other(lake).transaction()
    tx.table(NAME).delete("id in (10, 21, 190)")
    tx.table(NAME).update({"n": "9"}, where="id = 50")
    assert lake.compact().completed
    tx.commit()
    ids = {row[0]: row[2] for row in content(lake)}
    assert not {"10", "21", "190"} & set(ids) and ids["50"] == "9" and len(ids) == 35
    assert sound(lake)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.overwrite(rows(10, 11), where="id in (10, 11)"),
        lambda table: table.overwrite(rows(1)),
        lambda table: table.delete("id < 15"),
    ],
    ids=["overwrite where", "overwrite", "a whole file"],
)
def test_a_plan_whose_files_are_replaced_is_cancelled_and_the_rest_done(change: Any) -> None:
    lake = filled(made(), 17)
    report = Compactor(
        Inspector(lake).handle, rewriter=Meanwhile(lambda: change(other(lake).table(NAME)))
    ).run()
    assert len(report.cancelled) == 1 and "replaced" in report.reasons[0]
    expected = made()
    assert not Inspector(lake).refresh().plans
    assert sound(lake)
    change(filled(expected, 17).table(NAME))
    assert content(lake) == content(expected)


def test_plans_that_come_to_nothing_again_and_again_are_left() -> None:
    lake = filled(made(), 17)

    ids = iter(range(10, 1000, 10))

    def happens() -> None:
        one = next(ids)
        other(lake).table(NAME).overwrite(rows(one), where=f"id = {one}")

    report = Compactor(Inspector(lake).handle, rewriter=Meanwhile(happens, times=100)).run()
    assert len(report.planned) == len(report.cancelled) == MAX_IN_VAIN
    assert lake.compact().completed


def test_a_table_that_is_dropped_or_renamed_meanwhile() -> None:
    lake = filled(made(), 17)
    report = Compactor(Inspector(lake).handle, rewriter=Meanwhile(lambda: other(lake).drop_table(NAME))).run()
    assert not report.completed and not Inspector(lake).refresh().plans and lake.tables() == ()
    lake = filled(made(), 17)
    before = content(lake)
    report = Compactor(
        Inspector(lake).handle, rewriter=Meanwhile(lambda: other(lake).rename_table(NAME, "shop.sales"))
    ).run()
    assert len(report.cancelled) == 1
    assert report.tables == ("shop.sales",)  # planned again, under its new name
    assert content(lake, "shop.sales") == before
    assert sound(lake)


def test_a_table_that_is_dropped_before_its_plan_is_published() -> None:
    """The plan is of nothing; nobody is left with it for ever."""
    lake = filled(made(), 4)
    with lake.transaction() as tx:
        tx.plan("compaction", NAME, ["x"], ["/shop/orders"])
        other(lake).drop_table(NAME)
    assert Inspector(lake).refresh().plans
    report = lake.compact()
    assert report.cancelled == (tx.txid,) and report.reasons == ("its table is gone",)
    assert not Inspector(lake).refresh().plans


# --- several compactors -------------------------------------------------------------------------------------


class DiedError(Exception):
    """The process of a compactor ends."""


def dying() -> None:
    raise DiedError


def left_behind(lake: hg.Lake) -> TxId:
    """A plan whose compactor died."""
    dead = other(lake)
    with pytest.raises(DiedError):
        Compactor(Inspector(dead).handle, rewriter=Meanwhile(dying)).run()
    (plan_id,) = Inspector(lake).refresh().plans
    return plan_id


def test_a_plan_that_was_left_behind_is_taken_over() -> None:
    lake = filled(made(), 20)
    before = content(lake)
    plan_id = left_behind(lake)
    other(lake).table(NAME).delete("id = 10")
    early = lake.compact()  # its maker may be about to begin
    assert not early.changed and Inspector(lake).refresh().plans
    report = lake.compact(patience=AT_ONCE)
    assert report.taken_over == report.completed == (plan_id.text,)
    assert windows(lake) == ["L1 17-20", "L2 1-16"]
    assert content(lake) == [row for row in before if row[0] != "10"]
    assert sound(lake)


def test_a_plan_is_taken_over_under_another_name_and_with_a_new_schema() -> None:
    lake = filled(made(), 20)
    plan_id = left_behind(lake)
    lake.table(NAME).add_column("more", "STRING")
    lake.rename_table(NAME, "shop.sales")
    report = lake.compact(patience=AT_ONCE)
    assert report.completed == (plan_id.text,) and report.tables == ("shop.sales",)


def test_a_plan_that_was_left_behind_and_cannot_be_done_is_given_up() -> None:
    lake = filled(made(), 20)
    plan_id = left_behind(lake)
    lake.table(NAME).overwrite(rows(1, 2), where="id < 30")
    report = lake.compact(patience=AT_ONCE)
    assert report.cancelled == (plan_id.text,) and "gone" in report.reasons[0]
    assert not Inspector(lake).refresh().plans and report.completed  # what was left is planned again


def test_a_plan_that_says_nothing_of_its_work_is_given_up() -> None:
    lake = filled(made(), 4)
    with lake.transaction() as tx:
        plan_id = tx.plan("compaction", NAME, [lake.table(NAME).files()[0].path], ["/shop/orders"])
    assert lake.compact(patience=AT_ONCE).cancelled == (plan_id.text,)


def test_recovery_still_gives_up_what_nobody_takes_over() -> None:
    lake = filled(made(), 20)
    plan_id = left_behind(lake)
    assert lake.recover(patience=AT_ONCE).cancelled_plans == (plan_id.text,)
    assert lake.compact().completed


def test_two_compactors_share_the_work() -> None:
    """The second one comes while the first is at work, leaves its files alone, and does the rest."""
    lake = filled(made(), 4)
    lake.create_table("shop.more", "id BIGINT, part STRING, n BIGINT")
    filled(lake, 8)
    filled(lake, 20, "shop.more")
    before = content(lake), content(lake, "shop.more")
    second: list[hg.CompactionReport] = []

    def happens() -> None:
        second.append(other(lake).compact(patience=AT_ONCE))

    first = Compactor(Inspector(lake).handle, rewriter=Meanwhile(happens)).run()
    assert first.tables == (NAME,) and second[0].tables == ("shop.more",)
    assert not first.cancelled and not second[0].cancelled and not second[0].taken_over
    assert (content(lake), content(lake, "shop.more")) == before
    assert sound(lake)


def test_two_who_take_over_the_same_plan_commit_it_once() -> None:
    lake = filled(made(), 20)
    before = content(lake)
    left_behind(lake)
    store = Inspector(lake).store

    def happens() -> None:
        # The announcement of the first is lost, so the second takes it for dead.
        for key in all_keys(store, "control/timeline/"):
            store.delete(key)
        assert other(lake).compact(patience=AT_ONCE).completed

    report = Compactor(Inspector(lake).handle, rewriter=Meanwhile(happens), patience=AT_ONCE).run()
    assert report.taken_over and not report.completed and not report.cancelled
    assert content(lake) == before
    assert sound(lake)


def test_a_compactor_announces_its_plan_and_leaves() -> None:
    lake = filled(made(), 20)
    seen: list[Any] = []
    Compactor(
        Inspector(lake).handle, rewriter=Meanwhile(lambda: seen.extend(other(lake).timeline(pending=True)))
    ).run()
    assert sorted((one.kind, one.state) for one in seen) == [
        ("compaction", "inflight"),
        ("compaction plan", "inflight"),
    ]
    assert other(lake).timeline(pending=True) == ()


def test_early_conflicts_do_not_stop_what_can_be_carried() -> None:
    lake = filled(made(), 20)
    lake.set_properties({"conflict.early": "true"})
    report = Compactor(
        Inspector(lake).handle, rewriter=Meanwhile(lambda: other(lake).table(NAME).delete("id = 10"))
    ).run()
    assert report.completed and "10" not in [row[0] for row in content(lake)]


# --- what must not be committed -----------------------------------------------------------------------------


@dataclass
class Lying(ArrowRewriter):
    """An engine with a bug."""

    lie: Callable[[Rewritten], Rewritten]
    groups: list[RewriteGroup] = field(default_factory=list)

    def __call__(self, target: Target, spark: object) -> Lying:
        return self

    def rewrite(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> Iterator[Rewritten]:
        for done in super().rewrite(target, groups, clustering):
            yield self.lie(done)


def with_other_hash(done: Rewritten) -> Rewritten:
    return replace(done, after=Content(done.after.rows, done.after.hash ^ 1))


def without_a_file(done: Rewritten) -> Rewritten:
    return replace(done, files=done.files[1:])


def with_fewer_rows(done: Rewritten) -> Rewritten:
    fewer = Content(done.before.rows - 1, done.before.hash)
    return replace(done, before=fewer, after=fewer)


def in_another_place(done: Rewritten) -> Rewritten:
    return replace(done, files=tuple(replace(file, spec_id=7) for file in done.files))


def of_another_window(done: Rewritten) -> Rewritten:
    moved = (replace(file, path=file.path.replace("/data/L2-1-16-", "/data/L0-")) for file in done.files)
    return replace(done, files=tuple(moved))


@pytest.mark.parametrize(
    "lie", [with_other_hash, without_a_file, with_fewer_rows, in_another_place, of_another_window]
)
def test_a_rewrite_that_would_change_content_is_refused(lie: Callable[[Rewritten], Rewritten]) -> None:
    lake = filled(made(), 17)
    before, version = content(lake), lake.version
    with pytest.raises(hg.InternalError, match="would change it"):
        Compactor(Inspector(lake).handle, rewriter=Lying(lie)).run()
    assert content(lake) == before
    # The plan, and that it was given up.
    assert lake.version == version + 2 and not Inspector(lake).refresh().plans
    assert lake.compact().completed


def test_rows_lost_on_the_way_to_storage_are_noticed() -> None:
    """The engine reads back what it wrote."""
    store = MemoryStore()
    lake = filled(made(store), 17)
    before = content(lake)

    def corrupting(request: Request, proceed: Proceed) -> Answer:
        if isinstance(request, Put) and "/data/L2-" in request.key:
            stored = pq.read_table(pa.BufferReader(request.data))
            ids = pa.array([9, *stored.column("id").to_pylist()[1:]], pa.int64())
            out = pa.BufferOutputStream()
            pq.write_table(stored.set_column(0, stored.schema.field("id"), ids), out)
            request = replace(request, data=bytes(out.getvalue()))
        return proceed(request)

    with pytest.raises(hg.InternalError, match="are not the original ones"):
        hg.Lake.open(intercepted(store, corrupting)).compact()
    assert content(lake) == before and not Inspector(lake).refresh().plans


def test_an_interrupted_compaction_cancels_its_plan() -> None:
    lake = filled(made(), 17)
    before = content(lake)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(CompactionInterrupt, match=r"the plan \w+ was cancelled"):
        Compactor(Inspector(lake).handle, rewriter=Meanwhile(interrupt)).run()
    assert not Inspector(lake).refresh().plans and content(lake) == before
    assert other(lake).timeline(pending=True) == ()


def test_what_a_clustering_kept_to_itself_is_looked_at_when_it_is_over() -> None:
    store = MemoryStore()
    lake = hg.Lake.init(store, divisor=2)
    table = lake.create_table("t.t", "id BIGINT")
    for number in range(7):
        table.append(pa.table({"id": [number]}))
    idle = hg.Lake.open(store)

    def meanwhile() -> None:
        table.append(pa.table({"id": [20]}))
        for number in range(6):
            lake.set_properties({"n": str(number)})
        assert idle.compact().completed == ()

    work = iter([meanwhile])
    beside = Beside(lambda: next(work, lambda: None)())
    Clusterer(Inspector(hg.Lake.open(store)).handle, "t.t", ("cluster",), rewriter=beside).run(
        ["id"], False, None
    )
    assert len(idle.compact().completed) == 1
    assert len(table.files()) == 1
