"""Manifests and manifest lists as Avro bytes.

Written with fastavro rather than with pyiceberg's own writer: for the manifest of one file, which is what
most commits write, it takes a small part of the time. The schemas come from pyiceberg.

Entries of one partition stand together in an Avro block of their own. Any reader reads that; ours decodes the
first entry of a block and passes over the rest if its partition is not wanted.
"""

from __future__ import annotations

import datetime
import io
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

import fastavro
from fastavro.write import Writer
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from headgate.errors import CorruptLakeError
from headgate.iceberg.data_file import (
    ColumnMetrics,
    Content,
    DataFile,
    Entry,
    FieldSummary,
    Manifest,
    Partition,
    Status,
)

FORMAT_VERSION: Final = 2
CODEC = "deflate"
ONE_BLOCK = 1 << 30
"""No block ends by its size: they end where we say."""
BLOCKS_KEY, BLOCKS_BY_PARTITION = "headgate.blocks", "partition"
"""In the header of a manifest: each of its blocks holds entries of one partition only."""
EPOCH_DATE = datetime.date(1970, 1, 1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

Wanted = Callable[[Partition], bool]


# --- manifests ---------------------------------------------------------------------------------------------


def encode_manifest(
    entries: Sequence[Entry], schema: Schema, spec: PartitionSpec, content: Content = Content.DATA
) -> bytes:
    """The bytes of a manifest with `entries`, those of one partition together."""
    avro_schema, names = _entry_schema(schema, spec)
    out = io.BytesIO()
    writer = Writer(
        out,
        avro_schema,
        codec=CODEC,
        sync_interval=ONE_BLOCK,
        metadata={
            "schema": schema.model_dump_json(),
            "partition-spec": _fields_json(spec),
            "partition-spec-id": str(spec.spec_id),
            "format-version": str(FORMAT_VERSION),
            "content": "data" if content is Content.DATA else "deletes",
            BLOCKS_KEY: BLOCKS_BY_PARTITION,
        },
    )
    last: Partition | None = None
    for entry in sorted(entries, key=lambda entry: _partition_order(entry.file.partition)):
        if last is not None and entry.file.partition != last:
            writer.dump()
        last = entry.file.partition
        writer.write(_entry_to_avro(entry, names))
    writer.flush()
    return out.getvalue()


def decode_manifest(data: bytes, manifest: Manifest, wanted: Wanted | None = None) -> Iterator[Entry]:
    """The entries of a manifest, whose sequence numbers are inherited as the specification says.

    With `wanted`, only those of partitions for which it is true.
    """
    try:
        blocks = fastavro.block_reader(io.BytesIO(data))
        uniform = blocks.metadata.get(BLOCKS_KEY) == BLOCKS_BY_PARTITION
        for block in blocks:
            for record in block:
                fields = cast(Mapping[str, Any], record)
                # Asked before the entry is made: most of what planning decodes is passed over.
                if wanted is None or wanted(_partition_from_avro(fields)):
                    yield _entry_from_avro(fields, manifest)
                elif uniform:
                    break
    except (ValueError, EOFError, KeyError, IndexError) as error:
        raise CorruptLakeError(f"the manifest {manifest.path} cannot be read: {error}") from error


def _entry_to_avro(entry: Entry, names: Sequence[str]) -> dict[str, Any]:
    file = entry.file
    metrics = file.metrics
    return {
        "status": int(entry.status),
        "snapshot_id": entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.file_sequence_number,
        "data_file": {
            "content": int(file.content),
            "file_path": file.path,
            "file_format": "PARQUET",
            "partition": dict(zip(names, file.partition, strict=True)),
            "record_count": file.record_count,
            "file_size_in_bytes": file.size_bytes,
            "column_sizes": _pairs(metrics.sizes),
            "value_counts": _pairs(metrics.values),
            "null_value_counts": _pairs(metrics.nulls),
            "nan_value_counts": _pairs(metrics.nans),
            "lower_bounds": _pairs(metrics.lower),
            "upper_bounds": _pairs(metrics.upper),
            "key_metadata": None,
            "split_offsets": list(file.split_offsets) or None,
            "equality_ids": None,
            "sort_order_id": file.sort_order_id,
        },
    }


def _entry_from_avro(record: Mapping[str, Any], manifest: Manifest) -> Entry:
    status = Status(record["status"])
    # Only added entries inherit; existing ones carry their own numbers.
    inherited = manifest.sequence_number if status is Status.ADDED else None
    sequence, file_sequence = record["sequence_number"], record["file_sequence_number"]
    source = record["data_file"]
    return Entry(
        status=status,
        snapshot_id=manifest.snapshot_id if record["snapshot_id"] is None else record["snapshot_id"],
        sequence_number=inherited if sequence is None else sequence,
        file_sequence_number=inherited if file_sequence is None else file_sequence,
        file=DataFile(
            path=source["file_path"],
            partition=_partition_from_avro(record),
            spec_id=manifest.spec_id,
            record_count=source["record_count"],
            size_bytes=source["file_size_in_bytes"],
            metrics=ColumnMetrics(
                sizes=_mapping(source["column_sizes"]),
                values=_mapping(source["value_counts"]),
                nulls=_mapping(source["null_value_counts"]),
                nans=_mapping(source["nan_value_counts"]),
                lower=_mapping(source["lower_bounds"]),
                upper=_mapping(source["upper_bounds"]),
            ),
            split_offsets=tuple(source["split_offsets"] or ()),
            content=Content(source["content"]),
            sort_order_id=source["sort_order_id"],
        ),
    )


def _partition_from_avro(record: Mapping[str, Any]) -> Partition:
    return tuple([physical(value) for value in record["data_file"]["partition"].values()])


def physical(value: Any) -> Any:
    """A partition value as Iceberg stores it: fastavro returns dates and times as Python objects."""
    match value:
        case datetime.datetime():
            at = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
            return (at - EPOCH) // datetime.timedelta(microseconds=1)
        case datetime.date():
            return (value - EPOCH_DATE).days
        case datetime.time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        case uuid.UUID():
            return value.bytes
        case _:
            return value


def _pairs(mapping: Mapping[int, Any]) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": value} for key, value in sorted(mapping.items())] or None


def _mapping(pairs: Sequence[Mapping[str, Any]] | None) -> dict[int, Any]:
    return {pair["key"]: pair["value"] for pair in pairs or ()}


def _partition_order(partition: Partition) -> tuple[tuple[bool, str], ...]:
    # Any order that keeps equal partitions together; values of one field may be None or of any type.
    return tuple((value is not None, repr(value)) for value in partition)


def _fields_json(spec: PartitionSpec) -> str:
    return "[" + ",".join(field.model_dump_json() for field in spec.fields) + "]"


_schemas: dict[tuple[int, str, str], tuple[Any, tuple[str, ...]]] = {}


def _entry_schema(schema: Schema, spec: PartitionSpec) -> tuple[Any, tuple[str, ...]]:
    """The Avro schema of entries, parsed once per spec, and the names of the partition fields in it."""
    key = (schema.schema_id, schema.model_dump_json(), spec.model_dump_json())
    known = _schemas.get(key)
    if known is None:
        struct = data_file_with_partition(spec.partition_type(schema), FORMAT_VERSION)
        iceberg = manifest_entry_schema_with_data_file(FORMAT_VERSION, struct)
        avro = AvroSchemaConversion().iceberg_to_avro(iceberg, schema_name="manifest_entry")
        known = _schemas[key] = (fastavro.parse_schema(avro), _partition_names(avro))
    return known


def _partition_names(avro: Any) -> tuple[str, ...]:
    data_file = next(field for field in avro["fields"] if field["name"] == "data_file")
    partition = next(field for field in data_file["type"]["fields"] if field["name"] == "partition")
    return tuple(field["name"] for field in partition["type"]["fields"])


# --- manifest lists ----------------------------------------------------------------------------------------


def encode_manifest_list(
    manifests: Sequence[Manifest], snapshot_id: int, parent_id: int | None, sequence_number: int
) -> bytes:
    """The bytes of the manifest list of a snapshot."""
    out = io.BytesIO()
    writer = Writer(
        out,
        _manifest_list_schema(),
        codec=CODEC,
        sync_interval=ONE_BLOCK,
        metadata={
            "snapshot-id": str(snapshot_id),
            "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
            "sequence-number": str(sequence_number),
            "format-version": str(FORMAT_VERSION),
        },
    )
    for manifest in manifests:
        writer.write(_manifest_to_avro(manifest))
    writer.flush()
    return out.getvalue()


def decode_manifest_list(data: bytes, origin: str) -> tuple[Manifest, ...]:
    """The manifests of a snapshot."""
    try:
        return tuple(
            _manifest_from_avro(cast(Mapping[str, Any], record))
            for record in fastavro.reader(io.BytesIO(data))
        )
    except (ValueError, EOFError, KeyError, IndexError) as error:
        raise CorruptLakeError(f"the manifest list {origin} cannot be read: {error}") from error


@lru_cache(maxsize=1)
def _manifest_list_schema() -> Any:
    iceberg = MANIFEST_LIST_FILE_SCHEMAS[FORMAT_VERSION]
    return fastavro.parse_schema(AvroSchemaConversion().iceberg_to_avro(iceberg, schema_name="manifest_file"))


def _manifest_to_avro(manifest: Manifest) -> dict[str, Any]:
    return {
        "manifest_path": manifest.path,
        "manifest_length": manifest.length,
        "partition_spec_id": manifest.spec_id,
        "content": 0 if manifest.content is Content.DATA else 1,
        "sequence_number": manifest.sequence_number,
        "min_sequence_number": manifest.min_sequence_number,
        "added_snapshot_id": manifest.snapshot_id,
        "added_files_count": manifest.added_files,
        "existing_files_count": manifest.existing_files,
        "deleted_files_count": manifest.deleted_files,
        "added_rows_count": manifest.added_rows,
        "existing_rows_count": manifest.existing_rows,
        "deleted_rows_count": manifest.deleted_rows,
        "partitions": [
            {
                "contains_null": summary.contains_null,
                "contains_nan": summary.contains_nan,
                "lower_bound": summary.lower,
                "upper_bound": summary.upper,
            }
            for summary in manifest.partitions
        ],
        "key_metadata": None,
    }


def _manifest_from_avro(record: Mapping[str, Any]) -> Manifest:
    return Manifest(
        path=record["manifest_path"],
        length=record["manifest_length"],
        spec_id=record["partition_spec_id"],
        content=Content.DATA if record["content"] == 0 else Content.POSITION_DELETES,
        sequence_number=record["sequence_number"],
        min_sequence_number=record["min_sequence_number"],
        snapshot_id=record["added_snapshot_id"],
        added_files=record["added_files_count"],
        existing_files=record["existing_files_count"],
        deleted_files=record["deleted_files_count"],
        added_rows=record["added_rows_count"],
        existing_rows=record["existing_rows_count"],
        deleted_rows=record["deleted_rows_count"],
        partitions=tuple(
            FieldSummary(
                summary["contains_null"],
                bool(summary["contains_nan"]),
                summary["lower_bound"],
                summary["upper_bound"],
            )
            for summary in record["partitions"] or ()
        ),
    )
