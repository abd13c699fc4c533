"""Manifests and manifest lists as Avro bytes.

Written with fastavro, not with pyiceberg's own writer: for a manifest with one file, which is what most
commits write, fastavro takes a small part of the time. The schemas come from pyiceberg.

Entries of one partition are stored together in Avro blocks of their own. The header lists the partitions of
the blocks and the bounds of their columns. Any reader can read such a file; ours skips the blocks whose
partition is not wanted, or whose bounds exclude a predicate. Settled entries (neither added nor removed by
the snapshot that wrote the manifest) have blocks of their own, before all others: a merge copies these blocks
to the new manifest unchanged.
"""

from __future__ import annotations

import base64
import datetime
import io
import struct
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from typing import IO, Any, Final, cast

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
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
from headgate.iceberg.format.block_bounds import (
    ANYTHING,
    BlockBounds,
    Range,
    Ranges,
    around,
    columns_with_bounds,
    ranges_of,
)
from headgate.iceberg.format.container import Container, PlainFile, read_long, split
from headgate.iceberg.format.data_file import (
    ColumnMetrics,
    Content,
    DataFile,
    Entry,
    FieldSummary,
    Manifest,
    Partition,
    Status,
)
from headgate.iceberg.format.writer_schema import writer_schema
from headgate.model.limits import ITEMS, ROWS_IN_A_FILE

