"""A Parquet file of which the wanted row groups and columns are fetched, and no more, if it is a long one."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from headgate.commit.driver import Driver
from headgate.iceberg.metrics import chunk_start
from headgate.storage.capabilities import ReadRanges

WHOLE_BYTES = 8 * 1024 * 1024
"""Up to here a file is fetched at once: the requests for its parts would be dearer than its bytes."""
TAIL_BYTES = 64 * 1024
"""What Arrow looks at first: enough for the footer of most files."""


def open_parquet(driver: Driver, key: str, size_bytes: int) -> ParquetParts:
    """The file at `key`, about so long. `FileNotFoundError`, also while it is read; Arrow's if it is none."""
    if size_bytes <= WHOLE_BYTES or not isinstance(driver.store, ReadRanges):
        data = driver.get(key)
        if data is None:
            raise FileNotFoundError(key)
        return ParquetParts(_Whole(data))
    tail = driver.tail(key, TAIL_BYTES)
    if tail is None:
        raise FileNotFoundError(key)
    if len(tail.data) == tail.object_bytes:  # it is shorter than it should be, or nothing less is given
        return ParquetParts(_Whole(tail.data))
    start = tail.object_bytes - len(tail.data)
    return ParquetParts(_OnStorage(driver, key, tail.object_bytes, _Part(start, tail.data)))


class ParquetParts:
    """A file that is read by row groups, by any number of threads.

    By none of Arrow's: one that lets go of Python's bytes while the process ends would abort it.
    """

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._first = pq.ParquetFile(source.opened(), pre_buffer=False)
        self.footer: pq.FileMetaData = self._first.metadata
        self.schema: pa.Schema = self._first.schema_arrow

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Columns, by their outermost names, of a row group."""
        return self._reader(group, columns).read_row_groups([group], list(columns), use_threads=False)

    def _reader(self, group: int, columns: Sequence[str]) -> pq.ParquetFile:
        if self._source.is_whole and self.footer.num_row_groups == 1:
            return self._first
        # One of its own: they are not made for several threads.
        opened = self._source.opened(self.footer.row_group(group), columns)
        return pq.ParquetFile(opened, metadata=self.footer, pre_buffer=False)


class _Source(Protocol):
    is_whole: ClassVar[bool]
    """Whether all of it is here."""

    def opened(self, group: pq.RowGroupMetaData | None = None, columns: Sequence[str] = ()) -> Any:
        """A file of Arrow's that will be asked for these columns of a row group, or for its footer."""
        ...


@dataclass(frozen=True, slots=True)
class _Whole:
    is_whole: ClassVar[bool] = True
    data: bytes

    def opened(
        self,
        group: pq.RowGroupMetaData | None = None,  # noqa: ARG002 — all of it is here
        columns: Sequence[str] = (),  # noqa: ARG002
    ) -> Any:
        return pa.BufferReader(self.data)


@dataclass(frozen=True, slots=True)
class _Part:
    start: int
    data: bytes

    def between(self, start: int, end: int) -> memoryview | None:
        """Those bytes of the file, if they are all here."""
        if start < self.start or end > self.start + len(self.data):
            return None
        return memoryview(self.data)[start - self.start : end - self.start]


@dataclass(frozen=True, slots=True)
class _OnStorage:
    is_whole: ClassVar[bool] = False
    driver: Driver
    key: str
    size_bytes: int
    tail: _Part

    def opened(self, group: pq.RowGroupMetaData | None = None, columns: Sequence[str] = ()) -> Any:
        places = [] if group is None else _joined(_places(group, columns))
        if places and (places[0].start < 0 or places[-1].stop > self.size_bytes):
            raise pa.ArrowInvalid("its footer tells of columns outside of the file")
        parts = map(_Part, (place.start for place in places), self.fetched(places) if places else [])
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

    def read(self, size: int = -1) -> Any:
        left = max(0, self._source.size_bytes - self._at)
        start, end = self._at, self._at + (left if size < 0 else min(size, left))
        self._at = end
        if start >= end:
            return b""
        for part in self._parts:
            if (found := part.between(start, end)) is not None:
                return found
        return self._source.fetched([range(start, end)])[0]


def _places(group: pq.RowGroupMetaData, columns: Sequence[str]) -> Iterator[range]:
    """The bytes of columns, each with all that lies inside of it."""
    for number in range(group.num_columns):
        chunk = group.column(number)
        # One with a dot in its own name is not found here, but by Arrow.
        if chunk.path_in_schema.partition(".")[0] in columns:
            start = chunk_start(chunk)
            if chunk.total_compressed_size:
                yield range(start, start + chunk.total_compressed_size)


def _joined(places: Iterable[range]) -> list[range]:
    """The same bytes in as few ranges as possible."""
    joined: list[range] = []
    for place in sorted(places, key=lambda place: place.start):
        if joined and place.start <= joined[-1].stop:
            joined[-1] = range(joined[-1].start, max(joined[-1].stop, place.stop))
        else:
            joined.append(place)
    return joined
