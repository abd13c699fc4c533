"""MERGE with Spark.

The table is matched while it is read, in one pass over the files that can contain a match. A small source is
broadcast to every executor. The unmatched source rows follow from the result.

`join_keys` determines which columns of the table a join compares with which of the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Any

from pyiceberg.types import NestedField
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField

from headgate.arrow.row_changes import ArrowChanges
from headgate.core.input.arguments import free_name, repeated
from headgate.core.sql.merge_clauses import (
    SOURCE,
    TABLE,
    Action,
    Clause,
    Expression,
    Match,
    MergeSpec,
    upsert_spec,
)
from headgate.errors import InvalidInputError
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.directories import Role, Target
from headgate.iceberg.predicate.bound import Always
from headgate.iceberg.scan.engine import KeyRange, RowChange, Wanted
from headgate.iceberg.scan.planning import Plan, PlannedFile
from headgate.spark.change.assignment import Scope, expression, require_columns
from headgate.spark.change.kept_rows import Kept, SourceRows, fetch_images, fetch_source, is_little, keep
from headgate.spark.change.key_range import HeldKeys, held_keys
from headgate.spark.change.row_changes import IMAGE, SparkChanges
from headgate.spark.fitting import fitted, quoted, type_differences
from headgate.spark.jobs import analysed, at_once
from headgate.spark.read.row_locations import Located, Places
from headgate.spark.session import prepared
from headgate.spark.types import schema_to_spark

BROADCAST_BYTES = 128 * 1024 * 1024
"""A source that takes at most this much memory is broadcast to every executor, so that the table is not
shuffled. The same limit applies to the rows that were found, of which only source row numbers are needed."""
SHOWN_KEYS = 3

ALL_ROWS = Wanted(Always(value=True), None, "true")
ADVICE = f"refer to columns of the table as {TABLE}.name, and to those of the source as {SOURCE}.name"


@dataclass(frozen=True)
class SparkMerge(SparkChanges):
    """A `MergeEngine` that merges the rows of a DataFrame, which is computed once."""

    given: DataFrame
    _held: dict[tuple[tuple[str, str], ...], HeldKeys] = field(default_factory=dict, repr=False)
    _matching: list[tuple[Expression, dict[str, str]]] = field(default_factory=list, repr=False)

    @cached_property
    def source(self) -> Kept:
        """The rows of the source, each with a number."""
        numbered = self.given.select("*", sf.monotonically_increasing_id().alias(self._row))
        with self._doing("compute the source"):
            return keep(numbered)

    @cached_property
    def _source_rows(self) -> SourceRows | None:
        """The rows of the source in this process, if they are few and have all columns of the table."""
        schema = self.target.metadata.schema
        given = {field.name: field for field in self.given.schema.fields}
        wanted = zip(schema_to_spark(schema).fields, schema.fields, strict=True)
        alike = all(
            column.name in given and _is_alike(given[column.name], column, field) for column, field in wanted
        )
        if not alike or not is_little(self.spark, self.source):
            return None
        with self._doing("fetch the source"), analysed("the source", self._known(SOURCE), ADVICE):
            return fetch_source(self.source.rows, self._row, schema)

    def matching(self, on: Expression) -> dict[str, str]:
        # By identity: Spark columns cannot be compared with ==.
        for asked, known in self._matching:
            if asked is on:
                return known
        located = self._located((), ALL_ROWS).rows.alias(TABLE)
        source = self.given.alias(SOURCE)
        found = join_keys(self._joined(located, source, on, "inner"), located, source)
        self._matching.append((on, found))
        return found

    def keys(self, columns: Mapping[str, str]) -> KeyRange:
        return self._keys(columns).range

    def _keys(self, columns: Mapping[str, str]) -> HeldKeys:
        asked = tuple(sorted(columns.items()))
        if asked not in self._held:
            with self._doing("compute the keys of the source"):
                rows = None if self._source_rows is None else self._source_rows.rows
                self._held[asked] = held_keys(self.source, self.target.metadata, columns, rows)
        return self._held[asked]

    def upsert_rows(self, plan: Plan, keys: Sequence[str]) -> RowChange:
        require_columns(keys, self._names, self.target.table)
        require_columns(keys, self.given.columns, "the rows")
        # Like appended rows, they have exactly the columns of the table.
        fitted(self.given, self.target.metadata.schema, self.target.table)
        held = self._keys({key: key for key in keys})
        if not held.unique:
            with self._doing("compare the keys of the rows"):
                self._require_keys(keys)
        # Not as SQL: with one setting, Spark reads quoted names as patterns.
        same = [sf.col(f"{TABLE}.{quoted(key)}") == sf.col(f"{SOURCE}.{quoted(key)}") for key in keys]
        return self._merge(plan, replace(upsert_spec(keys), on=reduce(Column.__and__, same)), held.range)

    def merge_rows(self, plan: Plan, spec: MergeSpec) -> RowChange:
        if spec.of(Match.NOT_MATCHED_BY_SOURCE):
            return self._merge(plan, spec, KeyRange())
        return self._merge(plan, spec, self.keys(self.matching(spec.on)))

    def _merge(self, plan: Plan, spec: MergeSpec, keys: KeyRange) -> RowChange:
        wanted = ALL_ROWS if keys.bound is None else Wanted(keys.bound, None, "the keys")
        with self._doing("find the rows that the merge changes"):
            located = self._located_by_number(plan.files, wanted)
            found = keep(self._found(located, spec))
        new = self._source_rows if _inserts_as_they_are(spec) else None
        if new is not None and is_little(self.spark, found):
            return self._merge_here(located, found, spec, new)
        changed, inserted = at_once(
            self.spark,
            partial(self._changed, located, found, spec, plan.files),
            partial(self._write_inserted, found, spec),
        )
        return replace(changed, inserted=inserted)

    def _merge_here(self, located: Located, found: Kept, spec: MergeSpec, new: SourceRows) -> RowChange:
        """The change, if both sides are small: this process writes all files."""
        few = self._few(located, found, self._action, has_images=bool(_updates(spec)), met=self._row)
        change, (images, inserted) = at_once(
            self.spark,
            partial(self._row_change, located, found, few, spec),
            lambda: (
                self._images_of(few),
                ArrowChanges(self.target).write(new.without(few.met), Role.NEW),
            ),
        )
        return replace(change, images=images, inserted=inserted)

    def _changed(
        self, located: Located, found: Kept, spec: MergeSpec, files: Sequence[PlannedFile]
    ) -> RowChange:
        """The change to the rows of the table that were found."""
        places, images = self._apply(located, found, files, self._action, has_images=bool(_updates(spec)))
        return replace(self._row_change(located, found, places, spec), images=images)

    def _row_change(self, located: Located, found: Kept, places: Places, spec: MergeSpec) -> RowChange:
        """Which rows of the table are deleted and updated. Raises if two source rows match one of them."""
        if places.repeated:
            with self._doing("find the rows that the merge changes"):
                raise self._ambiguous(located, found.rows, spec)
        updates = _updates(spec)
        deletes = set(range(len(_clauses(spec)))) - updates
        return RowChange(deleted=places.of(deletes), updated=places.of(updates))

    # --- names -------------------------------------------------------------------------------------------

    @cached_property
    def _row(self) -> str:
        """The column with the number of a source row."""
        return self._free("_headgate_row")

    @cached_property
    def _action(self) -> str:
        """The column with the number of the clause that applies, or null."""
        return self._free("_headgate_action")

    @property
    def _is_pair(self) -> Column:
        """Whether a row of the table matched a row of the source."""
        return sf.col(f"{SOURCE}.{self._row}").isNotNull()

    def _free(self, name: str) -> str:
        return free_name(name, (*self._names, *self.given.columns))

    def _known(self, *sides: str) -> tuple[str, ...]:
        """The names that an expression can refer to, for errors."""
        columns = {TABLE: self._names, SOURCE: self.given.columns}
        return tuple(f"{side}.{name}" for side in sides for name in columns[side])

    # --- rows of the table --------------------------------------------------------------------------------

    def _joined(self, rows: DataFrame, source: DataFrame, on: Expression, how: str) -> DataFrame:
        with analysed(f"the match of the merge, {on},", self._known(TABLE, SOURCE), ADVICE):
            return rows.join(source, expression(self.spark, on), how)

    def _found(self, located: Located, spec: MergeSpec) -> DataFrame:
        """The rows of the table that match a source row, or that do not, if a clause is about those.

        Each comes with its location, the number of the source row, the clause that applies, and its image if
        it is updated. Pairs to which no clause applies are included only if it matters that the source row
        matched.
        """
        rows, source = located.rows.alias(TABLE), self.source.rows.alias(SOURCE)
        how = "left" if spec.of(Match.NOT_MATCHED_BY_SOURCE) else "inner"
        small = self.source.size_bytes <= BROADCAST_BYTES
        pairs = self._joined(rows, sf.broadcast(source) if small else source, spec.on, how)
        # In a step of its own: a condition that is not deterministic must be evaluated only once.
        chosen = pairs.select("*", self._chosen(pairs, rows, spec).alias(self._action))
        counts = sf.col(self._action).isNotNull()
        if spec.of(Match.NOT_MATCHED):
            counts |= self._is_pair
        image = sf.lit(None)
        for number, clause in enumerate(_clauses(spec)):
            if clause.action is Action.UPDATE:
                applies = sf.col(self._action) == number
                image = sf.when(applies, self._image(pairs, rows, clause)).otherwise(image)
        with analysed("the merge", self._known(TABLE, SOURCE), ADVICE):
            return chosen.where(counts).select(
                *(f"{TABLE}.{place}" for place in located.columns()),
                f"{SOURCE}.{self._row}",
                self._action,
                image.alias(IMAGE),
            )

    def _chosen(self, pairs: DataFrame, rows: DataFrame, spec: MergeSpec) -> Column:
        """The number of the first clause that applies to a pair, or to an unmatched row."""
        chosen = sf.lit(None).cast("int")
        # From the last to the first, so that the first clause whose condition holds wins.
        for number, clause in reversed(list(enumerate(_clauses(spec)))):
            applies = self._is_pair if clause.match is Match.MATCHED else ~self._is_pair
            if clause.condition is not None:
                scope = self._scope(pairs, rows, clause)
                applies &= scope.condition(clause.condition, f"the condition of '{clause}'")
            chosen = sf.when(applies, sf.lit(number)).otherwise(chosen)
        return chosen

    def _image(self, pairs: DataFrame, rows: DataFrame, clause: Clause) -> Column:
        def as_it_is(field: StructField) -> Column:
            return sf.col(f"{TABLE}.{quoted(field.name)}")

        values = self._all_of_source() if clause.values is None else clause.values
        scope = self._scope(pairs, rows, clause)
        return scope.image(values, self.target.metadata.schema, self.target.table, as_it_is)

    def _scope(self, pairs: DataFrame, rows: DataFrame, clause: Clause) -> Scope:
        """The columns that a clause can refer to. An unmatched row has no source row."""
        if clause.match is Match.MATCHED:
            return Scope(pairs, self._known(TABLE, SOURCE), ADVICE)
        return Scope(rows, self._known(TABLE), f"use {TABLE}.name; these rows have no source row")

    # --- rows of the source -------------------------------------------------------------------------------

    def _write_inserted(self, found: Kept, spec: MergeSpec) -> tuple[DataFile, ...]:
        """Writes the unmatched rows of the source that a clause inserts."""
        clauses = spec.of(Match.NOT_MATCHED)
        if not clauses:
            return ()
        met = found.rows.select(self._row)
        if found.size_bytes <= BROADCAST_BYTES:
            met = sf.broadcast(met)
        alone = self.source.rows.join(met, self._row, "left_anti").alias(SOURCE)
        scope = Scope(
            alone,
            self._known(SOURCE),
            f"use {SOURCE}.name; these rows have no row of the table",
        )
        image = sf.lit(None)
        for clause in reversed(clauses):
            values = self._all_of_source() if clause.values is None else clause.values
            row = scope.image(values, self.target.metadata.schema, self.target.table, _null)
            if clause.condition is None:
                image = row
                continue
            image = sf.when(scope.condition(clause.condition, f"the condition of '{clause}'"), row).otherwise(
                image
            )
        with analysed("the merge", scope.known, scope.advice):
            rows = alone.select(image.alias(IMAGE)).where(sf.col(IMAGE).isNotNull())
        # The values that clauses compute may be far longer than the source, so they are not fetched.
        if is_little(self.spark, self.source) and all(clause.values is None for clause in clauses):
            with self._doing("fetch the rows to insert"):
                few = fetch_images(rows, IMAGE, self.target.metadata.schema)
            return ArrowChanges(self.target).write(few, Role.NEW)
        return self._write(rows.select(f"{IMAGE}.*"), Role.NEW, self.source.tasks)

    def _all_of_source(self) -> dict[str, Expression]:
        """Every column of the table, set to the source column with the same name."""
        missing = [name for name in self._names if name not in self.given.columns]
        if missing:
            raise InvalidInputError(
                f"{self.target.table}: the source lacks {', '.join(missing)}",
                "add these columns to the source, or merge with a clause that names the columns to set",
            )
        return {name: sf.col(f"{SOURCE}.{quoted(name)}") for name in self._names}

    # --- errors -------------------------------------------------------------------------------------------

    def _ambiguous(self, located: Located, found: DataFrame, spec: MergeSpec) -> InvalidInputError:
        """The error for two source rows that would change one row of the table, with some of them."""
        twice = (
            found.where(sf.col(self._action).isNotNull())
            .groupBy(*located.columns())
            .agg(sf.collect_set(self._row).alias(self._row))
            .where(sf.size(self._row) > 1)
            .limit(SHOWN_KEYS)
        )
        numbers = [number for row in twice.collect() for number in row[self._row]]
        rows = self.source.rows.where(sf.col(self._row).isin(numbers)).drop(self._row).limit(2 * SHOWN_KEYS)
        shown = [row.asDict() for row in rows.collect()]
        return InvalidInputError(
            f"{self.target.table}: several source rows would change the same row of the table on "
            f"{spec.on}; among them:\n{_listed(shown)}",
            "remove duplicate keys from the source, or give the clauses conditions that exclude each other; "
            "nothing was changed",
        )

    def _require_keys(self, keys: Sequence[str]) -> None:
        """Raises if a key is null or occurs twice."""
        columns = [sf.col(quoted(key)) for key in keys]
        null = reduce(Column.__or__, [column.isNull() for column in columns])
        counted = self.source.together().groupBy(*columns).agg(sf.count("*").alias(self._row))
        wrong = counted.where((sf.col(self._row) > 1) | null).orderBy(null.desc()).limit(SHOWN_KEYS)
        found = [row.asDict() for row in wrong.collect()]
        if not found:
            return
        shown = [{key: row[key] for key in keys} for row in found]
        nulls = [row for row in shown if None in row.values()]
        raise InvalidInputError(
            f"{self.target.table}: rows of the source have null keys:\n{_listed(nulls)}"
            if nulls
            else f"{self.target.table}: keys occur more than once in the source:\n{_listed(shown)}",
            "keep one row for each key; nothing was changed",
        )


def merge_of(target: Target, rows: Any) -> SparkMerge:
    """The engine that merges `rows`. `InvalidInputError` if they are no DataFrame or repeat a column."""
    if not isinstance(rows, DataFrame):
        raise InvalidInputError(
            f"{target.table}: a Spark {type(rows).__name__} has no rows to merge", "pass a DataFrame"
        )
    twice = repeated(rows.columns)
    if twice:
        raise InvalidInputError(
            f"{target.table}: the source has duplicate columns: {', '.join(twice)}", "rename or drop one"
        )
    return SparkMerge(target, prepared(rows.sparkSession), rows)


def _clauses(spec: MergeSpec) -> tuple[Clause, ...]:
    """The clauses about rows of the table; their positions are the numbers of the actions."""
    return (*spec.of(Match.MATCHED), *spec.of(Match.NOT_MATCHED_BY_SOURCE))


def _updates(spec: MergeSpec) -> set[int]:
    return {number for number, clause in enumerate(_clauses(spec)) if clause.action is Action.UPDATE}


def _inserts_as_they_are(spec: MergeSpec) -> bool:
    """Whether all unmatched source rows are inserted unchanged.

    An expression of a clause may fail, even for rows that are not inserted.
    """
    clauses = spec.of(Match.NOT_MATCHED)
    return bool(clauses) and clauses[0].condition is None and clauses[0].values is None


def _is_alike(given: StructField, wanted: StructField, field: NestedField) -> bool:
    """Whether the values of a column can be used for a column of the table without conversion."""
    same = given.dataType.simpleString() == wanted.dataType.simpleString()
    return same and not list(type_differences(given, field))


def _null(field: StructField) -> Column:
    return sf.lit(None).cast(field.dataType).alias(field.name)


def _listed(rows: Sequence[dict[str, Any]]) -> str:
    return "\n".join(f"  - {row}" for row in rows)


def join_keys(joined: DataFrame, table: DataFrame, source: DataFrame) -> dict[str, str]:
    """The columns of `table` that must equal a column of `source`, with the name of that column.

    `joined` is a join of the two. Only direct comparisons in a conjunction count. A column that is converted
    before the comparison does not count, except for an integer that is widened.
    """
    plan: Any = joined._jdf.queryExecution().analyzed()
    condition = plan.condition()
    if not condition.isDefined():
        return {}
    sides = [_names(table), _names(source)]
    found: dict[str, str] = {}
    for left, right in _equalities(condition.get()):
        for mine, theirs in ((left, right), (right, left)):
            if mine in sides[0] and theirs in sides[1]:
                found.setdefault(sides[0][mine], sides[1][theirs])
    return found


def _names(rows: DataFrame) -> dict[int, str]:
    """The columns by the id that Spark gives them."""
    output: Any = rows._jdf.queryExecution().analyzed().output()
    columns = [output.apply(number) for number in range(output.size())]
    return {column.exprId().id(): column.name() for column in columns}


def _equalities(expression: Any) -> list[tuple[int, int]]:
    match expression.nodeName():
        case "And":
            return [*_equalities(expression.left()), *_equalities(expression.right())]
        case "EqualTo":
            left, right = _column(expression.left()), _column(expression.right())
            return [(left, right)] if left is not None and right is not None else []
    return []


def _column(expression: Any) -> int | None:
    """The id of a column that is compared directly, or as a wider integer."""
    if expression.nodeName() == "Cast" and expression.dataType().simpleString() == "bigint":
        child = expression.child()
        return _column(child) if child.dataType().simpleString() == "int" else None
    return expression.exprId().id() if expression.nodeName() == "AttributeReference" else None
