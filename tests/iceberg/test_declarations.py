"""Schemas and partition specs as callers write them."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, StringType, TimestamptzType

from headgate.errors import InvalidInputError
from headgate.iceberg.schema.ddl import parse_columns
from headgate.iceberg.schema.partitions import parse_partition_by
from headgate.model.table import TableName

SCHEMA = Schema(
    *parse_columns("id BIGINT, name STRING, ts TIMESTAMP, place STRUCT<x: DOUBLE>, tags ARRAY<INT>").fields
)


def test_columns_of_every_kind() -> None:
    text = (
        "id BIGINT NOT NULL, `odd name` string COMMENT 'it''s', price decimal(10, 2), "
        "tags array<struct<a: int, b: map<string, date>>>, at timestamp_ntz"
    )
    struct = parse_columns(text)
    assert [(field.name, str(field.field_type)) for field in struct.fields] == [
        ("id", "long"),
        ("odd name", "string"),
        ("price", "decimal(10, 2)"),
        ("tags", "list<struct<6: a: optional int, 7: b: optional map<string, date>>>"),
        ("at", "timestamp"),
    ]
    assert struct.fields[0].required
    assert struct.fields[1].doc == "it's"
    ids = {field.field_id for field in Schema(*struct.fields).fields}
    assert len(ids) == 5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a column name"),
        ("id", "is not a type"),
        ("id BIGNT", "'BIGNT' is not a type: id »BIGNT"),
        ("a int, A string", "duplicate columns: a"),
        ("x array<int", "expected '>'"),
        ("x decimal(50, 2)", "out of range"),
        ("x decimal(5, 9)", "out of range"),
        ("a int b int", "expected ',' or the end"),
        ("a int; drop", "is unexpected"),
        ("x " + "array<" * 60 + "int" + ">" * 60, "nested more than"),
    ],
)
def test_a_schema_that_cannot_be_read_is_shown_with_the_place(text: str, problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_columns(text)
    assert problem in caught.value.problem


def test_partition_fields_are_named_as_iceberg_does() -> None:
    spec = parse_partition_by(["name", "day(ts)", "bucket(8, id)", "truncate(4, name)", "place.x"], SCHEMA)
    assert [field.name for field in spec.fields] == ["name", "ts_day", "id_bucket", "name_trunc", "place_x"]
    assert [str(field.transform) for field in spec.fields][1:4] == ["day", "bucket[8]", "truncate[4]"]


@pytest.mark.parametrize(
    ("term", "problem"),
    [
        ("nme", "there is no column 'nme'"),
        ("day(name)", "cannot be applied to name, which is string"),
        ("hour(id)", "cannot be applied to id, which is long"),
        ("tags", "cannot be applied to tags, which is list<int>"),
        ("bucket(id)", "needs a number from 1 to"),
        ("bucket(0, id)", "needs a number from 1 to"),
        ("bucket(-2, id)", "needs a number from 1 to"),
        ("week(ts)", "is not a partition field"),
        ("day(3, ts)", "is not a partition field"),
        ("day(ts", "is not a partition field"),
        ("", "is not a partition field"),
    ],
)
def test_a_partition_field_that_does_not_fit_is_named(term: str, problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_partition_by([term], SCHEMA)
    assert problem in caught.value.problem


def test_near_names_are_offered() -> None:
    with pytest.raises(InvalidInputError, match="did you mean name"):
        parse_partition_by(["nme"], SCHEMA)
    with pytest.raises(InvalidInputError, match="twice"):
        parse_partition_by(["name", "name"], SCHEMA)
    with pytest.raises(InvalidInputError, match="must be a list of strings, not a string"):
        parse_partition_by("name", SCHEMA)


def test_table_names() -> None:
    assert str(TableName.parse("sales.orders_2026-11")) == "sales.orders_2026-11"
    assert TableName.parse("süd.straße").namespace == "süd"


@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "a.b.c",
        "../x.y",
        "a..b",
        ".",
        "a.",
        "sales.or/ders",
        "sales.or\\ders",
        "s.o rders",
        "s.x\0",
        "a.-b",
        "sales." + "x" * 101,
        "_.a",
        "a._spark_metadata",
        "_spark_metadata.a",
        7,
        None,
    ],
)
def test_a_table_name_cannot_leave_the_lake(name: str) -> None:
    with pytest.raises(InvalidInputError):
        TableName.parse(name)


def test_the_types_of_spark_are_those_of_iceberg() -> None:
    assert SCHEMA.find_type("id") == LongType()
    assert SCHEMA.find_type("ts") == TimestamptzType()
    assert SCHEMA.find_type("name") == StringType()
