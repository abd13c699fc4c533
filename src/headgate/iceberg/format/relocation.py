"""Rewrites a lake's metadata objects for another root: every URI points there, the rest is unchanged.

Pure and deterministic: bytes in, bytes out. Iceberg identifies files by full URIs, so the metadata of a
copied table must contain the new locations. Data files contain no URIs and are copied unchanged.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import fastavro

from headgate.errors import CorruptLakeError
from headgate.iceberg.format.avro import DAMAGE, SETTLED_KEY
from headgate.iceberg.format.container import assembled, split
from headgate.iceberg.format.data_file import Content, Status
from headgate.iceberg.format.metadata import Noted, TableMetadata
from headgate.iceberg.format.positions import (
    FILE_PATH_ID,
    Positions,
    decode_positions,
    encode_positions,
    position_metrics,
)
from headgate.iceberg.format.writer_schema import writer_schema
from headgate.model.identifiers import key_of

_IN_LISTS = {
    "snapshots": "manifest-list",
    "metadata-log": "metadata-file",
    "statistics": "statistics-path",
    "partition-statistics": "statistics-path",
}
"""The lists of a metadata file whose items refer to an object, and the field with its URI."""


@dataclass(frozen=True, slots=True)
class FileSizes:
    """The sizes of a position delete file in the manifest; they depend on the paths in the file."""

    size_bytes: int
    columns: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Relocation:
    """Moves URIs from the root `source` to the root `target`, both without a trailing slash."""

    source: str
    target: str

    def uri(self, uri: str) -> str:
        """The URI of an object of the lake at the new root."""
        key = key_of(uri, self.source) if isinstance(uri, str) else None
        if key is None:
            raise CorruptLakeError(f"{uri!r} is outside of the lake at {self.source}")
        return f"{self.target}/{key}"

    def metadata(self, metadata: TableMetadata) -> TableMetadata:
        """The metadata file. Properties whose value is a location inside the lake change as well."""
        lists = {name: self._listed(metadata, name) for name in _IN_LISTS if name in metadata.fields}
        properties = {name: self._if_inside(value) for name, value in metadata.properties.items()}
        return metadata.changed(location=self.uri(metadata.location), properties=properties, **lists)

    def manifest_list(self, data: bytes, origin: str, lengths: Mapping[str, int]) -> bytes:
        """A manifest list. `lengths` are those of all its rewritten manifests, by their new URIs."""

        def change(manifest: dict[str, Any]) -> None:
            manifest["manifest_path"] = self.uri(manifest["manifest_path"])
            manifest["manifest_length"] = lengths[manifest["manifest_path"]]

        return _rewritten(data, origin, change)

    def manifest(self, data: bytes, origin: str, deletes: Mapping[str, FileSizes]) -> bytes:
        """A manifest. `deletes` are the rewritten position delete files that it lists, by their new URIs."""

        def change(entry: dict[str, Any]) -> None:
            file = entry["data_file"]
            file["file_path"] = self.uri(file["file_path"])
            if file["content"] == Content.POSITION_DELETES:
                self._change_deletes(file, deletes, is_live=entry["status"] != Status.DELETED)

        return _rewritten(data, origin, change)

    def positions(self, data: bytes, origin: str) -> tuple[bytes, FileSizes]:
        """A position delete file, and its new sizes."""
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
            # Nobody reads a file that was removed from the table, so its length does not matter.
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
    """An Avro file with all records changed; its blocks contain the same records as before."""
    try:
        container = split(data)
        if container.metadata.get("avro.codec") != "deflate":
            raise ValueError(f"it is compressed with {container.metadata.get('avro.codec')}")
        schema = _plain_schema(container.metadata["avro.schema"])
        blocks = [
            (block.count, _records(records, block.count, schema, change))
            for block, records in zip(container.blocks, container.records(), strict=True)
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
        record = cast("dict[str, Any]", fastavro.schemaless_reader(source, schema, None))
        change(record)
        fastavro.schemaless_writer(out, schema, record)
    return out.getvalue()


@lru_cache(maxsize=256)
def _plain_schema(text: str) -> Any:
    """The schema of a file without logical types: values stay as they are stored, so nothing can change."""
    return fastavro.parse_schema(_plain(writer_schema(text).avro))


def _plain(schema: Any) -> Any:
    match schema:
        case dict():
            return {name: _plain(value) for name, value in schema.items() if name != "logicalType"}
        case list():
            return [_plain(item) for item in schema]
    return schema
