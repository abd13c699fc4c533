"""Positions of rows in data files, and the Parquet files that list the positions of deleted rows.

A position delete file follows the Iceberg specification (format version 2): the path of a data file and a
position in it, sorted by both. The bounds of the path are not truncated, so a delete file for a single data
file is recognized by them.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, StringType
from pyroaring import BitMap64

from headgate.core.input.arguments import free_name
from headgate.errors import CorruptLakeError
from headgate.iceberg.format.data_file import ColumnMetrics, Content, DataFile, partition_key
from headgate.iceberg.format.directories import Role, new_file
from headgate.iceberg.format.encoding import COMPRESSION
from headgate.iceberg.schema.arrow import footer_of
from headgate.model import limits

if TYPE_CHECKING:
    from headgate.iceberg.format.directories import Target
    from headgate.iceberg.format.loader import TableLoader
    from headgate.log.driver import Driver

FILE_PATH, FILE_PATH_ID = "file_path", 2147483546
POS, POS_ID = "pos", 2147483545

Kind: TypeAlias = Literal["deleted", "updated"]
"""Why rows are gone: an updated row has a new image elsewhere."""

_IDS = {FILE_PATH: FILE_PATH_ID, POS: POS_ID}
_BYTES = 8


@dataclass(frozen=True, slots=True)
class Positions:
    """Rows of data files: positions by the path of the file. The bitmaps must not be modified."""

    by_file: Mapping[str, BitMap64] = field(default_factory=dict)

    @classmethod
    def of(cls, by_file: Mapping[str, Iterable[int]]) -> Positions:
        """From positions by path; files without positions are left out."""
        bitmaps = {path: BitMap64(positions) for path, positions in by_file.items()}
        return cls({path: bitmap for path, bitmap in bitmaps.items() if bitmap})

    @classmethod
    def of_columns(cls, paths: Any, positions: Any) -> Positions:
        """From two Arrow columns with one location per row, in any order."""
        if not len(paths):
            return cls()
        encoded = _encoded(paths)
        rows = pa.table({"path": encoded.indices, "position": _one_array(positions).cast(pa.int64())})
        groups = rows.group_by("path", use_threads=False).aggregate([("position", "list")]).combine_chunks()
        lists = _one_array(groups.column("position_list"))
        names = encoded.dictionary.take(_one_array(groups.column("path"))).to_pylist()
        return cls({path: _bitmap(one.values) for path, one in zip(names, lists, strict=True)})

    def __len__(self) -> int:
        """The number of rows."""
        return sum(map(len, self.by_file.values()))

    def __or__(self, other: Positions) -> Positions:
        mine, theirs = self.by_file, other.by_file
        both = {path: mine[path] | theirs[path] for path in mine.keys() & theirs.keys()}
        return Positions({**mine, **theirs, **both})

    def __and__(self, other: Positions) -> Positions:
        mine, theirs = self.by_file, other.by_file
        return Positions.of({path: mine[path] & theirs[path] for path in mine.keys() & theirs.keys()})

    def __sub__(self, other: Positions) -> Positions:
        return Positions.of({path: one - other.in_file(path) for path, one in self.by_file.items()})

    def in_file(self, path: str) -> BitMap64:
        """The positions in one file."""
        return self.by_file.get(path, BitMap64())


def position_columns(schema: Schema) -> tuple[str, str]:
    """Names for the path of a row's data file and its position there, different from the columns of `schema`.

    They are Iceberg's `_file` and `_pos`, or longer if the table has a column with that name.
    """
    return free_name("_file", schema.column_names), free_name("_pos", schema.column_names)


# --- files --------------------------------------------------------------------------------------------------


def write_positions(
    target: Target, positions: Positions, files: Mapping[str, DataFile], kind: Kind
) -> tuple[DataFile, ...]:
    """Writes position delete files, one for each spec and partition. They are not visible yet.

    `files` are the data files, by path. If the process dies, files that were written stay in the directory of
    the transaction, unreferenced.
    """
    directory = replace(target, role=Role(f"positions-{kind}")).new_directory()
    groups: dict[tuple[Any, ...], dict[str, BitMap64]] = {}
    for path, bitmap in positions.by_file.items():
        file = files[path]
        groups.setdefault((file.spec_id, partition_key(file.partition)), {})[path] = bitmap
    tasks = [
        partial(_write_one, target, directory, part, files[next(iter(group))])
        for group in groups.values()
        for part in _parts(group)
    ]
    return tuple(target.driver.host.together(tasks))


def _parts(group: Mapping[str, BitMap64]) -> Iterator[Positions]:
    """The positions for each file: no reader reads more than `limits.POSITIONS` from one."""
    open_: dict[str, BitMap64] = {}
    left = limits.POSITIONS
    for path, bitmap in group.items():
        rest = bitmap
        while len(rest) > left:
            numbers = positions_array(rest)
            open_[path], rest = _bitmap(numbers[:left]), _bitmap(numbers[left:])
            yield Positions.of(open_)
            open_, left = {}, limits.POSITIONS
        open_[path] = rest
        left -= len(rest)
    if open_:
        yield Positions.of(open_)


def _write_one(target: Target, directory: str, positions: Positions, like: DataFile) -> DataFile:
    """Writes a file in the spec and partition of `like`."""
    data = encode_positions(positions)
    name = target.driver.host.new_txid()
    uri = new_file(directory, target.metadata, like.spec_id, like.partition, name)
    target.driver.put(target.loader.key(uri), data)
    target.loader.remember_positions(uri, positions)
    return DataFile(
        path=uri,
        partition=like.partition,
        spec_id=like.spec_id,
        record_count=len(positions),
        size_bytes=len(data),
        metrics=position_metrics(positions, data),
        content=Content.POSITION_DELETES,
    )


def encode_positions(positions: Positions) -> bytes:
    """The bytes of a position delete file."""
    paths = sorted(positions.by_file, key=str.encode)
    bitmaps = [positions.by_file[path] for path in paths]
    numbers = [pa.repeat(pa.scalar(n, pa.int32()), len(b)) for n, b in enumerate(bitmaps)]
    columns = [
        pa.DictionaryArray.from_arrays(_together(numbers, pa.int32()), pa.array(paths, pa.string())),
        _together([positions_array(bitmap) for bitmap in bitmaps], pa.int64()),
    ]
    schema = pa.schema(
        [
            pa.field(name, column.type, nullable=False, metadata={"PARQUET:field_id": str(_IDS[name])})
            for name, column in zip(_IDS, columns, strict=True)
        ]
    )
    out = pa.BufferOutputStream()
    # Without Arrow's own schema: readers need not know that the paths were a dictionary in memory.
    pq.write_table(pa.table(columns, schema=schema), out, compression=COMPRESSION, store_schema=False)
    return bytes(out.getvalue())


def _together(arrays: Sequence[Any], kind: pa.DataType) -> Any:
    return pa.concat_arrays([pa.array([], kind), *arrays])


def decode_positions(data: bytes, origin: str) -> Positions:
    """The contents of a position delete file."""
    try:
        parquet = pq.ParquetFile(pa.BufferReader(data), read_dictionary=[FILE_PATH], pre_buffer=False)
        _require_few(parquet.metadata, origin)
        rows = parquet.read(columns=[FILE_PATH, POS], use_threads=False)
        paths, positions = rows.column(FILE_PATH), rows.column(POS).cast(pa.int64())
        _require_sound(paths, positions)
        return Positions.of_columns(paths, positions)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise CorruptLakeError(f"the position delete file {origin} cannot be read: {error}") from error


def _require_few(footer: pq.FileMetaData, origin: str) -> None:
    listed = sum(footer.row_group(number).num_rows for number in range(footer.num_row_groups))
    if listed > limits.POSITIONS:
        raise CorruptLakeError(
            f"the position delete file {origin} lists {listed:,} rows; the limit is {limits.POSITIONS:,}"
        )


def _require_sound(paths: pa.ChunkedArray, positions: pa.ChunkedArray) -> None:
    """Raises `ValueError` unless these are paths, and positions that a file can have."""
    kind = paths.type.value_type if pa.types.is_dictionary(paths.type) else paths.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise ValueError(f"its paths are of the type {kind}")
    if paths.null_count or positions.null_count:
        raise ValueError("it lists rows without a path or a position")
    ends = pc.min_max(positions).as_py()
    if len(positions) and not 0 <= ends["min"] <= ends["max"] < limits.ROWS_IN_A_FILE:
        raise ValueError(f"it lists the positions {ends['min']} to {ends['max']}, which no file has")


def read_positions(
    driver: Driver,
    loader: TableLoader,
    delete_files: Iterable[DataFile],
    paths: Collection[str] | None = None,
) -> Positions:
    """All that position delete files list, or what they list for the data files at `paths`.

    A loader reads each delete file once.
    """
    distinct = {file.path: file for file in delete_files}.values()
    found: dict[str, BitMap64] = {}
    for positions in driver.read_at_once([partial(loader.positions, file) for file in distinct]):
        listed = positions.by_file
        for path in listed if paths is None else (path for path in paths if path in listed):
            found[path] = found[path] | listed[path] if path in found else listed[path]
    return Positions(found)


def position_metrics(positions: Positions, data: bytes) -> ColumnMetrics:
    """The column metrics for the manifest, of a position delete file with the bytes `data`."""
    footer = footer_of(data)
    paths = sorted(positions.by_file, key=str.encode)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return ColumnMetrics(
        sizes={
            field_id: sum(group.column(number).total_compressed_size for group in groups)
            for number, field_id in enumerate(_IDS.values())
        },
        values=dict.fromkeys(_IDS.values(), len(positions)),
        nulls=dict.fromkeys(_IDS.values(), 0),
        # Not from the footer, which omits long values.
        lower=_bound(paths[0], min(map(BitMap64.min, positions.by_file.values()))) if paths else {},
        upper=_bound(paths[-1], max(map(BitMap64.max, positions.by_file.values()))) if paths else {},
    )


def _bound(path: str, position: int) -> dict[int, bytes]:
    return {FILE_PATH_ID: to_bytes(StringType(), path), POS_ID: to_bytes(LongType(), position)}


# --- Arrow --------------------------------------------------------------------------------------------------


def positions_array(bitmap: BitMap64) -> Any:
    """The positions as an Arrow array, ascending."""
    return pa.Array.from_buffers(pa.int64(), len(bitmap), [None, pa.py_buffer(bitmap.to_array())])


def _bitmap(positions: Any) -> BitMap64:
    start = positions.offset * _BYTES
    numbers = array("Q")
    numbers.frombytes(memoryview(positions.buffers()[1])[start : start + len(positions) * _BYTES])
    return BitMap64(numbers)


def _encoded(paths: Any) -> Any:
    """The paths as a dictionary array."""
    if isinstance(paths, pa.ChunkedArray):
        paths = paths.unify_dictionaries() if pa.types.is_dictionary(paths.type) else paths
        paths = _one_array(paths)
    return paths if pa.types.is_dictionary(paths.type) else paths.dictionary_encode()


def _one_array(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    combined = column.combine_chunks()
    # Arrow returns a chunked array if there was no chunk, or too much for one.
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
