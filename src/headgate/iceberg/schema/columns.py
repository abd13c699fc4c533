"""Changes of columns, as functions from columns to columns.

Fields are identified by dotted paths: `address.zip`, `points.element.x` for the structs in a list,
`places.value.x` for those in a map. The id of a field is never given to another field, even after the field
was dropped: files keep the ids that they were written with, and engines read by id.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from headgate.core.input.arguments import of_kind, refuse_credential, repeated, require_unicode
from headgate.core.input.secrets import clean_text, looks_secret
from headgate.errors import InvalidInputError, shown
from headgate.iceberg.schema.arrow import schema_from_arrow
from headgate.iceberg.schema.ddl import parse_type
from headgate.iceberg.schema.partitions import find_column

ROOT = -1
"""Stands for the table where a parent's id is expected."""

Fields: TypeAlias = tuple[NestedField, ...]
Edit: TypeAlias = Callable[[int, Fields], Fields]
"""Changes the fields inside a parent, which is given by its id."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table, and the highest id that any of its columns ever had."""

    schema: Schema
    last_id: int


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a column among its siblings. At most one may be given; the default is the end."""

    first: bool = False
    before: str | None = None
    after: str | None = None

    def __post_init__(self) -> None:
        of_kind("first", self.first, bool)
        for column in (self.before, self.after):
            if column is not None:
                of_kind("the column next to it", column, str)
        if self.first + (self.before is not None) + (self.after is not None) > 1:
            raise InvalidInputError("a column has only one position", "give one of first, before and after")

    def __bool__(self) -> bool:
        return self.first or self.before is not None or self.after is not None


AT_THE_END = Position()


@dataclass(frozen=True, slots=True)
class _Place:
    """A field inside its parent, which is a struct (or the table), a list or a map."""

    field: NestedField
    parent: int
    in_struct: bool
    in_key: bool


def field_ids(schema: Schema) -> frozenset[int]:
    """The ids of all fields, at every depth."""
    return frozenset(_places(schema))


def type_of(given: Any) -> IcebergType:
    """An Iceberg type from DDL (`BIGINT`, `ARRAY<STRING>`) or from an Arrow type, or itself."""
    if isinstance(given, str):
        return parse_type(given)
    if isinstance(given, pa.DataType):
        return schema_from_arrow(pa.schema([("column", given)])).fields[0].field_type
    if isinstance(given, IcebergType):
        return given
    raise InvalidInputError(
        f"a type must be DDL, a pyarrow type or an Iceberg type, not a {type(given).__name__}"
    )


# --- the changes -----------------------------------------------------------------------------------------


def with_added(
    columns: Columns,
    path: str,
    given_type: Any,
    *,
    doc: str | None = None,
    required: bool = False,
    default: Any = None,
    position: Position = AT_THE_END,
) -> Columns:
    """The columns with a new one, which is null in all existing rows."""
    parent_path, _, name = _checked_path(path).rpartition(".")
    parent = _struct_at(columns.schema, parent_path)
    problems = [*_name_problems(columns.schema, parent, name)]
    if required:
        problems.append(
            "it cannot be required: existing rows have no value for it, and Iceberg's format "
            "version 2 has no defaults"
        )
    if default is not None:
        problems.append("it cannot have a default: Iceberg's format version 2 has none")
    _refuse(f"the column {path} cannot be added", problems)
    ids = itertools.count(columns.last_id + 1)
    field_id = next(ids)
    # The function also accepts a type and then returns a type; its annotation covers only schemas.
    fresh: Any = assign_fresh_schema_ids(_type_with_clean_docs(given_type), lambda: next(ids))
    field = NestedField(
        field_id, name, fresh, required=False, doc=None if doc is None else clean_text(_checked_doc(doc))
    )
    beside = _beside(columns.schema, parent, parent_path, position)
    schema = _edited(
        columns.schema,
        lambda owner, fields: _placed(fields, field, position, beside) if owner == parent else fields,
    )
    return Columns(schema, next(ids) - 1)


def _type_with_clean_docs(given: Any) -> IcebergType:
    column = NestedField(1, "column", type_of(given))
    return with_clean_docs(Schema(column)).fields[0].field_type


def with_dropped(columns: Columns, path: str, used: Callable[[int], str | None]) -> Columns:
    """The columns without one. `used` returns what needs a field, by its id, or None."""
    place = _place(columns.schema, path)
    problems = []
    if not place.in_struct:
        problems.append(f"{path} is part of a list or a map; drop the column that contains it")
    elif len(_siblings(columns.schema, place.parent)) == 1:
        problems.append("it is the only one; a table or struct needs at least one")
    gone = {place.field.field_id, *_inside_ids(place.field.field_type)}
    problems.extend(reason for field_id in sorted(gone) if (reason := used(field_id)) is not None)
    if gone & set(columns.schema.identifier_field_ids):
        problems.append("it identifies rows (identifier-field-ids)")
    _refuse(f"the column {path} cannot be dropped", problems)
    kept = _edited(
        columns.schema,
        lambda _, fields: tuple(field for field in fields if field.field_id != place.field.field_id),
    )
    return Columns(kept, columns.last_id)


def with_renamed(columns: Columns, path: str, name: str) -> Columns:
    """The columns with a new name for one. Files need no change, because they identify it by its id."""
    place = _place(columns.schema, path)
    problems = list(_name_problems(columns.schema, place.parent, name, besides=place.field.field_id))
    if not place.in_struct:
        problems.append("elements of lists, and keys and values of maps cannot be renamed")
    if name == place.field.name:
        problems.append("it already has this name")
    _refuse(f"the column {path} cannot be renamed to {name}", problems)
    return _with_field(columns, place, name=name)


def with_widened(columns: Columns, path: str, given_type: Any) -> Columns:
    """The columns with a wider type for one: int to long, float to double, or a higher decimal precision."""
    place = _place(columns.schema, path)
    wanted, present = type_of(given_type), place.field.field_type
    problems = []
    if wanted == present:
        problems.append(f"it is already {present}")
    elif not _is_wider(present, wanted):
        problems.append(
            f"{present} cannot become {wanted}; int can become long, float can become double, and a decimal "
            "can get a higher precision with the same scale"
        )
    if place.in_key:
        problems.append("it is part of a map's key")
    _refuse(f"the column {path} cannot be widened", problems)
    return _with_field(columns, place, field_type=wanted)


def with_moved(columns: Columns, path: str, position: Position) -> Columns:
    """The columns in another order; one moves among its siblings."""
    place = _place(columns.schema, path)
    if not position:
        raise InvalidInputError(
            f"no position for {path} was given", "give one of first=True, before=… and after=…"
        )
    problems = [] if place.in_struct else ["it has no siblings"]
    beside = _beside(columns.schema, place.parent, path.rpartition(".")[0], position)
    if beside == place.field.field_id:
        problems.append("it cannot be moved next to itself")
    _refuse(f"the column {path} cannot be moved", problems)

    def moved(owner: int, fields: Fields) -> Fields:
        others = tuple(field for field in fields if field.field_id != place.field.field_id)
        return _placed(others, place.field, position, beside) if owner == place.parent else fields

    schema = _edited(columns.schema, moved)
    if schema == columns.schema:
        raise InvalidInputError(f"the column {path} is already in this position", "nothing to do")
    return Columns(schema, columns.last_id)


def with_optional(columns: Columns, path: str) -> Columns:
    """The columns with one made optional."""
    place = _place(columns.schema, path)
    problems = [] if place.field.required else ["it is already optional"]
    if place.in_key:
        problems.append("it is part of a map's key")
    if place.field.field_id in columns.schema.identifier_field_ids:
        problems.append("it identifies rows (identifier-field-ids)")
    _refuse(f"the column {path} cannot be made optional", problems)
    return _with_field(columns, place, required=False)


def with_doc(columns: Columns, path: str, doc: str | None) -> Columns:
    """The columns with a new description of one; None removes it."""
    place = _place(columns.schema, path)
    problems = (
        [] if place.in_struct else ["elements of lists, and keys and values of maps have no description"]
    )
    doc = None if doc is None else clean_text(_checked_doc(doc))
    if doc == place.field.doc:
        problems.append("it already has this description")
    _refuse(f"the column {path} cannot be described", problems)
    return _with_field(columns, place, doc=doc)


def _checked_doc(doc: str) -> str:
    if not isinstance(doc, str):
        raise InvalidInputError(f"a description must be a string, not {shown(doc)}")
    require_unicode("the description of a column", doc)
    return doc


def with_clean_docs(schema: Schema) -> Schema:
    """The columns, with anything in their descriptions that looks like a credential replaced.

    Descriptions are kept forever and may come with a whole schema from elsewhere, so nothing is rejected.
    """
    return _edited(schema, lambda _, fields: tuple(map(_with_clean_doc, fields)))


def _with_clean_doc(field: NestedField) -> NestedField:
    return field if field.doc is None else field.model_copy(update={"doc": clean_text(field.doc)})


MAX_LEVELS = 98
"""Arrow's Parquet reader accepts 100 levels, one of which is the root."""


