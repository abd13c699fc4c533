"""Metadata objects for another root: every URI changes, and nothing else."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow

import headgate as hg
from headgate.core.input.arguments import found_table
from headgate.errors import CorruptLakeError
from headgate.iceberg.format.avro import decode_listed
from headgate.iceberg.format.container import assembled, split
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.relocation import Relocation
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector

MOVE = Relocation("memory://here", "s3://far/away")
BACK = Relocation("s3://far/away", "memory://here")

PARTITIONS: dict[str, tuple[str, list[Any]]] = {
    "INT": ("v", [1, -5, None]),
    "DECIMAL(5, 2)": ("v", [Decimal("1.25"), Decimal("-99.99"), None]),
    "DATE": ("day(v)", [dt.date(2026, 1, 2), dt.date(1900, 1, 1), None]),
    "TIME": ("v", [dt.time(1, 2, 3, 4), None]),
    "TIMESTAMP": ("v", [dt.datetime(1960, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC)]),
    "UUID": ("v", [uuid.UUID(int=5), None]),
    "BINARY": ("truncate(2, v)", [b"\x00\xff\x01", None]),
    "STRING": ("v", ["ü/=% ", "", None]),
    "DOUBLE": ("v", [float("nan"), -0.5, None]),
}


def objects_of(kind: str) -> tuple[hg.Lake, dict[str, bytes]]:
    """The manifests of a table with a partition for each value, some of them settled."""
    term, values = PARTITIONS[kind]
    store = MemoryStore("here")
    lake = hg.Lake.init(store, divisor=2)
    table = lake.create_table("a.b", f"n INT, v {kind}", partition_by=[term])
    column = schema_to_pyarrow(table.schema, include_field_ids=False).field("v").type
    for _ in range(5):
        numbers = pa.array(range(len(values)), pa.int32())
        table.append(pa.table({"n": numbers, "v": pa.array(values, column)}))
    keys = [key for key in store.list_page("data/").keys if key.endswith(".avro")]
    return lake, {key: store.get(key) or b"" for key in keys}


@pytest.mark.parametrize("kind", PARTITIONS)
def test_there_and_back_again_is_the_same_in_all_but_its_compression(kind: str) -> None:
    _, objects = objects_of(kind)
    for key, data in objects.items():
        if "/snap-" in key:
            continue
        there = MOVE.manifest(data, key, {})
        assert b"memory://here" not in b"".join(split(there).records())
        before, after = split(data), split(BACK.manifest(there, key, {}))
        assert after.metadata == before.metadata
        assert after.sync == before.sync
        assert [block.count for block in after.blocks] == [block.count for block in before.blocks]
        assert list(after.records()) == list(before.records())


@pytest.mark.parametrize("kind", PARTITIONS)
def test_settled_entries_are_still_carried_unseen_and_their_checksums_hold(kind: str) -> None:
    lake, objects = objects_of(kind)
    metadata = Inspector(lake).loader().metadata(found_table(Inspector(lake).refresh(), "a.b").metadata)
    carried = 0
    for manifest in Inspector(lake).loader().manifests(metadata):
        data = objects[Inspector(lake).loader().key(manifest.path)]
        spec = metadata.specs[manifest.spec_id]
        listed = decode_listed(data, manifest, metadata.schema_of(spec), spec)
        moved = decode_listed(MOVE.manifest(data, "m0", {}), manifest, metadata.schema_of(spec), spec)
        # By their texts: a NaN is equal to nothing.
        assert [repr(p.partition) for p in moved.packs] == [repr(p.partition) for p in listed.packs]
        carried += sum(pack.count for pack in moved.packs)
    assert carried


def test_the_same_bytes_each_time() -> None:
    _, objects = objects_of("INT")
    for key, data in objects.items():
        if "/snap-" not in key:
            assert MOVE.manifest(data, key, {}) == MOVE.manifest(data, key, {})


def test_metadata_leads_to_the_other_root() -> None:
    lake, _ = objects_of("INT")
    inside = {"write.data.path": "memory://here/data/a/b/data", "owner": "memory://hereabouts"}
    lake.table("a.b").set_properties(inside)
    metadata = Inspector(lake).loader().metadata(found_table(Inspector(lake).refresh(), "a.b").metadata)
    moved = MOVE.metadata(metadata)
    assert moved.properties == {
        "write.data.path": "s3://far/away/data/a/b/data",
        "owner": "memory://hereabouts",
    }
    assert b"memory://here/" not in moved.data
    assert BACK.metadata(moved).data == metadata.data
    assert TableMetadata.decode(moved.data, "moved").location == "s3://far/away/data/a/b"


def test_statistics_of_other_engines_too() -> None:
    lake, _ = objects_of("INT")
    metadata = Inspector(lake).loader().metadata(found_table(Inspector(lake).refresh(), "a.b").metadata)
    named = [{"snapshot-id": 1, "statistics-path": "memory://here/data/a/b/metadata/s.puffin"}]
    moved = MOVE.metadata(metadata.changed(statistics=named))
    path = moved.fields["statistics"][0]["statistics-path"]
    assert path == "s3://far/away/data/a/b/metadata/s.puffin"


def test_what_lies_elsewhere_and_what_is_damaged_is_named() -> None:
    with pytest.raises(CorruptLakeError, match="is outside of the lake"):
        MOVE.uri("memory://hereabouts/x")
    with pytest.raises(CorruptLakeError, match="m0 cannot be read"):
        MOVE.manifest(b"nothing", "m0", {})
    other = assembled({"avro.codec": "zstandard", "avro.schema": "{}"}, bytes(16), [])
    with pytest.raises(CorruptLakeError, match="zstandard"):
        MOVE.manifest(other, "m0", {})


def test_a_container_is_assembled_as_it_is_split() -> None:
    blocks = [(1, b"a"), (300, b"b" * 100_000)]
    schema = '{"type": "record", "name": "r", "fields": [{"name": "x", "type": "string"}]}'
    metadata = {"avro.codec": "deflate", "avro.schema": schema, "x": "ü" * 200}
    made = split(assembled(metadata, b"0123456789abcdef", blocks))
    assert made.metadata == metadata
    assert [block.count for block in made.blocks] == [1, 300]
    assert list(made.records()) == [records for _, records in blocks]
