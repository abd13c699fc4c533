"""How many rows a rewrite puts into each file."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from headgate.arrow.rewrite import _encoded
from headgate.iceberg.format.encoding import FileForm

FORM = FileForm.of({})


def lengths(rows: pa.Table, target: int) -> list[int]:
    parts = list(_encoded(rows, rows.nbytes / rows.num_rows, target, FORM))
    assert sum(part.num_rows for part, _ in parts) == rows.num_rows
    return [len(data) for _, data in parts]


def test_one_long_row_does_not_decide_for_the_short_ones() -> None:
    long, short = os.urandom(3_000_000), [os.urandom(100) for _ in range(20_000)]
    for rows in ([long, *short], [*short, long]):
        assert all(
            length < 1_000_000 or length > 3_000_000 for length in lengths(pa.table({"b": rows}), 500_000)
        )
        assert len(lengths(pa.table({"b": rows}), 500_000)) >= 4


@pytest.mark.parametrize("columns", [1, 4, 300])
@pytest.mark.parametrize("target", [1, 1_000])
def test_files_do_not_become_shorter_and_shorter(columns: int, target: int) -> None:
    rows = pa.table({f"c{number}": list(range(2_000)) for number in range(columns)})
    assert len(lengths(rows, target)) < 200


def test_one_row_is_one_file() -> None:
    assert len(lengths(pa.table({"id": [1]}), 1)) == 1
