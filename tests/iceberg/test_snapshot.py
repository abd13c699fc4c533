"""Snapshots: what is appended is read by other engines, manifests stay few, and removed files are gone."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.compaction.windows import largest_complete_window
from headgate.errors import InvalidInputError
from headgate.iceberg.format.avro import Listed, decode_listed, decode_manifest
from headgate.iceberg.format.data_file import Content, DataFile, Manifest, Status
from headgate.iceberg.format.metadata import KEPT_SNAPSHOTS, TableMetadata
from headgate.iceberg.format.snapshot import Dead, FileChange, Occasion, manifests_to_read, take_snapshot
from headgate.iceberg.schema.arrow import fitted
from headgate.model.identifiers import TxId, Version
from tests.examples import examples
from tests.iceberg.peers import ask_clickhouse, ask_duckdb, ask_pyiceberg
from tests.iceberg.tables_on_disk import DiskTable

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("s", pa.string()),
        ("ts", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("st", pa.struct([("a", pa.int32())])),
    ]
)


def rows(version: int) -> pa.Table:
    return pa.table(
        {
            "id": list(range(version * 10, version * 10 + 10)),
            "s": [f"s{version}", None] * 5,
            "ts": [dt.datetime(2026, 1, 1 + version % 3, hour) for hour in range(10)],
            "tags": [["a", "b"]] * 10,
            "m": [[("k", 1)]] * 10,
            "st": [{"a": version}] * 10,
        },
        schema=SCHEMA,
    )


@pytest.mark.slow
def test_other_engines_read_what_was_appended(tmp_path: Path) -> None:
    table = DiskTable(tmp_path, SCHEMA, ["day(ts)", "bucket(4, id)"])
    for version in range(1, 24):
        table.append(version, rows(version))
        assert table.written == 2  # one manifest and one manifest list, also where manifests are merged
    assert len(table.manifests) == 5
    numbers = [number for version in range(1, 24) for number in range(version * 10, version * 10 + 10)]
    expected = [(230, sum(numbers), 23, 230, 460)]
    assert ask_duckdb(tmp_path, "count(*), sum(id), max(st.a), sum(m['k']), sum(len(tags))") == expected
    clickhouse = ask_clickhouse(tmp_path, "count(), sum(id), max(st.a), sum(m['k']), sum(length(tags))")
    assert [tuple(int(value) for value in row) for row in clickhouse] == expected
    assert sorted(row["id"] for row in ask_pyiceberg(table.metadata_file(23))) == numbers
    day = "ts >= '2026-01-02T00:00:00' and ts < '2026-01-03T00:00:00' and id < 50"
    assert {row["id"] // 10 for row in ask_pyiceberg(table.metadata_file(23), day)} == {1, 4}
    # An older version is still what it was.
    assert len(ask_pyiceberg(table.metadata_file(7))) == 70


def test_removed_files_are_gone_and_the_rest_stays(tmp_path: Path) -> None:
    table = DiskTable(tmp_path, SCHEMA, ["day(ts)"])
    files: list[DataFile] = []
    for version in range(1, 13):
        files.extend(table.append(version, rows(version)))
    gone = frozenset(file.path for file in files[::3])
    table.change(13, FileChange("overwrite", removed=gone))
    assert table.live_files() == {file.path for file in files} - gone
    assert len(ask_pyiceberg(table.metadata_file(13))) == 10 * (12 - len(gone))
    table.append(14, rows(14))
    assert len(ask_pyiceberg(table.metadata_file(14))) == 10 * (13 - len(gone))


def a_file(number: int, partition: int) -> DataFile:
    return DataFile(f"file:///t/{number}.parquet", (partition,), 0, 1, 1)


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.integers(0, 3)), min_size=1, max_size=40))
def test_a_random_history_of_files(history: list[tuple[int, bool, int]]) -> None:
    """Appends and removals against a set of paths, with merging at every boundary."""
    metadata, live, version = _empty(), set[str](), 0
    manifests: tuple[Manifest, ...] = ()
    stored: dict[str, bytes] = {}
    for gap, remove, partition in history:
        version += gap
        added = (a_file(version, partition),)
        removed = frozenset(sorted(live)[:1]) if remove else frozenset()
        change = FileChange("overwrite" if removed else "append", added, removed)
        occasion = Occasion(Version(version), TxId(f"{version:032x}"), version, divisor=3)
        read = manifests_to_read(manifests, change, occasion)
        needed = {m.path: _listed(stored[m.path], m, metadata, change) for m in read}
        snapshot = take_snapshot(metadata, manifests, needed, change, occasion)
        metadata, manifests = snapshot.metadata, snapshot.manifests
        live = (live | {file.path for file in added}) - removed
        stored |= snapshot.objects
        decoded = {m.path: tuple(decode_manifest(stored[m.path], m)) for m in manifests}
        entries = [entry for manifest in manifests for entry in decoded[manifest.path]]
        # What the process keeps in memory is what it would read.
        assert all(
            sorted(decoded[path], key=repr) == sorted(known, key=repr)
            for path, known in snapshot.entries.items()
        )
        assert sum(m.existing_files + m.added_files for m in manifests) == len(live)
        assert sum(m.existing_rows + m.added_rows for m in manifests) == len(live)
        found = [entry.file.path for entry in entries if entry.status is not Status.DELETED]
        assert sorted(found) == sorted(live)
        # Every entry still carries the version that added its file.
        for entry in entries:
            assert entry.sequence_number == int(entry.file.path.split("/")[-1].split(".")[0])
    assert metadata.snapshot is not None
    assert metadata.snapshot["sequence-number"] == version


@settings(deadline=None, max_examples=examples(40))
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["append", "delete", "carry", "remove"])),
        min_size=1,
        max_size=40,
    )
)
def test_a_random_history_of_files_and_deletes(history: list[tuple[int, str]]) -> None:
    """Delete files have manifests of their own, merged as others are, and every file keeps its number."""
    metadata, version = _empty(), 0
    manifests: tuple[Manifest, ...] = ()
    stored: dict[str, bytes] = {}
    live: dict[str, tuple[Content, int]] = {}
    for gap, kind in history:
        version += gap
        change = _next_change(kind, version, [path for path, (c, _) in live.items() if c is Content.DATA])
        occasion = Occasion(Version(version), TxId(f"{version:032x}"), version, divisor=3)
        read = manifests_to_read(manifests, change, occasion)
        needed = {m.path: _listed(stored[m.path], m, metadata, change) for m in read}
        snapshot = take_snapshot(metadata, manifests, needed, change, occasion)
        metadata, manifests = snapshot.metadata, snapshot.manifests
        stored |= snapshot.objects
        for file in (*change.added, *change.deletes):
            live[file.path] = file.content, change.numbers.get(file.path, version)
        live = {path: known for path, known in live.items() if path not in change.removed}
        found = {
            entry.file.path: (manifest.content, entry.sequence_number)
            for manifest in manifests
            for entry in decode_manifest(stored[manifest.path], manifest)
            if entry.status is not Status.DELETED and entry.file.content is manifest.content
        }
        assert found == live
        for manifest in manifests:
            entries = list(decode_manifest(stored[manifest.path], manifest))
            numbers = [e.sequence_number or 0 for e in entries if e.status is not Status.DELETED]
            assert manifest.min_sequence_number == min(numbers, default=version)
            assert len({largest_complete_window(number, version, 3) for number in numbers}) <= 1
            known = snapshot.entries.get(manifest.path)
            assert known is None or sorted(known, key=repr) == sorted(entries, key=repr)
        levels = 1
        while 3**levels <= version:
            levels += 1
        assert len(manifests) <= 2 * (2 * levels + 1)


def _next_change(kind: str, version: int, data: list[str]) -> FileChange:
    added, delete = a_file(version, 0), a_delete(version)
    match kind:
        case "delete":
            return FileChange("delete", deletes=(delete,))
        case "carry":  # as a compaction does: files and deletes with numbers from before
            numbers = {added.path: max(1, version // 2), delete.path: max(1, version - 1)}
            return FileChange("replace", (added,), frozenset(data[:1]), (delete,), numbers)
        case "remove" if data:
            return FileChange("delete", removed=frozenset(data[:1]))
        case _:
            return FileChange("append", (added,))


def a_delete(number: int) -> DataFile:
    return replace(a_file(number, 0), path=f"file:///t/{number}-deletes", content=Content.POSITION_DELETES)


def test_summaries_tell_of_deletes() -> None:
    occasion = Occasion(Version(1), TxId(f"{1:032x}"), 1, divisor=10)
    first = take_snapshot(_empty(), (), {}, FileChange("append", (a_file(1, 0),)), occasion)
    summary = (first.metadata.snapshot or {})["summary"]
    assert not [name for name in summary if "delete-files" in name or "live" in name]
    change = FileChange("delete", deletes=(a_delete(2),), dead=Dead(now={a_delete(2).path: 1}))
    occasion = Occasion(Version(2), TxId(f"{2:032x}"), 2, divisor=10)
    second = take_snapshot(first.metadata, first.manifests, {}, change, occasion)
    summary = (second.metadata.snapshot or {})["summary"]
    expected = {
        "operation": "delete",
        "added-data-files": "0",
        "added-delete-files": "1",
        "added-position-deletes": "1",
        "total-data-files": "1",
        "total-delete-files": "1",
        "total-position-deletes": "1",
        "total-records": "1",
        "total-files-size": "2",
        "headgate.live-records": "0",
    }
    assert {name: summary[name] for name in expected} == expected


def test_the_metadata_keeps_a_bounded_number_of_snapshots() -> None:
    metadata = _empty()
    for version in range(1, KEPT_SNAPSHOTS + 30):
        occasion = Occasion(Version(version), TxId(f"{version:032x}"), version, divisor=1000)
        snapshot = take_snapshot(metadata, (), {}, FileChange("append", (a_file(version, 0),)), occasion)
        metadata = snapshot.metadata
    assert len(metadata.fields["snapshots"]) == KEPT_SNAPSHOTS
    assert len(metadata.fields["snapshot-log"]) == KEPT_SNAPSHOTS


def test_data_that_does_not_fit_lists_every_difference(tmp_path: Path) -> None:
    schema = DiskTable(tmp_path, SCHEMA, []).metadata.schema
    wrong = pa.table({"s": [1], "ts": ["x"], "extra": [1.0], "m": [{"a": 1}]})
    with pytest.raises(InvalidInputError) as caught:
        fitted(wrong, schema, "sales.orders")
    for difference in (
        "column id (int64) is required but missing",
        "column s is int64",
        "column ts is string",
        "column m is struct<a: int64>",
        "column extra (double) is not in the table",
    ):
        assert difference in caught.value.problem
    nulls = pa.table({"id": pa.array([1, None], pa.int64())})
    with pytest.raises(InvalidInputError, match="1 of its values are null"):
        fitted(nulls, schema, "sales.orders")


def _empty() -> TableMetadata:
    return DiskTable(Path("/t"), pa.schema([("p", pa.int32())]), ["p"]).metadata


def _listed(data: bytes, manifest: Manifest, metadata: TableMetadata, change: FileChange) -> Listed:
    if change.removed and manifest.content is Content.DATA:
        return Listed(tuple(decode_manifest(data, manifest)))
    return decode_listed(data, manifest, metadata.schema, metadata.spec)
