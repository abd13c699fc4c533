"""Finding and changing rows with Spark: each operation reads the files of the table once.

What was found is kept by Spark until all of it is written (a local checkpoint, which is never computed
again: rows that are not deterministic, or a lost executor, fail the operation instead of mixing two results).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, NumericType

from headgate.core.lookup import nearest
from headgate.core.merging import SOURCE, TABLE, Action, Clause, Expression, Match, MergeSpec, upsert_spec
from headgate.errors import InvalidInputError
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.directories import Role
from headgate.iceberg.planning import Plan, PlannedFile
from headgate.iceberg.positions import Positions, position_columns
from headgate.iceberg.row_change import KeyRange, RowChange, Wanted
from headgate.iceberg.target import Target
from headgate.spark.fitting import fitted, quoted
from headgate.spark.key_range import key_range
from headgate.spark.read import Scan
from headgate.spark.session import prepared
from headgate.spark.types import schema_to_spark
from headgate.spark.write import write_rows

BROADCAST_BYTES = 64 * 1024 * 1024
"""Up to what size, as Spark guesses it from its types, a source is given to every executor."""
SHOWN_KEYS = 3

_ACTION, _ROW, _IMAGE = "_headgate_action", "_headgate_row", "_headgate_image"


@dataclass(frozen=True)
class SparkChanges:
    """A `RowEngine` that is Spark."""

    target: Target
    spark: SparkSession

    def deleted(self, files: Sequence[PlannedFile], wanted: Wanted) -> Positions:
        return _positions(self._located(files, wanted), *self._places)

    def updated(
        self, files: Sequence[PlannedFile], wanted: Wanted, values: Mapping[str, Expression]
    ) -> RowChange:
        rows = self._located(files, wanted)
        image = self._image(rows, values, {})
        found = rows.select(*map(_column, self._places), image.alias(_IMAGE)).localCheckpoint()
        positions = _positions(found, *self._places)
        if not len(positions):
            return RowChange()
        return RowChange(updated=positions, images=self._written(found.select(f"{_IMAGE}.*"), Role.UPDATED))

    def written_again(self, files: Sequence[PlannedFile], role: Role) -> tuple[DataFile, ...]:
        metadata = self.target.metadata
        scan = Scan(self.target.driver, tuple(files), metadata, metadata.schema)
        return self._written(scan.frame(self.spark), role)

    @cached_property
    def _places(self) -> tuple[str, str]:
        """The columns with the file and the position of a row."""
        return position_columns(self.target.metadata.schema)

    def _located(self, files: Sequence[PlannedFile], wanted: Wanted | None = None) -> DataFrame:
        """The live rows that are wanted, each with its place."""
        metadata = self.target.metadata
        bound, condition = (None, None) if wanted is None else (wanted.bound, wanted.condition)
        scan = Scan(self.target.driver, tuple(files), metadata, metadata.schema, bound, condition)  # type: ignore[arg-type]
        return scan.located(self.spark)

    def _image(self, rows: DataFrame, values: Mapping[str, Expression], prefix: Mapping[str, str]) -> Column:
        """The row after `values` were assigned, as a struct of the columns of the table.

        `prefix` has, for columns that are not assigned, what to write before their name.
        """
        struct = schema_to_spark(self.target.metadata.schema)
        _require_columns(values, struct.names, self.target.table)
        start = prefix.get("", "")
        return sf.struct(
            *(
                self._assigned(rows, values[field.name], field.dataType, field.name).alias(field.name)
                if field.name in values
                else sf.col(f"{start}{quoted(field.name)}").alias(field.name)
                for field in struct.fields
            )
        )

    def _assigned(self, rows: DataFrame, value: Expression, wanted: DataType, name: str) -> Column:
        """The value of an expression as one of the column: numbers are converted, and must fit."""
        column = expression(value)
        given = _type_of(rows, column, f"the value of {name}, {value}")
        if isinstance(given, NumericType) and isinstance(wanted, NumericType):
            return column.cast(wanted)
        return column

    def _written(self, rows: DataFrame, role: Role) -> tuple[DataFile, ...]:
        target = replace(self.target, role=role)
        return write_rows(target, fitted(rows, target.metadata.schema, target.table))


@dataclass(frozen=True)
class SparkMerge(SparkChanges):
    """A `MergeEngine`: merges the rows of a DataFrame.

    Rows of the table are matched while they are read, with the source at every executor if it is small;
    what of the source met nothing is found from that.
    """

    given: DataFrame

    @cached_property
    def source(self) -> DataFrame:
        """The rows of the source, evaluated once, each with a number."""
        prepared(self.spark)
        _require_names_once(self.given)
        return self.given.withColumn(_ROW, sf.monotonically_increasing_id()).localCheckpoint()

    def keys(self, columns: Mapping[str, str]) -> KeyRange:
        return key_range(self.source, self.target.metadata, columns)

    def upserted(self, plan: Plan, keys: Sequence[str]) -> RowChange:
        _require_columns(dict.fromkeys(keys), self.given.columns, "the rows")
        _require_columns(
            dict.fromkeys(keys), schema_to_spark(self.target.metadata.schema).names, self.target.table
        )
        columns = [sf.col(quoted(key)) for key in keys]
        self._refuse(
            self.source.where(reduce(Column.__or__, [c.isNull() for c in columns])), keys, "null keys"
        )
        twice = self.source.groupBy(*columns).count().where("count > 1")
        self._refuse(twice, keys, "keys that are there more than once")
        return self.merged(plan, upsert_spec(keys))

    def merged(self, plan: Plan, spec: MergeSpec) -> RowChange:
        met = self._met(plan, spec).localCheckpoint()
        changed = met.where(sf.col(_ACTION).isNotNull())
        clauses = [*spec.of(Match.MATCHED), *spec.of(Match.NOT_MATCHED_BY_SOURCE)]
        updates = [number for number, clause in enumerate(clauses) if clause.action is Action.UPDATE]
        is_update = sf.col(_ACTION).isin(updates)
        self._require_single(changed, spec)
        updated = _positions(changed.where(is_update), *self._places)
        return RowChange(
            deleted=_positions(changed.where(~is_update), *self._places)
            if len(updates) < len(clauses)
            else Positions(),
            updated=updated,
            images=self._written(changed.where(is_update).select(f"{_IMAGE}.*"), Role.UPDATED)
            if len(updated)
            else (),
            inserted=self._inserted(met, spec),
        )

    def _met(self, plan: Plan, spec: MergeSpec) -> DataFrame:
        """The rows of the table that met one of the source, or that did not if a clause is about those.

        With the place of each, the number of the source row, which clause applies, and the image if it is an
        update. Pairs to which no clause applies are there too: their source rows have met something.
        """
        matched, alone = spec.of(Match.MATCHED), spec.of(Match.NOT_MATCHED_BY_SOURCE)
        source = self.source.alias(SOURCE)
        rows = self._located(plan.files).alias(TABLE)
        small = self.source.count() * max(1, self.source._jdf.schema().defaultSize()) <= BROADCAST_BYTES
        how = "left" if alone else "inner"
        pairs = _joined(rows, sf.broadcast(source) if small else source, spec.on, how)
        is_pair = sf.col(f"{SOURCE}.{_ROW}").isNotNull()
        action, image = sf.lit(None).cast("int"), sf.lit(None)
        # From the last to the first, so that the first whose condition holds is the one that counts.
        numbered = list(enumerate((*matched, *alone)))
        for number, clause in reversed(numbered):
            applies = is_pair if clause.match is Match.MATCHED else ~is_pair
            if clause.condition is not None:
                _type_of(pairs, expression(clause.condition), f"the condition of '{clause}'")
                applies &= sf.coalesce(expression(clause.condition), sf.lit(False))
            action = sf.when(applies, sf.lit(number)).otherwise(action)
            if clause.action is Action.UPDATE:
                image = sf.when(applies, self._clause_image(pairs, clause)).otherwise(image)
            else:
                image = sf.when(~applies, image)
        found = pairs.select(
            *(sf.col(f"{TABLE}.{quoted(place)}") for place in self._places),
            sf.col(f"{SOURCE}.{_ROW}").alias(_ROW),
            action.alias(_ACTION),
            image.alias(_IMAGE),
        )
        return found.where(sf.col(_ROW).isNotNull() | sf.col(_ACTION).isNotNull())

    def _clause_image(self, pairs: DataFrame, clause: Clause) -> Column:
        values = self._all_of_source() if clause.values is None else clause.values
        return self._image(pairs, values, {"": f"{TABLE}."})

    def _inserted(self, met: DataFrame, spec: MergeSpec) -> tuple[DataFile, ...]:
        clauses = spec.of(Match.NOT_MATCHED)
        if not clauses:
            return ()
        alone = self.source.join(met.select(_ROW).distinct(), _ROW, "left_anti").alias(SOURCE)
        struct = schema_to_spark(self.target.metadata.schema)
        image = sf.lit(None)
        for clause in reversed(clauses):
            values = self._all_of_source() if clause.values is None else clause.values
            _require_columns(values, struct.names, self.target.table)
            row = sf.struct(
                *(
                    self._assigned(alone, values[field.name], field.dataType, field.name)
                    .cast(field.dataType)
                    .alias(field.name)
                    if field.name in values
                    else sf.lit(None).cast(field.dataType).alias(field.name)
                    for field in struct.fields
                )
            )
            applies = sf.lit(True)
            if clause.condition is not None:
                _type_of(alone, expression(clause.condition), f"the condition of '{clause}'")
                applies = sf.coalesce(expression(clause.condition), sf.lit(False))
            image = sf.when(applies, row).otherwise(image)
        rows = alone.select(image.alias(_IMAGE)).where(sf.col(_IMAGE).isNotNull())
        return self._written(rows.select(f"{_IMAGE}.*"), Role.NEW)

    def _all_of_source(self) -> dict[str, Expression]:
        """Every column of the table from the one of the source with its name."""
        names = schema_to_spark(self.target.metadata.schema).names
        missing = [name for name in names if name not in self.given.columns]
        if missing:
            raise InvalidInputError(
                f"{self.target.table}: the source has no column {', '.join(missing)}",
                "add them to the source, or name the columns that are to be set",
            )
        return {name: sf.col(f"{SOURCE}.{quoted(name)}") for name in names}

    def _require_single(self, changed: DataFrame, spec: MergeSpec) -> None:
        """Refuses a source of which two rows would change one row of the table."""
        twice = (
            changed.where(sf.col(_ROW).isNotNull())
            .groupBy(*map(_column, self._places))
            .agg(sf.count("*").alias("count"), sf.collect_set(_ROW).alias("rows"))
            .where("count > 1")
            .limit(SHOWN_KEYS)
            .collect()
        )
        if not twice:
            return
        numbers = [number for row in twice for number in row["rows"]]
        rows = self.source.where(sf.col(_ROW).isin(numbers)).drop(_ROW).limit(2 * SHOWN_KEYS).collect()
        shown = "\n".join(f"  - {row.asDict()}" for row in rows)
        raise InvalidInputError(
            f"{self.target.table}: more than one row of the source matches one row of the table, on "
            f"{spec.on}; among them:\n{shown}",
            "make the source unique by its keys, or give the clauses conditions that exclude each other",
        )

    def _refuse(self, wrong: DataFrame, keys: Sequence[str], what: str) -> None:
        rows = wrong.select(*(sf.col(quoted(key)) for key in keys)).distinct().limit(SHOWN_KEYS).collect()
        if rows:
            shown = "\n".join(f"  - {row.asDict()}" for row in rows)
            raise InvalidInputError(f"the rows have {what}:\n{shown}", "leave one row for each key")


def expression(given: Any) -> Column:
    """A column of Spark's, from one or from SQL."""
    if isinstance(given, Column):
        return given
    if not isinstance(given, str):
        raise InvalidInputError(
            f"an expression is SQL or a column of Spark, but got {given!r}",
            "put a text in quotes inside the SQL: \"'paid'\"",
        )
    try:
        return sf.expr(given)
    except ParseException as error:
        raise InvalidInputError(f"{given!r} is not an expression: {_first_line(error)}") from error


