"""The live rows of a data file that a predicate selects, as Arrow, with the requested columns."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from headgate.arrow.projection import Projection, schema_of
from headgate.arrow.row_filter import selected
from headgate.errors import CorruptLakeError
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metrics import FooterMetrics, chunk_start
from headgate.iceberg.format.positions import Positions, position_columns, positions_array
from headgate.iceberg.predicate.bound import Bound, fields_of
from headgate.iceberg.predicate.pruning import ColumnPruning
from headgate.iceberg.scan.planning import PlannedFile
from headgate.iceberg.schema.arrow import concatenated, no_rows, without_columns
from headgate.log.driver import Driver
from headgate.model.limits import FOOTER_BYTES
from headgate.storage.capabilities import ReadRanges, Tail
from headgate.system.host import processors

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]

_NO_COLUMNS = pa.table({})
_DAMAGE = (pa.ArrowException, OSError, ValueError, OverflowError, UnsupportedPyArrowTypeException)
"""The errors that reading a file can raise if it is damaged, or does not belong to the table."""


class FileReading:
    """What to read from files: the columns of `schema`, of all rows or of those that `only` selects.

    Row groups are read concurrently, by threads of the host. They are read separately, so that for one
    without a wanted row only the columns of the predicate are decoded, or none if its bounds exclude the
    predicate.
    """

    def __init__(self, driver: Driver, loader: TableLoader, schema: Schema, only: Bound | None) -> None:
        self._driver, self._loader = driver, loader
        self._wanted = Projection(schema)
        self._test = None if only is None else _Test(only)

    def rows(self, planned: PlannedFile, dead: Positions) -> pa.Table:
        """The rows of a file, without the deleted ones."""
        return concatenated([found.rows for found in self._found(planned, dead)], self._wanted.schema)

    def located(self, planned: PlannedFile, dead: Positions) -> pa.Table:
        """The same, each row with its location."""
        schema, path = self._wanted.schema, planned.file.path
        found = self._found(planned, dead)
        return pa.concat_tables([located(one.rows, schema, path, one.positions()) for one in found])

    def parts(self, planned: PlannedFile, dead: Positions) -> Iterator[pa.Table]:
        """The same rows as `rows`, a few row groups at a time, so that a long file takes little memory."""
        with self._errors_of(planned):
            opened, gone = self._open(planned), self._gone(planned, dead)
            left = opened.groups()
            while groups := list(islice(left, processors())):
                for one in self._driver.read_at_once(
                    [partial(opened.found, group, gone) for group in groups]
                ):
                    if one is not None:
                        yield one.rows

    def _found(self, planned: PlannedFile, dead: Positions) -> list[_Found]:
        """The rows by row group: of each group that has some, or of one group if none has."""
        with self._errors_of(planned):
            opened, gone = self._open(planned), self._gone(planned, dead)
            tasks = [partial(opened.found, group, gone) for group in opened.groups()]
            return [one for one in self._driver.read_at_once(tasks) if one is not None] or [opened.nothing()]

    def _open(self, planned: PlannedFile) -> _OpenFile:
        key = self._loader.key(planned.file.path)
        parquet = open_parquet(self._driver, key, planned.file.size_bytes)
        return _OpenFile(planned.file, parquet, self._wanted, self._test)

    def _gone(self, planned: PlannedFile, dead: Positions) -> Numbers:
        gone: Numbers = positions_array(dead.in_file(planned.file.path)).to_numpy()
        return gone

    @contextmanager
    def _errors_of(self, planned: PlannedFile) -> Iterator[None]:
        """Inside, what reading the file raises becomes an error of the lake."""
        try:
            yield
        except FileNotFoundError as error:
            raise self._loader.missing(self._loader.key(planned.file.path)) from error
        except _DAMAGE as error:
            raise CorruptLakeError(f"{planned.file.path} cannot be read: {error}") from error


class _Test:
    """A predicate, and the columns that it reads."""

    def __init__(self, only: Bound) -> None:
        self.only = only
        self.columns = Projection(
            Schema(*{field.column.field_id: field.column for field in fields_of(only)}.values())
        )
        self._pruning = ColumnPruning(only)

    def could_match(self, file: DataFile) -> bool:
        return self._pruning.could_match(file)


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows of a row group, and their positions in the file."""

    rows: pa.Table
    places: Numbers | range

    def positions(self) -> pa.Array:
        places = self.places
        return pa.array(np.arange(places.start, places.stop) if isinstance(places, range) else places)


