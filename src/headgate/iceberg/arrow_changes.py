"""Finding and changing rows through Arrow, without a JVM: for tables that are not large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from headgate.core.expression_text import START_SPARK
from headgate.core.lookup import nearest
from headgate.core.merging import Expression, MergeSpec
from headgate.errors import InvalidInputError, UnreadablePredicateError, UnsupportedError
from headgate.iceberg.arrow import fitted
from headgate.iceberg.arrow_files import read_located, read_rows, write_rows
from headgate.iceberg.binding import bind_text
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.directories import Role, image_role
from headgate.iceberg.expression import evaluated
from headgate.iceberg.key_numbers import key_numbers
from headgate.iceberg.keys import key_range
from headgate.iceberg.planning import Plan, PlannedFile
from headgate.iceberg.positions import Positions, position_columns
from headgate.iceberg.row_change import KeyRange, RowChange, Wanted
from headgate.iceberg.target import Target

SHOWN_KEYS = 3


@dataclass(frozen=True)
class ArrowChanges:
    """A `RowEngine` that is this process."""

    target: Target

    def deleted(self, files: Sequence[PlannedFile], wanted: Wanted) -> Positions:
        return self._positions(self._located(files, self._understood(wanted)))

    def updated(
        self, files: Sequence[PlannedFile], wanted: Wanted, values: Mapping[str, Expression]
    ) -> RowChange:
        found = self._located(files, self._understood(wanted))
        rows = self._assigned(found.drop_columns(self._places), values)
        images = self.images(found.column(self._places[0]), rows)
        return RowChange(updated=self._positions(found), images=images)

    def written_again(self, files: Sequence[PlannedFile], role: Role) -> tuple[DataFile, ...]:
        target = self.target
        return self.written(read_rows(target.driver, target.loader, files, target.metadata.schema), role)

    def _understood(self, wanted: Wanted) -> Bound:
        if wanted.bound is not None:
            return wanted.bound
        if not isinstance(wanted.condition, str):
            raise UnsupportedError(f"only Spark understands the condition {wanted.text}", START_SPARK)
        try:
            return bind_text(wanted.condition, self.target.metadata.schema)
        except UnreadablePredicateError as error:
            raise UnreadablePredicateError(error.problem, f"{error.next_step}, or {START_SPARK}") from None

    def _located(self, files: Sequence[PlannedFile], only: Bound | None) -> pa.Table:
        target = self.target
        return read_located(target.driver, target.loader, files, target.metadata.schema, only)

    @cached_property
    def _places(self) -> list[str]:
        """The columns with the file and the position of a row."""
        return list(position_columns(self.target.metadata.schema))

    def _positions(self, found: pa.Table) -> Positions:
        return Positions.of_columns(*(found.column(name) for name in self._places))

    def _assigned(self, rows: pa.Table, values: Mapping[str, Expression]) -> pa.Table:
        """The rows with other values in some columns. All expressions are about the rows as they were."""
        after = rows
        for name, value in values.items():
            self._require_column(name)
            if type(value).__module__.startswith("pyspark."):
                raise UnsupportedError(f"only Spark can compute {value!r}", START_SPARK)
            assert isinstance(value, str), value
            field = rows.schema.field(name)
            after = after.set_column(rows.schema.get_field_index(name), field, evaluated(value, rows, field))
        return after

    def _require_column(self, name: str) -> None:
        known = [field.name for field in self.target.metadata.schema.fields]
        if name in known:
            return
        inside = name in self.target.metadata.schema.column_names
        step = f"set {name.split('.')[0]} as a whole" if inside else nearest(name, known)
        raise InvalidInputError(
            f"{self.target.table}: there is no column {name}", step or f"columns: {', '.join(known)}"
        )

    def images(self, paths: pa.ChunkedArray, rows: pa.Table) -> tuple[DataFile, ...]:
        """Writes `rows`, which take the place of rows of the files at `paths`."""
        by_role: dict[Role, list[str]] = {}
        for path in pc.unique(paths).to_pylist():
            by_role.setdefault(image_role(path, self.target.txid), []).append(path)
        return tuple(
            file
            for role, origins in by_role.items()
            for file in self.written(rows.filter(pc.is_in(paths, pa.array(origins, paths.type))), role)
        )

    def written(self, rows: pa.Table, role: Role) -> tuple[DataFile, ...]:
        """Writes `rows`, which are what `role` says."""
        return write_rows(replace(self.target, role=role), rows)


@dataclass(frozen=True)
class ArrowMerge(ArrowChanges):
    """A `MergeEngine` for upserts of rows in memory."""

    given: pa.Table

    def matching(self, on: Expression) -> Mapping[str, str]:
        raise _only_spark_merges(on)

    def keys(self, columns: Mapping[str, str]) -> KeyRange:
        self._require_keys(list(columns))
        return key_range(self._rows.select(list(columns)), self.target.metadata, complete=True)

    def merged(self, plan: Plan, spec: MergeSpec) -> RowChange:  # noqa: ARG002 - another engine needs it
        raise _only_spark_merges(spec.on)

    def upserted(self, plan: Plan, keys: Sequence[str]) -> RowChange:
        rows, target = self._rows, self.target
        # What else a row holds does not matter: it becomes the given one.
        keyed = Schema(*(target.metadata.schema.find_field(key) for key in keys))
        found = read_located(target.driver, target.loader, plan.files, keyed)
        _, numbers = key_numbers(rows, found, keys)
        met = [found.column(name).filter(numbers.is_valid()) for name in position_columns(keyed)]
        # Keys are there once, so their numbers are those of the rows.
        becoming = pc.drop_null(numbers)
        every = pa.array(range(rows.num_rows), pa.int64())
        return RowChange(
            updated=Positions.of_columns(*met),
            images=self.images(met[0], rows.take(becoming)),
            inserted=self.written(rows.filter(pc.invert(pc.is_in(every, becoming))), Role.NEW),
        )

    @cached_property
    def _rows(self) -> pa.Table:
        return fitted(self.given, self.target.metadata.schema, self.target.table)

    def _require_keys(self, keys: Sequence[str]) -> None:
        """Refuses rows without a key, or with one that is null or there twice."""
        table, schema = self.target.table, self.target.metadata.schema
        for name in keys:
            self._require_column(name)
            if not schema.find_type(name).is_primitive:
                raise UnsupportedError(
                    f"{table}: only Spark compares the key {name}, {schema.find_type(name)}", START_SPARK
                )
        missing = [field.name for field in schema.fields if field.name not in self.given.column_names]
        if missing:
            # Otherwise they would become null in rows that are there.
            raise InvalidInputError(
                f"{table}: the rows have no column {', '.join(missing)}",
                "an upsert makes whole rows: give every column",
            )
        for name in keys:
            nulls = self._rows.column(name).null_count
            if nulls:
                raise InvalidInputError(
                    f"{table}: the key {name} is null in {nulls} of the rows",
                    "leave them out, or append them",
                )
        self._require_single(keys)

    def _require_single(self, keys: Sequence[str]) -> None:
        rows = self._rows
        numbers, _ = key_numbers(rows, rows.slice(0, 0), keys)
        counts = pc.value_counts(numbers)
        often = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
        if len(often):
            first = pc.index_in(often.slice(0, SHOWN_KEYS), numbers)
            shown = "\n".join(f"  - {row}" for row in rows.select(list(keys)).take(first).to_pylist())
            raise InvalidInputError(
                f"{self.target.table}: {len(often)} keys are there more than once in the rows:\n{shown}",
                "leave one row for each key",
            )


def _only_spark_merges(on: Expression) -> UnsupportedError:
    return UnsupportedError(f"only Spark can merge on {on}", f"{START_SPARK}, or upsert by key")