FORMAT_VERSION: Final = 2
CODEC = "deflate"
ONE_BLOCK = 1 << 30
"""Blocks do not end because of their size: they end where we say."""
END_OF_ARRAY = b"\0"
PARTITIONS_KEY = "headgate.partitions"
"""In the header of a manifest: the partitions of its blocks, as an Avro array in base64."""
SETTLED_KEY = "headgate.settled-blocks"
"""In the header of a manifest: the checksums of the blocks of settled entries, which come first."""
BOUNDS_KEY = "headgate.bounds"
"""In the header of a manifest: the bounds of columns in its blocks."""
ENTRIES_IN_A_BLOCK = 16
"""A block ends after this many entries: few enough to skip most blocks, enough to compress well."""
DAMAGE = (
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    struct.error,
    zlib.error,
    SchemaParseException,
    UnknownType,
)
"""The errors that reading damaged bytes can raise."""
EPOCH_DATE = datetime.date(1970, 1, 1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries of a manifest a reader wants: of which partitions, and optionally within which bounds.

    `within` is called for blocks, with a function that returns the range of a column, or None. Blocks that
    pass may still contain entries that are not wanted.
    """

    partition: Callable[[Partition], bool]
    within: Callable[[Callable[[int], Range | None]], bool] | None = None


# --- manifests ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pack:
    """Settled entries of one partition in Avro form: copied to another manifest without decoding."""

    partition: Partition
    count: int
    records: bytes
    ranges: Ranges = field(default_factory=dict)

    @property
    def checksum(self) -> str:
        # They are not decoded on the way, so damage would go unnoticed.
        return f"{zlib.crc32(self.records):08x}"


@dataclass(frozen=True, slots=True)
class Listed:
    """The contents of a manifest: entries, and packs of entries that stay unchanged."""

    entries: tuple[Entry, ...] = ()
    packs: tuple[Pack, ...] = ()


def encode_manifest(listed: Listed, schema: Schema, spec: PartitionSpec, content: Content) -> bytes:
    """The bytes of a manifest that lists all of this, with entries of one partition together."""
    form = _entry_form(schema, spec)
    packed = [(_is_settled(entry), _packed(entry, form)) for entry in listed.entries]
    settled = _by_partition([*listed.packs, *(pack for is_settled, pack in packed if is_settled)])
    others = _by_partition([pack for is_settled, pack in packed if not is_settled])
    blocks = [*settled, *others]
    out = io.BytesIO()
    writer = Writer(
        out,
        form.avro,
        codec=CODEC,
        metadata={
            "schema": schema.model_dump_json(),
            "partition-spec": _fields_json(spec),
            "partition-spec-id": str(spec.spec_id),
            "format-version": str(FORMAT_VERSION),
            "content": "data" if content is Content.DATA else "deletes",
            PARTITIONS_KEY: form.encode_partitions([block.partition for block in blocks]),
            SETTLED_KEY: " ".join(pack.checksum for pack in settled),
            BOUNDS_KEY: BlockBounds.of([block.ranges for block in blocks], form.columns).to_text(),
        },
    )
    for block in blocks:
        writer.write_block(_RawBlock(block.count, io.BytesIO(block.records)))
    writer.flush()
    return out.getvalue()


def decode_manifest(data: bytes, manifest: Manifest, wanted: Wanted | None = None) -> Iterator[Entry]:
    """The entries of a manifest; sequence numbers are inherited as the specification requires.

    With `wanted`, only those of the wanted partitions, and perhaps without blocks that are out of bounds.
    """
    try:
        for fields in _records(data if wanted is None else _only(data, wanted)):
            # Checked before the entry is built: a manifest from another engine is not filtered by blocks.
            if wanted is None or wanted.partition(_partition_from_avro(fields["data_file"]["partition"])):
                yield _entry_from_avro(fields, manifest)
    except DAMAGE as error:
        raise _unreadable(manifest, error) from error


def _records(data: bytes) -> Iterator[Mapping[str, Any]]:
    """The records of an untrusted file. Raises `ValueError` before they could take too much memory."""
    items = 0
    for record in fastavro.reader(cast("IO[bytes]", PlainFile(split(data)))):
        fields = cast("dict[str, Any]", record)
        items += sum(len(value) for value in _lists(fields))
        if items > ITEMS:
            raise ValueError(f"its entries have more than {ITEMS:,} numbers and bounds")
        yield fields


def _lists(fields: Mapping[str, Any]) -> Iterator[Sized]:
    """The lists and partitions in a record, which are at most one level below it."""
    for value in (*fields.values(), *fields.get("data_file", {}).values()):
        if type(value) is list or type(value) is dict:
            yield value


def decode_listed(data: bytes, manifest: Manifest, schema: Schema, spec: PartitionSpec) -> Listed:
    """The contents of a manifest, to be written into another one with `schema` and `spec`.

    Settled entries become packs if they are encoded in the form of the other manifest.
    """
    try:
        container = split(data)
        partitions, bounds = _partitions_of_blocks(container), _bounds_of_blocks(container)
        is_same_form = container.metadata["avro.schema"] == _entry_form(schema, spec).text
        if partitions is None or bounds is None or not is_same_form:
            return Listed(tuple(decode_manifest(data, manifest)))
        checksums = _settled(container)
        pairs = list(zip(partitions, container.blocks, strict=True))[: len(checksums)]
        settled = container.records(container.blocks[: len(checksums)])
        packs = tuple(
            Pack(partition, block.count, records, bounds.ranges(place))
            for place, ((partition, block), records) in enumerate(zip(pairs, settled, strict=True))
        )
        if [pack.checksum for pack in packs] != checksums:
            raise ValueError("a checksum is wrong")
        others = container.only(container.blocks[len(checksums) :])
        return Listed(tuple(decode_manifest(others, manifest)), packs)
    except DAMAGE as error:
        raise _unreadable(manifest, error) from error


def check_blocks(data: bytes, manifest: Manifest, entries: Sequence[Entry]) -> None:
    """Raises `CorruptLakeError` unless the header of a manifest fits its blocks: number, checksums, bounds.

    `entries` are all of its entries, in order.
    """
    try:
        container = split(data)
        partitions = _partitions_of_blocks(container)
        if partitions is None:
            return
        if len(partitions) != len(container.blocks):
            raise ValueError("its blocks are not those that its header lists")
        checksums = _settled(container)
        settled = container.records(container.blocks[: len(checksums)])
        if [f"{zlib.crc32(records):08x}" for records in settled] != checksums:
            raise ValueError("a checksum is wrong")
        _check_bounds(container, entries)
    except DAMAGE as error:
        raise _unreadable(manifest, error) from error


def _settled(container: Container) -> list[str]:
    """The checksums of the blocks of settled entries."""
    told = container.metadata[SETTLED_KEY]
    if len(told) > 9 * len(container.blocks):
        raise ValueError("its header has more checksums than it has blocks")
    return told.split()


def _check_bounds(container: Container, entries: Sequence[Entry]) -> None:
    bounds = _bounds_of_blocks(container)
    if bounds is None:
        return
    left = iter(entries)
    for place, block in enumerate(container.blocks):
        metrics = [entry.file.metrics for entry in islice(left, block.count)]
        for column in bounds.by_column:
            told, true = bounds.range(place, column), [ranges_of(one, (column,)) for one in metrics]
            if told != around(true).get(column, ANYTHING):
                raise ValueError(f"the bounds of block {place + 1} for column {column} are wrong")


def _is_settled(entry: Entry) -> bool:
    numbered = entry.sequence_number is not None and entry.file_sequence_number is not None
    return entry.status is Status.EXISTING and numbered


def _by_partition(packs: Iterable[Pack]) -> list[Pack]:
    """The packs, grouped by partition and combined to packs that are long enough."""
    groups: dict[Partition, list[Pack]] = {}
    for pack in packs:
        groups.setdefault(pack.partition, []).append(pack)
    in_order = sorted(groups.items(), key=lambda item: _partition_order(item[0]))
    return [block for _, group in in_order for block in _blocks(group)]


def _blocks(group: Sequence[Pack]) -> Iterator[Pack]:
    """Packs of one partition, combined; each but the last has the required number of entries."""
    open_: list[Pack] = []
    for pack in group:
        open_.append(pack)
        if sum(one.count for one in open_) >= ENTRIES_IN_A_BLOCK:
            yield _joined(open_)
            open_ = []
    if open_:
        yield _joined(open_)


def _joined(packs: Sequence[Pack]) -> Pack:
    if len(packs) == 1:
        return packs[0]
    return Pack(
        packs[0].partition,
        sum(pack.count for pack in packs),
        b"".join(pack.records for pack in packs),
        around([pack.ranges for pack in packs]),
    )


def _unreadable(manifest: Manifest, error: Exception) -> CorruptLakeError:
    return CorruptLakeError(f"the manifest {manifest.path} cannot be read: {error}")


def _only(data: bytes, wanted: Wanted) -> bytes:
    """The manifest without the blocks that contain nothing wanted according to its header."""
    container = split(data)
    partitions = _partitions_of_blocks(container)
    if partitions is None:
        return data
    pairs = zip(partitions, container.blocks, strict=True)
    kept = [(place, block) for place, (partition, block) in enumerate(pairs) if wanted.partition(partition)]
    within, bounds = wanted.within, _bounds_of_blocks(container)
    if within is not None and bounds is not None:
        kept = [(place, block) for place, block in kept if within(partial(bounds.range, place))]
    return container.only([block for _, block in kept])


def _partitions_of_blocks(container: Container) -> list[Partition] | None:
    """None if the manifest does not list them: another engine wrote it."""
    told = container.metadata.get(PARTITIONS_KEY)
    if told is None:
        return None
    schema = _partition_schema(container.metadata["avro.schema"])
    listed = len(container.blocks)
    found: list[Partition] = []
    for count, source in _array_parts(base64.b64decode(told)):
        # Partitions without fields take no bytes, so the list itself does not limit their number.
        if len(found) + count > listed:
            raise ValueError("its header lists more partitions than it has blocks")
        for _ in range(count):
            record = fastavro.schemaless_reader(source, schema, None)
            found.append(_partition_from_avro(cast("Mapping[str, Any]", record)))
    return found


def _array_parts(data: bytes) -> Iterator[tuple[int, io.BytesIO]]:
    """The parts of an Avro array: the number of items, and where they begin. The caller reads them."""
    source, at = io.BytesIO(data), 0
    while True:
        count, at = read_long(data, at)
        if count < 0:  # then its size in bytes comes next
            _, at = read_long(data, at)
        if not count:
            return
        source.seek(at)
        yield abs(count), source
        at = source.tell()


def _bounds_of_blocks(container: Container) -> BlockBounds | None:
    """None if the manifest does not list them."""
    told = container.metadata.get(BOUNDS_KEY)
    return None if told is None else BlockBounds.from_text(told, len(container.blocks))


@dataclass(frozen=True, slots=True)
class _RawBlock:
    """What fastavro accepts as a block: encoded records, not yet compressed."""

    num_records: int
    bytes_: io.BytesIO


def _packed(entry: Entry, form: _EntryForm) -> Pack:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, form.avro, _entry_to_avro(entry, form.names))
    return Pack(entry.file.partition, 1, out.getvalue(), ranges_of(entry.file.metrics, form.columns))


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
    # Only added entries inherit; existing ones have their own numbers.
    inherited = manifest.sequence_number if status is Status.ADDED else None
    sequence, file_sequence = record["sequence_number"], record["file_sequence_number"]
    for number in (sequence, file_sequence):
        if number is not None and not 1 <= number <= manifest.sequence_number:
            raise ValueError(f"an entry has the sequence number {number}, which its manifest cannot contain")
    source = record["data_file"]
    if not 0 <= source["record_count"] <= ROWS_IN_A_FILE or source["file_size_in_bytes"] < 0:
        raise ValueError(f"a file has {source['record_count']} rows in {source['file_size_in_bytes']} bytes")
    return Entry(
        status=status,
        snapshot_id=manifest.snapshot_id if record["snapshot_id"] is None else record["snapshot_id"],
        sequence_number=inherited if sequence is None else sequence,
        file_sequence_number=inherited if file_sequence is None else file_sequence,
        file=DataFile(
            path=source["file_path"],
            partition=_partition_from_avro(source["partition"]),
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


def _partition_from_avro(values: Mapping[str, Any]) -> Partition:
    return tuple(
        [value if type(value) in _PHYSICAL_ALREADY else physical(value) for value in values.values()]
    )


_PHYSICAL_ALREADY = frozenset({type(None), bool, int, float, str, bytes})


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
    # Any deterministic order will do; values of one field may be None or of any type.
    return tuple((value is not None, repr(value)) for value in partition)


def _fields_json(spec: PartitionSpec) -> str:
    return "[" + ",".join(field.model_dump_json() for field in spec.fields) + "]"


@dataclass(frozen=True, slots=True)
class _EntryForm:
    """The encoding of entries of one schema and spec; `text` is its form in the header of a manifest.

    `columns` are the columns whose bounds are listed for blocks.
    """

    avro: Any
    text: str
    names: tuple[str, ...]
    columns: tuple[int, ...]

    def encode_partitions(self, partitions: Sequence[Partition]) -> str:
        """The partitions of blocks, in the form of the header."""
        out, schema = io.BytesIO(), _partition_schema(self.text)
        if partitions:
            fastavro.schemaless_writer(out, "long", len(partitions))
        for partition in partitions:
            fastavro.schemaless_writer(out, schema, dict(zip(self.names, partition, strict=True)))
        return base64.b64encode(out.getvalue() + END_OF_ARRAY).decode()


_forms: dict[tuple[str, str], _EntryForm] = {}


def _entry_form(schema: Schema, spec: PartitionSpec) -> _EntryForm:
    """The form of the entries, computed once per schema and spec."""
    key = (schema.model_dump_json(), spec.model_dump_json())
    known = _forms.get(key)
    if known is None:
        struct = data_file_with_partition(spec.partition_type(schema), FORMAT_VERSION)
        iceberg = manifest_entry_schema_with_data_file(FORMAT_VERSION, struct)
        avro = AvroSchemaConversion().iceberg_to_avro(iceberg, schema_name="manifest_entry")
        names = tuple(field["name"] for field in _partition_record(avro)["fields"])
        parsed = fastavro.parse_schema(avro)
        known = _forms[key] = _EntryForm(parsed, _text_in_headers(parsed), names, columns_with_bounds(schema))
    return known


def _text_in_headers(parsed: Any) -> str:
    """A schema exactly as fastavro writes it into files."""
    out = io.BytesIO()
    Writer(out, parsed).flush()
    return split(out.getvalue()).metadata["avro.schema"]


@lru_cache(maxsize=256)
def _partition_schema(entry_schema: str) -> Any:
    """The schema of a partition, which is part of the schema of entries."""
    return fastavro.parse_schema(_partition_record(writer_schema(entry_schema).avro))


def _partition_record(avro: Any) -> Any:
    data_file = {field["name"]: field["type"] for field in avro["fields"]}["data_file"]
    return {field["name"]: field["type"] for field in data_file["fields"]}["partition"]


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
        return tuple(_manifest_from_avro(record) for record in _records(data))
    except DAMAGE as error:
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