@dataclass(frozen=True, slots=True)
class _Group:
    number: int
    positions: range


class _OpenFile:
    def __init__(self, file: DataFile, parquet: ParquetParts, wanted: Projection, test: _Test | None) -> None:
        self._file, self._parquet, self._wanted, self._test = file, parquet, wanted, test
        self._fields = {field.name: field for field in schema_of(parquet.schema).fields}

    def groups(self) -> Iterator[_Group]:
        """The row groups that could contain wanted rows."""
        # If a file has one row group, its bounds are those of the file, which were checked when the read was
        # planned.
        test = None if self._parquet.footer.num_row_groups == 1 else self._test
        if test is None:
            yield from self._all_groups()
            return
        metrics = FooterMetrics(Schema(*self._columns(test.columns.schema)), {})
        for group in self._all_groups():
            known = metrics.of(self._parquet.footer, [group.number])
            if test.could_match(replace(self._file, record_count=len(group.positions), metrics=known)):
                yield group

    def _all_groups(self) -> Iterator[_Group]:
        footer, start = self._parquet.footer, 0
        for number in range(footer.num_row_groups):
            group = _Group(number, range(start, start + footer.row_group(number).num_rows))
            yield group
            start = group.positions.stop

    def found(self, group: _Group, gone: Numbers) -> _Found | None:
        """The wanted rows of a group, without those whose positions are `gone`; None if there are none."""
        tested, mask = self._evaluate(group)
        first, last = np.searchsorted(gone, (group.positions.start, group.positions.stop))
        if first < last:
            mask = np.ones(len(group.positions), dtype=np.bool_) if mask is None else mask
            mask[gone[first:last] - group.positions.start] = False
        if mask is not None and not mask.any():
            return None
        rows = self._read(group, self._wanted.schema, tested)
        if mask is None or mask.all():
            return _Found(self._as_in(self._wanted, rows), group.positions)
        # If they have no columns, Arrow would lose their number.
        chosen = rows.filter(pa.array(mask)) if rows.column_names else without_columns(int(mask.sum()))
        return _Found(self._as_in(self._wanted, chosen), np.flatnonzero(mask) + group.positions.start)

    def _evaluate(self, group: _Group) -> tuple[pa.Table, Mask | None]:
        """The columns of the predicate, and which rows it selects; None if there is no predicate."""
        if self._test is None:
            return _NO_COLUMNS, None
        columns = self._read(group, self._test.columns.schema)
        rows = self._as_in(self._test.columns, columns)
        return columns, selected(rows, self._test.only).to_numpy(zero_copy_only=False).copy()

    def nothing(self) -> _Found:
        return _Found(self._as_in(self._wanted, no_rows(self._parquet.schema)), range(0))

    def _as_in(self, projection: Projection, rows: pa.Table) -> pa.Table:
        """The rows with the columns of a schema, matched by field id, as Iceberg requires."""
        return projection.of(rows, [self._fields[name] for name in rows.column_names], self._file.path)

    def _read(self, group: _Group, schema: Schema, known: pa.Table = _NO_COLUMNS) -> pa.Table:
        """The columns of the file that `schema` contains; those that are `known` are not read again."""
        names = [field.name for field in self._columns(schema)]
        held = set(known.column_names)
        at_hand = known.select([name for name in names if name in held])
        missing = [name for name in names if name not in held]
        if not names:
            return without_columns(len(group.positions))
        if not missing:
            return at_hand
        rows = self._parquet.read(group.number, missing)
        for field, column in zip(at_hand.schema, at_hand.columns, strict=True):
            rows = rows.append_column(field, column)
        return rows

    def _columns(self, schema: Schema) -> list[NestedField]:
        ids = {field.field_id for field in schema.fields}
        return [field for field in self._fields.values() if field.field_id in ids]


