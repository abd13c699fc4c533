"""Z-order: ranks that ascend with values, bits that are interleaved exactly, rows near in each column."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from headgate.arrow.row_order import clustered, clustering_by
from headgate.arrow.zorder import RANGES, Ranking, interleaved, keys, zorder
from headgate.errors import InvalidInputError
from headgate.iceberg.scan.engine import Clustering
from headgate.iceberg.schema.ddl import parse_columns
from tests.examples import examples

Kind = tuple[pa.DataType, st.SearchStrategy[Any], Callable[[Any], Any]]


def as_it_is(value: Any) -> Any:
    return value


def nan_last(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


KINDS: dict[str, Kind] = {
    "bool": (pa.bool_(), st.booleans(), as_it_is),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1), as_it_is),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1), as_it_is),
    "float": (pa.float32(), st.floats(width=32), nan_last),
    "double": (pa.float64(), st.floats(), nan_last),
    "decimal": (pa.decimal128(9, 2), st.decimals(-(10**6), 10**6, places=2), as_it_is),
    "long decimal": (pa.decimal128(38, 4), st.decimals(-(10**30), 10**30, places=4), as_it_is),
    "date": (pa.date32(), st.dates(), as_it_is),
    "time": (pa.timestamp("us"), st.datetimes(), as_it_is),
    "instant": (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(UTC)), as_it_is),
    "text": (pa.string(), st.text(), str.encode),
    "large text": (pa.large_string(), st.text().map(lambda end: f"customer-{end}"), str.encode),
    "bytes": (pa.large_binary(), st.binary(), as_it_is),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3), as_it_is),
}


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_ascend_with_values_and_null_is_first(kind: str) -> None:
    arrow, values, order = KINDS[kind]

    @settings(deadline=None, max_examples=examples(40))
    @given(
        sample=st.lists(st.none() | values), chosen=st.lists(values, min_size=1), skipped=st.integers(0, 2)
    )
    def check(sample: list[Any], chosen: list[Any], skipped: int) -> None:
        ranking = Ranking.of(pa.array(sample, arrow))
        ordered = [None, *sorted(chosen, key=order)]
        # A slice: numbers are read from buffers, which begin before it.
        array = pa.array([chosen[0]] * skipped + ordered, arrow).slice(skipped)
        ranks = [int(rank) for rank in ranking.ranks(array)]
        assert ranks == sorted(ranks)
        assert ranks[0] == 0 < ranks[1]
        assert ranks[-1] < RANGES

    check()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "long decimal"])
def test_a_sample_of_few_values_tells_them_apart(kind: str) -> None:
    arrow, values, order = KINDS[kind]
    if kind in ("text", "large text", "bytes"):
        values = values.map(lambda value: value[:12])  # of texts, eight bytes after what they share count

    @settings(deadline=None, max_examples=examples(20))
    @given(chosen=st.lists(values, min_size=2, max_size=RANGES // 2))
    def check(chosen: list[Any]) -> None:
        array = pa.array(sorted(chosen, key=order), arrow)
        ranking = Ranking.of(array)
        numbers = [int(number) for number in keys(array, ranking.prefix)]
        ranks = [int(rank) for rank in ranking.ranks(array)]
        for one, other, first, second in zip(numbers, numbers[1:], ranks, ranks[1:], strict=False):
            assert (one == other) == (first == second)

    check()


@settings(deadline=None, max_examples=examples(60))
@given(
    numbers=st.integers(1, 8).flatmap(
        lambda count: st.lists(
            st.lists(st.integers(0, 127), min_size=count, max_size=count), min_size=1, max_size=10
        )
    )
)
def test_bits_are_interleaved_exactly(numbers: list[list[int]]) -> None:
    columns = [np.array(column, np.uint64) for column in zip(*numbers, strict=True)]
    found = [int(number) for number in interleaved(columns, 7)]
    for row, number in zip(numbers, found, strict=True):
        digits = [f"{value:07b}" for value in row]
        assert f"{number:0{7 * len(row)}b}" == "".join("".join(bits) for bits in zip(*digits, strict=True))


@settings(deadline=None, max_examples=examples(60))
@given(
    rows=st.lists(st.tuples(st.integers(), st.text()), min_size=1).map(
        lambda rows: [(number % 2**40, text) for number, text in rows]
    ),
    number=st.integers(0, 2**40),
    text=st.text(),
)
def test_the_order_ascends_in_each_column(rows: list[tuple[int, str]], number: int, text: str) -> None:
    columns = [pa.array([n for n, _ in rows], pa.int64()), pa.array([t for _, t in rows], pa.string())]
    rankings = [Ranking.of(column) for column in columns]

    def ordered(pairs: list[tuple[int | None, str | None]]) -> list[int]:
        first, second = (
            pa.array([n for n, _ in pairs], pa.int64()),
            pa.array([t for _, t in pairs], pa.string()),
        )
        found: list[int] = zorder([first, second], rankings).to_pylist()
        return found

    by_number = ordered([(None, text), *((n, text) for n in sorted(n for n, _ in rows))])
    by_text = ordered([(number, None), *((number, t) for t in sorted((t for _, t in rows), key=str.encode))])
    assert by_number == sorted(by_number)
    assert by_text == sorted(by_text)


def test_a_column_of_few_values_counts_as_much_as_others() -> None:
    """The uppermost bit of each column halves its rows, however its values are spread."""
    few = pa.array([0, 10**15] * 512, pa.int64())
    many = pa.array([n // 2 for n in range(1024)], pa.int64())
    found = zorder([few, many], [Ranking.of(few), Ranking.of(many)]).to_numpy()
    upper = found >> (2 * 10 - 2)
    assert sorted(np.bincount(upper).tolist()) == [256, 256, 256, 256]


def schema_of(ddl: str) -> Schema:
    return assign_fresh_schema_ids(Schema(*parse_columns(ddl).fields))


def test_rows_of_every_type_are_clustered() -> None:
    schema = schema_of(
        "a BOOLEAN, b INT, c BIGINT, d FLOAT, e DOUBLE, f DECIMAL(20, 3), g DATE, h TIMESTAMP, i STRING, "
        "j BINARY, k FIXED(2), l UUID, n INT"
    )
    values: list[tuple[Any, ...]] = [
        (False, True),
        (1, 2),
        (1, 2**40),
        (0.5, math.nan),
        (-1.0, 2.0),
        (Decimal("1.5"), Decimal(10**15)),
        (date(1960, 1, 1), date(2030, 1, 1)),
        (datetime(1960, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)),
        ("a", "b"),
        (b"a", b"b"),
        (b"aa", b"bb"),
        (uuid.UUID(int=1).bytes, uuid.UUID(int=2**127).bytes),
    ]
    arrow = schema_to_pyarrow(schema, include_field_ids=False)
    columns = [[high, None, low] for low, high in values] + [[2, 0, 1]]
    rows = pa.table(columns, schema=arrow)
    for field in schema.fields[:-1]:
        for clustering in (Clustering((field.name,)), Clustering((field.name, "n"), zorder=True)):
            found = clustered(rows, schema, clustering)
            assert found.column("n").to_pylist() == [0, 1, 2], clustering
            assert found.schema == rows.schema


def test_a_z_order_keeps_rows_near_in_both_columns() -> None:
    """Of 64 files, a value of either column is in few; sorted by one column, the other is in all of them."""
    schema = schema_of("a BIGINT, b STRING")
    rows = pa.table(
        {
            "a": [n % 256 for n in range(256 * 256)],
            "b": [f"customer-{n // 256:06}" for n in range(256 * 256)],
        },
        schema=schema_to_pyarrow(schema, include_field_ids=False),
    )

    def files_with(clustering: Clustering, column: str, value: Any) -> int:
        ordered = clustered(rows, schema, clustering).column(column)
        pieces = [ordered.slice(start, 1024).to_pylist() for start in range(0, len(ordered), 1024)]
        return sum(min(piece) <= value <= max(piece) for piece in pieces)

    linear, both = Clustering(("a", "b")), Clustering(("a", "b"), zorder=True)
    assert files_with(linear, "b", "customer-000100") == 64
    assert files_with(both, "b", "customer-000100") <= 16
    assert files_with(both, "a", 100) <= 16


@pytest.mark.parametrize(
    ("by", "z", "said"),
    [
        ([], False, "a clustering needs at least one column"),
        (["stats"], False, "there is no column stats that rows can be clustered by"),
        (["s"], False, "rows cannot be clustered by s, which is struct"),
        (["l"], False, "rows cannot be clustered by l, which is list"),
        (["m"], False, "rows cannot be clustered by m, which is map"),
        (["s.x"], False, "there is no column s.x that rows can be clustered by"),
        (["id", "id"], False, "a column to cluster by occurs twice"),
        (["id"], True, "a Z-order needs 2 to 8 columns"),
    ],
)
def test_what_cannot_be_clustered_by_is_refused(by: list[str], z: bool, said: str) -> None:
    schema = schema_of("id BIGINT, state STRING, s STRUCT<x: INT>, l ARRAY<INT>, m MAP<STRING, INT>")
    with pytest.raises(InvalidInputError, match=said) as caught:
        clustering_by(by, schema, "sales.orders", z=z)
    assert "sales.orders" in caught.value.problem
    if len(by) == 1 and not z:
        assert caught.value.next_step is not None
        assert "choose from id, state" in caught.value.next_step
