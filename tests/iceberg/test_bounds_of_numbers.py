"""Files are passed over by the bounds of whole numbers: exactly those in which no row can match."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.storage.memory import MemoryStore

OPERATORS: dict[str, Callable[[int, int, int], bool]] = {
    "=": lambda low, high, value: low <= value <= high,
    "<": lambda low, _, value: low < value,
    "<=": lambda low, _, value: low <= value,
    ">": lambda _, high, value: high > value,
    ">=": lambda _, high, value: high >= value,
}
RANGES = [(-3, -2), (-1, 1), (0, 0), (2, 4)]
DAY_ZERO = date(2026, 11, 15)


def _day(number: int) -> date:
    return DAY_ZERO + timedelta(days=number)


def _moment(number: int) -> datetime:
    return datetime(2026, 11, 15, tzinfo=UTC) + timedelta(microseconds=number)


KINDS: dict[str, tuple[str, pa.DataType, Any, Any]] = {
    "int": ("INT", pa.int32(), int, str),
    "bigint": ("BIGINT", pa.int64(), int, str),
    "date": ("DATE", pa.date32(), _day, lambda n: f"DATE '{_day(n)}'"),
    "timestamp": (
        "TIMESTAMP",
        pa.timestamp("us", "UTC"),
        _moment,
        lambda n: f"TIMESTAMP '{_moment(n).isoformat()}'",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_passed_over_if_its_bounds_exclude_all_rows(kind: str) -> None:
    declared, arrow, made, written = KINDS[kind]
    table = hg.Lake.init(MemoryStore()).create_table("a.b", f"x {declared}")
    for bounds in RANGES:
        table.append(pa.table({"x": pa.array([made(number) for number in bounds], arrow)}))
    for operator, could in OPERATORS.items():
        for value in range(-4, 6):
            expected = sum(could(low, high, value) for low, high in RANGES)
            found = table.plan(f"x {operator} {written(value)}").files
            assert len(found) == expected, (operator, value)


def test_bounds_from_before_a_column_was_widened() -> None:
    table = hg.Lake.init(MemoryStore()).create_table("a.b", "x INT")
    table.append(pa.table({"x": pa.array([-5, -1], pa.int32())}))
    table.widen_column("x", "BIGINT")
    table.append(pa.table({"x": pa.array([2**40, 2**41], pa.int64())}))
    assert len(table.plan("x < 0").files) == 1
    assert len(table.plan("x = -3").files) == 1
    assert len(table.plan(f"x >= {2**41}").files) == 1
    assert len(table.plan("x = 0").files) == 0


def test_a_file_without_bounds_is_never_passed_over() -> None:
    table = hg.Lake.init(MemoryStore()).create_table("a.b", "x BIGINT")
    table.append(pa.table({"x": pa.array([None, None], pa.int64())}))
    table.append(pa.table({"x": pa.array([None, 1], pa.int64())}))
    assert table.read_arrow(where="x = 1").num_rows == 1
    assert table.read_arrow(where="x is null").num_rows == 3