def require_sound(schema: Schema, table: str) -> None:
    """Raises for columns that some engine could not distinguish, or could not write."""
    problems = [*_unsound(schema.as_struct(), ""), *_too_deep(schema)]
    _refuse(f"{table}: these columns are not possible in a table", problems)


def _too_deep(schema: Schema) -> Iterator[str]:
    """Columns whose types have more levels than Parquet readers accept. A list or a map counts as two."""
    for column in schema.fields:
        layer, levels = [column.field_type], 1
        while levels <= MAX_LEVELS and (nested := [kind for kind in layer if not kind.is_primitive]):
            levels += 1 if all(isinstance(kind, StructType) for kind in nested) else 2
            layer = [field.field_type for kind in nested for field in _children(kind)]
        if levels > MAX_LEVELS:
            yield f"{column.name} is nested too deeply"


def _unsound(kind: IcebergType, path: str) -> Iterator[str]:
    fields = _children(kind)
    if isinstance(kind, StructType):
        if not fields:
            yield f"{path} has no fields" if path else "a table needs at least one column"
        doubled = set(repeated(field.name.lower() for field in fields))
        for field in fields:
            if not field.name.strip():
                yield f"{path}{'.' if path else ''}{field.name!r} is not a valid name"
            elif looks_secret(field.name):
                where = f" in {path}" if path else ""
                yield f"a name{where} looks like a credential; is it the header of a file, or its first row?"
            elif field.name.lower() in doubled:
                yield f"{path}{'.' if path else ''}{field.name} occurs twice (case is ignored)"
    for field in fields:
        yield from _unsound(field.field_type, f"{path}.{field.name}" if path else field.name)


