"""A table on a local disk, made of the pure parts alone: what a commit will do, without the log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from headgate.iceberg.format.avro import Listed, decode_listed, decode_manifest
from headgate.iceberg.format.data_file import DataFile, Entry, Manifest, Status
from headgate.iceberg.format.encoding import encode_parquet
from headgate.iceberg.format.metadata import TableMetadata, new_table
from headgate.iceberg.format.snapshot import FileChange, Occasion, manifests_to_read, take_snapshot
from headgate.iceberg.schema.arrow import (
    data_file,
    fitted,
    footer_of,
    partitioned,
    schema_from_arrow,
)
from headgate.iceberg.schema.partitions import parse_partition_by
from headgate.model.identifiers import TxId, Version


class DiskTable:
    """Takes snapshots and publishes each as `v<N>.metadata.json`."""

    def __init__(self, root: Path, schema: pa.Schema, partition_by: list[str], divisor: int = 10) -> None:
        self.root = root
        self.location = root.as_uri()
        iceberg = assign_fresh_schema_ids(schema_from_arrow(schema))
        spec = parse_partition_by(partition_by, iceberg)
        uuid = "11111111-1111-1111-1111-111111111111"
        self.metadata: TableMetadata = new_table(
            uuid, self.location, iceberg, spec, UNSORTED_SORT_ORDER, {}, now_ms=1
        )
        self.manifests: tuple[Manifest, ...] = ()
        self.divisor = divisor
        self.written = 0

    def append(self, version: int, rows: pa.Table) -> tuple[DataFile, ...]:
        schema, files = self.metadata.schema, list[DataFile]()
        for partition, part in partitioned(fitted(rows, schema, "the table"), schema, self.metadata.spec):
            data = encode_parquet(part)
            path = f"{self.location}/data/{version}/{len(files)}.parquet"
            self._put(path, data)
            files.append(data_file(path, len(data), footer_of(data), partition, self.metadata))
        self.change(version, FileChange("append", tuple(files)))
        return tuple(files)

    def change(self, version: int, change: FileChange) -> None:
        occasion = Occasion(
            Version(version), TxId(f"{version:032x}"), 1_700_000_000_000 + version, self.divisor
        )
        needed = manifests_to_read(self.manifests, change, occasion)
        listed = {manifest.path: self.listed(manifest, change) for manifest in needed}
        snapshot = take_snapshot(self.metadata, self.manifests, listed, change, occasion)
        for path, data in snapshot.objects.items():
            self._put(path, data)
        self.written = len(snapshot.objects)
        self.metadata, self.manifests = snapshot.metadata, snapshot.manifests
        self._put(f"{self.location}/metadata/v{version}.metadata.json", self.metadata.data)
        self._put(f"{self.location}/metadata/version-hint.text", str(version).encode())

    def listed(self, manifest: Manifest, change: FileChange) -> Listed:
        if change.removed:
            return Listed(self.entries(manifest))
        spec = self.metadata.specs[manifest.spec_id]
        data = self._path(manifest.path).read_bytes()
        return decode_listed(data, manifest, self.metadata.schema_of(spec), spec)

    def entries(self, manifest: Manifest) -> tuple[Entry, ...]:
        return tuple(decode_manifest(self._path(manifest.path).read_bytes(), manifest))

    def live_files(self) -> set[str]:
        entries = (entry for manifest in self.manifests for entry in self.entries(manifest))
        return {entry.file.path for entry in entries if entry.status is not Status.DELETED}

    def metadata_file(self, version: int) -> str:
        return str(self.root / "metadata" / f"v{version}.metadata.json")

    def _path(self, uri: str) -> Path:
        return self.root / uri.removeprefix(self.location + "/")

    def _put(self, uri: str, data: bytes) -> None:
        self._path(uri).parent.mkdir(parents=True, exist_ok=True)
        self._path(uri).write_bytes(data)
