"""Tables whose structure changes: alone, in transactions, and against other writers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.types import LongType

import headgate as hg
from headgate.arrow.data_files import read_rows
from headgate.core.conflict.detection import Retryable
from headgate.lake.table import Table
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.transaction import Transaction
from tests.examples import examples

DDL = "id INT NOT NULL, name STRING, ts TIMESTAMP_NTZ, address STRUCT<zip: STRING>"


@pytest.fixture
def lake() -> hg.Lake:
    return hg.Lake.init(MemoryStore("evolution"), divisor=3)


@pytest.fixture
def orders(lake: hg.Lake) -> Table:
    orders = lake.create_table("sales.orders", DDL)
    orders.append(rows(0))
    return orders


def rows(first: int, count: int = 2, **more: Any) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "name": [f"n{number}" for number in numbers],
            "ts": pa.array([dt.datetime(2026, 1, 1 + n % 2) for n in numbers], pa.timestamp("us")),
            "address": [{"zip": str(number)} for number in numbers],
            **more,
        }
    )


def values(table: Table, column: str, **options: Any) -> list[Any]:
    read = table.read_arrow(**options).sort_by(table.read_arrow(**options).column_names[0])
    return list(read.column(column).to_pylist())


# --- one after the other ---------------------------------------------------------------------------------


def test_every_change_is_seen_at_once_and_older_versions_stay(orders: Table) -> None:
    orders.add_column("note", "STRING", after="id", doc="free text")
    orders.rename_column("name", "label")
    orders.widen_column("id", "BIGINT")
    orders.add_column("address.town", "STRING", first=True)
    orders.rename_column("address.zip", "code")
    orders.make_optional("id")
    orders.move_column("ts", first=True)
    orders.describe_column("label", "the name")
    assert [field.name for field in orders.schema.fields] == ["ts", "id", "note", "label", "address"]
    read = orders.read_arrow()
    assert read.schema.field("id").type == pa.int64()
    assert read.select(["note", "label", "address"]).to_pylist() == [
        {"note": None, "label": f"n{n}", "address": {"town": None, "code": str(n)}} for n in range(2)
    ]
    orders.append(pa.table({"address": [{"code": "9"}], "note": ["new"]}))
    assert values(orders, "address")[-1] == {"town": None, "code": "9"}
    orders.drop_column("ts")
    assert orders.read_arrow().num_rows == 3
    # As it was, with the columns that it had.
    assert orders.read_arrow(version=2).to_pylist() == rows(0).to_pylist()


def test_a_column_that_comes_again_is_another_one(orders: Table) -> None:
    orders.drop_column("name")
    orders.add_column("name", "STRING")
    assert values(orders, "name") == [None, None]
    orders.append(rows(10, 1))
    assert values(orders, "name") == [None, None, "n10"]


def test_structs_in_lists_and_maps_change_and_nulls_stay_nulls(lake: hg.Lake) -> None:
    """Null lists and maps stay null, and fields of structs are found by id, at every depth."""
    inner = "STRUCT<a: INT, b: INT>"
    ddl = f"n INT, l ARRAY<{inner}>, m MAP<STRING, {inner}>, d ARRAY<ARRAY<{inner}>>"
    table = lake.create_table("sales.deep", ddl)
    struct = pa.struct([("a", pa.int32()), ("b", pa.int32())])
    one = {"a": 1, "b": 2}
    table.append(
        pa.table(
            {
                "n": pa.array(range(4), pa.int32()),
                "l": pa.array([[one, None], [], None, [one]], pa.list_(struct)),
                "m": pa.array(
                    [[("k", one), ("z", None)], [], None, [("k", one)]], pa.map_(pa.string(), struct)
                ),
                "d": pa.array([[[one], None], [], None, [[]]], pa.list_(pa.list_(struct))),
            }
        )
    )
    for parent in ("l.element", "m.value", "d.element.element"):
        table.rename_column(f"{parent}.a", "c")
        table.widen_column(f"{parent}.c", "BIGINT")
        table.drop_column(f"{parent}.b")
        table.add_column(f"{parent}.b", "STRING", first=True)
    new = {"b": None, "c": 1}
    assert values(table, "l") == [[new, None], [], None, [new]]
    assert values(table, "m") == [[("k", new), ("z", None)], [], None, [("k", new)]]
    assert values(table, "d") == [[[new], None], [], None, [[]]]


def test_rows_with_nulls_in_required_elements_are_refused(lake: hg.Lake) -> None:
    schema = pa.schema(
        [
            ("l", pa.list_(pa.field("element", pa.int32(), nullable=False))),
            (
                "m",
                pa.map_(
                    pa.string(), pa.field("value", pa.struct([pa.field("x", pa.int32(), nullable=False)]))
                ),
            ),
        ]
    )
    table = lake.create_table("sales.strict", schema)
    inner = pa.struct([("x", pa.int32())])
    table.append(pa.table({"l": pa.array([[1], None, []], pa.list_(pa.int32()))}))
    table.append(pa.table({"m": pa.array([[("k", None)], None], pa.map_(pa.string(), inner))}))
    with pytest.raises(hg.InvalidInputError, match=r"l.element is required"):
        table.append(pa.table({"l": pa.array([[1, None]], pa.list_(pa.int32()))}))
    with pytest.raises(hg.InvalidInputError, match=r"m.value.x is required"):
        table.append(pa.table({"m": pa.array([[("k", {"x": None})]], pa.map_(pa.string(), inner))}))


def test_null_structs_with_required_fields(lake: hg.Lake) -> None:
    table = lake.create_table(
        "sales.strict", "n INT, s STRUCT<a: INT NOT NULL>, l ARRAY<STRUCT<a: INT NOT NULL>>"
    )
    struct = pa.struct([("a", pa.int32())])
    table.append(pa.table({"n": pa.array([1], pa.int32())}))
    table.append(pa.table({"n": pa.array([2, 3], pa.int32()), "s": pa.array([{"a": 1}, None], struct)}))
    lists = pa.array([[{"a": 1}, None], None], pa.list_(struct))
    table.append(pa.table({"n": pa.array([4, 5], pa.int32()), "l": lists}))
    table.add_column("t", "STRUCT<b: UUID NOT NULL, c: STRUCT<d: ARRAY<INT>> NOT NULL>")
    assert values(table, "s") == [None, {"a": 1}, None, None, None]
    assert values(table, "l") == [None, None, None, [{"a": 1}, None], None]
    assert values(table, "t") == [None] * 5
    with pytest.raises(hg.InvalidInputError, match=r"s.a is required"):
        table.append(pa.table({"s": pa.array([{"a": None}], struct)}))


def test_columns_with_dots_in_their_names(lake: hg.Lake) -> None:
    table = lake.create_table(
        "sales.dots", "`a.b` INT, c STRUCT<d: INT>", partition_by=["bucket(2, a.b)"], sort_by=["a.b", "c.d"]
    )
    table.append(pa.table({"a.b": pa.array([2, 1], pa.int32())}))
    table.rename_column("a.b", "e")
    assert values(table, "e") == [1, 2]


def test_a_refused_change_leaves_no_version(lake: hg.Lake, orders: Table) -> None:
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: orders.add_column("x", "INT", required=True), "cannot be required"),
        (lambda: orders.add_column("x", "INT", default=7), "cannot have a default"),
        (lambda: orders.drop_column("nam"), "did you mean name"),
        (lambda: orders.add_partition_field("week(ts)"), "not a partition field"),
        (lambda: lake.create_table("a.b", "x INT", sort_by=["y"]), "no column 'y'"),
    ]
    for call, message in refused:
        with pytest.raises(hg.InvalidInputError, match=message):
            call()
    assert lake.version == 2


def test_the_log_says_what_was_changed(lake: hg.Lake, orders: Table) -> None:
    orders.rename_column("name", "label")
    entry = lake.log(limit=1)[0]
    assert entry.args == ("rename_column", "sales.orders", "name", "label")
    tables: Any = entry.record["tables"]
    assert tables[0]["structure"] == ["schema"]
    assert "snapshot_id" not in tables[0]


def test_old_files_keep_their_spec_and_manifests_are_merged_by_spec(orders: Table) -> None:
    orders.add_partition_field("day(ts)")
    for number in range(4):
        orders.append(rows(10 + number * 10))
    orders.add_partition_field("bucket(2, id)")
    orders.append(rows(100, 4))
    orders.drop_partition_field("ts_day")
    for number in range(4):
        orders.append(rows(200 + number * 10))
    fields = [tuple(file.partition) for file in orders.files()]
    assert set(fields) == {(), ("ts_day",), ("ts_day", "id_bucket"), ("id_bucket",)}
    assert fields.count(()) == 1
    assert len(values(orders, "id")) == 2 + 8 + 4 + 8
    view = orders._view()
    for manifest in view.loader.manifests(view.metadata):
        (entries,) = view.loader.entries([manifest])
        assert {entry.file.spec_id for entry in entries} == {manifest.spec_id}
    assert orders.partition_by == ("bucket(2, id)",)


def test_a_column_of_an_old_spec_goes_when_its_files_have_gone(orders: Table) -> None:
    orders.replace_partition_by(["name"])
    orders.append(rows(10))
    orders.replace_partition_by([])
    with pytest.raises(hg.InvalidInputError, match="files that are partitioned by name"):
        orders.drop_column("name")
    orders.overwrite(rows(20))
    with pytest.raises(hg.InvalidInputError, match="after the next append"):
        orders.drop_column("name")
    orders.append(rows(30))
    orders.drop_column("name")
    assert values(orders, "id") == [20, 21, 30, 31]


def test_files_of_an_old_spec_whose_column_went_are_still_merged(lake: hg.Lake, orders: Table) -> None:
    """They come by writers that began before the spec was changed and ended before the column went."""
    orders.replace_partition_by(["name"])
    late = [begun(lake, lambda table: table.append(rows(10))) for _ in range(3)]
    orders.replace_partition_by([])
    drop = begun(lake, lambda table: table.drop_column("name"))
    for tx in (*late, drop):
        tx.commit()
    for number in range(9):
        orders.append(rows(100 + number, 1).drop_columns("name"))
    assert values(orders, "id") == [0, 1, 10, 10, 10, 11, 11, 11, *range(100, 109)]
    orders.overwrite(rows(500, 1).drop_columns("name"))
    assert values(orders, "id") == [500]


def test_files_are_sorted_and_say_so(lake: hg.Lake) -> None:
    table = lake.create_table("sales.sorted", "p INT, v DOUBLE", partition_by=["p"], sort_by=["v desc"])
    data = pa.table({"p": pa.array([1, 2, 1, 1], pa.int32()), "v": [1.0, 5.0, None, 3.0]})
    table.append(data)
    table.replace_sort_by(["v"])
    table.append(data)
    table.replace_sort_by([])
    table.append(data)
    assert [order for order, _ in _files(table)] == [0, 0, 1, 1, 2, 2]
    orders = {order: found for order, found in _files(table) if len(found) == 3}
    assert orders == {1: [3.0, 1.0, None], 2: [None, 1.0, 3.0], 0: [1.0, None, 3.0]}
    assert table.sort_by == ()


def _files(table: Table) -> list[tuple[int | None, list[Any]]]:
    """The sort order and the values of each file."""
    view = table._view()
    files = view.files()
    return sorted(
        (
            (
                planned.file.sort_order_id,
                read_rows(Inspector(table._lake).driver, view.loader, [planned], table.schema)[
                    "v"
                ].to_pylist(),
            )
            for planned in files
        ),
        key=lambda found: (found[0], len(found[1])),
    )


def test_table_properties_can_be_removed(lake: hg.Lake) -> None:
    table = lake.create_table("sales.t", "id INT", properties={"owner": "ann", "tier": "gold"})
    table.remove_properties("owner", "nothing")
    assert table.properties == {"tier": "gold"}


# --- in transactions -------------------------------------------------------------------------------------


def test_a_change_and_rows_of_the_new_structure_are_one_version(lake: hg.Lake, orders: Table) -> None:
    with lake.transaction() as tx:
        table = tx.table("sales.orders")
        table.append(rows(10))
        table.add_column("note", "STRING")
        table.append(rows(20, note=["a", "b"]))
        table.add_partition_field("day(ts)")
        table.append(rows(30, note=["c", "d"]))
        table.replace_sort_by(["id desc"])
        table.append(rows(40, note=["e", "f"]))
        table.drop_column("address")
        table.set_properties({"owner": "ann"})
    assert tx.result.version == lake.version == 3
    assert values(orders, "note") == [None] * 4 + ["a", "b", "c", "d", "e", "f"]
    assert values(orders, "id") == [0, 1, 10, 11, 20, 21, 30, 31, 40, 41]
    assert "address" not in orders.schema.column_names
    assert {tuple(file.partition) for file in orders.files()} == {(), ("ts_day",)}
    assert orders.read_arrow(version=2).num_rows == 2


def test_a_table_that_is_made_can_be_changed_at_once(lake: hg.Lake) -> None:
    with lake.transaction() as tx:
        table = tx.create_table("sales.new", "id INT, gone INT", sort_by=["id"])
        table.append(pa.table({"id": pa.array([2, 1], pa.int32()), "gone": pa.array([1, 1], pa.int32())}))
        table.drop_column("gone")
        table.add_column("more", "STRING")
        table.add_partition_field("more")
        table.append(pa.table({"id": pa.array([3], pa.int32()), "more": ["x"]}))
    made = lake.table("sales.new")
    assert made.read_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "more": None},
        {"id": 2, "more": None},
        {"id": 3, "more": "x"},
    ]
    assert lake.version == 1


def test_an_overwrite_in_a_new_structure(lake: hg.Lake, orders: Table) -> None:
    with lake.transaction() as tx:
        table = tx.table("sales.orders")
        table.rename_column("name", "label")
        table.replace_partition_by(["label"])
        table.overwrite(rows(7, 1).rename_columns(["id", "label", "ts", "address"]))
    assert values(orders, "label") == ["n7"]
    assert [dict(file.partition) for file in orders.files()] == [{"label": "n7"}]


# --- against other writers -------------------------------------------------------------------------------

Work = Callable[[Any], object]
ADDITIONS: list[tuple[Work, str]] = [
    (lambda table: table.add_column("note", "STRING", first=True), "note"),
    (lambda table: table.rename_column("name", "label"), "label"),
    (lambda table: table.widen_column("id", "BIGINT"), "id"),
    (lambda table: table.move_column("ts", first=True), "ts"),
    (lambda table: table.make_optional("id"), "id"),
    (lambda table: table.add_column("address.town", "STRING"), "address"),
    (lambda table: table.add_partition_field("bucket(2, id)"), "id"),
    (lambda table: table.replace_partition_by(["day(ts)"]), "id"),
    (lambda table: table.replace_sort_by(["id"]), "id"),
]


def begun(lake: hg.Lake, work: Work) -> Transaction:
    tx = lake.transaction()
    work(tx.table("sales.orders"))
    return tx


@pytest.mark.parametrize(("change", "column"), ADDITIONS)
@pytest.mark.parametrize("append_first", [True, False])
def test_rows_and_a_change_that_keeps_them_commit_in_any_order(
    lake: hg.Lake, orders: Table, change: Work, column: str, append_first: bool
) -> None:
    """Row 2: both began on the same version; the files have the older structure either way."""
    append = begun(lake, lambda table: table.append(rows(10)))
    evolve = begun(lake, change)
    for tx in (append, evolve) if append_first else (evolve, append):
        tx.commit()
    assert sorted(orders.read_arrow()["id"].to_pylist()) == [0, 1, 10, 11]
    assert column in orders.schema.column_names
    names = orders.read_arrow()["label" if column == "label" else "name"]
    assert sorted(names.to_pylist()) == ["n0", "n1", "n10", "n11"]
    snapshot = orders._view().metadata.snapshot
    assert snapshot is not None
    if not append_first:
        assert snapshot["schema-id"] == orders.schema.schema_id


def test_bounds_of_files_from_before_a_widening_can_be_read(lake: hg.Lake, orders: Table) -> None:
    append = begun(lake, lambda table: table.append(rows(10)))
    orders.widen_column("id", "BIGINT")
    append.commit()
    for planned in orders._view().files():
        metrics = planned.file.metrics
        bounds: list[Any] = [from_bytes(LongType(), side[1]) for side in (metrics.lower, metrics.upper)]
        assert bounds in ([0, 1], [10, 11])


@pytest.mark.parametrize("dropped", ["name", "address", "address.zip"])
def test_rows_do_not_outlive_the_column_that_they_have_values_for(
    lake: hg.Lake, orders: Table, dropped: str
) -> None:
    """Row 3. The other way round the rows were there first, and the column goes."""
    orders.add_column("address.town", "STRING")
    append = begun(lake, lambda table: table.append(rows(10)))
    late = begun(lake, lambda table: table.drop_column(dropped))
    orders.append(rows(20))
    late.commit()
    assert sorted(orders.read_arrow()["id"].to_pylist()) == [0, 1, 20, 21]
    with pytest.raises(TransactionConflictError, match=r"sales.orders: .* dropped columns .*\[rule 3:"):
        append.commit()
    # Run again, the rows meet the table as it is.
    if dropped != "address.zip":
        with pytest.raises(hg.InvalidInputError, match=f"column {dropped} .* is not in the table"):
            orders.append(rows(10))


def test_rows_without_values_for_a_dropped_column_are_kept(lake: hg.Lake, orders: Table) -> None:
    append = begun(lake, lambda table: table.append(rows(10).drop_columns("name")))
    strict = begun(lake, lambda table: table.overwrite(rows(20, 1).drop_columns("name")))
    overwrite = lake.transaction(isolation="snapshot")
    overwrite.table(orders.name).overwrite(rows(20, 1).drop_columns("name"))
    orders.drop_column("name")
    append.commit()
    with pytest.raises(TransactionConflictError, match=r"\[rule 46:"):
        strict.commit()
    overwrite.commit()
    assert sorted(orders.read_arrow()["id"].to_pylist()) == [10, 11, 20]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda table: table.add_column("a", "INT"), lambda table: table.add_column("b", "INT")),
        (lambda table: table.drop_column("name"), lambda table: table.add_partition_field("name")),
        (lambda table: table.add_partition_field("name"), lambda table: table.drop_column("name")),
        (lambda table: table.replace_sort_by(["id"]), lambda table: table.rename_column("id", "key")),
        (lambda table: table.add_partition_field("name"), lambda table: table.add_partition_field("day(ts)")),
    ],
)
def test_two_changes_of_structure_conflict(lake: hg.Lake, orders: Table, ours: Work, theirs: Work) -> None:
    """Row 29, in both orders by the choice of cases."""
    mine = begun(lake, ours)
    begun(lake, theirs).commit()
    with pytest.raises(TransactionConflictError, match=r"both changed the schema.*\[rule 29:") as caught:
        mine.commit()
    assert isinstance(caught.value.outcome, Retryable)


def test_a_single_change_is_run_again_on_the_new_head(lake: hg.Lake, orders: Table) -> None:
    other = hg.Lake.open(Inspector(lake).store).table("sales.orders")
    other.add_column("theirs", "INT")
    orders.add_column("ours", "INT")  # this handle has not looked since
    assert orders.schema.column_names[-2:] == ["theirs", "ours"]


def test_a_handle_that_has_not_looked_takes_rows_of_a_new_column(lake: hg.Lake, orders: Table) -> None:
    other = hg.Lake.open(Inspector(lake).store).table("sales.orders")
    other.add_column("note", "STRING")
    orders.append(rows(10, note=["a", "b"]))
    assert values(orders, "note") == [None, None, "a", "b"]
    with pytest.raises(hg.InvalidInputError, match=r"column unknown .* is not in the table"):
        orders.append(rows(10, unknown=["a", "b"]))


def test_a_structure_change_and_a_property_change_do_not_meet(lake: hg.Lake, orders: Table) -> None:
    mine = begun(lake, lambda table: table.add_column("a", "INT"))
    orders.set_properties({"owner": "ann"})
    mine.commit()
    assert orders.properties == {"owner": "ann"}
    assert "a" in orders.schema.column_names


# --- against a model -------------------------------------------------------------------------------------

NAMES = ["a", "b", "c"]
STEP = st.one_of(
    st.tuples(st.sampled_from(["add", "drop", "widen", "partition", "unpartition"]), st.sampled_from(NAMES)),
    st.tuples(st.just("rename"), st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES))),
    st.tuples(st.sampled_from(["append", "overwrite"]), st.integers(0, 3)),
)


@settings(deadline=None, max_examples=examples(40))
@given(steps=st.lists(STEP, min_size=1, max_size=12), size=st.integers(1, 4))
def test_a_random_life_of_a_table_against_lists_of_rows(steps: list[tuple[str, Any]], size: int) -> None:
    """Every version reads as the model says, though `size` steps at a time share a transaction."""
    lake = hg.Lake.init(MemoryStore(), divisor=3)
    table = lake.create_table("s.t", "n INT, a INT")
    model = _Model()
    history = {1: model.rows()}
    for first in range(0, len(steps), size):
        tx = lake.transaction()
        taken = [step for step in steps[first : first + size] if model.take(tx.table("s.t"), *step)]
        if not taken:
            tx.abort()
            continue
        history[tx.commit().version] = model.rows()
    for version, expected in history.items():
        read = table.read_arrow(version=version)
        assert sorted(read.to_pylist(), key=lambda row: row["n"]) == expected


class _Model:
    """A table as lists: columns have keys that never come again, rows are mappings from those."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {"n": 0, "a": 1}
        self._wide: set[int] = set()
        self._rows: list[dict[int, int]] = []
        self._keys = 2
        self._count = 0

    def rows(self) -> list[dict[str, int | None]]:
        return [{name: row.get(key) for name, key in self._columns.items()} for row in self._rows]

    def take(self, table: Any, kind: str, what: Any) -> bool:
        """Does a step on both; False if the table refused it, which the model foresees."""
        try:
            getattr(self, f"_{kind}")(table, what)
        except hg.InvalidInputError:
            return False
        return True

    def _add(self, table: Any, name: str) -> None:
        self._agree(lambda: table.add_column(name, "INT"), name not in self._columns)
        self._columns[name] = self._keys
        self._keys += 1

    def _drop(self, table: Any, name: str) -> None:
        table.drop_column(name)  # refused while partitions use it, which the model does not know
        del self._columns[name]

    def _rename(self, table: Any, names: tuple[str, str]) -> None:
        old, new = names
        table.rename_column(old, new)
        self._columns = {new if name == old else name: key for name, key in self._columns.items()}

    def _widen(self, table: Any, name: str) -> None:
        key = self._columns.get(name)
        self._agree(lambda: table.widen_column(name, "BIGINT"), key is not None and key not in self._wide)
        assert key is not None
        self._wide.add(key)

    def _partition(self, table: Any, name: str) -> None:
        table.add_partition_field(f"bucket(2, {name})")

    def _unpartition(self, table: Any, name: str) -> None:
        table.drop_partition_field(f"bucket(2, {name})")

    def _append(self, table: Any, count: int) -> None:
        table.append(self._more(count))

    def _overwrite(self, table: Any, count: int) -> None:
        self._rows = []
        table.overwrite(self._more(count))

    def _more(self, count: int) -> pa.Table:
        new = [
            {key: number if key == 0 else number * 10 + key for key in self._columns.values()}
            for number in range(self._count, self._count + count)
        ]
        self._count += count
        self._rows = [*self._rows, *new]
        kinds = {key: pa.int64() if key in self._wide else pa.int32() for key in self._columns.values()}
        return pa.table(
            {name: pa.array([row[key] for row in new], kinds[key]) for name, key in self._columns.items()}
        )

    def _agree(self, call: Callable[[], object], allowed: bool) -> None:
        if allowed:
            call()
            return
        with pytest.raises(hg.InvalidInputError):
            call()
        raise hg.InvalidInputError("refused, as foreseen")