# --- finding fields --------------------------------------------------------------------------------------


def _place(schema: Schema, path: str) -> _Place:
    return _places(schema)[find_column(schema, _checked_path(path))]


def _places(schema: Schema) -> dict[int, _Place]:
    return {place.field.field_id: place for place in _walk(schema.as_struct(), ROOT, in_key=False)}


def _walk(kind: IcebergType, owner: int, in_key: bool) -> Iterator[_Place]:
    in_struct = isinstance(kind, StructType)
    for field in _children(kind):
        inside_key = in_key or (isinstance(kind, MapType) and field.field_id == kind.key_id)
        yield _Place(field, owner, in_struct, inside_key)
        yield from _walk(field.field_type, field.field_id, inside_key)


def _children(kind: IcebergType) -> Fields:
    match kind:
        case StructType():
            return tuple(kind.fields)
        case ListType():
            return (kind.element_field,)
        case MapType():
            return (kind.key_field, kind.value_field)
        case _:
            return ()


def _inside_ids(kind: IcebergType) -> Iterator[int]:
    return (place.field.field_id for place in _walk(kind, ROOT, in_key=False))


def _struct_at(schema: Schema, path: str) -> int:
    """The id that owns the fields of the struct at `path`; a list or map stands for the struct inside it."""
    if not path:
        return ROOT
    place = _places(schema)[find_column(schema, path)]
    field, in_key = place.field, place.in_key
    match field.field_type:
        case ListType() as kind:
            field = kind.element_field
        case MapType() as kind:
            field = kind.value_field
    if not isinstance(field.field_type, StructType) or in_key:
        where = "part of a map's key" if in_key else f"a {field.field_type}, not a struct"
        raise InvalidInputError(f"cannot add a column to {path}: it is {where}")
    return field.field_id


