"""Objects that are too large, or expand too far: an error within fixed memory, and never a MemoryError."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.arrow.footers import row_count
from headgate.errors import CorruptLakeError
from headgate.iceberg.format import avro as avro_files
from headgate.iceberg.format import container, loader
from headgate.iceberg.format.avro import decode_manifest_list
from headgate.iceberg.format.container import long_bytes
from headgate.log.driver import Driver
from headgate.model import limits
from headgate.model.identifiers import number_in
from headgate.model.json_object import JsonObject
from headgate.steward.fsck import row_check
from headgate.steward.replica import copying
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.system.host import SYSTEM
from tests.hostile import crafting
from tests.hostile.crafting import make_lake

MEMORY = 1 << 30
"""What a process that opens a hostile lake may take beyond what it has when it starts."""

PROGRAM = """
import resource, sys
import headgate as hg, pyarrow, pyiceberg.schema, headgate.iceberg.format.loader
pages = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + {memory}, pages + {memory}))
try:
    lake = hg.Lake.open(sys.argv[1])
    lake.table('t.t').read_arrow()
    print('read')
except hg.HeadgateError as error:
    print(type(error).__name__, error.problem)
"""


def in_fixed_memory(root: Path) -> str:
    """What opening and reading ends in, in a process that may not grow much."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(memory=MEMORY), str(root)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def avro(schema: Any, body: bytes, count: int = 1, codec: str = "deflate") -> bytes:
    """An Avro file with one block, whatever it says."""
    parts = [container.MAGIC, long_bytes(2)]
    for name, value in (("avro.schema", json.dumps(schema)), ("avro.codec", codec)):
        parts += [container._sized(name.encode()), container._sized(value.encode())]
    sync = b"s" * container.SYNC_BYTES
    return b"".join([*parts, b"\0", sync, long_bytes(count), container._sized(body), sync])