def located(rows: pa.Table, schema: Schema, path: str, positions: Any) -> pa.Table:
    """Rows with the path of their data file (as in the manifest) and their positions in that file."""
    file_name, position_name = position_columns(schema)
    paths = pa.repeat(pa.scalar(path, pa.string()), len(positions))
    return rows.append_column(file_name, paths).append_column(position_name, positions)


# --- a file of which only the row groups and columns that are needed are fetched ---------------------------

WHOLE_BYTES = 8 * 1024 * 1024
"""Up to here a file is fetched at once: the requests for its parts would be dearer than its bytes."""
TAIL_BYTES = 64 * 1024
"""What Arrow looks at first: enough for the footer of most files."""
_ENDING = struct.Struct("<I4s")
_MAGIC = b"PAR1"


def open_parquet(driver: Driver, key: str, size_bytes: int) -> ParquetParts:
    """The file at `key`, about so long. `FileNotFoundError`, also while it is read; Arrow's if it is none."""
    if size_bytes <= WHOLE_BYTES or not isinstance(driver.store, ReadRanges):
        tail = driver.tail(key, WHOLE_BYTES)
    else:
        tail = driver.tail(key, TAIL_BYTES)
    if tail is None:
        raise FileNotFoundError(key)
    if footer_bytes(tail) > FOOTER_BYTES:
        raise pa.ArrowInvalid(f"its footer has {footer_bytes(tail):,} bytes; the limit is {FOOTER_BYTES:,}")
    if len(tail.data) == tail.object_bytes:  # it is shorter than it should be, or nothing less is given
        return ParquetParts(_Whole(tail.data))
    start = tail.object_bytes - len(tail.data)
    return ParquetParts(_OnStorage(driver, key, tail.object_bytes, _Part(start, tail.data)))


def footer_bytes(tail: Tail) -> int:
    """How many bytes at the end of the file contain its footer."""
    if len(tail.data) < _ENDING.size:
        return len(tail.data)
    length, magic = _ENDING.unpack(tail.data[-_ENDING.size :])
    return length + _ENDING.size if magic == _MAGIC else len(tail.data)


class ParquetParts:
    """A file that is read by row groups, by any number of threads.

    By none of Arrow's: one that lets go of Python's bytes while the process ends would abort it.
    """

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._first = pq.ParquetFile(source.open_for(), pre_buffer=False)
        self.footer: pq.FileMetaData = self._first.metadata
        self.schema: pa.Schema = self._first.schema_arrow

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Columns, by their outermost names, of a row group."""
        return self._reader(group, columns).read_row_groups([group], list(columns), use_threads=False)

    def verifying(self) -> pq.ParquetFile:
        """The file for a single thread, which fetches only what it reads, and verifies checksums of pages."""
        return pq.ParquetFile(
            self._source.open_for(), metadata=self.footer, pre_buffer=False, page_checksum_verification=True
        )

    def _reader(self, group: int, columns: Sequence[str]) -> pq.ParquetFile:
        if self._source.is_whole and self.footer.num_row_groups == 1:
            return self._first
        # One of its own: they are not made for several threads.
        opened = self._source.open_for(self.footer.row_group(group), columns)
        return pq.ParquetFile(opened, metadata=self.footer, pre_buffer=False)


class _Source(Protocol):
    is_whole: ClassVar[bool]
    """Whether all of it is here."""

    def open_for(self, group: pq.RowGroupMetaData | None = None, columns: Sequence[str] = ()) -> Any:
        """A file of Arrow's that will be asked for these columns of a row group, or for its footer."""
        ...


@dataclass(frozen=True, slots=True)
class _Whole:
    is_whole: ClassVar[bool] = True
    data: bytes

    def open_for(
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

    def open_for(self, group: pq.RowGroupMetaData | None = None, columns: Sequence[str] = ()) -> Any:
        places = [] if group is None else _joined(_places(group, columns))
        if places and (places[0].start < 0 or places[-1].stop > self.size_bytes):
            raise pa.ArrowInvalid("its footer tells of columns outside of the file")
        parts = map(_Part, (place.start for place in places), self.fetch(places) if places else [])
        return pa.PythonFile(_File(self, [*parts, self.tail]), mode="r")

    def fetch(self, ranges: Sequence[range]) -> list[bytes]:
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
        return self._source.fetch([range(start, end)])[0]


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
