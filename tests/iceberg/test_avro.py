"""Manifests and manifest lists: pyiceberg reads ours, we read pyiceberg's, and skipping changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile as PeerFile
from pyiceberg.manifest import (
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
    write_manifest,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from headgate.errors import CorruptLakeError
from headgate.iceberg.format.avro import (
    BOUNDS_KEY,
    ENTRIES_IN_A_BLOCK,
    Listed,
    Wanted,
    check_blocks,
    decode_listed,
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
)
from headgate.iceberg.format.container import assembled, split
from headgate.iceberg.format.data_file import (
    ColumnMetrics,
    Content,
    DataFile,
    Entry,
    FieldSummary,
    Manifest,
    Status,
)

TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (StringType(), st.text(max_size=8)),
    (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (LongType(), st.integers(-(2**63), 2**63 - 1)),
    (BooleanType(), st.booleans()),
    (DoubleType(), st.floats(allow_nan=False)),
    (DateType(), st.integers(-700_000, 700_000)),
    (TimestampType(), st.integers(-(10**15), 10**15)),
    (TimestamptzType(), st.integers(-(10**15), 10**15)),
    (BinaryType(), st.binary(max_size=8)),
    (DecimalType(9, 2), st.integers(-(10**8), 10**8).map(lambda cents: Decimal(cents).scaleb(-2))),
]
SCHEMA = Schema(*(NestedField(number + 1, f"c{number}", kind) for number, (kind, _) in enumerate(TYPES)))
SPEC = PartitionSpec(
    *(
        PartitionField(number + 1, 1000 + number, IdentityTransform(), f"c{number}")
        for number in range(len(TYPES))
    )
)
METRICS = ColumnMetrics({1: 30}, {1: 10, 2: 10}, {1: 0}, {5: 1}, {2: b"\x01\0\0\0"}, {2: b"\x09\0\0\0"})
NUMBERED = {"sequence_number": 5, "file_sequence_number": 4}
partitions = st.tuples(*(st.none() | values for _, values in TYPES))


def a_manifest(data: bytes, **changes: Any) -> Manifest:
    fields: dict[str, Any] = {
        "path": "m",
        "length": len(data),
        "spec_id": 0,
        "content": Content.DATA,
        "sequence_number": 9,
        "min_sequence_number": 3,
        "snapshot_id": 77,
        "added_files": 1,
        "existing_files": 0,
        "deleted_files": 0,
        "added_rows": 10,
        "existing_rows": 0,
        "deleted_rows": 0,
    }
    return Manifest(**fields | changes)


def an_entry(partition: tuple[Any, ...], number: int = 0, **changes: Any) -> Entry:
    file = DataFile(f"file:///t/{number}.parquet", partition, 0, 10, 1234, METRICS, (4,), sort_order_id=0)
    fields: dict[str, Any] = {
        "status": Status.ADDED,
        "snapshot_id": 77,
        "sequence_number": None,
        "file_sequence_number": None,
        "file": file,
    }
    return Entry(**fields | changes)


def encoded(entries: list[Entry], schema: Schema, spec: PartitionSpec) -> bytes:
    return encode_manifest(Listed(tuple(entries)), schema, spec, Content.DATA)


@given(st.lists(partitions, min_size=1, max_size=6))
def test_entries_come_back_with_inherited_numbers(values: list[tuple[Any, ...]]) -> None:
    entries = [an_entry(partition, number) for number, partition in enumerate(values)]
    data = encoded(entries, SCHEMA, SPEC)
    back = {entry.file.path: entry for entry in decode_manifest(data, a_manifest(data))}
    assert {path: entry.file for path, entry in back.items()} == {
        entry.file.path: entry.file for entry in entries
    }
    assert {(entry.sequence_number, entry.file_sequence_number) for entry in back.values()} == {(9, 9)}


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.sets(st.integers(0, 4)))
def test_passing_over_partitions_gives_what_filtering_gives(values: list[int], wanted: set[int]) -> None:
    schema = Schema(NestedField(1, "id", IntegerType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    data = encoded([an_entry((v,), n) for n, v in enumerate(values)], schema, spec)
    everything = list(decode_manifest(data, a_manifest(data)))
    some = list(decode_manifest(data, a_manifest(data), Wanted(lambda partition: partition[0] in wanted)))
    assert some == [entry for entry in everything if entry.file.partition[0] in wanted]


NUMBERS = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", DateType()))
BY_ID = PartitionSpec(PartitionField(1, 1000, TruncateTransform(10), "id_trunc"))
ranges = st.none() | st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda at: (at[0], sum(at)))


def within(number: int, known: tuple[int, int] | None, width: int = 8) -> Entry:
    """An entry of a file whose column `id` lies between two numbers, or that says nothing of it."""
    bounds = [] if known is None else [value.to_bytes(width, "little", signed=True) for value in known]
    metrics = ColumnMetrics(
        lower=dict(zip([1], bounds[:1], strict=False)), upper=dict(zip([1], bounds[1:], strict=False))
    )
    entry = an_entry((number % 2,), number, status=Status.EXISTING, **NUMBERED)
    return replace(entry, file=replace(entry.file, metrics=metrics))


def asking_for(value: int, asked: list[tuple[int, int] | None]) -> Wanted:
    def could_hold(range_of_column: Callable[[int], tuple[int, int] | None]) -> bool:
        known = range_of_column(1)
        asked.append(known)
        return known is None or known[0] <= value <= known[1]

    return Wanted(lambda _: True, could_hold)


@settings(deadline=None)
@given(st.lists(ranges, min_size=1, max_size=80), st.integers(0, 70), st.integers(0, 40))
def test_passing_over_blocks_loses_no_entry(
    known: list[tuple[int, int] | None], value: int, merged_from: int
) -> None:
    entries = [within(number, one) for number, one in enumerate(known)]
    # Some are carried unseen from manifests before, as a merge does it.
    carried = [
        encoded(part, NUMBERS, BY_ID) for part in (entries[:merged_from], entries[merged_from:]) if part
    ]
    listed = [decode_listed(data, a_manifest(data), NUMBERS, BY_ID) for data in carried]
    assert all(one.entries == () for one in listed)
    packs = tuple(pack for one in listed for pack in one.packs)
    data = encode_manifest(Listed((), packs), NUMBERS, BY_ID, Content.DATA)
    everything = list(decode_manifest(data, a_manifest(data)))
    check_blocks(data, a_manifest(data), everything)
    found = list(decode_manifest(data, a_manifest(data), asking_for(value, [])))
    told = {entry.file.path: one for entry, one in zip(entries, known, strict=True)}

    def could_hold(entry: Entry) -> bool:
        one = told[entry.file.path]
        return one is None or one[0] <= value <= one[1]

    assert sorted(map(repr, everything)) == sorted(map(repr, entries))
    assert [entry for entry in found if could_hold(entry)] == [e for e in everything if could_hold(e)]


def test_blocks_are_passed_over_by_their_bounds() -> None:
    entries = [within(2 * number, (number, number)) for number in range(10 * ENTRIES_IN_A_BLOCK)]
    data = encoded(entries, NUMBERS, BY_ID)
    asked: list[tuple[int, int] | None] = []
    found = list(decode_manifest(data, a_manifest(data), asking_for(3, asked)))
    assert len(asked) == len(split(data).blocks) == 10
    assert found == entries[:ENTRIES_IN_A_BLOCK]
    # A file that is older than the widening of the column, and one that says nothing.
    mixed = encoded([within(0, (3, 3), width=4), within(2, (9, 9))], NUMBERS, BY_ID)
    assert len(list(decode_manifest(mixed, a_manifest(mixed), asking_for(2, asked)))) == 0
    silent = encoded([within(0, None), within(2, (9, 9))], NUMBERS, BY_ID)
    assert len(list(decode_manifest(silent, a_manifest(silent), asking_for(2, asked)))) == 2


def with_bounds(data: bytes, told: str | None) -> bytes:
    """A manifest whose header tells other bounds."""
    container = split(data)
    header = {name: value for name, value in container.metadata.items() if name != BOUNDS_KEY}
    if told is not None:
        header[BOUNDS_KEY] = told
    counts = [block.count for block in container.blocks]
    return assembled(header, container.sync, zip(counts, container.records(), strict=True))


def test_a_manifest_without_bounds_is_read_whole_and_gets_them_when_it_is_merged() -> None:
    entries = [within(0, (3, 3)), within(2, (9, 9))]
    old = with_bounds(encoded(entries, NUMBERS, BY_ID), None)
    assert list(decode_manifest(old, a_manifest(old), asking_for(5, []))) == entries
    listed = decode_listed(old, a_manifest(old), NUMBERS, BY_ID)
    assert listed == Listed(tuple(entries))
    assert BOUNDS_KEY in split(encode_manifest(listed, NUMBERS, BY_ID, Content.DATA)).metadata


@pytest.mark.parametrize("told", ["", "[]", "7", '{"x": ""}', '{"1": 5}', '{"1": "AAAA"}', '{"1": ""}'])
def test_bounds_that_are_none_are_damage(told: str) -> None:
    data = with_bounds(encoded([within(0, (3, 3))], NUMBERS, BY_ID), told)
    for read in READ_WAYS[1:]:
        with pytest.raises(CorruptLakeError, match="the manifest m cannot be read"):
            read(data, a_manifest(data))


def test_bounds_of_other_entries_are_found_by_the_check() -> None:
    entry, other = within(0, (3, 3)), within(0, (3, 4))
    data = encoded([entry], NUMBERS, BY_ID)
    wrong = with_bounds(data, split(encoded([other], NUMBERS, BY_ID)).metadata[BOUNDS_KEY])
    with pytest.raises(CorruptLakeError, match="bounds of block 1 for column 1"):
        check_blocks(wrong, a_manifest(wrong), [entry])


@settings(deadline=None)
@given(st.lists(st.tuples(partitions, st.sampled_from(Status)), min_size=1, max_size=8))
def test_settled_entries_go_into_another_manifest_as_they_are(given: list[tuple[Any, Status]]) -> None:
    entries = [an_entry(values, n, status=status, **NUMBERED) for n, (values, status) in enumerate(given)]
    first = encoded(entries, SCHEMA, SPEC)
    listed = decode_listed(first, a_manifest(first), SCHEMA, SPEC)
    settled = [entry for entry in entries if entry.status is Status.EXISTING]
    assert sum(pack.count for pack in listed.packs) == len(settled)
    assert all(entry.status is not Status.EXISTING for entry in listed.entries)
    # With entries that were there before, in the same partitions: one block holds both.
    again = encode_manifest(replace(listed, entries=tuple(entries)), SCHEMA, SPEC, Content.DATA)
    back = list(decode_manifest(again, a_manifest(again)))
    assert sorted(back, key=repr) == sorted([*entries, *settled], key=repr)
    partitions_settled = {entry.file.partition for entry in settled}
    assert len(decode_listed(again, a_manifest(again), SCHEMA, SPEC).packs) == len(partitions_settled)


def test_entries_of_another_form_are_decoded() -> None:
    """The type of a partition column was widened: the same values have other bytes."""
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    narrow, wide = (Schema(NestedField(1, "id", kind)) for kind in (FloatType(), DoubleType()))
    entry = an_entry((1.5,), status=Status.EXISTING, **NUMBERED)
    data = encoded([entry], narrow, spec)
    assert decode_listed(data, a_manifest(data), narrow, spec).entries == ()
    assert decode_listed(data, a_manifest(data), wide, spec) == Listed((entry,))


def test_existing_entries_keep_their_own_numbers() -> None:
    entry = an_entry(
        (None,) * len(TYPES), status=Status.EXISTING, snapshot_id=5, sequence_number=3, file_sequence_number=3
    )
    data = encoded([entry], SCHEMA, SPEC)
    assert list(decode_manifest(data, a_manifest(data))) == [entry]


def peer_manifest(path: Path, content: Content = Content.DATA) -> ManifestFile:
    return ManifestFile.from_args(
        manifest_path=str(path),
        manifest_length=path.stat().st_size,
        partition_spec_id=0,
        content=int(content),
        sequence_number=9,
        min_sequence_number=3,
        added_snapshot_id=77,
        added_files_count=1,
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=10,
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=[],
        key_metadata=None,
    )


def test_pyiceberg_reads_our_manifest(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "ts", TimestampType()), NestedField(2, "s", StringType()))
    spec = PartitionSpec(
        PartitionField(1, 1000, DayTransform(), "ts_day"), PartitionField(2, 1001, IdentityTransform(), "s")
    )
    entries = [an_entry((19_000 + n % 2, None if n == 3 else "x"), n) for n in range(5)]
    path = tmp_path / "m.avro"
    path.write_bytes(encoded(entries, schema, spec))
    read = {e.data_file.file_path: e for e in peer_manifest(path).fetch_manifest_entry(PyArrowFileIO())}
    for entry in entries:
        peer = read[entry.file.path]
        assert tuple(peer.data_file.partition[i] for i in range(2)) == entry.file.partition
        assert peer.sequence_number == 9
        assert peer.data_file.record_count == 10
        assert peer.data_file.lower_bounds == dict(METRICS.lower)
        assert peer.data_file.nan_value_counts == dict(METRICS.nans)
        assert peer.data_file.file_format is FileFormat.PARQUET


def test_we_read_the_manifest_of_pyiceberg(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "d", DateType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "d"))
    path = tmp_path / "m.avro"
    day = (date(2026, 11, 15) - date(1970, 1, 1)).days
    with write_manifest(2, spec, schema, PyArrowFileIO().new_output(str(path)), 77, "deflate") as writer:
        for number in range(4):
            file = PeerFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"file:///t/{number}.parquet",
                file_format=FileFormat.PARQUET,
                partition=Record(day + number),
                record_count=10,
                file_size_in_bytes=100,
                value_counts={1: 10},
            )
            writer.add(
                ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=77, data_file=file)
            )
    data = path.read_bytes()
    entries = list(decode_manifest(data, a_manifest(data), Wanted(lambda partition: partition[0] > day)))
    assert [entry.file.partition for entry in entries] == [(day + 1,), (day + 2,), (day + 3,)]
    assert entries[0].file.metrics.values == {1: 10}


def test_a_manifest_list_comes_back_and_pyiceberg_reads_it(tmp_path: Path) -> None:
    summary = FieldSummary(contains_null=True, contains_nan=False, lower=b"\1\0\0\0", upper=None)
    manifests = (
        a_manifest(b"x" * 10, path="a", partitions=(summary,)),
        a_manifest(b"x", path="b", content=Content.POSITION_DELETES, deleted_files=3),
    )
    data = encode_manifest_list(manifests, 77, None, 9)
    assert decode_manifest_list(data, "here") == manifests
    path = tmp_path / "list.avro"
    path.write_bytes(data)
    peers = list(read_manifest_list(PyArrowFileIO().new_input(str(path))))
    assert [peer.manifest_path for peer in peers] == ["a", "b"]
    assert [int(peer.content) for peer in peers] == [0, 1]
    assert peers[0].partitions is not None
    assert peers[0].partitions[0].lower_bound == b"\1\0\0\0"


READ_WAYS: list[Callable[[bytes, Manifest], object]] = [
    lambda data, manifest: list(decode_manifest(data, manifest)),
    lambda data, manifest: list(
        decode_manifest(data, manifest, Wanted(lambda _: True, lambda range_of_column: True))
    ),
    lambda data, manifest: decode_listed(data, manifest, SCHEMA, SPEC),
]


@pytest.mark.parametrize("read", READ_WAYS)
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:40],
        lambda data: data[:-1],
        lambda data: b"oops" + data,
        lambda _: b"",
    ],
)
def test_damage_is_named(damage: Any, read: Callable[[bytes, Manifest], object]) -> None:
    data = encoded([an_entry((None,) * len(TYPES), status=Status.EXISTING, **NUMBERED)], SCHEMA, SPEC)
    with pytest.raises(CorruptLakeError, match="the manifest m cannot be read"):
        read(damage(data), a_manifest(data))


def test_damage_that_still_decodes_is_not_carried_on() -> None:
    entry = an_entry((None,) * len(TYPES), status=Status.EXISTING, **NUMBERED)
    data = encoded([entry], SCHEMA, SPEC)
    other = encoded([replace(entry, sequence_number=6)], SCHEMA, SPEC)
    damaged = split(data).header + split(other).blocks[0].whole[:-16] + data[-16:]
    assert list(decode_manifest(damaged, a_manifest(data))) == [replace(entry, sequence_number=6)]
    with pytest.raises(CorruptLakeError, match="a checksum is wrong"):
        decode_listed(damaged, a_manifest(data), SCHEMA, SPEC)