def bomb(expanded: int) -> bytes:
    """Zeros; the same compressed piece again and again."""
    compressor = zlib.compressobj(9, wbits=container.RAW_DEFLATE)
    compressor.compress(bytes(16 * limits.MIB)) + compressor.flush(zlib.Z_FULL_FLUSH)
    piece = compressor.compress(bytes(16 * limits.MIB)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return piece * (expanded // (16 * limits.MIB)) + compressor.flush()


def record_of(*fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "r",
        "fields": [{"name": f"f{n}", "type": t} for n, t in enumerate(fields)],
    }


NOTHING = {"type": "record", "name": "w", "fields": []}
NO_BYTES = {"type": "fixed", "name": "f", "size": 0}
PAIR = {"name": "x", "type": ["null", "long"]}
ENDLESS = long_bytes(1 << 50) + b"\0"
MANY_ITEMS = long_bytes(6 * limits.MIB) + bytes(12 * limits.MIB + 1)


def nested_lists(depth: int) -> Any:
    made: Any = "long"
    for _ in range(depth):
        made = {"type": "array", "items": made}
    return record_of(made)


def test_a_lake_that_is_as_it_should_be_is_read_in_that_memory(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake")
    assert in_fixed_memory(tmp_path / "lake") == "read\n"


@pytest.mark.parametrize(
    "pattern", ["control/log/*4.json", "data/t/t/attempts/*4-*.metadata.json", "data/**/snap-*-4-*"]
)
def test_a_sparse_object_of_20_gb(tmp_path: Path, pattern: str) -> None:
    make_lake(tmp_path / "lake")
    (path,) = (tmp_path / "lake").glob(pattern)
    with path.open("r+b") as file:
        file.truncate(20 * limits.GIB)
    told = in_fixed_memory(tmp_path / "lake")
    assert told.startswith("CorruptLakeError")
    assert "21,474,836,480 bytes" in told


def test_a_manifest_list_of_4_mb_that_expands_to_4_gib(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake")
    body = bomb(4 * limits.GIB)
    assert len(body) < 5 * limits.MIB
    for path in crafting.manifest_lists(tmp_path / "lake"):
        path.write_bytes(avro(record_of("bytes"), body))
    told = in_fixed_memory(tmp_path / "lake")
    assert told.startswith("CorruptLakeError")
    assert "expands to more than" in told


def test_300_000_snapshots(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake")

    def change(fields: dict[str, Any]) -> None:
        fields["snapshots"] = [{"snapshot-id": n, "manifest-list": "x"} for n in range(300_000)]

    crafting.change_json(crafting.metadata_files(tmp_path / "lake")[3], change)
    told = in_fixed_memory(tmp_path / "lake")
    assert told.startswith("CorruptLakeError")
    assert "300,000 snapshots" in told


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("schema", "count", "body"),
    [
        (record_of(), 1 << 60, b""),
        (record_of("null"), 1 << 60, b""),
        (record_of({"type": "array", "items": "null"}), 1, long_bytes(1 << 50) + b"\0"),
        (record_of({"type": "array", "items": record_of("null")}), 1, long_bytes(1 << 50) + b"\0"),
        (record_of("bytes"), 1, long_bytes(1 << 50)),
        (record_of("bytes"), 1 << 50, b"\0"),
        ("nothing", 1, b""),
        ([[["null"]]], 1, b""),
        (record_of({"type": "record", "name": "r", "fields": [{"name": "x", "type": "r"}]}), 1, b"\0"),
        (record_of("r"), 1, b"\0"),
        (record_of(["null", "r"]), 1, b"\2" * 100_000),
        (record_of({"type": "array", "items": "r"}), 1, b"\2" * 100_000),
        (record_of(NOTHING, {"type": "array", "items": "w"}), 1, ENDLESS),
        (record_of({"type": "array", "items": {**NOTHING, "type": "error"}}), 1, ENDLESS),
        (record_of({"type": "array", "items": {**NOTHING, "type": {"type": "record"}}}), 1, ENDLESS),
        (record_of({"type": "array", "items": record_of(record_of(NO_BYTES))}), 1, ENDLESS),
        (record_of(NO_BYTES, {"type": "array", "items": "f"}), 1, ENDLESS),
        (record_of({"type": "array", "items": ["null"]}), 1, ENDLESS),
        (record_of({"type": "array", "items": {"type": "enum", "name": "e", "symbols": []}}), 1, ENDLESS),
        (record_of({"type": "map", "values": "null"}), 1, ENDLESS),
        (record_of({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 9**9}), 1, b"\2\1"),
        (record_of(*["long"] * (limits.SCHEMA_TYPES + 1)), 1, bytes(limits.SCHEMA_TYPES + 1)),
        (nested_lists(limits.SCHEMA_DEPTH), 1, b"\0"),
        (record_of("string"), 1, b"\x80" * 100_000),
        (record_of({"type": "array", "items": "long"}), 1, MANY_ITEMS),
        (record_of({"type": "array", "items": {**NOTHING, "fields": [PAIR, PAIR]}}), 1, MANY_ITEMS),
    ],
)
def test_avro_files_that_say_they_have_more_than_they_have(schema: Any, count: int, body: bytes) -> None:
    for codec, written in (("null", body), ("deflate", container._deflated(body))):
        with pytest.raises(CorruptLakeError):
            decode_manifest_list(avro(schema, written, count, codec), "here")


def change_container(path: Path, change: Callable[[dict[str, str]], None]) -> None:
    """Changes the header of an Avro file."""
    before = container.split(path.read_bytes())
    metadata = dict(before.metadata)
    change(metadata)
    counts = [block.count for block in before.blocks]
    path.write_bytes(container.assembled(metadata, before.sync, zip(counts, before.records(), strict=True)))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("headgate.partitions", base64.b64encode(long_bytes(1 << 50) + b"\0").decode()),
        ("headgate.partitions", base64.b64encode(b"\1\0" * 100_000).decode()),
        ("headgate.settled-blocks", "a " * 1_000_000),
        ("headgate.bounds", "{" + '"1":"",' * 1_000_000 + '"2":""}'),
        ("avro.schema", " " * limits.SCHEMA_BYTES + "{}"),
    ],
)
def test_headers_that_list_more_than_the_file_has(tmp_path: Path, name: str, value: str) -> None:
    make_lake(tmp_path / "lake")
    for path in crafting.manifests(tmp_path / "lake"):
        change_container(path, lambda metadata: metadata.update({name: value}))
    lake = hg.Lake.open(tmp_path / "lake")
    assert not lake.fsck(deep=True).ok
    if name != "headgate.settled-blocks":  # which readers do not need
        with pytest.raises(CorruptLakeError):
            lake.table("t.t").read_arrow(where="id = 1")


def test_a_header_with_too_many_fields() -> None:
    fields = {f"f{number}": "" for number in range(limits.HEADER_FIELDS + 1)}
    with pytest.raises(ValueError, match="fields"):
        container.split(container.assembled(fields, bytes(16), []))


@pytest.mark.parametrize("count", [0, -1, limits.ENTRIES + 1])
def test_a_block_of_no_entries_or_of_too_many(count: int) -> None:
    number = b"\1" if count < 0 else long_bytes(count)
    with pytest.raises(ValueError, match="entries"):
        container.split(container.assembled({"a": ""}, bytes(16), []) + number + b"\0" + bytes(16))


def test_no_more_blocks_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "BLOCKS", 3)
    assert len(container.split(container.assembled({"a": ""}, bytes(16), [(1, b"")] * 3)).blocks) == 3
    with pytest.raises(ValueError, match="more than 3 blocks"):
        container.split(container.assembled({"a": ""}, bytes(16), [(1, b"")] * 4))


def test_items_of_all_entries_together(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = record_of({"type": "array", "items": "long"})
    data = avro(schema, container._deflated(b"\x06\0\0\0\0" * 5), 5)
    monkeypatch.setattr(avro_files, "ITEMS", 15)
    assert len(list(avro_files._records(data))) == 5
    monkeypatch.setattr(avro_files, "ITEMS", 14)
    with pytest.raises(ValueError, match="more than 14"):
        list(avro_files._records(data))


def test_an_honest_entry_in_a_long_block_is_counted_and_read() -> None:
    items = limits.ITEMS_IN_AN_ENTRY
    body = long_bytes(items) + b"\x80\x80\x80\x80\1" * items + b"\0"
    assert len(body) > limits.COUNTED_BYTES
    (record,) = avro_files._records(avro(record_of({"type": "array", "items": "long"}), body, codec="null"))
    assert len(record["f0"]) == items


@pytest.mark.parametrize("codec", ["zstandard", "bzip2", "xz", "snappy", "\x1b[31m"])
def test_avro_files_of_other_codecs_are_not_expanded(codec: str) -> None:
    with pytest.raises(CorruptLakeError, match="only deflate"):
        decode_manifest_list(avro(record_of("bytes"), b"\0", codec=codec), "here")


def test_every_store_asks_for_the_size_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RECORD_BYTES", 10)
    for store in (LocalStore(tmp_path), MemoryStore()):
        store.put("control/log/1.json", b"0123456789")
        assert store.get("control/log/1.json") == b"0123456789"
        store.put("control/log/1.json", b"0123456789+")
        with pytest.raises(CorruptLakeError, match="11 bytes"):
            store.get("control/log/1.json")


def test_fsck_reports_an_object_that_is_too_large(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake")
    (path,) = (tmp_path / "lake").glob("data/**/4-*-m0.avro")
    with path.open("r+b") as file:
        file.truncate(20 * limits.GIB)
    report = hg.Lake.open(tmp_path / "lake").fsck()
    assert any("21,474,836,480 bytes" in finding.problem for finding in report.damage)


@pytest.mark.parametrize("text", ["9" * 5000, "٣", "-1", "1_000", "1e3", "", "\x1b[2J"])
def test_a_hint_that_is_no_number(tmp_path: Path, text: str) -> None:
    assert number_in(text) is None
    make_lake(tmp_path / "lake")
    (crafting.metadata_directory(tmp_path / "lake") / "version-hint.text").write_bytes(text.encode())
    lake = hg.Lake.open(tmp_path / "lake")
    assert lake.table("t.t").read_arrow().num_rows == 3
    assert lake.vacuum().objects == 0
    assert lake.fsck().version == 4


def test_a_hint_is_read_with_the_space_around_it() -> None:
    assert number_in(" 12\n") == 12
    assert number_in("9" * 19) == int("9" * 19)


# --- position delete files, footers, JSON ----------------------------------------------------------------


def delete_files(root: Path) -> list[Path]:
    every = sorted((root / "data/t/t/data").rglob("*.parquet"))
    return [path for path in every if "file_path" in pq.read_schema(path).names]


def test_a_sparse_position_delete_file_of_15_gb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (loader, copying, row_check):
        monkeypatch.setattr(module, "POSITIONS_BYTES", limits.MIB)
    make_lake(tmp_path / "lake")
    (path,) = delete_files(tmp_path / "lake")
    with path.open("r+b") as file:
        file.truncate(15 * limits.GIB)
    lake = hg.Lake.open(tmp_path / "lake")
    for use in (
        lambda: lake.table("t.t").read_arrow(),
        lambda: lake.replicate(tmp_path / "replica"),
    ):
        with pytest.raises(CorruptLakeError, match="16,106,127,360 bytes"):
            use()
    assert any("16,106,127,360" in finding.problem for finding in lake.fsck(deep=True).damage)


def test_a_position_delete_file_of_too_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_lake(tmp_path / "lake")
    (path,) = delete_files(tmp_path / "lake")
    rows = pq.read_table(path)
    pq.write_table(pa.concat_tables([rows] * 3), path)
    monkeypatch.setattr(limits, "POSITIONS", 2)
    with pytest.raises(CorruptLakeError, match="lists 3 rows"):
        hg.Lake.open(tmp_path / "lake").table("t.t").read_arrow()


def test_writers_begin_another_delete_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "POSITIONS", 2)
    lake = hg.Lake.init(LocalStore(tmp_path / "lake", fsync=False))
    table = lake.create_table("t.t", "id BIGINT", properties={"write.delete.mode": "merge-on-read"})
    table.append(pa.table({"id": pa.array(range(10), pa.int64())}))
    table.append(pa.table({"id": pa.array(range(10, 12), pa.int64())}))
    table.delete("id BETWEEN 1 AND 10")
    assert [pq.read_metadata(path).num_rows for path in delete_files(tmp_path / "lake")] == [2] * 5
    fresh = hg.Lake.open(tmp_path / "lake")
    assert sorted(fresh.table("t.t").read_arrow().column("id").to_pylist()) == [0, 11]
    assert fresh.fsck(deep=True).ok


def test_a_footer_that_claims_4_gb(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake")
    for path in (tmp_path / "lake/data/t/t/data").rglob("*.parquet"):
        with path.open("r+b") as file:
            file.truncate(14 * limits.GIB)
            file.seek(0, 2)
            file.write(b"\xf0\xff\xff\xffPAR1")
    told = in_fixed_memory(tmp_path / "lake")
    assert told.startswith("CorruptLakeError")
    (key, *_) = (
        str(path.relative_to(tmp_path / "lake")) for path in (tmp_path / "lake/data").rglob("*.parquet")
    )
    with pytest.raises(CorruptLakeError, match="the footer of"):
        row_count(Driver(LocalStore(tmp_path / "lake"), SYSTEM), key, "here")


@pytest.mark.parametrize("text", ["{},", "[],", '{"":1},', "0,", '"ab",'])
@pytest.mark.parametrize("pattern", ["control/log/*4.json", "data/t/t/attempts/*4-*.metadata.json"])
def test_objects_of_60_mib_of_tiny_values(tmp_path: Path, pattern: str, text: str) -> None:
    make_lake(tmp_path / "lake")
    (path,) = (tmp_path / "lake").glob(pattern)
    many = text * (60 * limits.MIB // len(text))
    path.write_text(path.read_text()[:-1] + f', "x": [{many}0]}}')
    told = in_fixed_memory(tmp_path / "lake")
    assert told.startswith("CorruptLakeError")
    assert "lists and objects" in told


def test_metadata_of_10_000_snapshots_and_10_000_columns_is_read() -> None:
    summary = {f"added-number-{number}": "1,234" for number in range(20)}
    column = {"id": 1, "name": "a column", "required": False, "type": "long", "doc": "one, two"}
    fields = {
        "snapshots": [{"snapshot-id": number, "summary": summary} for number in range(10_000)],
        "schemas": [{"fields": [column] * 10_000}] * 20,
    }
    data = json.dumps(fields).encode()
    assert 16 * limits.MIB < len(data) < limits.METADATA_BYTES
    assert JsonObject.parse(data, "here").fields.keys() == fields.keys()
