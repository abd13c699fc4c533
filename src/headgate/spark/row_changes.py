"""Finding and changing rows with Spark: each operation reads the files of the table once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from headgate.core.merging import Expression
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.directories import Role, image_role
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.positions import Positions
from headgate.iceberg.row_change import RowChange, Wanted
from headgate.iceberg.target import Target
from headgate.spark.assignment import Scope
from headgate.spark.fitting import fitted, quoted
from headgate.spark.jobs import (
    TASK_BYTES,
    analysed,
    at_once,
    described,
    kept,
    kept_bytes,
    together,
    translated,
)
from headgate.spark.places import Gathered, Located
from headgate.spark.read import Scan
from headgate.spark.types import schema_to_spark
from headgate.spark.write import write_rows

IMAGE = "_headgate_image"
"""The column with what a row becomes, as a struct."""


@dataclass(frozen=True)
class SparkChanges:
    """A `RowEngine` that is Spark."""

    target: Target
    spark: SparkSession

    def deleted(self, files: Sequence[PlannedFile], wanted: Wanted) -> Positions:
        with self._doing("find the rows to delete"):
            located = self._located(files, wanted)
            return located.gathered(located.rows).of({0})

    def updated(
        self, files: Sequence[PlannedFile], wanted: Wanted, values: Mapping[str, Expression]
    ) -> RowChange:
        with self._doing("find the rows to update"):
            located = self._located(files, wanted)
            scope = Scope(located.rows, tuple(self._names))
            image = scope.image(
                values, self.target.metadata.schema, self.target.table, lambda name: sf.col(quoted(name))
            )
            with analysed("the values", scope.known):
                found = located.rows.select(*located.columns(), image.alias(IMAGE))
            found = kept(found)
        # At once: each of them is small, and most of its time goes by before and after its tasks.
        gathered, images = at_once(
            self.spark,
            partial(self._gathered, located, found),
            partial(self._images, located, found, files),
        )
        return RowChange(updated=gathered.of({0}), images=images)

    def _gathered(self, located: Located, found: DataFrame, kind: Column | None = None) -> Gathered:
        with self._doing("find the rows to change"):
            return located.gathered(together(found), kind)

    def written_again(self, files: Sequence[PlannedFile], role: Role) -> tuple[DataFile, ...]:
        metadata = self.target.metadata
        scan = Scan(self.target.loader, tuple(files), metadata, metadata.schema)
        return self._written(scan.frame(self.spark), role)

    def _images(
        self, located: Located, found: DataFrame, files: Sequence[PlannedFile]
    ) -> tuple[DataFile, ...]:
        """Writes the images of rows of `files` that were found, by what they are: of a new row, a new row."""
        paths = [planned.file.path for planned in files]
        own = [path for path in paths if image_role(path, self.target.txid) is Role.NEW]
        images = found.where(sf.col(IMAGE).isNotNull())
        parts = {Role.UPDATED: images} if len(own) < len(paths) else {}
        if own:
            shown = located.shown()
            is_new = located.columns()[0].isin([name for path in own for name in shown[path]])
            parts = {role: rows.where(~is_new) for role, rows in parts.items()}
            parts[Role.NEW] = images.where(is_new)
        return tuple(
            file
            for role, rows in parts.items()
            for file in self._written(rows.select(f"{IMAGE}.*"), role, kept_bytes(found))
        )

    @property
    def _names(self) -> list[str]:
        """The columns of the table."""
        return schema_to_spark(self.target.metadata.schema).names

    def _located(self, files: Sequence[PlannedFile], wanted: Wanted) -> Located:
        """The live rows that are wanted, each with its place."""
        metadata = self.target.metadata
        scan = Scan(
            self.target.loader,
            tuple(files),
            metadata,
            metadata.schema,
            wanted.bound,
            wanted.condition,  # type: ignore[arg-type]  # what it is, only Spark knows
        )
        return scan.located(self.spark)

    def _written(self, rows: DataFrame, role: Role, size_bytes: int | None = None) -> tuple[DataFile, ...]:
        """Writes rows; if their size is known, in as few tasks as it needs."""
        target = replace(self.target, role=role)
        fitting = fitted(rows, target.metadata.schema, target.table)
        if size_bytes is not None:
            fitting = fitting.coalesce(-(-size_bytes // TASK_BYTES) or 1)
        return write_rows(target, fitting)

    @contextmanager
    def _doing(self, doing: str) -> Iterator[None]:
        """Jobs inside are called so, and their failures are ours."""
        table = self.target.table
        with described(self.spark, f"headgate: {doing} in {table}"), translated(table, doing):
            yield
