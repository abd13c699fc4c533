"""The content of rows: the same in any order and in any pieces, another one if anything is changed."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.arrow import content
from headgate.arrow.content import content_of, total
from headgate.iceberg.scan.engine import Content

NAN = float("nan")
MOMENT = dt.datetime(2026, 11, 15, 10, 30, 0, 7)

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False]),
    (pa.int32(), [0, 1, -1, 2**31 - 1]),
    (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63)]),
    (pa.float32(), [0.0, -0.0, 1.5, NAN, float("inf")]),
    (pa.float64(), [0.0, -0.0, 1.5, NAN, float("-inf")]),
    (pa.decimal128(38, 2), [Decimal("0.00"), Decimal("-0.01"), Decimal(10) ** 35, Decimal(2) ** 64]),
    (pa.decimal128(5, 2), [Decimal("1.00"), Decimal("-1.00")]),
    (pa.date32(), [dt.date(1970, 1, 1), dt.date(1969, 12, 31)]),
    (pa.time64("us"), [dt.time(0), dt.time(23, 59, 59, 999999)]),
    (pa.timestamp("us"), [MOMENT, MOMENT + dt.timedelta(microseconds=1)]),
    (pa.timestamp("us", "UTC"), [MOMENT, MOMENT - dt.timedelta(days=9999)]),
    (pa.string(), ["", "a", "b", "ab", "ba", "aa", "\0", "ä", "x" * 3000]),
    (pa.large_string(), ["", "a", "ab", "ba"]),
    (pa.binary(), [b"", b"\0", b"\0\0", b"ab", b"ba"]),
    (pa.binary(4), [b"abcd", b"dcba"]),
    (pa.uuid(), [bytes(16), bytes(range(16))]),
    (pa.list_(pa.int64()), [[], [1], [1, 2], [2, 1], [None], [1, None], [0]]),
    (pa.large_list(pa.string()), [[], [""], ["", ""], ["ab"], ["a", "b"], [None]]),
    (pa.list_(pa.list_(pa.int32())), [[], [[]], [[1], [2]], [[1, 2]], [[], [1, 2]]]),
    (pa.map_(pa.string(), pa.int64()), [[], [("a", 1)], [("a", None)], [("b", 1)], [("a", 1), ("b", 2)]]),
    (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        [{"x": 1, "y": "a"}, {"x": None, "y": "a"}, {"x": 1, "y": None}, {"x": None, "y": None}],
    ),
]


def table(kind: pa.DataType, values: list[Any]) -> pa.Table:
    return pa.table({"v": pa.array(values, kind)})


@pytest.mark.parametrize(
    ("kind", "values"), VALUES, ids=lambda given: str(given) if given is not list else ""
)
def test_each_value_is_another(kind: pa.DataType, values: list[Any]) -> None:
    found = {content_of(table(kind, [value])).hash for value in [*values, None]}
    assert len(found) == len(values) + 1


@pytest.mark.parametrize(
    ("kind", "values"), VALUES, ids=lambda given: str(given) if given is not list else ""
)
def test_order_pieces_and_slices_do_not_matter(kind: pa.DataType, values: list[Any]) -> None:
    given = [*values, None, *values]
    whole = table(kind, given)
    expected = content_of(whole)
    assert expected.rows == len(given)
    assert content_of(table(kind, given[::-1])) == expected
    pieces = [whole.slice(start, 2) for start in range(0, len(given), 2)]
    assert content_of(pa.concat_tables(pieces[::-1])) == expected
    assert total(content_of(piece) for piece in pieces) == expected
    # What lies around a slice is no part of it.
    assert content_of(whole.slice(3, 4)) == content_of(table(kind, given[3:7]))


def test_all_nan_are_one_value() -> None:
    odd = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\xff")[0]
    assert content_of(table(pa.float64(), [odd])) == content_of(table(pa.float64(), [NAN]))


def test_the_entries_of_a_map_have_no_order() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    one, other = [("a", 1), ("b", 2)], [("b", 2), ("a", 1)]
    assert content_of(table(kind, [one])) == content_of(table(kind, [other]))
    assert content_of(table(kind, [one])) != content_of(table(kind, [[("a", 2), ("b", 1)]]))


def test_values_that_change_places_are_noticed() -> None:
    def rows(a: list[Any], b: list[Any]) -> Content:
        return content_of(pa.table({"a": a, "b": b}))

    assert rows([1, 2], [3, 4]) != rows([1, 2], [4, 3])
    assert rows([1, 2], [3, 4]) != rows([3, 4], [1, 2])
    assert rows([1, 1], [3, 3]) != rows([1, 1, 1], [3, 3, 3])
    # A row twice is not nothing, as it were with exclusive or.
    assert rows([1, 1], [3, 3]) != rows([2, 2], [3, 3])


def test_nothing_is_nothing() -> None:
    empty = pa.table({"a": pa.array([], pa.string()), "b": pa.array([], pa.list_(pa.int64()))})
    assert content_of(empty) == Content(0, 0)
    assert total([]) == Content(0, 0)


texts = st.lists(st.tuples(st.text(max_size=12), st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))))


@given(one=texts, other=texts)
def test_the_content_is_equal_if_and_only_if_the_rows_are(
    one: list[tuple[str, int | None]], other: list[tuple[str, int | None]]
) -> None:
    def made(rows: list[tuple[str, int | None]]) -> pa.Table:
        return pa.table(
            {
                "t": pa.array([t for t, _ in rows], pa.string()),
                "n": pa.array([n for _, n in rows], pa.int64()),
            }
        )

    def key(row: tuple[str, int | None]) -> tuple[str, bool, int]:
        return row[0], row[1] is None, row[1] or 0

    same = sorted(one, key=key) == sorted(other, key=key)
    assert (content_of(made(one)) == content_of(made(other))) is same
    assert content_of(made(one)) == content_of(made(sorted(one, key=key)))


def test_small_batches_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"t": [str(n) * (n % 7) for n in range(500)], "l": [[n] * (n % 3) for n in range(500)]})
    expected = content_of(rows)
    monkeypatch.setattr(content, "BATCH_BYTES", 100)
    assert content_of(rows) == expected
