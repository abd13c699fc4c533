"""What footers tell of columns: bounds that hold for every row group, or none."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.schema import Schema

import headgate as hg
from headgate.arrow import data_files
from headgate.iceberg.format.encoding import encode_parquet
from headgate.iceberg.format.metrics import column_metrics
from headgate.iceberg.schema.arrow import footer_of
from headgate.iceberg.schema.ddl import parse_columns
from headgate.storage.memory import MemoryStore

TOO_LONG = "z" * 5000
"""A text that has no place in a footer."""


@pytest.fixture
def lake() -> hg.Lake:
    return hg.Lake.init(MemoryStore(), strategy="conditional")


def test_a_row_group_without_bounds_leaves_the_file_without(
    lake: hg.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "ROW_GROUP_BYTES", 1)  # each batch is a row group
    table = lake.create_table("a.b", "id BIGINT, s STRING, b BINARY")

    def groups() -> Iterator[pa.RecordBatch]:
        for number, text in enumerate([TOO_LONG, "a", None]):
            raw = None if text is None else text.encode()
            yield pa.record_batch(
                [[number], pa.array([text], pa.string()), pa.array([raw], pa.binary())], names
            )

    names = ["id", "s", "b"]
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("b", pa.binary())])
    with lake.transaction() as tx:
        tx.table("a.b").append(pa.RecordBatchReader.from_batches(schema, groups()))
    assert len(table.files()) == 1
    for where in ("s > 'b'", "b > X'62'", "NOT s <= 'b'"):
        assert table.read_arrow(where=where, columns=["id"]).to_pylist() == [{"id": 0}], where
    assert table.read_arrow(where="s IS NULL", columns=["id"]).to_pylist() == [{"id": 2}]
    assert table.read_arrow(where="id > 2").num_rows == 0  # other columns keep theirs
    assert table.plan("id > 2").files == ()


@pytest.mark.parametrize("last", ["\ud7ff", "\U0010ffff", "é", "\U0001f600"])
def test_cut_bounds_are_texts_that_hold_the_value(lake: hg.Lake, last: str) -> None:
    text = "a" * 15 + last + "more"
    table = lake.create_table("a.b", "s STRING")
    table.append(pa.table({"s": [text]}))
    assert table.read_arrow(where=f"s = '{text}'").num_rows == 1
    assert table.plan(f"s > '{text[:14]}b'").files == ()


def test_dates_beyond_the_years_of_python(lake: hg.Lake) -> None:
    days = pa.array([3_000_000, -800_000, 0], pa.int32()).cast(pa.date32())
    moments = pa.array([5 * 10**17, -(10**17), 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
    table = lake.create_table("a.b", "d DATE, t TIMESTAMP", partition_by=["year(d)"])
    table.append(pa.table({"d": days, "t": moments}))
    assert table.read_arrow(where="d > '9999-12-31'").num_rows == 1
    assert table.read_arrow(where="t < TIMESTAMP '0001-01-01'").num_rows == 1
    for name, term in (("a.c", "day(d)"), ("a.d", "t")):
        other = lake.create_table(name, "d DATE, t TIMESTAMP", partition_by=[term])
        version = lake.version
        with pytest.raises(hg.InvalidInputError, match="years 1 to 9999"):
            other.append(pa.table({"d": days, "t": moments}))
        assert lake.version == version


@pytest.mark.parametrize("name", ["default", "column.id"])
def test_a_metrics_mode_that_is_none(lake: hg.Lake, name: str) -> None:
    table = lake.create_table("a.b", "id BIGINT", properties={f"write.metadata.metrics.{name}": "some"})
    with pytest.raises(hg.InvalidInputError, match=r"metrics.*some"):
        table.append(pa.table({"id": [1]}))


def test_every_type_has_the_bounds_of_its_values() -> None:
    schema = Schema(*parse_columns("i INT, x DOUBLE, p DECIMAL(5, 2), q DECIMAL(38, 2), ok BOOLEAN").fields)
    numbers = pa.array([-3, 7, None], pa.int8())
    rows = pa.table(
        {
            "i": numbers.cast(pa.int32()),
            "x": numbers.cast(pa.float64()),
            "p": numbers.cast(pa.decimal128(5, 2)),
            "q": numbers.cast(pa.decimal128(38, 2)),
            "ok": pc.greater(numbers, pa.scalar(0, pa.int8())),
        }
    )
    metrics = column_metrics(footer_of(encode_parquet(rows)), schema, {})
    assert metrics.values == dict.fromkeys(range(1, 6), 3)
    assert metrics.nulls == dict.fromkeys(range(1, 6), 1)
    minus_3, plus_7 = (-300).to_bytes(2, "big", signed=True), (700).to_bytes(2, "big", signed=True)
    assert [metrics.lower[key] for key in (1, 3, 4, 5)] == [b"\xfd\xff\xff\xff", minus_3, minus_3, b"\x00"]
    assert [metrics.upper[key] for key in (1, 3, 4, 5)] == [b"\x07\0\0\0", plus_7, plus_7, b"\x01"]
