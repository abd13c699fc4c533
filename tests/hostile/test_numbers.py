"""Numbers and types in a lake that nobody can have written: damage of the lake, never a traceback of ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.errors import CorruptLakeError
from headgate.iceberg.format.writer_schema import writer_schema
from headgate.storage.local import LocalStore
from tests.hostile import crafting
from tests.hostile.crafting import change_avro, manifest_lists, manifests, metadata_files

Craft = Callable[[Path], None]


def make_lake(root: Path) -> None:
    """A lake with a table of ten rows in two files, one of which has a deleted row."""
    lake = hg.Lake.init(LocalStore(root, fsync=False), divisor=2)
    table = lake.create_table(
        "t.t",
        "id BIGINT",
        properties={"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"},
    )
    table.append(pa.table({"id": list(range(1, 10))}))
    table.append(pa.table({"id": [40]}))
    table.delete("id = 2")


def of_files(**fields: Any) -> Craft:
    """Fields of each data file in the manifests; `content` says of which kind."""
    content = fields.pop("content", 0)

    def change(entry: dict[str, Any]) -> None:
        if entry["data_file"]["content"] == content:
            entry["data_file"].update(fields)

    return of_manifests(change)


def of_manifests(change: crafting.Change) -> Craft:
    def craft(root: Path) -> None:
        for path in manifests(root):
            change_avro(path, change)

    return craft


def of_entries(**fields: Any) -> Craft:
    return of_manifests(lambda entry: entry.update(fields))


def of_lists(**fields: Any) -> Craft:
    def craft(root: Path) -> None:
        for path in manifest_lists(root):
            change_avro(path, lambda line: line.update(fields))

    return craft


def of_metadata(change: crafting.Change) -> Craft:
    def craft(root: Path) -> None:
        for path in metadata_files(root):
            crafting.change_json(path, change)

    return craft


def of_snapshots(**fields: Any) -> Craft:
    def change(metadata: dict[str, Any]) -> None:
        for snapshot in metadata["snapshots"]:
            snapshot.update(fields)

    return of_metadata(change)


def delete_file(root: Path) -> Path:
    files = (root / "data").rglob("*.parquet")
    return next(path for path in files if "pos" in pq.read_schema(path).names)


def of_positions(positions: Any, paths: Sequence[Any] | None = None) -> Craft:
    """The delete file lists other positions."""

    def craft(root: Path) -> None:
        path = delete_file(root)
        before = pq.read_table(path)
        named = before["file_path"].to_pylist() * len(positions) if paths is None else pa.array(paths)
        pq.write_table(pa.table({"file_path": named, "pos": positions}), path)

    return craft


def of_names(new: str) -> Craft:
    """Data files are called as if a compaction had written them; nothing moves."""

    def change(entry: dict[str, Any]) -> None:
        file = entry["data_file"]
        if file["content"] == 0:
            start, _, rest = file["file_path"].partition("/data/L0-")
            file["file_path"] = f"{start}/data/{new}-{rest}"

    return of_manifests(change)


DAMAGE: dict[str, Craft] = {
    "more rows than a file has": of_files(record_count=2**62),
    "as many rows as there can be": of_files(record_count=2**36),
    "fewer rows than none": of_files(record_count=-5),
    "fewer bytes than none": of_files(file_size_in_bytes=-1),
    "an entry of a later version": of_entries(sequence_number=2**62),
    "an entry of version 0": of_entries(sequence_number=0),
    "an entry of a version before": of_entries(file_sequence_number=-(2**63)),
    "a manifest of a later version": of_lists(sequence_number=2**62, min_sequence_number=2**62),
    "a manifest of no version": of_lists(min_sequence_number=0),
    "a manifest before it begins": of_lists(sequence_number=1, min_sequence_number=2),
    "a snapshot of a later version": of_snapshots(**{"sequence-number": 2**62}),
    "a table of a later version": of_metadata(lambda one: one.update({"last-sequence-number": 2**62})),
    "versions in the wrong order": of_names("L1-9-3"),
    "versions that are not there yet": of_names("L2-1-4611686018427387904"),
    "positions that no file has": of_positions([2**62]),
    "negative positions": of_positions([-1]),
    "the lowest position": of_positions([-(2**63)]),
    "no position": of_positions(pa.array([None], pa.int64())),
    "positions that are no numbers": of_positions(["x"]),
    "no path": of_positions([0], [None]),
    "paths that are no strings": of_positions([0], [1]),
}
USES: dict[str, Callable[[hg.Lake], object]] = {
    "read": lambda lake: lake.table("t.t").read_arrow(),
    "changes": lambda lake: lake.table("t.t").changes_arrow(since=1),
    "compact": lambda lake: lake.compact(),
    "delete": lambda lake: lake.table("t.t").delete("id = 3"),
    "update": lambda lake: lake.table("t.t").update({"id": "id + 1"}, where="id = 4"),
    "empty": lambda lake: lake.table("t.t").delete("id > 0"),
    "upsert": lambda lake: lake.table("t.t").upsert(pa.table({"id": [1]}), keys=["id"]),
    "overwrite": lambda lake: lake.table("t.t").overwrite(pa.table({"id": [1]})),
    "replicate": lambda lake: lake.replicate(Path(lake.place).with_name("replica")),
    "history": lambda lake: [lake.table("t.t").history(), lake.table("t.t").size],
    "fsck": lambda lake: lake.fsck(deep=True),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_no_number_is_more_than_damage(tmp_path: Path, case: str) -> None:
    make_lake(tmp_path / "origin")
    DAMAGE[case](tmp_path / "origin")
    # Each use sees the damage, not what the one before has committed.
    found = set()
    for name, use in USES.items():
        crafting.copied(tmp_path / "origin", tmp_path / name / "lake")
        try:
            use(hg.Lake.open(tmp_path / name / "lake"))
        except CorruptLakeError:
            found.add(name)
    assert found or case == "as many rows as there can be", "nothing noticed it"
    assert not hg.Lake.open(tmp_path / "fsck" / "lake").fsck(deep=True).ok


@pytest.mark.parametrize("position", [9, 70_000, 2**35])
def test_positions_behind_the_end_of_a_file(tmp_path: Path, position: int) -> None:
    make_lake(tmp_path / "lake")
    of_positions([position])(tmp_path / "lake")
    lake = hg.Lake.open(tmp_path / "lake")
    with pytest.raises(CorruptLakeError, match=f"has 9 rows, but the table refers to row {position:,} of it"):
        lake.table("t.t").changes_arrow(since=1)
    with pytest.raises(CorruptLakeError, match=f"has 9 rows, but the table refers to row {position:,} of it"):
        lake.compact()
    assert lake.table("t.t").read_arrow().num_rows == 10


def test_a_compaction_says_that_the_manifest_is_wrong(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake")
    of_files(record_count=2**31)(tmp_path / "lake")
    with pytest.raises(CorruptLakeError, match=r"has \d rows, but the manifest of t\.t says 2,147,483,648"):
        hg.Lake.open(tmp_path / "lake").compact()


SUMMARIES: tuple[Any, ...] = (
    {"total-records": "many", "total-files-size": "many"},
    {"total-records": "9" * 5000},
    {"total-records": "-1"},
    {"added-records": "²"},
    {"total-data-files": ""},
    "text",
    [],
)


@pytest.mark.parametrize("summary", SUMMARIES, ids=lambda each: str(each)[:40])
def test_summaries_that_nobody_writes(tmp_path: Path, summary: Any) -> None:
    make_lake(tmp_path / "lake")
    of_snapshots(summary=summary)(tmp_path / "lake")
    with pytest.raises(CorruptLakeError):
        hg.Lake.open(tmp_path / "lake").table("t.t").history()


@pytest.mark.parametrize("time", [2**60, -1, 1.5, "now"])
def test_times_of_snapshots_outside_of_the_calendar(tmp_path: Path, time: Any) -> None:
    make_lake(tmp_path / "lake")
    of_snapshots(**{"timestamp-ms": time})(tmp_path / "lake")
    with pytest.raises(CorruptLakeError, match="timestamp-ms"):
        hg.Lake.open(tmp_path / "lake").table("t.t").history()


def test_metadata_that_is_named_after_a_later_version(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake")
    record = tmp_path / "lake/control/log/00000000000000000004.json"
    later = "data/t/t/attempts/00000000000000000099-" + "a" * 32 + ".metadata.json"
    crafting.change_json(record, lambda fields: fields["tables"][0].update(metadata=later))
    with pytest.raises(CorruptLakeError, match="named after a later version than 4"):
        hg.Lake.open(tmp_path / "lake").tables()


# --- what a manifest says about its own types ---------------------------------------------------------------


def fields_of(avro: Any) -> dict[str, dict[str, Any]]:
    """All fields of a schema by their names, at any depth."""
    match avro:
        case {"type": "record", "fields": fields}:
            own = {field["name"]: field for field in fields}
            return own | {name: each for field in fields for name, each in fields_of(field["type"]).items()}
        case {"type": "array", "items": items}:
            return fields_of(items)
        case list(branches):
            return {name: each for branch in branches for name, each in fields_of(branch).items()}
    return {}


@pytest.mark.parametrize(
    "name",
    [
        "record_count",
        "file_path",
        "status",
        "sequence_number",
        "column_sizes",
        "lower_bounds",
        "split_offsets",
    ],
)
@pytest.mark.parametrize(
    "kind",
    [
        "double",
        "boolean",
        ["null", "double"],
        {"type": "long", "logicalType": "timestamp-micros"},
        {"type": "string", "logicalType": "uuid"},
        {"type": "array", "items": "float"},
        {"type": "record", "name": "w", "fields": [{"name": "x", "type": "long"}]},
    ],
    ids=str,
)
def test_a_schema_in_which_a_field_has_another_type(tmp_path: Path, name: str, kind: Any) -> None:
    make_lake(tmp_path / "lake")
    text = crafting.avro_schema(manifests(tmp_path / "lake")[0])
    writer_schema(text)
    changed = json.loads(text)
    fields_of(changed)[name]["type"] = kind
    with pytest.raises(ValueError, match=f"another type for '{name}' than manifests have"):
        writer_schema(json.dumps(changed))


def test_names_of_partitions_are_those_of_users() -> None:
    """A table may be partitioned by a column whose name means something else in a manifest."""
    partition = {"type": "record", "name": "r102", "fields": [{"name": "status", "type": ["null", "string"]}]}
    file = {"type": "record", "name": "r2", "fields": [{"name": "partition", "type": partition}]}
    writer_schema(
        json.dumps({"type": "record", "name": "m", "fields": [{"name": "data_file", "type": file}]})
    )
