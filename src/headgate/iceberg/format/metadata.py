"""The metadata file of a table: read, changed by pure functions, and written, always with bounded size.

Kept as the original JSON, so that whatever another engine wrote into it is preserved; schemas and specs are
returned as pyiceberg's models. A change is a function from metadata to metadata.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_by_id, index_by_name
from pyiceberg.table.sorting import SortOrder

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.identifiers import named_version, number_in
from headgate.model.json_object import Json, JsonObject, encode
from headgate.model.limits import SNAPSHOTS

FORMAT_VERSION = 2
KEPT_SNAPSHOTS = 100
KEPT_METADATA_LOG = 20
MAIN = "main"


class Noted(dict[str, Any]):
    """An item of a list in the metadata. It never changes, so it is encoded once for all files."""

    @cached_property
    def text(self) -> str:
        return encode(dict(self)).decode()


def _text(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], Noted):
        return f"[{','.join(item.text for item in value)}]"
    return encode(value).decode()


T = TypeVar("T")

_HISTORY = ("snapshots", "snapshot-log", "metadata-log")
"""The lists that grow with every commit; they are most of a metadata file."""
_MODELS = MappingProxyType({"schemas": "schemas", "specs": "partition-specs", "sort_orders": "sort-orders"})
"""The models of a table, and the fields that they are made from."""


@dataclass(frozen=True)
class TableMetadata:
    """One metadata file. `fields` is its JSON and must not be modified."""

    fields: Mapping[str, Any]

    @classmethod
    def decode(cls, data: bytes, origin: str) -> TableMetadata:
        source = JsonObject.parse(data, origin)
        version = source.number("format-version")
        if version != FORMAT_VERSION:
            raise UnsupportedError(
                f"{origin} has Iceberg format version {version}; only version {FORMAT_VERSION} is supported",
                "upgrade headgate, or write the table with a format version that it supports",
            )
        for name in ("table-uuid", "location", "schemas", "partition-specs", "current-schema-id"):
            if name not in source.fields:
                raise CorruptLakeError(f"{origin}: field {name!r} is missing")
        for name in _HISTORY:
            listed = source.fields.get(name)
            if isinstance(listed, list) and len(listed) > SNAPSHOTS:
                raise CorruptLakeError(f"{origin} lists {len(listed):,} {name}, more than {SNAPSHOTS:,}")
        _require_shape(source)
        _require_own_numbers(source)
        lists = {name: [item.fields for item in source.objects(name)] for name in _TYPES}
        _require_types(source, lists)
        history = {name: [Noted(item) for item in lists[name]] for name in _HISTORY}
        return cls({**source.fields, **history})

    @cached_property
    def data(self) -> bytes:
        """The bytes of the file: canonical JSON."""
        named = ((name, _text(self.fields[name])) for name in sorted(self.fields))
        return ("{" + ",".join(f"{_text(name)}:{text}" for name, text in named) + "}").encode()

    @property
    def uuid(self) -> str:
        return str(self.fields["table-uuid"])

    @property
    def location(self) -> str:
        """The directory of the table, a whole URI."""
        return str(self.fields["location"])

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self.fields.get("properties", {}))

    @cached_property
    def schemas(self) -> Mapping[int, Schema]:
        with self._as_it_should_be():
            return {raw["schema-id"]: Schema.model_validate(raw) for raw in self.fields["schemas"]}

    @contextmanager
    def _as_it_should_be(self) -> Iterator[None]:
        """Translates errors in parts of the file that are read for the first time: it is untrusted input."""
        try:
            yield
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            told = " ".join(str(error).split())[:200]
            problem = f"the metadata of the table at {self.location!r} is damaged: {told}"
            raise CorruptLakeError(problem) from error

    @property
    def schema(self) -> Schema:
        """The current schema."""
        known = self.schemas.get(self.fields["current-schema-id"])
        return self._named(known, "current-schema-id")

    def _named(self, found: T | None, name: str) -> T:
        if found is None:
            raise CorruptLakeError(
                f"the metadata of the table at {self.location!r} is damaged: there is no {name} "
                f"{self.fields.get(name)!r}"
            )
        return found

    @cached_property
    def renamed_over(self) -> frozenset[int]:
        """The outermost columns with a name, at any depth, that another column had before.

        Older files have the other column under this name, so a reader that matches columns by name finds it
        there.
        """
        names: dict[str, set[int]] = {}
        for path, field_id in (item for s in self.schemas.values() for item in index_by_name(s).items()):
            names.setdefault(path.lower(), set()).add(field_id)
        present = index_by_name(self.schema).items()
        doubtful = {field_id for path, field_id in present if names[path.lower()] != {field_id}}
        return frozenset(
            column.field_id for column in self.schema.fields if doubtful & set(index_by_id(Schema(column)))
        )

    @cached_property
    def renamed_inside(self) -> bool:
        """Whether a field inside a column has a name that is new to it, or that another field had before."""
        nested = {column.field_id for column in self.schema.fields if not column.field_type.is_primitive}
        present = index_by_id(self.schema)
        return bool(nested & self.renamed_over) or any(
            field_id in present and present[field_id].name != field.name
            for schema in self.schemas.values()
            for field_id, field in index_by_id(schema).items()
            if field_id not in {column.field_id for column in self.schema.fields}
        )

    @cached_property
    def names_ever(self) -> frozenset[str]:
        """The names that any column has or had, in lower case."""
        return frozenset(name.lower() for schema in self.schemas.values() for name in index_by_name(schema))

    @cached_property
    def specs(self) -> Mapping[int, PartitionSpec]:
        with self._as_it_should_be():
            raws = self.fields["partition-specs"]
            return {raw["spec-id"]: PartitionSpec.model_validate(raw) for raw in raws}

    @property
    def spec(self) -> PartitionSpec:
        """The spec of new files."""
        return self._named(self.specs.get(self.fields.get("default-spec-id", -1)), "default-spec-id")

    def schema_of(self, spec: PartitionSpec) -> Schema:
        """A schema that has the columns of `spec`: the current one, or for an old spec one from its time.

        Old files keep their spec, and a column that only old specs use may have been dropped since.
        """
        sources = {field.source_id for field in spec.fields}
        newest_first = sorted(self.schemas.values(), key=lambda schema: -schema.schema_id)
        candidates = (schema for schema in (self.schema, *newest_first) if sources <= set(schema.field_ids))
        return next(candidates, self.schema)

    @cached_property
    def sort_orders(self) -> Mapping[int, SortOrder]:
        with self._as_it_should_be():
            return {raw["order-id"]: SortOrder.model_validate(raw) for raw in self.fields["sort-orders"]}

    @property
    def sort_order(self) -> SortOrder:
        """The order of the rows in new files."""
        known = self.sort_orders.get(self.fields.get("default-sort-order-id", -1))
        return self._named(known, "default-sort-order-id")

    @property
    def snapshot(self) -> Mapping[str, Any] | None:
        """The current snapshot, or None for a table without data."""
        current = self.fields.get("current-snapshot-id")
        if current is None or current == -1:
            return None
        snapshots: list[Mapping[str, Any]] = self.fields["snapshots"]
        found = next((raw for raw in snapshots if raw.get("snapshot-id") == current), None)
        return self._named(found, "current-snapshot-id")

    def changed(self, **fields: Any) -> TableMetadata:
        """The same metadata with other values; underscores in names stand for hyphens."""
        given = {name.replace("_", "-"): value for name, value in fields.items()}
        after = TableMetadata({**self.fields, **given})
        # Most changes do not affect the models, and creating them takes longer than the rest of a change.
        for model, field in _MODELS.items():
            if model in self.__dict__ and field not in given:
                after.__dict__[model] = self.__dict__[model]
        return after


_NUMBERS = (
    "current-schema-id",
    "default-spec-id",
    "default-sort-order-id",
    "last-sequence-number",
    "last-column-id",
)


_TYPES: Mapping[str, Mapping[str, type]] = MappingProxyType(
    {
        "snapshots": {
            "manifest-list": str,
            "snapshot-id": int,
            "sequence-number": int,
            "timestamp-ms": int,
            "summary": dict,
        },
        "snapshot-log": {"snapshot-id": int, "timestamp-ms": int},
        "metadata-log": {"metadata-file": str, "timestamp-ms": int},
        "statistics": {"statistics-path": str},
        "partition-statistics": {"statistics-path": str},
    }
)
"""The lists of a metadata file, and the types of the fields of their items, if present."""


def _require_shape(source: JsonObject) -> None:
    """Checks what every reader of a metadata file relies on; other parts are checked when they are used."""
    for name in ("table-uuid", "location"):
        source.text(name)
    source.text_by_name("properties")
    for name in _NUMBERS:
        if name in source.fields:
            source.number(name)


def _require_own_numbers(source: JsonObject) -> None:
    """Rejects a sequence number, which is a version, above the version at which the file was written.

    So the numbers in the manifests of the table, which are compared with it, are versions of the lake.
    """
    written = named_version(source.origin)
    last = source.number("last-sequence-number") if "last-sequence-number" in source.fields else 0
    if written is not None and last > written:
        raise CorruptLakeError(
            f"{source.origin}: its last sequence number {last} is not that of a version yet"
        )


def _require_types(source: JsonObject, lists: Mapping[str, Sequence[Mapping[str, Json]]]) -> None:
    for name, fields in _TYPES.items():
        for field, kind in fields.items():
            # All at once: a table has many snapshots, and every reader runs this code.
            if not {type(item.get(field)) for item in lists[name]} <= {kind, type(None)}:
                raise CorruptLakeError(f"{source.origin}: a {field!r} in {name!r} is not a {kind.__name__}")
    current = source.fields.get("current-snapshot-id")
    for item in lists["snapshots"]:
        if current is not None and item.get("snapshot-id") == current:
            snapshot = JsonObject(item, f"{source.origin}, snapshot {current}")
            snapshot.text("manifest-list")
            number = snapshot.number("sequence-number")
            if "last-sequence-number" in source.fields and number > source.number("last-sequence-number"):
                raise CorruptLakeError(f"{snapshot.origin}: its sequence number {number} is not the last one")
            snapshot.text_by_name("summary")


def told_number(summary: Mapping[str, Any], name: str, otherwise: int = 0) -> int:
    """A number in the summary of a snapshot, which contains strings; `otherwise` if it does not say."""
    if name not in summary:
        return otherwise
    number = number_in(str(summary[name]))
    if number is None:
        raise CorruptLakeError(f"the summary of a snapshot says {str(summary[name])[:80]!r} for {name}")
    return number


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """A snapshot to be added, with the lake version `sequence_number`."""

    snapshot_id: int
    sequence_number: int
    timestamp_ms: int
    manifest_list: str
    summary: Mapping[str, str]


def new_table(
    uuid: str,
    location: str,
    schema: Schema,
    spec: PartitionSpec,
    sort_order: SortOrder,
    properties: Mapping[str, str],
    now_ms: int,
) -> TableMetadata:
    """The metadata of an empty table."""
    return TableMetadata(
        {
            "format-version": FORMAT_VERSION,
            "table-uuid": uuid,
            "location": location,
            "last-sequence-number": 0,
            "last-updated-ms": now_ms,
            "last-column-id": schema.highest_field_id,
            "current-schema-id": schema.schema_id,
            "schemas": [_dump(schema)],
            "default-spec-id": spec.spec_id,
            "partition-specs": [_dump(spec)],
            "last-partition-id": spec.last_assigned_field_id,
            "default-sort-order-id": sort_order.order_id,
            "sort-orders": [_dump(sort_order)],
            "properties": dict(properties),
            "current-snapshot-id": None,
            "refs": {},
            "snapshots": [],
            "snapshot-log": [],
            "metadata-log": [],
        }
    )


def with_snapshot(metadata: TableMetadata, snapshot: NewSnapshot) -> TableMetadata:
    """The table after `snapshot`, with the newest `KEPT_SNAPSHOTS` snapshots."""
    parent = metadata.fields.get("current-snapshot-id")
    added = Noted(
        {
            "snapshot-id": snapshot.snapshot_id,
            "sequence-number": snapshot.sequence_number,
            "timestamp-ms": snapshot.timestamp_ms,
            "manifest-list": snapshot.manifest_list,
            "summary": dict(snapshot.summary),
            "schema-id": metadata.fields["current-schema-id"],
        }
    )
    if parent is not None:
        added["parent-snapshot-id"] = parent
    entry = Noted({"snapshot-id": snapshot.snapshot_id, "timestamp-ms": snapshot.timestamp_ms})
    return metadata.changed(
        last_sequence_number=snapshot.sequence_number,
        last_updated_ms=snapshot.timestamp_ms,
        current_snapshot_id=snapshot.snapshot_id,
        refs={MAIN: {"snapshot-id": snapshot.snapshot_id, "type": "branch"}},
        snapshots=[*metadata.fields["snapshots"], added][-KEPT_SNAPSHOTS:],
        snapshot_log=[*metadata.fields["snapshot-log"], entry][-KEPT_SNAPSHOTS:],
    )


def not_after(metadata: TableMetadata, now_ms: int) -> TableMetadata:
    """The metadata with no time after `now_ms`: a clock was ahead, and other engines require ascending times.

    Returns the same object if nothing changes.
    """
    changed: dict[str, Any] = {
        name: [_dated(item, now_ms) for item in metadata.fields[name]]
        for name in _HISTORY
        if any(_is_after(item.get("timestamp-ms"), now_ms) for item in metadata.fields[name])
    }
    if _is_after(metadata.fields.get("last-updated-ms"), now_ms):
        changed["last-updated-ms"] = now_ms
    return metadata.changed(**changed) if changed else metadata


def _dated(item: Noted, now_ms: int) -> Noted:
    after = _is_after(item.get("timestamp-ms"), now_ms)
    return Noted({**item, "timestamp-ms": now_ms}) if after else item


def _is_after(time: object, now_ms: int) -> bool:
    return isinstance(time, int) and time > now_ms


def with_previous(metadata: TableMetadata, previous_file: str, previous_ms: int) -> TableMetadata:
    """The metadata with a reference to the file that it follows."""
    entry = Noted({"metadata-file": previous_file, "timestamp-ms": previous_ms})
    return metadata.changed(metadata_log=[*metadata.fields["metadata-log"], entry][-KEPT_METADATA_LOG:])


def without_expired(metadata: TableMetadata, until: int, files: Collection[int]) -> TableMetadata:
    """The metadata without snapshots up to version `until`, except `files`, and without old metadata files.

    Returns the same object if nothing changes. The current snapshot always stays.
    """
    current = metadata.fields.get("current-snapshot-id")
    snapshots = [
        raw
        for raw in metadata.fields["snapshots"]
        if raw["sequence-number"] > until or raw["sequence-number"] in files or raw["snapshot-id"] == current
    ]
    log = [one for one in metadata.fields["metadata-log"] if _version_of(one["metadata-file"]) > until]
    if (len(snapshots), len(log)) == (
        len(metadata.fields["snapshots"]),
        len(metadata.fields["metadata-log"]),
    ):
        return metadata
    kept = {raw["snapshot-id"] for raw in snapshots}
    history = metadata.fields["snapshot-log"]
    # As the specification requires, the history begins after the last snapshot that was removed.
    gone = max((at for at, one in enumerate(history) if one["snapshot-id"] not in kept), default=-1)
    return metadata.changed(snapshots=snapshots, snapshot_log=history[gone + 1 :], metadata_log=log)


def _version_of(metadata_file: str) -> int:
    """The version in the name of a metadata file; 0 for a name that another program chose."""
    return named_version(metadata_file) or 0


def with_properties(
    metadata: TableMetadata, set_: Mapping[str, str], removed: frozenset[str], now_ms: int
) -> TableMetadata:
    kept = {name: value for name, value in metadata.properties.items() if name not in removed}
    return metadata.changed(properties={**kept, **set_}, last_updated_ms=now_ms)


def with_schema(metadata: TableMetadata, schema: Schema, last_column_id: int, now_ms: int) -> TableMetadata:
    """The table with `schema` as its current schema, whose id is assigned here.

    `last_column_id` is the highest id that any column ever had, including dropped ones.
    """
    last_column_id = max(metadata.fields["last-column-id"], last_column_id)
    after = metadata.changed(last_column_id=last_column_id, last_updated_ms=now_ms)
    known = next((known for known in metadata.schemas.values() if known == schema), None)
    if known is not None:
        return after.changed(current_schema_id=known.schema_id)
    schema_id = max(metadata.schemas) + 1
    raw = {**_dump(schema), "schema-id": schema_id}
    return after.changed(schemas=[*metadata.fields["schemas"], raw], current_schema_id=schema_id)


def with_spec(metadata: TableMetadata, spec: PartitionSpec, now_ms: int) -> TableMetadata:
    """The table with `spec` for new files; the caller has assigned its id and those of its new fields."""
    others = [raw for raw in metadata.fields["partition-specs"] if raw["spec-id"] != spec.spec_id]
    return metadata.changed(
        partition_specs=[*others, _dump(spec)],
        default_spec_id=spec.spec_id,
        last_partition_id=max(metadata.fields["last-partition-id"], spec.last_assigned_field_id),
        last_updated_ms=now_ms,
    )


def with_sort_order(metadata: TableMetadata, order: SortOrder, now_ms: int) -> TableMetadata:
    """The table with `order` for the rows of new files; the caller has assigned its id."""
    others = [raw for raw in metadata.fields["sort-orders"] if raw["order-id"] != order.order_id]
    return metadata.changed(
        sort_orders=[*others, _dump(order)],
        default_sort_order_id=order.order_id,
        last_updated_ms=now_ms,
    )


def _dump(model: Schema | PartitionSpec | SortOrder) -> dict[str, Any]:
    dumped: dict[str, Any] = json.loads(model.model_dump_json())
    return dumped