def _siblings(schema: Schema, parent: int) -> list[NestedField]:
    return [place.field for place in _places(schema).values() if place.parent == parent]


def _beside(schema: Schema, parent: int, parent_path: str, position: Position) -> int | None:
    """The id of the field that `position` names: a sibling, by its own name or its full path."""
    wanted = position.before if position.before is not None else position.after
    if wanted is None:
        return None
    siblings = {field.name: field.field_id for field in _siblings(schema, parent)}
    name = wanted.removeprefix(f"{parent_path}.") if parent_path else wanted
    if name not in siblings:
        raise InvalidInputError(
            f"there is no column {wanted!r} at this level", f"choose one of {', '.join(siblings)}"
        )
    return siblings[name]


# --- editing ---------------------------------------------------------------------------------------------


def _edited(schema: Schema, edit: Edit) -> Schema:
    struct = _edited_type(schema.as_struct(), ROOT, edit)
    assert isinstance(struct, StructType)
    return Schema(*struct.fields, identifier_field_ids=list(schema.identifier_field_ids))


def _edited_type(kind: IcebergType, owner: int, edit: Edit) -> IcebergType:
    fields = tuple(
        field.model_copy(update={"field_type": _edited_type(field.field_type, field.field_id, edit)})
        for field in edit(owner, _children(kind))
    )
    match kind, fields:
        case StructType(), _:
            return StructType(*fields)
        case ListType(), (element,):
            return ListType(element.field_id, element.field_type, element_required=element.required)
        case MapType(), (key, value):
            return MapType(
                key.field_id,
                key.field_type,
                value.field_id,
                value.field_type,
                value_required=value.required,
            )
        case _:
            return kind


def _with_field(columns: Columns, place: _Place, **update: Any) -> Columns:
    changed = place.field.model_copy(update=update)
    schema = _edited(
        columns.schema,
        lambda _, fields: tuple(changed if f.field_id == changed.field_id else f for f in fields),
    )
    return Columns(schema, columns.last_id)


def _placed(fields: Fields, field: NestedField, position: Position, beside: int | None) -> Fields:
    if position.first:
        return (field, *fields)
    if beside is None:
        return (*fields, field)
    at = next(index for index, other in enumerate(fields) if other.field_id == beside)
    at += position.after is not None
    return (*fields[:at], field, *fields[at:])


# --- checks ----------------------------------------------------------------------------------------------


def _is_wider(present: IcebergType, wanted: IcebergType) -> bool:
    match present, wanted:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return wanted.scale == present.scale and wanted.precision > present.precision
        case _:
            return False


def _checked_path(path: str) -> str:
    if not isinstance(path, str) or not path.strip() or not all(path.split(".")):
        raise InvalidInputError(f"{shown(path)} is not a column name", "write it as 'zip' or 'address.zip'")
    return path


def _name_problems(schema: Schema, parent: int, name: str, besides: int | None = None) -> Iterator[str]:
    if not isinstance(name, str) or not name.strip():
        yield f"{shown(name)} is not a valid name"
        return
    require_unicode("the name of a column", name)
    refuse_credential("the name of a column", name)
    if "." in name:
        yield "a name cannot contain a dot, because dots separate the parts of a path"
    for field in _siblings(schema, parent):
        if field.field_id != besides and field.name.lower() == name.lower():
            same = "" if field.name == name else ", which differs only in case; Spark ignores case"
            yield f"there is already a column {field.name}{same}"


def _refuse(what: str, problems: list[str]) -> None:
    if problems:
        raise InvalidInputError(f"{what}:\n" + "\n".join(f"  - {problem}" for problem in problems))
