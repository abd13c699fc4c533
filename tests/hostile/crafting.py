"""Changing what a lake on a disk says about itself, as somebody would who can write there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import headgate as hg
from headgate.iceberg.format.container import split
from headgate.iceberg.format.relocation import _rewritten
from headgate.storage.local import LocalStore

Change = Callable[[dict[str, Any]], None]


def make_lake(root: Path, **options: Any) -> hg.Lake:
    """A lake with a table of two files and a deleted row."""
    lake = hg.Lake.init(LocalStore(root, fsync=False), **options)
    table = lake.create_table("t.t", "id BIGINT", properties={"write.delete.mode": "merge-on-read"})
    table.append(pa.table({"id": [1, 2, 3]}))
    table.append(pa.table({"id": [4]}))
    table.delete("id = 2")
    return lake


def metadata_directory(root: Path) -> Path:
    return root / "data/t/t/metadata"


def manifest_lists(root: Path) -> list[Path]:
    return sorted(metadata_directory(root).glob("snap-*.avro"))


def manifests(root: Path) -> list[Path]:
    return sorted(set(metadata_directory(root).glob("*.avro")) - set(manifest_lists(root)))


def metadata_files(root: Path) -> list[Path]:
    """Those of attempts, which the log names, in the order of versions; then those for other engines."""
    attempts = sorted((root / "data/t/t/attempts").glob("*.metadata.json"))
    return [*attempts, *sorted(metadata_directory(root).glob("*.metadata.json"))]


def change_avro(path: Path, change: Change) -> None:
    path.write_bytes(_rewritten(path.read_bytes(), str(path), change))


def change_json(path: Path, change: Change) -> None:
    fields = json.loads(path.read_bytes())
    change(fields)
    path.write_bytes(json.dumps(fields).encode())


def rename_files(root: Path, new: Callable[[str], str], of: tuple[str, ...] = ("",)) -> None:
    """Every data and delete file is called otherwise in the manifests whose names begin so."""

    def change(entry: dict[str, Any]) -> None:
        entry["data_file"]["file_path"] = new(entry["data_file"]["file_path"])

    for path in manifests(root):
        if path.name.startswith(of):
            change_avro(path, change)


def rename_manifests(root: Path, new: Callable[[str], str]) -> None:
    def change(line: dict[str, Any]) -> None:
        line["manifest_path"] = new(line["manifest_path"])

    for path in manifest_lists(root):
        change_avro(path, change)


def rename_lists(root: Path, new: Callable[[str], str]) -> None:
    def change(fields: dict[str, Any]) -> None:
        for snapshot in fields.get("snapshots", ()):
            snapshot["manifest-list"] = new(snapshot["manifest-list"])

    for path in metadata_files(root):
        change_json(path, change)


def avro_schema(path: Path) -> str:
    """The schema in the header of a manifest or of a list of manifests."""
    return split(path.read_bytes()).metadata["avro.schema"]


def copied(origin: Path, lake: Path) -> None:
    """A copy of a lake at another location, with the names of its files changed."""
    shutil.copytree(origin, lake)
    for path in metadata_files(lake):
        path.write_bytes(path.read_bytes().replace(f"file://{origin}/".encode(), f"file://{lake}/".encode()))

    def moved(uri: str) -> str:
        return uri.replace(f"file://{origin}/", f"file://{lake}/")

    rename_files(lake, moved)
    rename_manifests(lake, moved)


def everything(directory: Path) -> Iterator[tuple[str, bytes]]:
    """What is there, without following links."""
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield str(path.relative_to(directory)), path.read_bytes()
