"""The metadata file of a table: read, changed by pure functions, and written, always bounded in size.

Kept as the JSON that it is, so that what another engine wrote into it stays; schemas and specs are given out
as pyiceberg's models. A change is a function from metadata to metadata.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_by_id, index_by_name
from pyiceberg.table.sorting import SortOrder

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.identifiers import unpadded
from headgate.model.json_object import JsonObject, encode

FORMAT_VERSION = 2
KEPT_SNAPSHOTS = 100
KEPT_METADATA_LOG = 20
MAIN = "main"


class Noted(dict[str, Any]):
    """An item of a list in the metadata. It never changes, so it is encoded once for all files it is in."""

    @cached_property
    def text(self) -> str:
        return encode(dict(self)).decode()


def _text(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], Noted):
        return f"[{','.join(item.text for item in value)}]"
    return encode(value).decode()


_HISTORY = ("snapshots", "snapshot-log", "metadata-log")
"""The lists that every commit makes longer; they are most of the bytes of a metadata file."""
_MODELS = MappingProxyType({"schemas": "schemas", "specs": "partition-specs", "sort_orders": "sort-orders"})
"""The models of a table, and the fields that they are made from."""


@dataclass(frozen=True)
class TableMetadata:
    """One metadata file. `fields` is its JSON and must not be changed."""

    fields: Mapping[str, Any]

    @classmethod
    def decode(cls, data: bytes, origin: str) -> TableMetadata:
        source = JsonObject.parse(data, origin)
        version = source.number("format-version")
        if version != FORMAT_VERSION:
            raise UnsupportedError(
                f"{origin} is of Iceberg format {version}; only {FORMAT_VERSION} is supported",
                "upgrade headgate, or have the table written with the format version that it reads",
            )
        for name in ("table-uuid", "location", "schemas", "partition-specs", "current-schema-id"):
            if name not in source.fields:
                raise CorruptLakeError(f"{origin}: field {name!r} is missing")
        history = {name: [Noted(item.fields) for item in source.objects(name)] for name in _HISTORY}
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
        return {raw["schema-id"]: Schema.model_validate(raw) for raw in self.fields["schemas"]}

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas[self.fields["current-schema-id"]]

    @cached_property
    def renamed_over(self) -> frozenset[int]:
        """The outermost columns with a name, at any depth, that was another column's once.

        Older files have that other column under the name, so whoever finds columns by name finds it there.
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
        """Whether a field inside of a column has a name that it, or another one, had not or had before."""
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
        return {raw["spec-id"]: PartitionSpec.model_validate(raw) for raw in self.fields["partition-specs"]}

    @property
    def spec(self) -> PartitionSpec:
        """The spec of new files."""
        return self.specs[self.fields["default-spec-id"]]

    def schema_of(self, spec: PartitionSpec) -> Schema:
        """A schema that has the columns of `spec`: the current one, or for an old spec one of its time.

        Old files keep their spec, and a column that only old specs use may have been dropped since.
        """
        sources = {field.source_id for field in spec.fields}
        newest_first = sorted(self.schemas.values(), key=lambda schema: -schema.schema_id)
        candidates = (schema for schema in (self.schema, *newest_first) if sources <= set(schema.field_ids))
        return next(candidates, self.schema)

    @cached_property
    def sort_orders(self) -> Mapping[int, SortOrder]:
        return {raw["order-id"]: SortOrder.model_validate(raw) for raw in self.fields["sort-orders"]}

    @property
    def sort_order(self) -> SortOrder:
        """The order of the rows in new files."""
        return self.sort_orders[self.fields["default-sort-order-id"]]

    @property
    def snapshot(self) -> Mapping[str, Any] | None:
        """The current snapshot, or None for a table without data."""
        current = self.fields.get("current-snapshot-id")
        if current is None or current == -1:
            return None
        snapshots: list[Mapping[str, Any]] = self.fields["snapshots"]
        return next(raw for raw in snapshots if raw["snapshot-id"] == current)

    def changed(self, **fields: Any) -> TableMetadata:
        """The same metadata with other values; underscores in names stand for hyphens."""
        given = {name.replace("_", "-"): value for name, value in fields.items()}
        after = TableMetadata({**self.fields, **given})
        # Most changes leave the models alone, and making them takes longer than the rest of a change.
        for model, field in _MODELS.items():
            if model in self.__dict__ and field not in given:
                after.__dict__[model] = self.__dict__[model]
        return after


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """A snapshot to be added: the one of lake version `sequence_number`."""

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
    """The table after `snapshot`, with the newest `KEPT_SNAPSHOTS` of them."""
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


def with_previous(metadata: TableMetadata, previous_file: str, previous_ms: int) -> TableMetadata:
    """The metadata with a note of the file that it follows."""
    entry = Noted({"metadata-file": previous_file, "timestamp-ms": previous_ms})
    return metadata.changed(metadata_log=[*metadata.fields["metadata-log"], entry][-KEPT_METADATA_LOG:])


def without_expired(metadata: TableMetadata, until: int, files: Collection[int]) -> TableMetadata:
    """The metadata without what is gone: snapshots up to version `until` but for `files`, and metadata files.

    The same object if there is nothing to leave out. The current snapshot always stays.
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
    # As the specification wants it: history begins behind the last snapshot that is gone.
    gone = max((at for at, one in enumerate(history) if one["snapshot-id"] not in kept), default=-1)
    return metadata.changed(snapshots=snapshots, snapshot_log=history[gone + 1 :], metadata_log=log)


def _version_of(metadata_file: str) -> int:
    """The version in the name of a metadata file; 0 for one that another program has named."""
    return unpadded(metadata_file.rpartition("/")[2][:20]) or 0


def with_properties(
    metadata: TableMetadata, set_: Mapping[str, str], removed: frozenset[str], now_ms: int
) -> TableMetadata:
    kept = {name: value for name, value in metadata.properties.items() if name not in removed}
    return metadata.changed(properties={**kept, **set_}, last_updated_ms=now_ms)


def with_schema(metadata: TableMetadata, schema: Schema, last_column_id: int, now_ms: int) -> TableMetadata:
    """The table with `schema` as its current one; its id is assigned here.

    `last_column_id` is the highest that was ever given to a column, also to one that is gone again.
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
