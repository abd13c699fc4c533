"""What the source may have lost: files of expired versions, and nothing that its newest version needs."""

from __future__ import annotations

from collections.abc import Callable

from headgate.errors import CorruptLakeError
from headgate.iceberg.data_file import Status
from headgate.iceberg.loader import TableLoader
from headgate.model.state import LakeState


class Expired:
    """Decides whether an object may be missing at the source, and keeps what was."""

    def __init__(self, source: TableLoader, newest: LakeState, refresh: Callable[[], LakeState]) -> None:
        self._source = source
        self._newest = newest
        self._refresh = refresh
        self._needed: dict[str, frozenset[str]] = {}
        self.keys: list[str] = []

    def allow(self, uuid: str, key: str) -> None:
        """Notes that an object of a table is missing; `CorruptLakeError` if the table now consists of it."""
        if self._is_needed(uuid, key):
            raise CorruptLakeError(
                f"{self._source.uri(key)} is needed by version {self._newest.version}, and is not there",
                "bring it back from a backup, or from another replica",
            )
        self.keys.append(key)

    def _is_needed(self, uuid: str, key: str) -> bool:
        if uuid not in self._needed:
            self._needed[uuid] = frozenset(self._keys_of(uuid))
        if key not in self._needed[uuid]:
            return False
        now = self._refresh()
        if self._newest.version.number > now.retention.until:
            return True
        # What was the newest version is expired by now; the one that is then has its own files.
        self._newest, self._needed = now, {}
        return self._is_needed(uuid, key)

    def _keys_of(self, uuid: str) -> set[str]:
        """The keys of all objects that a table consists of in the newest version."""
        ref = next((ref for ref in self._newest.tables.values() if ref.uuid == uuid), None)
        metadata = None if ref is None else self._source.find_metadata(ref.metadata)
        if ref is None:
            return set()
        if metadata is None or metadata.snapshot is None:
            return {ref.metadata}
        manifests = self._source.manifests(metadata)
        paths = {str(metadata.snapshot["manifest-list"]), *(manifest.path for manifest in manifests)}
        for entries in self._source.entries(manifests):
            paths.update(entry.file.path for entry in entries if entry.status is not Status.DELETED)
        return {ref.metadata, *map(self._source.key, paths)}
