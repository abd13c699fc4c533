"""A Parquet file of which the wanted row groups and columns are fetched, and no more, if it is a long one."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.commit.driver import Driver

WHOLE_BYTES = 8 * 1024 * 1024
"""Up to here a file is fetched at once: the requests for its parts would be dearer than its bytes."""
TAIL_BYTES = 64 * 1024
"""What Arrow looks at first: enough for the footer of most files."""


def open_parquet(driver: Driver, key: str, size_bytes: int) -> ParquetParts:
    """The file at `key`, about so long. `FileNotFoundError`, also while it is read; Arrow's if it is none."""
    if size_bytes <= WHOLE_BYTES:
        data = driver.get(key)
        if data is None:
            raise FileNotFoundError(key)
        return ParquetParts(_Whole(data))
    tail = driver.tail(key, TAIL_BYTES)
    if tail is None:
        raise FileNotFoundError(key)
    start = tail.object_bytes - len(tail.data)
    return ParquetParts(_OnStorage(driver, key, tail.object_bytes, _Part(start, tail.data)))


class ParquetParts:
    """A file that is read by row groups, by any number of threads.

    By none of Arrow's: one that lets go of Python's bytes while the process ends would abort it.
    """

    def __init__(self, source: _Source) -> None:
        self._source = source
        file = pq.ParquetFile(source.opened([]), pre_buffer=False)
        self.footer: pq.FileMetaData = file.metadata
        self.schema: pa.Schema = file.schema_arrow

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Columns, by their outermost names, of a row group."""
        names = set(columns)
        found = self.footer.row_group(group)
        chunks = [found.column(number) for number in range(found.num_columns)]
        wanted = [_place(chunk) for chunk in chunks if chunk.path_in_schema.partition(".")[0] in names]
        # With a reader of its own: one is not made for several threads.
        own = pq.ParquetFile(self._source.opened(_joined(wanted)), metadata=self.footer, pre_buffer=False)
        return own.read_row_groups([group], columns=list(columns), use_threads=False)


class _Source(Protocol):
    def opened(self, ranges: Sequence[range]) -> Any:
        """A file of Arrow's that will be asked for these bytes, and hardly for others."""
        ...


@dataclass(frozen=True, slots=True)
class _Whole:
    data: bytes

    def opened(self, ranges: Sequence[range]) -> Any:  # noqa: ARG002 — all of them are here
        return pa.BufferReader(self.data)


@dataclass(frozen=True, slots=True)
class _Part:
    start: int
    data: bytes

    def between(self, start: int, end: int) -> bytes | None:
        """Those bytes of the file, if they are all here."""
        if start < self.start or end > self.start + len(self.data):
            return None
        return self.data[start - self.start : end - self.start]


@dataclass(frozen=True, slots=True)
class _OnStorage:
    driver: Driver
    key: str
    size_bytes: int
    tail: _Part

    def opened(self, ranges: Sequence[range]) -> Any:
        parts = map(_Part, (part.start for part in ranges), self.fetched(ranges) if ranges else [])
        return pa.PythonFile(_File(self, [*parts, self.tail]), mode="r")

    def fetched(self, ranges: Sequence[range]) -> list[bytes]:
        found = self.driver.ranges(self.key, ranges)
        if found is None:
            raise FileNotFoundError(self.key)
        return found


class _File(io.RawIOBase):
    """Parts of a file that are at hand. Others, if Arrow wants them all the same, are fetched."""

    def __init__(self, source: _OnStorage, parts: Sequence[_Part]) -> None:
        self._source, self._parts = source, parts
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size_bytes}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._source.size_bytes - self._at)
        end = self._at + (left if size < 0 else min(size, left))
        data = next(
            (found for part in self._parts if (found := part.between(self._at, end)) is not None), None
        )
        if data is None:
            (data,) = self._source.fetched([range(self._at, end)])
        self._at = end
        return data


def _place(chunk: Any) -> range:
    """The bytes of a column in a row group: its dictionary comes before its data, if it has one."""
    data, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset
    start = dictionary if dictionary is not None and 0 < dictionary < data else data
    return range(start, start + chunk.total_compressed_size)


def _joined(places: Iterable[range]) -> list[range]:
    """The same bytes in as few ranges as possible."""
    joined: list[range] = []
    for place in sorted(places, key=lambda place: place.start):
        if joined and place.start <= joined[-1].stop:
            joined[-1] = range(joined[-1].start, max(joined[-1].stop, place.stop))
        else:
            joined.append(place)
    return joined
