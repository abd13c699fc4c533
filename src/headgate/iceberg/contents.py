"""The objects that a table consists of at one version, with their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from headgate.iceberg.avro import decode_manifest, decode_manifest_list
from headgate.iceberg.data_file import Manifest, Status
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Contents:
    """Keys with bytes: the manifest list, the manifests, and the files that are live in them.

    `whole`: all of it could be read. What was deleted half-way is not.
    """

    lists: Mapping[str, int] = field(default_factory=dict)
    manifests: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)
    whole: bool = True

    def every_key(self) -> Iterator[str]:
        yield from self.lists
        yield from self.manifests
        yield from self.files


class ContentsReader:
    """Reads what tables consist of. Manifests that several versions share are read once."""

    def __init__(self, loader: TableLoader) -> None:
        self._loader = loader
        self._known: dict[str, Mapping[str, int] | None] = {}

    def contents(self, metadata: TableMetadata) -> Contents:
        """The snapshot of a metadata file. What is not there any more is left out."""
        snapshot = metadata.snapshot
        if snapshot is None:
            return Contents()
        uri = str(snapshot["manifest-list"])
        data = self._loader.driver.get(self._loader.key(uri))
        if data is None:
            return Contents({self._loader.key(uri): 0}, whole=False)
        manifests = decode_manifest_list(data, uri)
        new = [manifest for manifest in manifests if manifest.path not in self._known]
        read = self._loader.driver.fetch_at_once([partial(self._files, manifest) for manifest in new])
        self._known.update(zip((manifest.path for manifest in new), read, strict=True))
        listed = [self._known[manifest.path] for manifest in manifests]
        return Contents(
            lists={self._loader.key(uri): len(data)},
            manifests={self._loader.key(manifest.path): manifest.length for manifest in manifests},
            files={key: size for known in listed if known is not None for key, size in known.items()},
            whole=None not in listed,
        )

    def _files(self, manifest: Manifest) -> Mapping[str, int] | None:
        data = self._loader.driver.get(self._loader.key(manifest.path))
        if data is None:
            return None
        live = (e for e in decode_manifest(data, manifest) if e.status is not Status.DELETED)
        return {self._loader.key(entry.file.path): entry.file.size_bytes for entry in live}