def _joined(rows: DataFrame, source: DataFrame, on: Expression, how: str) -> DataFrame:
    try:
        return rows.join(source, expression(on), how)
    except AnalysisException as error:
        raise InvalidInputError(
            f"the merge cannot be made on {on}: {_first_line(error)}",
            f"columns of the table are {TABLE}.name, those of the source {SOURCE}.name",
        ) from error


def _type_of(rows: DataFrame, column: Column, what: str) -> DataType:
    """The type of an expression, which must have one."""
    try:
        return rows.select(column.alias("it")).schema["it"].dataType
    except AnalysisException as error:
        raise InvalidInputError(f"{what} cannot be computed: {_first_line(error)}") from error


def _positions(rows: DataFrame, path: str, position: str) -> Positions:
    """The places of rows, gathered by file so that each path travels once."""
    lists = rows.groupBy(_column(path)).agg(sf.collect_list(_column(position)).alias("positions"))
    gathered = lists.toArrow()
    return Positions.of(
        dict(zip(gathered.column(0).to_pylist(), gathered.column(1).to_pylist(), strict=True))
    )


def _column(name: str) -> Column:
    return sf.col(quoted(name))


def _require_columns(names: Mapping[str, Any], known: Sequence[str], place: str) -> None:
    for name in names:
        if name not in known:
            hint = nearest(name, known)
            raise InvalidInputError(f"{place}: there is no column {name}", hint)


def _require_names_once(df: DataFrame) -> None:
    twice = sorted({name for name in df.columns if df.columns.count(name) > 1})
    if twice:
        raise InvalidInputError(f"the source has the columns {', '.join(twice)} twice", "rename or drop one")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", maxsplit=1)[0]
