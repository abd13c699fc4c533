"""Finding and changing rows through Arrow, without a JVM: for tables that are not large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.core.lookup import nearest
from headgate.core.merging import Expression, MergeSpec
from headgate.errors import InvalidInputError, UnsupportedError
from headgate.iceberg import keys as key_columns
from headgate.iceberg.arrow import fitted
from headgate.iceberg.arrow_files import read_located, read_rows, write_rows
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.directories import Role
from headgate.iceberg.expression import evaluated
from headgate.iceberg.planning import Plan, PlannedFile
from headgate.iceberg.positions import Positions
from headgate.iceberg.row_change import KeyRange, RowChange, Wanted
from headgate.iceberg.target import Target

SHOWN_KEYS = 3
START_SPARK = "start a Spark session (headgate.session()), which evaluates any SQL"


@dataclass(frozen=True)
class ArrowChanges:
    """A `RowEngine` that is this process."""

    target: Target

    def deleted(self, files: Sequence[PlannedFile], wanted: Wanted) -> Positions:
        return _positions(self._located(files, _understood(wanted)))

    def updated(
        self, files: Sequence[PlannedFile], wanted: Wanted, values: Mapping[str, Expression]
    ) -> RowChange:
        found = self._located(files, _understood(wanted))
        if not found.num_rows:
            return RowChange()
        rows = _without_places(found)
        for name, value in values.items():
            rows = self._assigned(rows, name, value)
        return RowChange(updated=_positions(found), images=self._written(rows, Role.UPDATED))

    def written_again(self, files: Sequence[PlannedFile], role: Role) -> tuple[DataFile, ...]:
        target = self.target
        return self._written(read_rows(target.driver, target.loader, files, target.metadata.schema), role)

    def _located(self, files: Sequence[PlannedFile], only: Bound | None) -> pa.Table:
        target = self.target
        return read_located(target.driver, target.loader, files, target.metadata.schema, only)

    def _assigned(self, rows: pa.Table, name: str, value: Expression) -> pa.Table:
        if name not in rows.column_names:
            raise InvalidInputError(
                f"{self.target.table}: there is no column {name}", nearest(name, rows.column_names)
            )
        if not isinstance(value, str):
            raise UnsupportedError(f"only Spark can compute {value!r}", START_SPARK)
        field = rows.schema.field(name)
        at = rows.schema.get_field_index(name)
        return rows.set_column(at, field, evaluated(value, rows, field))

    def _written(self, rows: pa.Table, role: Role) -> tuple[DataFile, ...]:
        return write_rows(replace(self.target, role=role), rows)


@dataclass(frozen=True)
class ArrowMerge(ArrowChanges):
    """A `MergeEngine` for upserts of rows in memory."""

    given: pa.Table

    def keys(self, columns: Mapping[str, str]) -> KeyRange:
        rows = self._fitting()
        return key_columns.key_range(rows.select(list(columns)), self.target.metadata, complete=True)

    def merged(self, plan: Plan, spec: MergeSpec) -> RowChange:
        raise UnsupportedError(f"only Spark can merge on {spec.on}", f"{START_SPARK}, or upsert by key")

    def upserted(self, plan: Plan, keys: Sequence[str]) -> RowChange:
        rows = self._fitting()
        self._require_keys(rows, keys)
        found = self._located(plan.files, None)
        names = list(keys)
        # Which row of the source a row of the table becomes; Arrow joins no nested columns, so only keys go.
        numbered = rows.select(names).append_column(_ROW, _numbers(rows.num_rows))
        placed = found.select([*names, *_places(found)])
        met = placed.join(numbered, names, join_type="inner", use_threads=False)
        hit = pc.unique(met.column(_ROW))
        images = rows.take(met.column(_ROW))
        new = rows.filter(pc.invert(pc.is_in(_numbers(rows.num_rows), hit)))
        return RowChange(
            updated=_positions(met),
            images=self._written(images, Role.UPDATED),
            inserted=self._written(new, Role.NEW),
        )

    def _fitting(self) -> pa.Table:
        return fitted(self.given, self.target.metadata.schema, self.target.table)

    def _require_keys(self, rows: pa.Table, keys: Sequence[str]) -> None:
        """Refuses keys that are null or there twice."""
        by_key = rows.select(list(keys))
        for name in keys:
            if by_key.column(name).null_count:
                raise InvalidInputError(f"{self.target.table}: the key {name} is null in some rows")
        counts = by_key.group_by(list(keys), use_threads=False).aggregate([([], "count_all")])
        twice = counts.filter(pc.greater(counts.column("count_all"), 1)).drop_columns("count_all")
        if twice.num_rows:
            shown = "\n".join(f"  - {row}" for row in twice.slice(0, SHOWN_KEYS).to_pylist())
            raise InvalidInputError(
                f"{self.target.table}: the rows have keys that are there more than once:\n{shown}",
                "leave one row for each key",
            )


_ROW = "_headgate_row"


def _understood(wanted: Wanted) -> Bound:
    if wanted.bound is None:
        raise UnsupportedError(f"only Spark understands the condition {wanted.text}", START_SPARK)
    return wanted.bound


def _places(rows: pa.Table) -> list[str]:
    """The names of the file and the position of a row, which come last."""
    return list(rows.column_names[-2:])


def _without_places(rows: pa.Table) -> pa.Table:
    return rows.drop_columns(_places(rows))


def _positions(rows: pa.Table) -> Positions:
    file, position = _places(rows) if _ROW not in rows.column_names else rows.column_names[-3:-1]
    return Positions.of_columns(rows.column(file), rows.column(position))


def _numbers(count: int) -> Any:
    return pa.array(range(count), pa.int64())
