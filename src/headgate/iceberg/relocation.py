"""The metadata objects of a lake for another root: every URI in them leads there, and all else stays.

Pure: bytes in, bytes out, the same bytes each time. Iceberg names files by whole URIs, so a copy of a table
must be told where its files lie. Data files name nothing and are copied as they are.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import fastavro

from headgate.errors import CorruptLakeError
from headgate.iceberg.avro import DAMAGE, SETTLED_KEY
from headgate.iceberg.container import assembled, split
from headgate.iceberg.data_file import Content, Status
from headgate.iceberg.metadata import Noted, TableMetadata
from headgate.iceberg.positions import (
    FILE_PATH_ID,
    Positions,
    decode_positions,
    encode_positions,
    position_metrics,
)

_IN_LISTS = {
    "snapshots": "manifest-list",
    "metadata-log": "metadata-file",
    "statistics": "statistics-path",
    "partition-statistics": "statistics-path",
}
"""The lists of a metadata file whose items name an object, and the field that does."""


@dataclass(frozen=True, slots=True)
class FileSizes:
    """What the manifest says of the size of a position delete file; it depends on the paths in it."""

    size_bytes: int
    columns: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Relocation:
    """From the root `source` to the root `target`, both without a slash at their end."""

    source: str
    target: str

    def uri(self, uri: str) -> str:
        """Where an object of the lake is in the other one."""
        inside = f"{self.source}/"
        if not uri.startswith(inside):
            raise CorruptLakeError(f"{uri} does not lie in the lake at {self.source}")
        return f"{self.target}/{uri.removeprefix(inside)}"

    def metadata(self, metadata: TableMetadata) -> TableMetadata:
        """The metadata file. Of the properties, those whose value is a place inside the lake change."""
        lists = {name: self._listed(metadata, name) for name in _IN_LISTS if name in metadata.fields}
        properties = {name: self._if_inside(value) for name, value in metadata.properties.items()}
        return metadata.changed(location=self.uri(metadata.location), properties=properties, **lists)

    def manifest_list(self, data: bytes, origin: str, lengths: Mapping[str, int]) -> bytes:
        """A manifest list. `lengths` are those of all its manifests there, by their URIs there."""

        def change(manifest: dict[str, Any]) -> None:
            manifest["manifest_path"] = self.uri(manifest["manifest_path"])
            manifest["manifest_length"] = lengths[manifest["manifest_path"]]

        return _rewritten(data, origin, change)

    def manifest(self, data: bytes, origin: str, deletes: Mapping[str, FileSizes]) -> bytes:
        """A manifest. `deletes` are the position delete files that it lists, by their URIs there."""

        def change(entry: dict[str, Any]) -> None:
            file = entry["data_file"]
            file["file_path"] = self.uri(file["file_path"])
            if file["content"] == Content.POSITION_DELETES:
                self._change_deletes(file, deletes, is_live=entry["status"] != Status.DELETED)

        return _rewritten(data, origin, change)

    def positions(self, data: bytes, origin: str) -> tuple[bytes, FileSizes]:
        """A position delete file, and what its size is then."""
        listed = decode_positions(data, origin)
        moved = Positions({self.uri(path): rows for path, rows in listed.by_file.items()})
        there = encode_positions(moved)
        return there, FileSizes(len(there), position_metrics(moved, there).sizes)

    def _change_deletes(
        self, file: dict[str, Any], deletes: Mapping[str, FileSizes], *, is_live: bool
    ) -> None:
        for bounds in ("lower_bounds", "upper_bounds"):
            for pair in file[bounds] or ():
                if pair["key"] == FILE_PATH_ID:
                    pair["value"] = self.uri(pair["value"].decode()).encode()
        sizes = deletes.get(file["file_path"])
        if sizes is None:
            # Nobody reads a file that is gone from the table; how long it was does not matter.
            assert not is_live, file["file_path"]
            return
        file["file_size_in_bytes"] = sizes.size_bytes
        for pair in file["column_sizes"] or ():
            pair["value"] = sizes.columns.get(pair["key"], pair["value"])

    def _listed(self, metadata: TableMetadata, name: str) -> list[Noted]:
        field = _IN_LISTS[name]
        return [
            Noted({**item, field: self.uri(item[field])}) if field in item else Noted(item)
            for item in metadata.fields[name]
        ]

    def _if_inside(self, value: str) -> str:
        inside = value == self.source or value.startswith(f"{self.source}/")
        return f"{self.target}{value.removeprefix(self.source)}" if inside else value


def _rewritten(data: bytes, origin: str, change: Callable[[dict[str, Any]], None]) -> bytes:
    """An Avro file with all its records changed; its blocks keep their records."""
    try:
        container = split(data)
        if container.metadata.get("avro.codec") != "deflate":
            raise ValueError(f"it is compressed with {container.metadata.get('avro.codec')}")
        schema = _plain_schema(container.metadata["avro.schema"])
        blocks = [
            (block.count, _records(block.records(), block.count, schema, change))
            for block in container.blocks
        ]
    except DAMAGE as error:
        raise CorruptLakeError(f"{origin} cannot be read: {error}") from error
    metadata = dict(container.metadata)
    if SETTLED_KEY in metadata:
        settled = blocks[: len(metadata[SETTLED_KEY].split())]
        metadata[SETTLED_KEY] = " ".join(f"{zlib.crc32(records):08x}" for _, records in settled)
    return assembled(metadata, container.sync, blocks)


def _records(data: bytes, count: int, schema: Any, change: Callable[[dict[str, Any]], None]) -> bytes:
    source, out = io.BytesIO(data), io.BytesIO()
    for _ in range(count):
        record = cast(dict[str, Any], fastavro.schemaless_reader(source, schema, None))
        change(record)
        fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


@lru_cache(maxsize=256)
def _plain_schema(text: str) -> Any:
    """The schema of a file without logical types: values stay as they are stored, so nothing can change."""
    return fastavro.parse_schema(_plain(json.loads(text)))


def _plain(schema: Any) -> Any:
    match schema:
        case dict():
            return {name: _plain(value) for name, value in schema.items() if name != "logicalType"}
        case list():
            return [_plain(item) for item in schema]
    return schema
