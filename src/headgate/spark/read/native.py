"""Data files through Spark's own Parquet reader, without the rows that position delete files list.

Files without deletes are one plain scan. Files with deletes are another scan, whose rows are compared with
the deleted positions. Spark names files in its own percent-encoded form. The deleted positions are converted
to that form, since they are far fewer than the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from headgate.arrow.footers import require_positions
from headgate.core.input.arguments import free_name
from headgate.errors import CorruptLakeError, InternalError
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.positions import FILE_PATH, POS, positions_array, read_positions
from headgate.iceberg.scan.planning import PlannedFile
from headgate.spark.fitting import quoted
from headgate.spark.reach import require_inside
from headgate.spark.read.row_locations import Located

READ_OPTIONS = {
    # The paths are those of files, not patterns, and their directories have no meaning.
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    "mergeSchema": "false",
}
KNOWN_ROWS = 1 << 29
"""Up to this many rows in files with deletes, every executor holds a bit per row: 64 MiB."""
KNOWN_POSITIONS = 4_000_000
KNOWN_DELETE_FILES = 500
"""Up to this many delete files are read by this process; often it has them in memory."""

_SHOWN, _BYTES, _WORDS = "shown", "bytes", "words"
_NOT_THERE = "[PATH_NOT_FOUND]"
_PATTERN_SIGNS = frozenset("{}[]*?\\")
_LOCAL, _LOCAL_SHORT = "file:///", "file:/"


@dataclass(frozen=True, slots=True)
class NativeFiles:
    """Data files that Spark's Hadoop client can reach, to be read with the columns of `struct`.

    `hadoop_root` is the Hadoop client's URI of the lake. `names` are the names by which Spark reads the
    columns. `path` and `position` name the columns with the location of a row; `struct` does not contain
    them.
    """

    spark: SparkSession
    loader: TableLoader
    hadoop_root: str
    files: tuple[PlannedFile, ...]
    struct: StructType
    names: Mapping[str, str]
    path: str
    position: str

    def rows(self) -> DataFrame:
        """The live rows."""
        whole, marked = self._parts()
        if not marked:
            return self._plain(whole)
        live = self._named(self._live(marked))
        return self._plain(whole).unionAll(live) if whole else live

    def located(self) -> Located:
        """The live rows, each with the name that Spark uses for its file and its position in the file."""
        whole, marked = self._parts()
        if marked:
            live = self._live(marked)
            rows, shown = self._placed(self._scan(whole)).unionAll(live) if whole else live, self._all_shown
        else:
            scan = self._scan(whole)
            rows, shown = self._placed(scan), partial(self._shown, whole, scan)
        if not self._as_read:
            rows = self._named(rows, sf.col(self.path), sf.col(self.position))
        return Located(rows, self.path, self.position, self._paths(), shown)

    def _paths(self) -> Callable[[str], str]:
        """Converts the name that Spark uses for a file to the path in the manifest.

        Not computed by Spark, because few of the rows that it reads need their file.
        """
        by_name = {_short(self._hadoop_path(planned.file.path)): planned.file.path for planned in self.files}

        def path(shown: str) -> str:
            known = by_name.get(_short(unquote(shown)))
            if known is None:
                raise InternalError(f"Spark reports rows of a file that it was not asked to read: {shown}")
            return known

        return path

    def _parts(self) -> tuple[list[PlannedFile], list[PlannedFile]]:
        """The files without deletes, and those with deletes."""
        whole = [planned for planned in self.files if not planned.deletes]
        return whole, [planned for planned in self.files if planned.deletes]

    def _scan(self, files: Sequence[PlannedFile]) -> DataFrame:
        fields = [
            StructField(self.names[field.name], field.dataType, field.nullable, field.metadata)
            for field in self.struct.fields
        ]
        reader = self.spark.read.schema(StructType(fields)).options(**READ_OPTIONS)
        return self._parquet(reader, [planned.file.path for planned in files])

    def _parquet(self, reader: DataFrameReader, files: Collection[str]) -> DataFrame:
        """The files to read. Spark checks immediately that they exist; the loader knows why one does not."""
        paths = dict(zip(self._hadoop_paths(files), files, strict=True))
        try:
            found = reader.parquet(*paths)
        except AnalysisException as error:
            told = str(error)
            if _NOT_THERE not in told:
                reason = told.strip().split("\n", maxsplit=1)[0]
                raise CorruptLakeError(f"Spark cannot open the files of the table: {reason}") from error
            raise self.loader.missing(self.loader.key(paths[_named_in(told, paths)])) from error
        patterns = [path for path in paths if _PATTERN_SIGNS & set(path)]
        if patterns:  # Spark does not check whether they exist, although it does not read them as patterns
            listed = {_short(unquote(name)) for name in _location(found).inputFiles()}
            for path in patterns:
                if _short(path) not in listed:
                    raise self.loader.missing(self.loader.key(paths[path]))
        return found

    def _plain(self, files: Sequence[PlannedFile]) -> DataFrame:
        """All rows of files. Columns are renamed only if necessary: each one costs some calls to the JVM."""
        scan = self._scan(files)
        return scan if self._as_read else self._named(scan)

    @property
    def _as_read(self) -> bool:
        return all(self.names[name] == name for name in self.struct.names)

    def _named(self, rows: DataFrame, *more: Column) -> DataFrame:
        """The rows with the columns under the table's names, plus `more`."""
        columns = [
            sf.col(quoted(self.names[field.name])).alias(field.name, metadata=field.metadata)
            for field in self.struct.fields
        ]
        return rows.select(*columns, *more)

    def _placed(self, scan: DataFrame, size: str | None = None) -> DataFrame:
        """The rows with their locations, and the length of each row's file as column `size`."""
        # Not by name: the table may have a column with this name.
        metadata = scan.metadataColumn("_metadata")
        places = [metadata["file_path"].alias(self.path), metadata["row_index"].alias(self.position)]
        if size is not None:
            places.append(metadata["file_size"].alias(size))
        return scan.select("*", *places)

    def _live(self, files: Sequence[PlannedFile]) -> DataFrame:
        """The live rows of files with deletes, each with its location."""
        deletes = {file.path: file for planned in files for file in planned.deletes}
        positions = sum(file.record_count for file in deletes.values())
        rows = sum(planned.file.record_count for planned in files)
        few = positions <= KNOWN_POSITIONS and len(deletes) <= KNOWN_DELETE_FILES and rows <= KNOWN_ROWS
        if few:
            return self._without_marked(files, deletes.values())
        return self._without_listed(files, deletes)

    def _without_marked(self, files: Sequence[PlannedFile], deletes: Iterable[DataFile]) -> DataFrame:
        """Every executor has a bit per row for each file. This process reads the positions.

        A file is looked up by its size, because Spark would hash its long name for each row that it reads.
        The names are compared only if a bit is set.
        """
        scan = self._scan(files)
        size = free_name("_size", (*self.names.values(), self.path, self.position))
        rows = self._placed(scan, size)
        marks = self.spark.createDataFrame(self._marks(files, deletes, scan))
        position = rows[self.position]
        word = sf.get(marks[_WORDS], sf.shiftright(position, 6).cast("int"))
        is_marked = sf.getbit(word, position.bitwiseAND(63).cast("int")) == 1
        is_file = sf.array_contains(marks[_SHOWN], rows[self.path])
        same = (rows[size] == marks[_BYTES]) & is_marked & is_file
        return rows.join(sf.broadcast(marks), same, "left_anti").drop(size)

    def _marks(self, files: Sequence[PlannedFile], deletes: Iterable[DataFile], scan: DataFrame) -> pa.Table:
        shown = self._shown(files, scan)
        dead = read_positions(self.loader.driver, self.loader, deletes, set(shown))
        for planned in files:  # otherwise a single position could need any number of bits
            require_positions(planned.file, dead.in_file(planned.file.path), planned.file.record_count)
        paths, sizes = [planned.file.path for planned in files], _sizes(scan)
        return pa.table(
            {
                _BYTES: pa.array([sizes[_short(self._hadoop_path(path))] for path in paths], pa.int64()),
                _SHOWN: pa.array([shown[path] for path in paths], pa.list_(pa.string())),
                _WORDS: pa.array([_words(dead.in_file(path)) for path in paths], pa.list_(pa.int64())),
            }
        )

    def _without_listed(self, files: Sequence[PlannedFile], deletes: Collection[str]) -> DataFrame:
        """Spark reads the delete files, sorts, and merges."""
        scan = self._scan(files)
        reader = self.spark.read.schema(f"{FILE_PATH} STRING, {POS} BIGINT").options(**READ_OPTIONS)
        positions = self._parquet(reader, deletes)
        rows, dead = self._placed(scan), positions.join(sf.broadcast(self._names(files, scan)), FILE_PATH)
        same = (rows[self.position] == dead[POS]) & (rows[self.path] == dead[_SHOWN])
        return rows.join(dead.hint("merge"), same, "left_anti")

    # --- names of files ---------------------------------------------------------------------------------

    def _hadoop_paths(self, paths: Iterable[str]) -> list[str]:
        """The URIs of the files that Spark is about to open."""
        named = list(paths)
        require_inside(self.loader.driver.store, [self.loader.key(path) for path in named])
        return [self._hadoop_path(path) for path in named]

    def _hadoop_path(self, path: str) -> str:
        return f"{self.hadoop_root}/{self.loader.key(path)}"

    def _all_shown(self) -> dict[str, tuple[str, ...]]:
        return self._shown(self.files, self._scan(self.files))

    def _shown(self, files: Sequence[PlannedFile], scan: DataFrame) -> dict[str, tuple[str, ...]]:
        """For each file, by its path in the manifest, the names that Spark may use for it."""
        # Ask Spark itself: if a name differed from the one that Spark uses, deleted rows would come back. Not
        # from the executed plan: if the user has cached the scan, the plan no longer contains one.
        names = {_short(unquote(name)): name for name in _location(scan).inputFiles()}
        found: dict[str, tuple[str, ...]] = {}
        for planned in files:
            path = planned.file.path
            name = names.get(_short(self._hadoop_path(path)))
            if name is None:
                raise InternalError(f"Spark does not list {path} among the files that it reads")
            found[path] = _forms(name)
        return found

    def _names(self, files: Sequence[PlannedFile], scan: DataFrame) -> DataFrame:
        """For each file, its path in the manifest and the names that Spark may use for it."""
        pairs = [(path, form) for path, forms in self._shown(files, scan).items() for form in forms]
        return self.spark.createDataFrame(pairs, f"{FILE_PATH} STRING, {_SHOWN} STRING")


