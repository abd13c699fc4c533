"""Changes of columns: what they make of a schema, what they refuse, and that ids are never used twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import LongType, StringType

from headgate.errors import InvalidInputError
from headgate.iceberg.schema.columns import (
    Columns,
    Position,
    field_ids,
    with_added,
    with_doc,
    with_dropped,
    with_moved,
    with_optional,
    with_renamed,
    with_widened,
)
from headgate.iceberg.schema.ddl import parse_columns

DDL = (
    "id INT NOT NULL, name STRING, price DECIMAL(9, 2), address STRUCT<zip: STRING, town: STRING>, "
    "points ARRAY<STRUCT<x: INT, y: INT>>, places MAP<STRING, STRUCT<x: FLOAT>>, tags ARRAY<INT>, "
    "deep ARRAY<ARRAY<STRUCT<a: INT>>>, keyed MAP<STRUCT<k: INT>, INT>"
)


def columns(ddl: str = DDL) -> Columns:
    schema = assign_fresh_schema_ids(Schema(*parse_columns(ddl).fields))
    return Columns(schema, schema.highest_field_id)


def unused(_: int) -> None:
    return None


def names(columns: Columns, parent: str | None = None) -> list[str]:
    owner: Any = columns.schema if parent is None else columns.schema.find_type(parent)
    return [field.name for field in owner.fields]


def test_a_column_is_added_where_it_is_said_with_fresh_ids_at_every_depth() -> None:
    before = columns()
    after = with_added(
        before, "more", "STRUCT<a: INT, b: ARRAY<STRING>>", doc="said", position=Position(first=True)
    )
    assert names(after)[0] == "more"
    new = field_ids(after.schema) - field_ids(before.schema)
    assert new == set(range(before.last_id + 1, after.last_id + 1))
    assert len(new) == 4
    assert after.schema.find_field("more").doc == "said"
    assert names(with_added(before, "x", LongType(), position=Position(after="id")))[:2] == ["id", "x"]
    assert names(with_added(before, "x", pa.int64(), position=Position(before="name")))[:2] == ["id", "x"]
    assert names(with_added(before, "x", "INT"))[-1] == "x"


@pytest.mark.parametrize(
    ("path", "parent"),
    [
        ("address.street", "address"),
        ("points.element.z", "points.element"),
        ("points.z", "points.element"),
        ("places.value.y", "places.value"),
        ("places.y", "places.value"),
        ("deep.element.element.b", "deep.element.element"),
    ],
)
def test_fields_are_added_inside_structs_lists_and_maps(path: str, parent: str) -> None:
    after = with_added(columns(), path, "STRING")
    assert names(after, parent)[-1] == path.rpartition(".")[2]
    assert after.schema.find_field(f"{parent}.{path.rpartition('.')[2]}").field_type == StringType()


def test_nested_fields_are_moved_among_their_own() -> None:
    after = with_moved(columns(), "address.town", Position(before="zip"))
    assert names(after, "address") == ["town", "zip"]
    after = with_moved(after, "address.town", Position(after="address.zip"))
    assert names(after, "address") == ["zip", "town"]
    assert names(with_moved(columns(), "points.element.y", Position(first=True)), "points.element") == [
        "y",
        "x",
    ]


def test_columns_are_renamed_widened_made_optional_and_described() -> None:
    after = with_renamed(columns(), "address.zip", "code")
    assert names(after, "address") == ["code", "town"]
    after = with_renamed(after, "name", "Name")  # the same name in another case is a name of its own
    after = with_widened(after, "id", "BIGINT")
    after = with_widened(after, "price", "DECIMAL(12, 2)")
    after = with_widened(after, "tags.element", "BIGINT")
    after = with_widened(after, "places.value.x", "DOUBLE")
    after = with_optional(after, "id")
    after = with_doc(after, "address", "where")
    kinds = {name: str(after.schema.find_type(name)) for name in ("id", "price", "tags", "places.value.x")}
    assert kinds == {
        "id": "long",
        "price": "decimal(12, 2)",
        "tags": "list<long>",
        "places.value.x": "double",
    }
    assert not after.schema.find_field("id").required
    assert after.schema.find_field("address").doc == "where"
    assert field_ids(after.schema) == field_ids(columns().schema)


def test_a_dropped_id_is_not_given_again() -> None:
    dropped = with_dropped(columns("id INT, x INT"), "x", unused)
    again = with_added(dropped, "x", "INT")
    assert again.schema.find_field("x").field_id == 3
    assert with_dropped(columns(), "address.zip", unused).last_id == columns().last_id


REFUSED: list[tuple[Callable[[Columns], Any], list[str]]] = [
    (lambda c: with_added(c, "x", "INT", required=True), ["cannot be required", "version 2 has no defaults"]),
    (lambda c: with_added(c, "x", "INT", default=1), ["cannot have a default: Iceberg's format version 2"]),
    (
        lambda c: with_added(c, "NAME", "INT", required=True, default=1),
        ["already a column name, which differs only in case", "cannot be required", "cannot have a default"],
    ),
    (lambda c: with_added(c, "name", "INT"), ["there is already a column name"]),
    (lambda c: with_added(c, "address.ZIP", "INT"), ["there is already a column zip"]),
    (lambda c: with_added(c, "nme.x", "INT"), ["there is no column 'nme'"]),
    (
        lambda c: with_added(c, "name.x", "INT"),
        ["cannot add a column to name: it is a string, not a struct"],
    ),
    (lambda c: with_added(c, "keyed.key.x", "INT"), ["part of a map's key"]),
    (lambda c: with_added(c, "x", "INTT"), ["'INTT' is not a type"]),
    (lambda c: with_added(c, "x", "INT NOT NULL"), ["expected the end of the type"]),
    (lambda c: with_added(c, "x", 7), ["a type must be DDL"]),
    (lambda c: with_added(c, "", "INT"), ["not a column name"]),
    (lambda c: with_added(c, "a..b", "INT"), ["not a column name"]),
    (lambda c: with_added(c, "x", "INT", position=Position(after="zip")), ["no column 'zip' at this level"]),
    (lambda c: Position(first=True, after="id"), ["only one position"]),
    (lambda c: with_dropped(c, "nam", unused), ["there is no column 'nam'"]),
    (lambda c: with_dropped(c, "tags.element", unused), ["part of a list or a map"]),
    (lambda c: with_dropped(c, "places.value.x", unused), ["it is the only one"]),
    (lambda c: with_dropped(c, "address", lambda i: "zip is used" if i == 10 else None), ["zip is used"]),
    (lambda c: with_renamed(c, "name", "ID"), ["there is already a column id"]),
    (lambda c: with_renamed(c, "name", "a.b"), ["a name cannot contain a dot"]),
    (lambda c: with_renamed(c, "name", "name"), ["already has this name"]),
    (lambda c: with_renamed(c, "name", "\ud800"), ["not valid Unicode"]),
    (lambda c: with_added(c, "\ud800", "INT"), ["not valid Unicode"]),
    (lambda c: with_renamed(c, "tags.element", "x"), ["cannot be renamed"]),
    (lambda c: with_widened(c, "id", "INT"), ["it is already int"]),
    (lambda c: with_widened(c, "id", "DOUBLE"), ["int cannot become double"]),
    (lambda c: with_widened(c, "name", "BINARY"), ["string cannot become binary"]),
    (lambda c: with_widened(c, "price", "DECIMAL(12, 3)"), ["with the same scale"]),
    (lambda c: with_widened(c, "price", "DECIMAL(8, 2)"), ["with the same scale"]),
    (lambda c: with_widened(c, "keyed.key.k", "BIGINT"), ["part of a map's key"]),
    (lambda c: with_moved(c, "name", Position()), ["no position for name"]),
    (lambda c: with_moved(c, "name", Position(after="name")), ["next to itself"]),
    (lambda c: with_moved(c, "id", Position(first=True)), ["is already in this position"]),
    (lambda c: with_moved(c, "tags.element", Position(first=True)), ["it has no siblings"]),
    (lambda c: with_optional(c, "name"), ["already optional"]),
    (lambda c: with_optional(c, "keyed.key"), ["part of a map's key"]),
    (lambda c: with_doc(c, "name", None), ["already has this description"]),
]


@pytest.mark.parametrize(("change", "reasons"), REFUSED)
def test_what_cannot_be_done_is_refused_with_all_reasons(
    change: Callable[[Columns], Any], reasons: list[str]
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        change(columns())
    for reason in reasons:
        assert reason in str(caught.value)


def test_the_nearest_column_is_offered() -> None:
    with pytest.raises(InvalidInputError, match="did you mean name"):
        with_dropped(columns(), "nam", unused)


def test_identifier_fields_stay() -> None:
    schema = Schema(*columns().schema.fields, identifier_field_ids=[1])
    keyed = Columns(schema, schema.highest_field_id)
    with pytest.raises(InvalidInputError, match="identifies rows"):
        with_dropped(keyed, "id", unused)
    with pytest.raises(InvalidInputError, match="identifies rows"):
        with_optional(keyed, "id")
    assert with_renamed(keyed, "id", "key").schema.identifier_field_ids == [1]


NAMES = ["a", "b", "c", "A", "d"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(NAMES), st.sampled_from([None, *NAMES])),
        st.tuples(st.just("drop"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
        st.tuples(st.just("move"), st.sampled_from(NAMES), st.sampled_from([None, *NAMES])),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(steps=STEPS, parent=st.sampled_from(["", "s.", "l.element.", "m.value."]))
def test_random_changes_against_a_list_of_names(
    steps: list[tuple[str, str, str | None]], parent: str
) -> None:
    """At every depth the same: an ordered list of (name, id), where ids only ever grow."""
    inner = "STRUCT<a: INT>"
    present = columns(f"a INT, s {inner}, l ARRAY<{inner}>, m MAP<STRING, {inner}>")
    path = parent.removesuffix(".")
    fixed = [] if path else [("s", 2), ("l", 3), ("m", 4)]
    model = [("a", present.schema.find_field(f"{parent}a").field_id), *fixed]
    for kind, name, other in steps:
        expected = _modelled(model, kind, name, other, present.last_id + 1)
        try:
            present = _changed(present, kind, parent, name, other)
        except InvalidInputError:
            assert expected is None
        else:
            assert expected is not None
            model = expected
        owner: Any = present.schema.find_type(path) if path else present.schema
        assert [(field.name, field.field_id) for field in owner.fields] == model
        assert present.last_id >= present.schema.highest_field_id


def _changed(present: Columns, kind: str, parent: str, name: str, other: str | None) -> Columns:
    match kind:
        case "add":
            return with_added(present, parent + name, "INT", position=Position(after=other))
        case "drop":
            return with_dropped(present, parent + name, unused)
        case "rename":
            return with_renamed(present, parent + name, str(other))
        case _:
            return with_moved(present, parent + name, Position(other is None, after=other))


def _modelled(
    model: list[tuple[str, int]], kind: str, name: str, other: str | None, new_id: int
) -> list[tuple[str, int]] | None:
    """The list after a step, or None where the step must be refused."""
    names = [known for known, _ in model]
    if other is not None and kind in ("add", "move") and other not in names:
        return None
    if kind == "add":
        if name.lower() in [known.lower() for known in names]:
            return None
        at = len(names) if other is None else names.index(other) + 1
        return [*model[:at], (name, new_id), *model[at:]]
    if name not in names:
        return None
    place = names.index(name)
    rest = [*model[:place], *model[place + 1 :]]
    if kind == "drop":
        return rest or None
    if kind == "rename":
        taken = {known.lower() for known, _ in rest}
        if name == other or str(other).lower() in taken:
            return None
        return [*model[:place], (str(other), model[place][1]), *model[place + 1 :]]
    at = 0 if other is None else [known for known, _ in rest].index(other) + 1 if other != name else -1
    moved = [*rest[:at], model[place], *rest[at:]]
    return None if at < 0 or moved == model else moved
