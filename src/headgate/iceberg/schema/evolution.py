"""Changes to the structure of a table: its columns, its partition spec, and its sort order.

An `Evolution` is built on the table as the transaction read it, and applied to the table at commit time. The
conflict rules ensure that nobody changed the structure in between, so it is the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import BucketTransform, Transform, TruncateTransform

from headgate.errors import InvalidInputError
from headgate.iceberg.format.metadata import TableMetadata, with_schema, with_sort_order, with_spec
from headgate.iceberg.schema.columns import Columns, field_ids
from headgate.iceberg.schema.partitions import check_names, field_name, parse_source, parse_term
from headgate.iceberg.schema.sort_orders import parse_sort_by
from headgate.model.table import StructurePart

Term: TypeAlias = tuple[int, Transform[Any, Any]]
"""A partition field without its id and name: the source and the transform."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """The new structure of a table. Parts that are None or empty stay unchanged.

    `specs` and `sort_orders` are all that were chosen; the last one stays. Files that were written in between
    have the ids of the others. `earlier` are the columns that rows were written with before `columns` were
    chosen. They stay in the history of the table, because readers that match columns by name need to know all
    names that were used. `dropped` are the removed fields, at every depth.
    """

    columns: Columns | None = None
    earlier: tuple[Columns, ...] = ()
    specs: tuple[PartitionSpec, ...] = ()
    sort_orders: tuple[SortOrder, ...] = ()
    dropped: frozenset[int] = frozenset()

    @property
    def written(self) -> Evolution:
        """The same, after rows were written with its columns."""
        if self.columns is None or self.columns in self.earlier:
            return self
        return replace(self, earlier=(*self.earlier, self.columns))

    @property
    def parts(self) -> frozenset[StructurePart]:
        parts = {
            StructurePart.SCHEMA: self.columns is not None,
            StructurePart.SPEC: bool(self.specs),
            StructurePart.SORT_ORDER: bool(self.sort_orders),
        }
        return frozenset(part for part, changed in parts.items() if changed)

    def applied(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """The table with this structure."""
        for columns in (*self.earlier, *([] if self.columns is None else [self.columns])):
            metadata = with_schema(metadata, columns.schema, columns.last_id, now_ms)
        for spec in self.specs:
            metadata = with_spec(metadata, spec, now_ms)
        for order in self.sort_orders:
            metadata = with_sort_order(metadata, order, now_ms)
        return metadata


@dataclass(frozen=True, slots=True)
class Subject:
    """A table as a step sees it: with earlier changes applied, and the specs of its manifests."""

    metadata: TableMetadata
    specs_in_use: frozenset[int] = frozenset()


Step: TypeAlias = Callable[[Subject, Evolution], Evolution]
"""Takes a table and the changes so far, and returns the changes with one more."""


# --- columns ---------------------------------------------------------------------------------------------


def change_columns(change: Callable[[Columns, Subject], Columns]) -> Step:
    """A step that changes columns."""

    def step(table: Subject, before: Evolution) -> Evolution:
        metadata = table.metadata
        present = Columns(metadata.schema, metadata.fields["last-column-id"])
        columns = change(present, table)
        # A column may have the name of a partition field now.
        check_names(metadata.spec, columns.schema)
        dropped = field_ids(present.schema) - field_ids(columns.schema)
        return replace(before, columns=columns, dropped=before.dropped | dropped)

    return step


def users_of(table: Subject) -> Callable[[int], str | None]:
    """Returns what of a table needs a field: the spec, the sort order, or manifests of an older spec.

    Iceberg allows dropping a column that only older specs use. But not every engine can read the manifests of
    such a spec, even if they only list removed files: DuckDB crashes.
    """
    metadata = table.metadata
    reasons = {
        field.source_id: f"the newest snapshot still lists files that are partitioned by {field.name}; "
        "overwrite them, and drop the column after the next append"
        for spec_id in table.specs_in_use
        for field in metadata.specs[spec_id].fields
    }
    reasons |= {
        field.source_id: "the sort order uses it; change the sort order first"
        for field in metadata.sort_order.fields
    }
    reasons |= {
        field.source_id: f"the partition field {field.name} uses it; drop the partition field first"
        for field in metadata.spec.fields
    }
    return reasons.get


# --- partition specs -------------------------------------------------------------------------------------


def add_partition_field(term: str) -> Step:
    """A step that adds a partition field; existing files keep their spec."""

    def step(table: Subject, before: Evolution) -> Evolution:
        metadata = table.metadata
        return _respecified(metadata, before, [*_terms(metadata.spec), parse_source(term, metadata.schema)])

    return step


def drop_partition_field(given: str) -> Step:
    """A step that drops a partition field, given by its name or as it was written (`day(ts)`)."""

    def step(table: Subject, before: Evolution) -> Evolution:
        metadata = table.metadata
        gone = _partition_field(metadata, given)
        kept = [(f.source_id, f.transform) for f in metadata.spec.fields if f.field_id != gone.field_id]
        return _respecified(metadata, before, kept)

    return step


def replace_partition_by(terms: Sequence[str]) -> Step:
    """A step that replaces all partition fields; an empty list removes them."""

    def step(table: Subject, before: Evolution) -> Evolution:
        if isinstance(terms, str):
            raise InvalidInputError(
                "partition_by must be a list of strings, not a string", f"write [{terms!r}]"
            )
        sources = [parse_source(term, table.metadata.schema) for term in terms]
        return _respecified(table.metadata, before, sources)

    return step


def _respecified(metadata: TableMetadata, before: Evolution, terms: Sequence[Term]) -> Evolution:
    last_id = int(metadata.fields["last-partition-id"])
    spec = next_spec(terms, metadata.schema, metadata.specs, last_id)
    if spec.spec_id == metadata.spec.spec_id:
        raise InvalidInputError("the table already has this partitioning", "nothing to do")
    return replace(before, specs=(*before.specs, spec))


def next_spec(
    terms: Sequence[Term], schema: Schema, known: Mapping[int, PartitionSpec], last_id: int
) -> PartitionSpec:
    """The spec of `terms` for a table that had the specs `known`.

    As Iceberg requires, a field that any of them has (the same source and transform) keeps its id and name,
    other fields get ids above `last_id`, and a known spec keeps its id.
    """
    if len(set(_keys(terms))) != len(terms):
        raise InvalidInputError("a partition field is given twice")
    history = {(f.source_id, str(f.transform)): f for spec in known.values() for f in spec.fields}
    taken = {field.name for field in history.values()}
    fields: list[PartitionField] = []
    for source, transform in terms:
        field = history.get((source, str(transform)))
        if field is None:
            last_id += 1
            name = _free_name(field_name(schema, source, transform), transform, taken, last_id)
            field = PartitionField(source, last_id, transform, name)
        fields.append(field)
    same = next((spec for spec in known.values() if list(spec.fields) == fields), None)
    spec = same or PartitionSpec(*fields, spec_id=max(known) + 1)
    check_names(spec, schema)
    return spec


def _free_name(usual: str, transform: Transform[Any, Any], taken: set[str], field_id: int) -> str:
    """A name that no other field of the table has or had, because engines list the specs side by side."""
    numbered = usual
    match transform:
        case BucketTransform():
            numbered = f"{usual}_{transform.num_buckets}"
        case TruncateTransform():
            numbered = f"{usual}_{transform.width}"
    name = next((name for name in (usual, numbered) if name not in taken), f"{usual}_{field_id}")
    taken.add(name)
    return name


def _partition_field(metadata: TableMetadata, given: str) -> PartitionField:
    by_name = {field.name: field for field in metadata.spec.fields}
    if isinstance(given, str) and given in by_name:
        return by_name[given]
    transform, column = parse_term(given)
    for field in metadata.spec.fields:
        if field.transform == transform and metadata.schema.find_column_name(field.source_id) == column:
            return field
    raise InvalidInputError(
        f"there is no partition field {given!r}",
        f"choose one of {', '.join(by_name)}" if by_name else "the table is not partitioned",
    )


def _terms(spec: PartitionSpec) -> list[Term]:
    return [(field.source_id, field.transform) for field in spec.fields]


def _keys(terms: Iterable[Term]) -> list[tuple[int, str]]:
    return [(source, str(transform)) for source, transform in terms]


# --- sort orders -----------------------------------------------------------------------------------------


def replace_sort_by(terms: Sequence[str]) -> Step:
    """A step that sets the order of rows in new files; an empty list removes it."""

    def step(table: Subject, before: Evolution) -> Evolution:
        metadata = table.metadata
        order = parse_sort_by(terms, metadata.schema, metadata.sort_orders)
        if order.order_id == metadata.sort_order.order_id:
            raise InvalidInputError("the table already has this sort order", "nothing to do")
        return replace(before, sort_orders=(*before.sort_orders, order))

    return step
