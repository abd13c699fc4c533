"""Finds and changes rows with Spark: each operation reads the files of the table once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from headgate.arrow.row_changes import ArrowChanges
from headgate.core.sql.merge_clauses import Expression
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.directories import Role, Target, image_role
from headgate.iceberg.format.positions import Positions
from headgate.iceberg.scan.engine import RowChange, Wanted
from headgate.iceberg.scan.planning import PlannedFile
from headgate.spark.change.assignment import Scope
from headgate.spark.change.kept_rows import FoundRows, Kept, fetch_found, is_little, keep
from headgate.spark.fitting import fitted, quoted
from headgate.spark.jobs import analysed, at_once, described, translated
from headgate.spark.read.row_locations import Gathered, Located, Places
from headgate.spark.read.table import Scan
from headgate.spark.types import schema_to_spark
from headgate.spark.write.table import write_rows

IMAGE = "_headgate_image"
"""The column with the new values of a row, as a struct."""
SHORT_FILES = 200
"""Up to this many files, their names are looked up one by one, so that rows need not carry them."""


@dataclass(frozen=True)
class SparkChanges:
    """A `RowEngine` on Spark."""

    target: Target
    spark: SparkSession

    def find_rows(self, files: Sequence[PlannedFile], wanted: Wanted) -> Positions:
        with self._doing("find the rows to delete"):
            located = self._located(files, wanted)
            return located.gather(located.rows).of({0})

    def update_rows(
        self, files: Sequence[PlannedFile], wanted: Wanted, values: Mapping[str, Expression]
    ) -> RowChange:
        with self._doing("find the rows to update"):
            located = self._located_by_number(files, wanted)
            scope = Scope(located.rows, tuple(self._names))
            image = scope.image(
                values, self.target.metadata.schema, self.target.table, lambda it: sf.col(quoted(it.name))
            )
            with analysed("the values", scope.known):
                rows = located.rows.select(*located.columns(), image.alias(IMAGE))
            found = keep(rows)
        places, images = self._apply(located, found, files)
        return RowChange(updated=places.of({0}), images=images)

    def write_again(self, files: Sequence[PlannedFile], role: Role) -> tuple[DataFile, ...]:
        metadata = self.target.metadata
        scan = Scan(self.target.loader, tuple(files), metadata, metadata.schema)
        return self._write(scan.frame(self.spark), role)

    def _apply(
        self,
        located: Located,
        found: Kept,
        files: Sequence[PlannedFile],
        kind: str = "0",
        *,
        has_images: bool = True,
    ) -> tuple[Places, tuple[DataFile, ...]]:
        """The locations of found rows of `files`, and new files with their images.

        `kind` is SQL; rows whose kind is null are not changed.
        """
        if is_little(self.spark, found):
            few = self._few(located, found, kind, has_images=has_images)
            return few, self._images_of(few)
        # Concurrently: each job is small, and spends most of its time outside of its tasks.
        return at_once(
            self.spark,
            partial(self._gather, located, found, kind),
            partial(self._images, located, found, files) if has_images else _no_files,
        )

    def _few(
        self, located: Located, found: Kept, kind: str, *, has_images: bool, met: str = "NULL"
    ) -> FoundRows:
        """The found rows, in this process."""
        image = IMAGE if has_images else None
        with self._doing("fetch the rows to change"):
            return fetch_found(located, found.rows, kind, image, self.target.metadata.schema, met)

    def _images_of(self, few: FoundRows) -> tuple[DataFile, ...]:
        return ArrowChanges(self.target).images(few.origins(), few.images)

    def _gather(self, located: Located, found: Kept, kind: str) -> Gathered:
        with self._doing("find the rows to change"):
            return located.gather(found.together(), kind)

    def _images(self, located: Located, found: Kept, files: Sequence[PlannedFile]) -> tuple[DataFile, ...]:
        """Writes the images of found rows, separated by role: the image of a new row is a new row, too."""
        paths = [planned.file.path for planned in files]
        own = [path for path in paths if image_role(path, self.target.txid) is Role.NEW]
        images = found.rows.where(sf.col(IMAGE).isNotNull())
        parts = {Role.UPDATED: images} if len(own) < len(paths) else {}
        if own:
            shown = located.shown()
            is_new = sf.col(located.columns()[0]).isin([name for path in own for name in shown[path]])
            parts = {role: rows.where(~is_new) for role, rows in parts.items()}
            parts[Role.NEW] = images.where(is_new)
        return tuple(
            file
            for role, rows in parts.items()
            for file in self._write(rows.select(f"{IMAGE}.*"), role, found.tasks)
        )

    @property
    def _names(self) -> list[str]:
        """The columns of the table."""
        return schema_to_spark(self.target.metadata.schema).names

    def _located(self, files: Sequence[PlannedFile], wanted: Wanted) -> Located:
        """The wanted live rows, each with its location."""
        metadata = self.target.metadata
        scan = Scan(
            self.target.loader,
            tuple(files),
            metadata,
            metadata.schema,
            wanted.bound,
            wanted.condition,  # type: ignore[arg-type]  # only Spark knows its type
        )
        return scan.located(self.spark)

    def _located_by_number(self, files: Sequence[PlannedFile], wanted: Wanted) -> Located:
        """The same, with numbers instead of file names where possible: for rows that are kept."""
        located = self._located(files, wanted)
        return located.short() if len(files) <= SHORT_FILES else located

    def _write(self, rows: DataFrame, role: Role, tasks: int | None = None) -> tuple[DataFile, ...]:
        """Writes rows, with at most `tasks` tasks if given."""
        target = replace(self.target, role=role)
        fitting = fitted(rows, target.metadata.schema, target.table)
        return write_rows(target, fitting if tasks is None else fitting.coalesce(tasks))

    @contextmanager
    def _doing(self, doing: str) -> Iterator[None]:
        """Describes the jobs inside and translates their failures."""
        table = self.target.table
        with described(self.spark, f"headgate: {doing} in {table}"), translated(self.target, doing):
            yield


def _no_files() -> tuple[DataFile, ...]:
    return ()
