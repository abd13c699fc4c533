"""Data files through Spark's own Parquet reader, without the rows that position delete files tell of.

Files without deletes are one plain scan. Files with deletes are another one, whose rows are compared with the
positions that Spark reads from the delete files. Spark names files in a form of its own, percent-encoded; the
positions are brought to that form, since there are far fewer of them than rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from headgate.errors import InternalError
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.positions import FILE_PATH, POS
from headgate.spark.fitting import quoted

READ_OPTIONS = {
    # The names are those of files, not patterns, and their directories mean nothing.
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    "mergeSchema": "false",
}
BROADCAST_POSITIONS = 200_000
"""So many positions are sent to every executor, about 40 MB; more of them are sorted and merged."""
FEW_FILES = 100
"""Of so many files, deleted rows are looked up by their position alone: few others are at the same one."""

_SHOWN = "shown"
_LOCAL, _LOCAL_SHORT = "file:///", "file:/"


@dataclass(frozen=True, slots=True)
class NativeFiles:
    """Data files in a place that Spark's Hadoop client reaches, to be read with the columns of `struct`.

    `root` is what their paths begin with, and `hadoop_root` what the Hadoop client calls it. `names` are
    those by which Spark reads the columns. `path` and `position` are names for the place of a row, which
    `struct` has not.
    """

    spark: SparkSession
    root: str
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

    def located(self) -> DataFrame:
        """The live rows, and of each the name that Spark shows for its file, and its position there."""
        whole, marked = self._parts()
        parts = [self._placed(self._scan(whole))] if whole else []
        parts += [self._live(marked)] if marked else []
        rows = parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
        return self._named(rows, sf.col(self.path), sf.col(self.position))

    def paths(self) -> Callable[[str], str]:
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
        as_read = all(self.names[name] == name for name in self.struct.names)
        return scan if as_read else self._named(scan)

    def _named(self, rows: DataFrame, *more: Column) -> DataFrame:
        """The rows with the columns as the table calls them, and with `more`."""
        columns = [
            sf.col(quoted(self.names[field.name])).alias(field.name, metadata=field.metadata)
            for field in self.struct.fields
        ]
        return rows.select(*columns, *more)

    def _placed(self, scan: DataFrame) -> DataFrame:
        # Not by its name: the table may have a column that is called so.
        metadata = scan.metadataColumn("_metadata")
        return scan.select(
            "*", metadata["file_path"].alias(self.path), metadata["row_index"].alias(self.position)
        )

    def _live(self, files: Sequence[PlannedFile]) -> DataFrame:
        """The rows of files with deletes that are not deleted, each with its place."""
        deletes = {file.path: file for planned in files for file in planned.deletes}
        # Told, not left to Spark: the files are compressed to a small part of what they are in memory.
        small = sum(file.record_count for file in deletes.values()) <= BROADCAST_POSITIONS
        scan = self._scan(files)
        rows, dead = self._placed(scan), self._dead(files, deletes, scan)
        path, shown = rows[self.path], dead[_SHOWN]
        # Equal, but not said so for few files: Spark would look rows up by the path too, and compute a hash
        # of a long text for each that it reads. So it compares texts only where a position is met.
        few = small and len(files) <= FEW_FILES
        same_file = (path >= shown) & (path <= shown) if few else path == shown
        same = (rows[self.position] == dead[POS]) & same_file
        return rows.join(sf.broadcast(dead) if small else dead.hint("merge"), same, "left_anti")

    def _dead(self, files: Sequence[PlannedFile], deletes: Iterable[str], scan: DataFrame) -> DataFrame:
        """The positions of deleted rows, with the names that Spark gives to the files of `scan`."""
        reader = self.spark.read.schema(f"{FILE_PATH} STRING, {POS} BIGINT").options(**READ_OPTIONS)
        positions = reader.parquet(*map(self._hadoop_path, deletes))
        return positions.join(sf.broadcast(self._names(files, scan)), FILE_PATH)

    # --- names of files ---------------------------------------------------------------------------------

    def _hadoop_path(self, path: str) -> str:
        return self.hadoop_root + path.removeprefix(self.root)

    def shown(self) -> dict[str, tuple[str, ...]]:
        """By the path of each file in the manifest, the names that Spark may show for it."""
        return self._shown(self.files, self._scan(self.files))

    def _shown(self, files: Sequence[PlannedFile], scan: DataFrame) -> dict[str, tuple[str, ...]]:
        # From Spark itself: if a name were not the one that it shows, deleted rows would come back.
        names = {_short(unquote(name)): name for name in scan.inputFiles()}
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


def _forms(name: str) -> tuple[str, ...]:
    """A local file is shown with one slash after the scheme or with three."""
    if not name.startswith(_LOCAL_SHORT):
        return (name,)
    short = _short(name)
    return short, _LOCAL + short.removeprefix(_LOCAL_SHORT)


def _short(name: str) -> str:
    return _LOCAL_SHORT + name.removeprefix(_LOCAL) if name.startswith(_LOCAL) else name
