"""Finds and changes rows through Arrow, without a JVM: for tables that are not large.

Rows of two tables with the same keys are found without a join, because Arrow joins only some types of keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from headgate.arrow.assignments import evaluated
from headgate.arrow.data_files import read_located, read_rows, write_rows
from headgate.arrow.keys import key_range
from headgate.core.input.arguments import nearest
from headgate.core.sql.expression_text import START_SPARK
from headgate.core.sql.merge_clauses import Expression, MergeSpec
from headgate.errors import InvalidInputError, UnreadablePredicateError, UnsupportedError
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.directories import Role, Target, image_role
from headgate.iceberg.format.positions import Positions, position_columns
from headgate.iceberg.predicate.binding import bind_text
from headgate.iceberg.predicate.bound import Bound
from headgate.iceberg.scan.engine import KeyRange, RowChange, Wanted
from headgate.iceberg.scan.planning import Plan, PlannedFile
from headgate.iceberg.schema.arrow import fitted

SHOWN_KEYS = 3


@dataclass(frozen=True)
class ArrowChanges:
    """A `RowEngine` in this process. `if_only_spark_can` is the advice about what only Spark can compute."""

    target: Target
    if_only_spark_can: str = field(default=START_SPARK, kw_only=True)

    def find_rows(self, files: Sequence[PlannedFile], wanted: Wanted) -> Positions:
        return self._positions(self._read_located(files, self._understood(wanted)))

    def update_rows(
        self, files: Sequence[PlannedFile], wanted: Wanted, values: Mapping[str, Expression]
    ) -> RowChange:
        found = self._read_located(files, self._understood(wanted))
        rows = self._assigned(found.drop_columns(self._places), values)
        images = self.images(found.column(self._places[0]), rows)
        return RowChange(updated=self._positions(found), images=images)

    def write_again(self, files: Sequence[PlannedFile], role: Role) -> tuple[DataFile, ...]:
        target = self.target
        return self.write(read_rows(target.driver, target.loader, files, target.metadata.schema), role)

    def _understood(self, wanted: Wanted) -> Bound:
        if wanted.bound is not None:
            return wanted.bound
        if not isinstance(wanted.condition, str):
            raise UnsupportedError(
                f"only Spark can evaluate the condition {wanted.text}", self.if_only_spark_can
            )
        try:
            return bind_text(wanted.condition, self.target.metadata.schema)
        except UnreadablePredicateError as error:
            step = f"{error.next_step}, or {self.if_only_spark_can}"
            raise UnreadablePredicateError(error.problem, step) from None

    def _read_located(self, files: Sequence[PlannedFile], only: Bound | None) -> pa.Table:
        target = self.target
        return read_located(target.driver, target.loader, files, target.metadata.schema, only)

    @cached_property
    def _places(self) -> list[str]:
        """The columns with the file and the position of a row."""
        return list(position_columns(self.target.metadata.schema))

    def _positions(self, found: pa.Table) -> Positions:
        return Positions.of_columns(*(found.column(name) for name in self._places))

    def _assigned(self, rows: pa.Table, values: Mapping[str, Expression]) -> pa.Table:
        """The rows with new values in some columns. All expressions refer to the rows before the change."""
        after = dict(zip(rows.column_names, rows.columns, strict=True))
        for name, value in values.items():
            self._require_column(name)
            if type(value).__module__.startswith("pyspark."):
                raise UnsupportedError(f"only Spark can compute {value!r}", self.if_only_spark_can)
            assert isinstance(value, str), value
            after[name] = evaluated(value, rows, rows.schema.field(name))
        return pa.table(list(after.values()), schema=rows.schema)

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
        """Writes `rows`, which replace rows of the files at `paths`."""
        by_role: dict[Role, list[str]] = {}
        for path in pc.unique(paths).to_pylist():
            by_role.setdefault(image_role(path, self.target.txid), []).append(path)
        return tuple(
            file
            for role, origins in by_role.items()
            for file in self.write(rows.filter(pc.is_in(paths, pa.array(origins, paths.type))), role)
        )

    def write(self, rows: pa.Table, role: Role) -> tuple[DataFile, ...]:
        """Writes `rows`, which have the given role."""
        return write_rows(replace(self.target, role=role), rows)


@dataclass(frozen=True)
class ArrowMerge(ArrowChanges):
    """A `MergeEngine` for upserts of rows in memory."""

    given: pa.Table

    def matching(self, on: Expression) -> Mapping[str, str]:
        raise self._only_spark_merges(on)

    def keys(self, columns: Mapping[str, str]) -> KeyRange:
        self._require_keys(list(columns))
        return key_range(self._rows.select(list(columns)), self.target.metadata, complete=True)

    def merge_rows(self, plan: Plan, spec: MergeSpec) -> RowChange:  # noqa: ARG002 - another engine needs it
        raise self._only_spark_merges(spec.on)

    def upsert_rows(self, plan: Plan, keys: Sequence[str]) -> RowChange:
        rows, target = self._rows, self.target
        # Other columns of a row do not matter: the given row replaces it.
        keyed = Schema(*(target.metadata.schema.find_field(key) for key in keys))
        found = read_located(target.driver, target.loader, plan.files, keyed)
        _, numbers = key_numbers(rows, found, keys)
        met = [found.column(name).filter(numbers.is_valid()) for name in position_columns(keyed)]
        # Keys are unique, so the numbers of the keys are those of the rows.
        becoming = pc.drop_null(numbers)
        every = pa.array(range(rows.num_rows), pa.int64())
        return RowChange(
            updated=Positions.of_columns(*met),
            images=self.images(met[0], rows.take(becoming)),
            inserted=self.write(rows.filter(pc.invert(pc.is_in(every, becoming))), Role.NEW),
        )

    @cached_property
    def _rows(self) -> pa.Table:
        return fitted(self.given, self.target.metadata.schema, self.target.table)

    def _require_keys(self, keys: Sequence[str]) -> None:
        """Raises if a key column is missing, or if a key is null or occurs twice."""
        table, schema = self.target.table, self.target.metadata.schema
        for name in keys:
            self._require_column(name)
            if not schema.find_type(name).is_primitive:
                raise UnsupportedError(
                    f"{table}: only Spark can compare the key {name}, which is {schema.find_type(name)}",
                    self.if_only_spark_can,
                )
        given = set(self.given.column_names)
        missing = [field.name for field in schema.fields if field.name not in given]
        if missing:
            # Otherwise they would become null in existing rows.
            raise InvalidInputError(
                f"{table}: the rows have no column {', '.join(missing)}",
                "an upsert replaces whole rows, so give every column",
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
                f"{self.target.table}: {len(often)} keys occur more than once in the rows:\n{shown}",
                "keep one row for each key",
            )

    def _only_spark_merges(self, on: Expression) -> UnsupportedError:
        step = f"{self.if_only_spark_can}, or upsert by key"
        return UnsupportedError(f"only Spark can merge on {on}", step)


def key_numbers(source: pa.Table, target: pa.Table, keys: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    """A number for each row of both tables: rows with the same keys have the same number.

    The numbers of `source` count from 0 on, in the order in which keys first occur. Rows of `target` whose
    keys do not occur in `source` have no number. Neither has a row with a null in a key, because null equals
    nothing. As in Spark, NaN equals NaN. The columns must have the same types in both tables, and must not be
    nested.
    """
    ours, theirs = _numbered(_comparable(source, keys[0]), _comparable(target, keys[0]))
    for name in keys[1:]:
        mine, other = _numbered(_comparable(source, name), _comparable(target, name))
        # Both are below the number of rows, so their combination is far below the limit of the type.
        count = pa.scalar(len(mine) + 1, pa.int64())
        ours, theirs = _numbered(
            pc.add(pc.multiply(ours, count), mine), pc.add(pc.multiply(theirs, count), other)
        )
    return ours, theirs


def _numbered(source: Any, target: Any) -> tuple[Any, Any]:
    known = pc.drop_null(pc.unique(source))
    ours, theirs = (pc.index_in(side, known, skip_nulls=True).cast(pa.int64()) for side in (source, target))
    return ours, theirs


def _comparable(rows: pa.Table, name: str) -> Any:
    """The column in a form in which equal values are identical."""
    column = rows.column(name)
    chunks = [chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk for chunk in column.chunks]
    kind = column.type.storage_type if isinstance(column.type, pa.BaseExtensionType) else column.type
    values = pa.chunked_array(chunks, kind).combine_chunks()
    # Both zeros become one.
    return pc.add(values, pa.scalar(0, kind)) if pa.types.is_floating(kind) else values