def test_a_column_that_comes_goes_and_comes_again_in_one_transaction(lake: hg.Lake) -> None:
    """Rows of the first one do not show in the second; engines that read by name can know of both."""
    table = lake.create_table("a.b", "id BIGINT")
    with lake.transaction() as tx:
        writer = tx.table("a.b")
        writer.add_column("x", "BIGINT")
        writer.append(pa.table({"id": [1], "x": [7]}))
        writer.drop_column("x")
        writer.add_column("x", "BIGINT")
        writer.append(pa.table({"id": [2], "x": [8]}))
    assert sorted(table.read_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "x": None},
        {"id": 2, "x": 8},
    ]
    kept = table._view().metadata.schemas.values()
    assert {tuple((f.field_id, f.name) for f in schema.fields) for schema in kept} == {
        ((1, "id"),),
        ((1, "id"), (2, "x")),
        ((1, "id"), (3, "x")),
    }
    assert lake.fsck().ok


def test_columns_that_no_row_was_written_with_leave_no_trace(lake: hg.Lake) -> None:
    lake.create_table("a.b", "id BIGINT")
    with lake.transaction() as tx:
        for name in "xyz":
            tx.table("a.b").add_column(name, "BIGINT")
    assert len(lake.table("a.b")._view().metadata.schemas) == 2
