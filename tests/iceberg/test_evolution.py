"""Partition specs and sort orders that change: ids as the specification has them, and what is refused."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema, assign_fresh_schema_ids

from headgate.errors import InvalidInputError
from headgate.iceberg.format.metadata import TableMetadata, new_table
from headgate.iceberg.schema.columns import with_added, with_dropped, with_renamed
from headgate.iceberg.schema.ddl import parse_columns
from headgate.iceberg.schema.evolution import (
    Evolution,
    Step,
    Subject,
    add_partition_field,
    change_columns,
    drop_partition_field,
    replace_partition_by,
    replace_sort_by,
    users_of,
)
from headgate.iceberg.schema.partitions import parse_partition_by
from headgate.iceberg.schema.sort_orders import parse_sort_by
from headgate.model.table import StructurePart

DDL = "id BIGINT, ts TIMESTAMP, name STRING, place STRUCT<x: INT>, id_bucket_8 INT, tags ARRAY<INT>"


def table(*partition_by: str, sort_by: tuple[str, ...] = ()) -> TableMetadata:
    schema = assign_fresh_schema_ids(Schema(*parse_columns(DDL).fields))
    spec = parse_partition_by(partition_by, schema)
    return new_table("u", "file:///t", schema, spec, parse_sort_by(sort_by, schema), {}, now_ms=1)


def after(metadata: TableMetadata, *steps: Step) -> TableMetadata:
    """The table after steps, each in a commit of its own."""
    for step in steps:
        metadata = step(Subject(metadata), Evolution()).applied(metadata, now_ms=2)
    return metadata


def fields(metadata: TableMetadata) -> list[tuple[int, str, str]]:
    return [(field.field_id, field.name, str(field.transform)) for field in metadata.spec.fields]


def test_a_field_that_comes_back_keeps_its_id_and_so_does_a_whole_spec() -> None:
    start = table("day(ts)")
    more = after(start, add_partition_field("bucket(4, id)"))
    assert fields(more) == [(1000, "ts_day", "day"), (1001, "id_bucket", "bucket[4]")]
    assert (more.spec.spec_id, more.fields["last-partition-id"]) == (1, 1001)
    less = after(more, drop_partition_field("ts_day"))
    assert (less.spec.spec_id, fields(less)) == (2, [(1001, "id_bucket", "bucket[4]")])
    other = after(less, replace_partition_by(["bucket(16, id)", "day(ts)"]))
    # The number makes it another name than that of the older bucket field.
    assert fields(other) == [(1002, "id_bucket_16", "bucket[16]"), (1000, "ts_day", "day")]
    back = after(other, replace_partition_by(["day(ts)", "bucket(4, id)"]))
    assert (back.spec.spec_id, fields(back)) == (1, fields(more))
    assert set(back.specs) == {0, 1, 2, 3}
    assert back.fields["last-partition-id"] == 1002


def test_a_table_can_lose_its_partitioning_and_get_it_again() -> None:
    none = after(table("name"), replace_partition_by([]))
    assert fields(none) == []
    assert after(none, add_partition_field("name")).spec.spec_id == 0
    assert fields(after(table(), add_partition_field("place.x"))) == [(1000, "place_x", "identity")]


def test_a_field_keeps_its_name_when_its_column_gets_another() -> None:
    renamed = after(table("day(ts)"), change_columns(lambda c, _: with_renamed(c, "ts", "at")))
    assert fields(renamed) == [(1000, "ts_day", "day")]
    assert fields(after(renamed, drop_partition_field("day(at)"))) == []
    back = after(renamed, replace_partition_by([]), add_partition_field("day(at)"))
    assert fields(back) == [(1000, "ts_day", "day")]


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (add_partition_field("day(ts)"), "given twice"),
        (replace_partition_by(["name", "name"]), "given twice"),
        (replace_partition_by(["day(ts)"]), "already has this partitioning"),
        (replace_partition_by("name"), "write \\['name'\\]"),
        (add_partition_field("nme"), "did you mean name"),
        (add_partition_field("tags.element"), "inside a list or a map"),
        (add_partition_field("hour(name)"), "cannot be applied to name, which is string"),
        (drop_partition_field("name"), "no partition field 'name'\n.*choose one of ts_day"),
        (replace_sort_by([]), "already has this sort order"),
        (replace_sort_by(["name", "name desc"]), "the same column twice"),
        (replace_sort_by("name"), "write \\['name'\\]"),
        (replace_sort_by(["tags.element"]), "inside a list or a map"),
        (replace_sort_by(["name sideways"]), "there is no column"),
        (replace_sort_by([""]), "not a sort field"),
        (change_columns(lambda c, _: with_renamed(c, "name", "ts_day")), "the same name as a column"),
        (
            change_columns(lambda c, t: with_dropped(c, "ts", users_of(t))),
            "the partition field ts_day uses it; drop the partition field first",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(step: Step, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        after(table("day(ts)"), step)


def test_partition_fields_that_look_like_columns_are_refused() -> None:
    schema = assign_fresh_schema_ids(Schema(*parse_columns("id INT, id_bucket INT").fields))
    with pytest.raises(InvalidInputError, match="id_bucket has the same name as a column"):
        parse_partition_by(["bucket(8, id)"], schema)


def test_a_column_that_the_sort_order_uses_stays() -> None:
    sorted_table = table(sort_by=("place.x desc",))
    drop_place = change_columns(lambda c, t: with_dropped(c, "place", users_of(t)))
    with pytest.raises(InvalidInputError, match="the sort order uses it"):
        after(sorted_table, drop_place)
    assert "place" not in after(sorted_table, replace_sort_by([]), drop_place).schema.column_names


def test_sort_orders_keep_their_ids() -> None:
    start = table(sort_by=("ts",))
    assert start.sort_order.order_id == 1
    other = after(start, replace_sort_by(["bucket(4, id) desc nulls first", "name"]))
    assert (other.sort_order.order_id, str(other.sort_order.fields[0])) == (
        2,
        "bucket[4](1) DESC NULLS FIRST",
    )
    unsorted = after(other, replace_sort_by([]))
    assert unsorted.sort_order.order_id == 0
    assert after(unsorted, replace_sort_by(["ts asc nulls first"])).sort_order.order_id == 1


def test_an_old_spec_finds_its_dropped_column() -> None:
    gone = after(
        table("name"),
        replace_partition_by([]),
        change_columns(lambda c, t: with_dropped(c, "name", users_of(t))),
    )
    assert "name" in gone.schema_of(gone.specs[0]).column_names
    assert gone.schema_of(gone.spec) == gone.schema


def test_ids_of_columns_that_came_and_went_in_one_commit_are_spent() -> None:
    start = table()
    last = start.fields["last-column-id"]
    noted = change_columns(lambda c, _: with_added(c, "x", "INT"))(Subject(start), Evolution())
    drop = change_columns(lambda c, t: with_dropped(c, "x", users_of(t)))
    noted = drop(Subject(noted.applied(start, now_ms=2)), noted)
    assert noted.parts == {StructurePart.SCHEMA}
    assert noted.dropped == {last + 1}
    ended = noted.applied(start, now_ms=2)
    assert ended.schema == start.schema
    assert ended.fields["last-column-id"] == last + 1
