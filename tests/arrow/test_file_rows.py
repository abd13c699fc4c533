"""Data files are read by row groups: exact, and no more of them than the predicate selects rows from."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore as ObstoreMemory

from headgate.arrow import file_rows
from headgate.errors import CorruptLakeError
from headgate.iceberg.format import encoding
from headgate.lake.lake import Lake
from headgate.lake.table import Table
from headgate.storage.capabilities import Store
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.storage.object import ObjectStore
from headgate.storage.requests import Get
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import counted

ROWS_IN_GROUP = 4


@pytest.fixture(autouse=True, scope="module")
def _small_groups() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "ROW_GROUP_ROWS", ROWS_IN_GROUP)
        yield


def filled(numbers: list[int], store: Store | None = None) -> Table:
    table = Lake.init(store or MemoryStore()).create_table("db.t", "place INT, n INT, name STRING")
    places = pa.array(range(len(numbers)), pa.int32())
    names = pa.array([f"name {number}" for number in numbers])
    table.append(pa.table({"place": places, "n": pa.array(numbers, pa.int32()), "name": names}))
    return table


def in_parts(patch: pytest.MonkeyPatch) -> None:
    """Short files are read as long ones are. Their footers are longer than what is fetched at first."""
    patch.setattr(file_rows, "WHOLE_BYTES", 0)
    patch.setattr(file_rows, "TAIL_BYTES", 8)


@pytest.fixture(scope="module", params=["whole", "in parts"])
def _fetched(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "in parts":
            in_parts(patch)
        yield


@pytest.mark.usefixtures("_fetched")
@given(st.lists(st.integers(0, 5), min_size=1, max_size=18), st.integers(0, 6), st.integers(-1, 6))
def test_rows_are_those_that_live_and_are_selected(numbers: list[int], most: int, gone: int) -> None:
    table = filled(numbers, ObjectStore(ObstoreMemory(), "memory://"))  # which gives ranges
    table.delete(f"n = {gone}")
    expected = [(place, n) for place, n in enumerate(numbers) if n != gone]
    for where, chosen in (
        (None, expected),
        (f"n < {most}", [row for row in expected if row[1] < most]),
        (f"n >= {most} AND place > 3", [row for row in expected if row[1] >= most and row[0] > 3]),
    ):
        rows = table.read_arrow(where=where)
        assert list(zip(rows["place"].to_pylist(), rows["n"].to_pylist(), strict=True)) == chosen
        assert rows["name"].to_pylist() == [f"name {n}" for _, n in chosen]
        assert table.read_arrow(columns=["name"], where=where).num_rows == len(chosen)


def test_what_lies_between_selected_rows_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(list(range(20)))
    table.delete("n = 13")
    decoded: set[tuple[int, str]] = set()
    original = pq.ParquetFile.read_row_groups

    def noted(file: pq.ParquetFile, groups: list[int], columns: list[str], **more: Any) -> Any:
        decoded.update((group, column) for group in groups for column in columns)
        return original(file, groups, columns=columns, **more)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", noted)
    assert table.read_arrow(where="n = 2 OR n BETWEEN 13 AND 14", columns=["name"])["name"].to_pylist() == [
        "name 2",
        "name 14",
    ]
    # The bounds of the other groups tell that none of their rows is selected.
    assert decoded == {(0, "n"), (3, "n"), (0, "name"), (3, "name")}
    decoded.clear()
    # Deletes alone are reason enough: a group of which nothing is left is not decoded.
    table.delete("n < 4")
    decoded.clear()
    assert table.read_arrow(columns=["n"])["n"].to_pylist() == [n for n in range(4, 20) if n != 13]
    assert decoded == {(group, "n") for group in range(1, 5)}


def test_bounds_that_do_not_tell_are_not_believed() -> None:
    """Nulls, NaN, columns that the file lacks, that were renamed, and that were widened since."""
    table = Lake.init(MemoryStore()).create_table(
        "db.t", "n INT, f DOUBLE, inside STRUCT<n: INT>, g FLOAT, d DECIMAL(5, 2)"
    )
    numbers = [None, None, None, None, 1, 2, 3, None, 4, 5, 6, 7]
    floats = [math.nan] * 4 + [1.0, math.nan, None, 3.0] + [8.0] * 4
    inside = [None if n is None else {"n": n} for n in numbers]
    kind = pa.struct([("n", pa.int32())])
    columns = {"n": pa.array(numbers, pa.int32()), "f": floats, "inside": pa.array(inside, kind)}
    columns["g"] = pa.array([n + 0.5 for n in range(12)], pa.float32())
    columns["d"] = pa.array([Decimal(n) for n in range(12)], pa.decimal128(5, 2))
    table.append(pa.table(columns))
    table.rename_column("n", "m")
    table.widen_column("m", "BIGINT")
    table.widen_column("g", "DOUBLE")
    table.widen_column("d", "DECIMAL(20, 2)")
    table.add_column("n", "STRING")

    def found(where: str) -> list[Any]:
        return list(table.read_arrow(where=where, columns=["m"])["m"].to_pylist())

    assert found("m > 2") == [3, 4, 5, 6, 7]
    assert found("m < 4294967296 AND m <> 1") == [2, 3, 4, 5, 6, 7]
    assert found("m IS NULL") == [None] * 5
    assert found("NOT (m > 2)") == [1, 2]
    assert found("f > 7") == [*[None] * 4, 2, 4, 5, 6, 7]  # NaN is greater than all numbers
    assert found("f = 3.0") == [None]
    assert found("f IS NULL") == [3]
    assert found("inside.n >= 3 AND inside.n < 5") == [3, 4]
    assert found("n IS NULL AND m = 5") == [5]
    assert found("g > 8.25 AND g < 10.75") == [4, 5, 6]
    assert found("d BETWEEN 5 AND 6.5") == [2, 3]
    assert found("d > 123456789") == []
    assert found("n = 'x'") == []


def test_of_a_long_file_only_what_is_asked_for_is_fetched(tmp_path: Path) -> None:
    table = Lake.init(LocalStore(tmp_path)).create_table("db.t", "n INT, name STRING")
    numbers = pa.array(range(40), pa.int32())
    names = [random.Random(number).randbytes(10_000).hex() for number in range(40)]
    table.append(pa.table({"n": numbers, "name": pa.array(names)}))
    file = table.plan().files[0].file
    read: list[int] = []

    def noted(store: LocalStore, key: str, ranges: Sequence[range]) -> list[bytes] | None:
        read.extend(map(len, ranges))
        return fetched(store, key, ranges)

    fetched = LocalStore.ranges
    with pytest.MonkeyPatch.context() as patch:
        in_parts(patch)
        patch.setattr(LocalStore, "ranges", noted)
        assert table.read_arrow(where="n = 17").to_pylist() == [{"n": 17, "name": names[17]}]
        assert 0 < sum(read) < file.size_bytes / 2
        # Columns that lie side by side are fetched in one.
        read.clear()
        assert table.read_arrow().num_rows == 40
        assert len(read) <= 10 + 3


@pytest.mark.parametrize("lost", ["before", "meanwhile"])
def test_a_long_file_that_vanishes_is_missing_as_a_short_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    lake = Lake.init(LocalStore(tmp_path))
    table = lake.create_table("db.t", "n INT")
    table.append(pa.table({"n": pa.array(range(40), pa.int32())}))
    file = table.plan().files[0].file
    path = Path(file.path.removeprefix("file://"))
    tail = LocalStore.tail

    def tail_and_remove(store: LocalStore, key: str, length_bytes: int) -> Any:
        found = tail(store, key, length_bytes)
        path.unlink()
        return found

    in_parts(monkeypatch)
    if lost == "before":
        path.unlink()
    else:
        monkeypatch.setattr(LocalStore, "tail", tail_and_remove)
    with pytest.raises(CorruptLakeError, match=r"\.parquet is missing, but the lake refers to it"):
        table.read_arrow()


@pytest.mark.parametrize("kept", [0, 3, 100, 300])
def test_a_long_file_that_was_cut_is_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    table = Lake.init(LocalStore(tmp_path)).create_table("db.t", "n INT")
    table.append(pa.table({"n": pa.array(range(40), pa.int32())}))
    file = table.plan().files[0].file
    path = Path(file.path.removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:kept])
    in_parts(monkeypatch)
    with pytest.raises(CorruptLakeError, match="cannot be read"):
        table.read_arrow()


def test_a_storage_without_ranges_gives_a_long_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store, tally = counted(MemoryStore())
    table = Lake.init(store).create_table("db.t", "n INT")
    table.append(pa.table({"n": pa.array(range(40), pa.int32())}))
    in_parts(monkeypatch)
    tally.reset()
    assert table.read_arrow(where="n > 3").num_rows == 36
    assert sum(request.key.endswith(".parquet") for request in tally.history if isinstance(request, Get)) == 1


def test_rows_without_columns_are_still_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(list(range(9)))
    table.append(pa.table({"place": pa.array([1], pa.int32())}))
    table.add_column("later", "INT")
    table.delete("n = 1")
    # Nor is any column read for it.
    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", None)
    assert table.read_arrow(columns=[]).num_rows == 9
    assert table.read_arrow(columns=[], where="true").num_rows == 9
    assert table.read_arrow(columns=["later"], where="later IS NULL").num_rows == 9
    assert table.read_arrow(columns=["later"])["later"].to_pylist() == [None] * 9
    monkeypatch.undo()
    assert table.read_arrow(columns=[], where="n > 3").num_rows == 5
    assert table.read_arrow(columns=[], where="n > 3", limit=100).num_rows == 5
    assert table.read_arrow(columns=[], where="n > 300", limit=100).num_rows == 0
    assert table.read_arrow(columns=[], limit=2).num_rows == 2
    assert table.read_arrow(where="true").num_rows == 9


def test_files_are_told_apart_by_field_ids_alone() -> None:
    """Columns that changed places: files of the same names and types, of which each means another column."""
    table = Lake.init(MemoryStore()).create_table("db.t", "a INT, b INT")
    table.append(pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())}))
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        table.rename_column(old, new)
    table.append(pa.table({"b": pa.array([1], pa.int32()), "a": pa.array([2], pa.int32())}))
    assert table.read_arrow().select(["a", "b"]).to_pylist() == [{"a": 2, "b": 1}] * 2
    assert table.read_arrow(where="a = 2").num_rows == 2


@pytest.mark.parametrize("kind", ["STRUCT<u: UUID>", "ARRAY<UUID>", "MAP<STRING, UUID>"])
def test_a_file_without_selected_rows_may_have_uuids_inside_of_others(kind: str) -> None:
    table = Lake.init(MemoryStore()).create_table("db.t", f"id INT, u {kind}")
    assert table.read_arrow().num_rows == 0
    table.append(pa.table({"id": pa.array([1, 2, 4], pa.int32())}))
    assert table.read_arrow(where="id = 3").num_rows == 0
    assert not table.delete("id = 3").changed
    assert table.read_arrow(where="id = 9", columns=["id"]).num_rows == 0


def foreign(**columns: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"no Parquet at all",
        foreign(place=[1], n=pa.array([1], pa.duration("s"))),
        foreign(place=[1], n=[{"x": 1}]),
    ],
    ids=["text", "a type that Iceberg lacks", "another column"],
)
def test_a_file_that_is_not_of_the_table_is_named(data: bytes) -> None:
    table = filled([1, 2, 3])
    ((file, store),) = [(file, Inspector(table._lake).store) for file in table.files()]
    store.put(Inspector(table._lake).loader().key(file.path), data)
    fresh = Lake.open(store).table(table.name)
    for where in (None, "n > 1"):
        with pytest.raises(CorruptLakeError, match=r"cannot be read|has a column"):
            fresh.read_arrow(where=where)