def _named_in(told: str, paths: Collection[str]) -> str:
    """The path that is missing according to Spark, or the first one if the message does not say."""
    # Paths can be percent-encoded already, and Spark encodes some of them again.
    for message in (told, unquote(told)):
        named = [path for path in paths if _short(path) in message]
        if named:
            return max(named, key=len)
    return next(iter(paths))


def _sizes(scan: DataFrame) -> dict[str, int]:
    """The lengths of a scan's files according to Spark.

    Not from the manifest: a client that encrypts may report another length than that of the object. If the
    two differed, deleted rows would come back.
    """
    listed = _location(scan).allFiles()
    found = [listed.apply(number) for number in range(listed.size())]
    return {_short(status.getPath().toString()): int(status.getLen()) for status in found}


def _location(scan: DataFrame) -> Any:
    """What Spark knows about the files of a scan."""
    jdf: Any = scan._jdf
    return jdf.queryExecution().analyzed().relation().location()


def _words(dead: BitMap64) -> npt.NDArray[np.int64]:
    """One bit per row, 64 in each number, set if the row is deleted; up to the last deleted row."""
    bits = np.zeros((dead.max() // 64 + 1) * 64 if dead else 0, dtype=np.bool_)
    bits[positions_array(dead).to_numpy()] = True
    return np.packbits(bits, bitorder="little").view(np.int64)


def _forms(name: str) -> tuple[str, ...]:
    """Spark names a local file with one slash after the scheme or with three."""
    if not name.startswith(_LOCAL_SHORT):
        return (name,)
    short = _short(name)
    return short, _LOCAL + short.removeprefix(_LOCAL_SHORT)


def _short(name: str) -> str:
    return _LOCAL_SHORT + name.removeprefix(_LOCAL) if name.startswith(_LOCAL) else name
