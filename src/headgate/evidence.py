"""Evidence for the conflict rules, fetched from the tables of the lake: each answer once.

What is fetched never changes: manifests and position delete files of a committed version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from headgate.core.evidence import ChangedRows
from headgate.model.record import Record
from headgate.model.table import TableCommit

if TYPE_CHECKING:
    from headgate.iceberg.data_file import Content, DataFile
    from headgate.iceberg.loader import TableLoader
    from headgate.iceberg.metadata import TableMetadata


class FetchedEvidence:
    """The `Evidence` of one transaction. Asks storage only when a rule asks."""

    def __init__(self, loader: Callable[[], TableLoader]) -> None:
        self._loader = loader
        self._added: dict[tuple[int, str], Mapping[str, object]] = {}

    def added(self, other: Record, table: TableCommit) -> Mapping[str, object] | None:
        from headgate.iceberg.data_file import Content  # these load pyiceberg, which only tables need
        from headgate.iceberg.selection import AddedFile

        key = (other.version.number, table.table.uuid)
        known = self._added.get(key)
        if known is None:
            metadata = self._loader().metadata(table.table.metadata)
            files = self._files(metadata, other, table, Content.DATA)
            known = self._added[key] = {file.path: AddedFile(file, metadata) for file in files}
        return known

    def rows(
        self,
        other: Record,  # noqa: ARG002
        table: TableCommit,  # noqa: ARG002
        files: frozenset[str],  # noqa: ARG002
    ) -> Mapping[str, ChangedRows] | None:
        return None

    def _files(
        self, metadata: TableMetadata, other: Record, table: TableCommit, content: Content
    ) -> Iterator[DataFile]:
        """The files that `other` added to the table, which it left as `metadata` says."""
        from headgate.iceberg.data_file import Status

        loader, number = self._loader(), other.version.number
        # Whatever a version adds stands in manifests that it wrote itself, merged with others or not.
        new = [m for m in loader.manifests(metadata) if m.sequence_number == number and m.content is content]
        for entries in loader.entries(new):
            for entry in entries:
                if entry.status is Status.ADDED and entry.snapshot_id == table.snapshot_id:
                    yield entry.file
