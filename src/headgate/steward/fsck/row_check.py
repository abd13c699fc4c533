"""Checks the content of data and delete files.

Whether every page can be decoded, how many rows there are, and which of them are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from pyroaring import BitMap64

from headgate.arrow.pages import decode_rows
from headgate.core.fsck.kinds import Trouble, finding, trouble_with
from headgate.core.fsck.tables import SeenDeletes, SeenFile, judge_deletes, judge_rows
from headgate.errors import StorageError
from headgate.iceberg.format.data_file import Content, DataFile
from headgate.iceberg.format.positions import FILE_PATH_ID, Positions, decode_positions
from headgate.iceberg.format.snapshot import LIVE_RECORDS
from headgate.iceberg.scan.planning import DeleteIndex
from headgate.model.fsck import Finding
from headgate.model.limits import POSITIONS_BYTES
from headgate.steward.fsck.sight import attempt, batches
from headgate.steward.fsck.table_check import ReadTable, TableCheck

FILES_AT_ONCE = 16
"""How many files are read at the same time: each can need the memory of a column of a row group."""


@dataclass
class RowCheck:
    """One check of the files that `tables` found to exist with the right size."""

    tables: TableCheck
    progress: Callable[[int, int], None]
    findings: list[Finding] = field(default_factory=list)
    positions: dict[str, Positions] = field(default_factory=dict)
    """The positions that each readable delete file lists, by path."""

    def run(self, newest: Iterable[ReadTable]) -> None:
        broken = {one.where for one in self.tables.findings if one.is_damage}
        sound = {key: file for key, file in self.tables.files.items() if key not in broken}
        done = 0
        for batch in batches(sound.items(), FILES_AT_ONCE):
            read = [partial(self._data if file.is_data else self._deletes, key, file) for key, file in batch]
            for found in self.tables.sight.together(read):
                self.findings += found
            done += len(batch)
            self.progress(done, len(sound))
        for table in newest:
            self._table(table)

    def _data(self, key: str, file: SeenFile) -> list[Finding]:
        found = attempt(partial(self._decode, key, file))
        return [finding("file-unreadable", key, found.problem)] if isinstance(found, Trouble) else found

    def _decode(self, key: str, file: SeenFile) -> list[Finding]:
        try:
            rows = decode_rows(self.tables.sight.driver, key, file.path, file.size_bytes)
        except StorageError as error:  # the file itself may be fine
            return [trouble_with(key, Trouble(error.problem))]
        return judge_rows(key, file, rows)

    def _deletes(self, key: str, file: SeenFile) -> list[Finding]:
        data = self.tables.sight.get(key, POSITIONS_BYTES)
        if isinstance(data, Trouble):
            return [trouble_with(key, data)]
        positions = attempt(partial(decode_positions, data or b"", key))
        if isinstance(positions, Trouble):
            return [finding("file-unreadable", key, positions.problem)]
        self.positions[file.path] = positions
        return judge_rows(key, file, len(positions))

    def _table(self, table: ReadTable) -> None:
        """Checks the delete files of a table against its data files, and the number of live rows."""
        data = {entry.file.path: entry for entry in table.live if entry.file.content is Content.DATA}
        deletes = [entry for entry in table.live if entry.file.content is not Content.DATA]
        rows = {path: entry.file.record_count for path, entry in data.items()}
        there = {f"{self.tables.root}/{key}" for key in self.tables.sizes} if deletes else set()
        for entry in deletes:
            listed = self.positions.get(entry.file.path)
            if listed is not None:
                key = self.tables.key(entry.file.path) or entry.file.path
                self.findings += judge_deletes(key, _seen(listed, entry.file), rows, there)
        said = table.summary.get(LIVE_RECORDS)
        if said is None or not table.whole or any(e.file.path not in self.positions for e in deletes):
            return
        index = DeleteIndex((entry.file, entry.sequence_number or 0) for entry in deletes)
        dead = sum(
            self._dead(path, index.applying_to(entry.file, entry.sequence_number or 0))
            for path, entry in data.items()
        )
        self.findings += _judge_live(table, int(said), sum(rows.values()) - dead)

    def _dead(self, path: str, deletes: Iterable[DataFile]) -> int:
        found = BitMap64()
        for delete in deletes:
            found |= self.positions[delete.path].in_file(path)
        return len(found)


def _judge_live(table: ReadTable, said: int, live: int) -> list[Finding]:
    if said == live:
        return []
    told = f"{table.version.name} has {live:,} live rows, but its snapshot says {said:,}"
    return [finding("live-rows-differ", table.version.ref.metadata, told)]


def _seen(positions: Positions, file: DataFile) -> SeenDeletes:
    highest: Mapping[str, int] = {path: bitmap.max() for path, bitmap in positions.by_file.items()}
    return SeenDeletes(highest, (_path(file.metrics.lower), _path(file.metrics.upper)))


def _path(bounds: Mapping[int, bytes]) -> str | None:
    raw = bounds.get(FILE_PATH_ID)
    return None if raw is None else raw.decode("utf-8", "replace")
