"""Data files are read by row groups: exact, and no more of them than the predicate selects rows from."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.iceberg import arrow
from headgate.lake import Lake
from headgate.storage.memory import MemoryStore
from headgate.table import Table

ROWS_IN_GROUP = 4


@pytest.fixture(autouse=True, scope="module")
def _small_groups() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow, "ROW_GROUP_ROWS", ROWS_IN_GROUP)
        yield


def filled(numbers: list[int]) -> Table:
    table = Lake.init(MemoryStore()).create_table("db.t", "place INT, n INT, name STRING")
    places = pa.array(range(len(numbers)), pa.int32())
    names = pa.array([f"name {number}" for number in numbers])
    table.append(pa.table({"place": places, "n": pa.array(numbers, pa.int32()), "name": names}))
    return table


@given(st.lists(st.integers(0, 5), min_size=1, max_size=18), st.integers(0, 6), st.integers(-1, 6))
def test_rows_are_those_that_live_and_are_selected(numbers: list[int], most: int, gone: int) -> None:
    table = filled(numbers)
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
    assert decoded == {*((group, "n") for group in range(5)), (0, "name"), (3, "name")}
    decoded.clear()
    # Deletes alone are reason enough: a group of which nothing is left is not decoded.
    table.delete("n < 4")
    decoded.clear()
    assert table.read_arrow(columns=["n"])["n"].to_pylist() == [n for n in range(4, 20) if n != 13]
    assert decoded == {(group, "n") for group in range(1, 5)}


def test_files_are_told_apart_by_field_ids_alone() -> None:
    """Columns that changed places: files of the same names and types, of which each means another column."""
    table = Lake.init(MemoryStore()).create_table("db.t", "a INT, b INT")
    table.append(pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())}))
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        table.rename_column(old, new)
    table.append(pa.table({"b": pa.array([1], pa.int32()), "a": pa.array([2], pa.int32())}))
    assert table.read_arrow().select(["a", "b"]).to_pylist() == [{"a": 2, "b": 1}] * 2
    assert table.read_arrow(where="a = 2").num_rows == 2
