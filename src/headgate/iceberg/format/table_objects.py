"""The objects that make up a table at one version, with their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from headgate.iceberg.format.avro import decode_manifest, decode_manifest_list
from headgate.iceberg.format.data_file import Manifest, Status
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import TableMetadata
from headgate.model.identifiers import DATA, METADATA, is_of_table, key_of


@dataclass(frozen=True, slots=True)
class Contents:
    """Keys with their bytes: the manifest list, the manifests, and the files that are live in them.

    All keys belong to the table: `elsewhere` are names in the manifests that no file of the table can have.
    `whole`: everything could be read, and nothing is elsewhere. A table that was deleted half-way is not
    whole.
    """

    lists: Mapping[str, int] = field(default_factory=dict)
    manifests: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)
    whole: bool = True
    elsewhere: frozenset[str] = frozenset()

    def every_key(self) -> Iterator[str]:
        yield from self.lists
        yield from self.manifests
        yield from self.files


@dataclass(frozen=True, slots=True)
class _Listed:
    """The live files of a manifest, and names that no file of the table can have."""

    files: Mapping[str, int]
    elsewhere: frozenset[str]


class ContentsReader:
    """Reads which objects make up the table in the directory `location`.

    A manifest that several versions share is read once.
    """

    def __init__(self, loader: TableLoader, location: str) -> None:
        self._loader = loader
        self._location = location
        self._known: dict[str, _Listed | None] = {}

    def contents(self, metadata: TableMetadata) -> Contents:
        """The objects of a metadata file's snapshot. Objects that no longer exist are left out."""
        snapshot = metadata.snapshot
        if snapshot is None:
            return Contents()
        uri = str(snapshot["manifest-list"])
        key = self._key(uri, METADATA)
        if key is None:
            return Contents(whole=False, elsewhere=frozenset({uri}))
        data = self._loader.driver.get(key)
        if data is None:
            return Contents({key: 0}, whole=False)
        return self._of_list(key, len(data), decode_manifest_list(data, uri))

    def _of_list(self, key: str, size_bytes: int, manifests: Sequence[Manifest]) -> Contents:
        new = [manifest for manifest in manifests if manifest.path not in self._known]
        fetched = self._loader.driver.fetch_at_once([partial(self._files, manifest) for manifest in new])
        self._known.update(zip((manifest.path for manifest in new), fetched, strict=True))
        listed = [self._known[manifest.path] for manifest in manifests]
        there = [known for known in listed if known is not None]
        named = {manifest.path: self._key(manifest.path, METADATA) for manifest in manifests}
        strange = {path for path, found in named.items() if found is None}
        elsewhere = frozenset(strange).union(*(known.elsewhere for known in there))
        return Contents(
            lists={key: size_bytes},
            manifests={k: one.length for one in manifests if (k := named[one.path]) is not None},
            files={name: size for known in there for name, size in known.files.items()},
            whole=None not in listed and not elsewhere,
            elsewhere=elsewhere,
        )

    def _files(self, manifest: Manifest) -> _Listed | None:
        key = self._key(manifest.path, METADATA)
        data = None if key is None else self._loader.driver.get(key)
        if data is None:
            return None
        live = [e.file for e in decode_manifest(data, manifest) if e.status is not Status.DELETED]
        keys = [(file, self._key(file.path, DATA)) for file in live]
        return _Listed(
            {key: file.size_bytes for file, key in keys if key is not None},
            frozenset(file.path for file, key in keys if key is None),
        )

    def _key(self, uri: str, part: str) -> str | None:
        key = key_of(uri, self._loader.uri("")[:-1])
        return None if key is None or not is_of_table(key, self._location, part) else key
