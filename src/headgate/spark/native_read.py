"""Data files through Spark's own Parquet reader, without the rows that position delete files tell of.

Files without deletes are one plain scan. Files with deletes are another one, whose rows are compared with the
positions of deleted rows. Spark names files in a form of its own, percent-encoded; the positions are brought
to that form, since there are far fewer of them than rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from headgate.core.lookup import free_name
from headgate.errors import InternalError
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.positions import FILE_PATH, POS, positions_array, read_positions
from headgate.spark.fitting import quoted
from headgate.spark.places import Located

READ_OPTIONS = {
    # The names are those of files, not patterns, and their directories mean nothing.
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    "mergeSchema": "false",
}
KNOWN_ROWS = 1 << 29
"""Of files with so many rows, every executor has a bit for each row: 64 MiB."""
KNOWN_POSITIONS = 4_000_000
KNOWN_DELETE_FILES = 500
"""What this process reads itself of delete files; often it knows them already."""

_SHOWN, _BYTES, _WORDS = "shown", "bytes", "words"
_LOCAL, _LOCAL_SHORT = "file:///", "file:/"


@dataclass(frozen=True, slots=True)
class NativeFiles:
    """Data files in a place that Spark's Hadoop client reaches, to be read with the columns of `struct`.

    `hadoop_root` is what the Hadoop client calls the place of the lake. `names` are those by which Spark
    reads the columns. `path` and `position` are names for the place of a row, which
    `struct` has not.
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
        """The live rows, and of each the name that Spark shows for its file, and its position there."""
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
        """From the name that Spark shows for a file to its path in the manifest.

        Not computed by Spark: few of the rows that it reads are asked for their file.
        """
        by_name = {_short(self._hadoop_path(planned.file.path)): planned.file.path for planned in self.files}

        def path(shown: str) -> str:
            known = by_name.get(_short(unquote(shown)))
            if known is None:
                raise InternalError(f"Spark shows a file that it was not asked to read: {shown}")
            return known

        return path

    def _parts(self) -> tuple[list[PlannedFile], list[PlannedFile]]:
        """The files without deletes, and those with."""
        whole = [planned for planned in self.files if not planned.deletes]
        return whole, [planned for planned in self.files if planned.deletes]

    def _scan(self, files: Sequence[PlannedFile]) -> DataFrame:
        paths = [self._hadoop_path(planned.file.path) for planned in files]
        fields = [
            StructField(self.names[field.name], field.dataType, field.nullable, field.metadata)
            for field in self.struct.fields
        ]
        return self.spark.read.schema(StructType(fields)).options(**READ_OPTIONS).parquet(*paths)

    def _plain(self, files: Sequence[PlannedFile]) -> DataFrame:
        """All rows of files. Each column that is named anew is some calls to the JVM: most need not be."""
        scan = self._scan(files)
        return scan if self._as_read else self._named(scan)

    @property
    def _as_read(self) -> bool:
        return all(self.names[name] == name for name in self.struct.names)

    def _named(self, rows: DataFrame, *more: Column) -> DataFrame:
        """The rows with the columns as the table calls them, and with `more`."""
        columns = [
            sf.col(quoted(self.names[field.name])).alias(field.name, metadata=field.metadata)
            for field in self.struct.fields
        ]
        return rows.select(*columns, *more)

    def _placed(self, scan: DataFrame, size: str | None = None) -> DataFrame:
        """The rows, each with its place, and under the name `size` how long its file is."""
        # Not by its name: the table may have a column that is called so.
        metadata = scan.metadataColumn("_metadata")
        places = [metadata["file_path"].alias(self.path), metadata["row_index"].alias(self.position)]
        if size is not None:
            places.append(metadata["file_size"].alias(size))
        return scan.select("*", *places)

    def _live(self, files: Sequence[PlannedFile]) -> DataFrame:
        """The rows of files with deletes that are not deleted, each with its place."""
        deletes = {file.path: file for planned in files for file in planned.deletes}
        positions = sum(file.record_count for file in deletes.values())
        rows = sum(planned.file.record_count for planned in files)
        few = positions <= KNOWN_POSITIONS and len(deletes) <= KNOWN_DELETE_FILES and rows <= KNOWN_ROWS
        if few:
            return self._without_marked(files, deletes.values())
        return self._without_listed(files, deletes)

    def _without_marked(self, files: Sequence[PlannedFile], deletes: Iterable[DataFile]) -> DataFrame:
        """Every executor has for each file a bit for each row. The positions are read by this process.

        A file is looked up by its size, since Spark would compute a hash of its long name for each row that
        it reads; the names are compared where a bit is set.
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
        paths, sizes = [planned.file.path for planned in files], _sizes(scan)
        return pa.table(
            {
                _BYTES: pa.array([sizes[_short(self._hadoop_path(path))] for path in paths], pa.int64()),
                _SHOWN: pa.array([shown[path] for path in paths], pa.list_(pa.string())),
                _WORDS: pa.array([_words(dead.in_file(path)) for path in paths], pa.list_(pa.int64())),
            }
        )

    def _without_listed(self, files: Sequence[PlannedFile], deletes: Iterable[str]) -> DataFrame:
        """Spark reads the delete files, sorts, and merges."""
        scan = self._scan(files)
        reader = self.spark.read.schema(f"{FILE_PATH} STRING, {POS} BIGINT").options(**READ_OPTIONS)
        positions = reader.parquet(*map(self._hadoop_path, deletes))
        rows, dead = self._placed(scan), positions.join(sf.broadcast(self._names(files, scan)), FILE_PATH)
        same = (rows[self.position] == dead[POS]) & (rows[self.path] == dead[_SHOWN])
        return rows.join(dead.hint("merge"), same, "left_anti")

    # --- names of files ---------------------------------------------------------------------------------

    def _hadoop_path(self, path: str) -> str:
        return f"{self.hadoop_root}/{self.loader.key(path)}"

    def _all_shown(self) -> dict[str, tuple[str, ...]]:
        return self._shown(self.files, self._scan(self.files))

    def _shown(self, files: Sequence[PlannedFile], scan: DataFrame) -> dict[str, tuple[str, ...]]:
        """By the path of each file in the manifest, the names that Spark may show for it."""
        # From Spark itself: if a name were not the one that it shows, deleted rows would come back. Not from
        # the plan that it would execute: there a scan that the user has cached is none any more.
        names = {_short(unquote(name)): name for name in _location(scan).inputFiles()}
        found: dict[str, tuple[str, ...]] = {}
        for planned in files:
            path = planned.file.path
            name = names.get(_short(self._hadoop_path(path)))
            if name is None:
                raise InternalError(f"Spark does not show that it reads {path}")
            found[path] = _forms(name)
        return found

    def _names(self, files: Sequence[PlannedFile], scan: DataFrame) -> DataFrame:
        """For each file its path in the manifest, and the names that Spark may show for it."""
        pairs = [(path, form) for path, forms in self._shown(files, scan).items() for form in forms]
        return self.spark.createDataFrame(pairs, f"{FILE_PATH} STRING, {_SHOWN} STRING")


def _sizes(scan: DataFrame) -> dict[str, int]:
    """How long Spark says that the files of a scan are.

    Not from the manifest: a client that encrypts may show another length than an object has, and if the two
    differed, deleted rows would come back.
    """
    listed = _location(scan).allFiles()
    found = [listed.apply(number) for number in range(listed.size())]
    return {_short(status.getPath().toString()): int(status.getLen()) for status in found}


def _location(scan: DataFrame) -> Any:
    """What Spark knows of the files of a scan."""
    jdf: Any = scan._jdf
    return jdf.queryExecution().analyzed().relation().location()


def _words(dead: BitMap64) -> npt.NDArray[np.int64]:
    """Bit by bit, 64 in each number, whether a row is deleted; up to the last one that is."""
    bits = np.zeros((dead.max() // 64 + 1) * 64 if dead else 0, dtype=np.bool_)
    bits[positions_array(dead).to_numpy()] = True
    return np.packbits(bits, bitorder="little").view(np.int64)


def _forms(name: str) -> tuple[str, ...]:
    """A local file is shown with one slash after the scheme or with three."""
    if not name.startswith(_LOCAL_SHORT):
        return (name,)
    short = _short(name)
    return short, _LOCAL + short.removeprefix(_LOCAL_SHORT)


def _short(name: str) -> str:
    return _LOCAL_SHORT + name.removeprefix(_LOCAL) if name.startswith(_LOCAL) else name
