"""What partitions, manifests and column metrics reveal about a predicate, without reading a row.

Two questions are answered for each: can a row match, and do all rows match. pyiceberg answers them for one
comparison at a time; this module combines the answers. pyiceberg's evaluators follow Iceberg's logic, in
which null differs from everything. So each comparison is combined with "not null" (and "not NaN"), which also
makes a missing count a reason to doubt.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from pyiceberg import expressions
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or, Reference
from pyiceberg.expressions.literals import (
    BinaryLiteral,
    BooleanLiteral,
    DateLiteral,
    DecimalLiteral,
    DoubleLiteral,
    LongLiteral,
    StringLiteral,
    TimestampLiteral,
)
from pyiceberg.expressions.literals import Literal as IcebergLiteral
from pyiceberg.expressions.visitors import (
    InclusiveProjection,
    StrictProjection,
    _InclusiveMetricsEvaluator,
    _ManifestEvalVisitor,
    _StrictMetricsEvaluator,
    expression_evaluator,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UnknownType,
)

from headgate.core.sql.predicate import Operator
from headgate.iceberg.format.block_bounds import NUMBERED, Range, range_of
from headgate.iceberg.format.data_file import DataFile, Manifest, Partition, partition_key
from headgate.iceberg.format.metrics import after_prefix
from headgate.iceberg.predicate.bound import (
    AllOf,
    Always,
    Among,
    AnyOf,
    Atom,
    Bound,
    Compare,
    Field,
    InPartitions,
    IsNan,
    IsNull,
    Matches,
    NotNan,
    NotNull,
    TransformCompare,
    both,
    either,
    fields_of,
)

_make: Any = expressions
"""Type checkers do not see the constructors of these models correctly."""
_COMPARE: dict[Operator, Callable[..., BooleanExpression]] = {
    Operator.EQUAL: _make.EqualTo,
    Operator.NOT_EQUAL: _make.NotEqualTo,
    Operator.LESS: _make.LessThan,
    Operator.LESS_OR_EQUAL: _make.LessThanOrEqual,
    Operator.GREATER: _make.GreaterThan,
    Operator.GREATER_OR_EQUAL: _make.GreaterThanOrEqual,
}
_LITERALS: tuple[tuple[tuple[type[IcebergType], ...], type[IcebergLiteral[Any]]], ...] = (
    ((BooleanType,), BooleanLiteral),
    ((IntegerType, LongType), LongLiteral),
    ((FloatType, DoubleType), DoubleLiteral),
    ((DecimalType,), DecimalLiteral),
    ((DateType,), DateLiteral),
    ((TimestampType, TimestamptzType), TimestampLiteral),
    ((StringType,), StringLiteral),
)


class Pruning:
    """One predicate, evaluated for the specs and files of one table. Safe to share."""

    def __init__(self, bound: Bound, schema: Schema, specs: Mapping[int, PartitionSpec]) -> None:
        self._bound = bound
        self._schema = schema
        self._specs = specs
        self._columns = ColumnPruning(bound)
        self._by_spec: dict[int, _SpecPruning] = {}

    def of_spec(self, spec_id: int) -> _SpecPruning:
        known = self._by_spec.get(spec_id)
        if known is None:
            spec = _Spec(self._specs[spec_id], self._schema, self._columns.schema)
            known = self._by_spec[spec_id] = _SpecPruning(self._bound, spec)
        return known

    def manifest_could_match(self, manifest: Manifest) -> bool:
        return self.of_spec(manifest.spec_id).manifest_could_match(manifest)

    def partition_could_match(self, spec_id: int, partition: Partition) -> bool:
        return self.of_spec(spec_id).could_match(partition)

    def could_match_within(self, range_of_column: Callable[[int], Range | None]) -> bool:
        """False only if no row of files whose columns are in these ranges matches."""
        return self._columns.could_match_within(range_of_column)

    def could_match(self, file: DataFile) -> bool:
        """False only if no row of the file matches."""
        return self._metrics(file, strict=False)

    def all_match(self, file: DataFile) -> bool:
        """True only if every row of the file matches."""
        return self._metrics(file, strict=True)

    def _metrics(self, file: DataFile, strict: bool) -> bool:
        residual = self.of_spec(file.spec_id).residual(file.partition)
        return self._columns.answer(residual, file, strict)


class ColumnPruning:
    """One predicate, evaluated on the counts and bounds of columns. Safe to share."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self.schema = _column_schema(bound)
        self._known: dict[int, _ColumnAtom] = {}

    def could_match(self, file: DataFile) -> bool:
        """False only if no row of the file matches. The partition is not used."""
        return self.answer(self._bound, file, strict=False)

    def could_match_within(self, range_of_column: Callable[[int], Range | None]) -> bool:
        """The same for many files: `range_of_column` returns the range of a column over all of them."""
        return _fold(self._bound, lambda atom: self._asked(atom).could_match_within(range_of_column))

    def answer(self, bound: Bound, file: DataFile, strict: bool) -> bool:
        """The answer for the rest of the predicate: whether all rows match (`strict`), or one could."""
        return _fold(bound, lambda atom: self._asked(atom).answer(file, strict))

    def _asked(self, atom: Atom) -> _ColumnAtom:
        # By identity: hashing an atom would go through the models of its column, for every file again.
        known = self._known.get(id(atom))
        if known is None:
            known = self._known[id(atom)] = _ColumnAtom(atom, self.schema)
        return known


class _ColumnAtom:
    """A comparison that is evaluated on the bounds and counts of files."""

    def __init__(self, atom: Atom, columns: Schema) -> None:
        self.atom = atom  # kept alive, so that its identity is not reused
        self._number = _NumberTest.of(atom)
        # Safe to share since pyiceberg 0.12: before, an evaluator kept a reference to the file it evaluated.
        self._could_match = _InclusiveMetricsEvaluator(columns, _on_column(atom, strict=False)).eval
        self._all_match = _StrictMetricsEvaluator(columns, _on_column(atom, strict=True)).eval

    def answer(self, file: DataFile, strict: bool) -> bool:
        if strict:
            return self._all_match(_metrics_of(file))
        number = self._number
        if number is not None and number.excludes(range_of(file.metrics, number.column)):
            return False
        return self._could_match(_metrics_of(file))

    def could_match_within(self, range_of_column: Callable[[int], Range | None]) -> bool:
        """The same question for a block of files."""
        number = self._number
        return number is None or not number.excludes(range_of_column(number.column))


_NEVER = Always(False)


class _SpecPruning:
    """A predicate on the partitions of one spec."""

    def __init__(self, bound: Bound, spec: _Spec) -> None:
        self._bound = bound
        self._spec = spec
        self._atoms: dict[Atom, _PartitionAtom] = {}
        self._residuals: dict[Partition, Bound] = {}

    def manifest_could_match(self, manifest: Manifest) -> bool:
        if not manifest.partitions:
            return self._bound != Always(False)
        summaries = _Summaries(manifest)
        return _fold(self._bound, lambda atom: self._atom(atom).manifest_could_match(summaries))

    def could_match(self, partition: Partition) -> bool:
        """False only if no row of the partition matches. Called for every block of every manifest."""
        return self.residual(partition) != _NEVER

    def residual(self, partition: Partition) -> Bound:
        """The part of the predicate that remains to be checked on rows of a known partition."""
        known = self._residuals.get(partition)
        if known is None:
            record = Record(*partition)
            known = self._residuals[partition] = self._left(self._bound, partition, record)
        return known

    def _left(self, bound: Bound, partition: Partition, record: Record) -> Bound:
        match bound:
            case Always():
                return bound
            case AllOf(parts):
                return both(*(self._left(part, partition, record) for part in parts))
            case AnyOf(parts):
                return either(*(self._left(part, partition, record) for part in parts))
            case InPartitions(spec_id, _, partitions) if spec_id == self._spec.spec_id:
                return Always(partition_key(partition) in partitions)
            case _:
                atom = self._atom(bound)
                if not atom.could_match(record):
                    return Always(False)
                return Always(True) if atom.all_match(record) else bound

    def _atom(self, atom: Atom) -> _PartitionAtom:
        known = self._atoms.get(atom)
        if known is None:
            known = self._atoms[atom] = _PartitionAtom(atom, self._spec)
        return known


class _Spec:
    """A partition spec with its fields as columns `p0`, `p1`, …: names that cannot clash with a caller's."""

    def __init__(self, spec: PartitionSpec, schema: Schema, columns: Schema) -> None:
        self.spec_id = spec.spec_id
        self.columns = columns
        renamed, types = [], []
        for position, part in enumerate(spec.fields):
            renamed.append(PartitionField(part.source_id, part.field_id, part.transform, f"p{position}"))
            types.append(NestedField(part.field_id, f"p{position}", _result_type(part, schema)))
        self.spec = PartitionSpec(*renamed, spec_id=spec.spec_id)
        self.schema = Schema(*types)


class _PartitionAtom:
    """One comparison, on partition values."""

    def __init__(self, atom: Atom, spec: _Spec) -> None:
        inclusive, strict = _on_partition(atom, spec)
        self.could_match = expression_evaluator(spec.schema, inclusive, True)
        self.all_match = expression_evaluator(spec.schema, strict, True)
        self.manifest_could_match = _manifest_test(spec.schema, inclusive)


def _manifest_test(schema: Schema, expression: BooleanExpression) -> Callable[[_Summaries], bool]:
    bound = _ManifestEvalVisitor(schema, expression, True)
    # The evaluator keeps the manifest that it evaluates, and threads share it: so copy it for each call.
    return lambda summaries: bool(copy(bound).eval(summaries))  # type: ignore[arg-type]


def _fold(bound: Bound, answer: Callable[[Atom], bool]) -> bool:
    match bound:
        case Always(value):
            return value
        case AllOf(parts):
            return all(_fold(part, answer) for part in parts)
        case AnyOf(parts):
            return any(_fold(part, answer) for part in parts)
        case _:
            return answer(bound)


# --- comparisons as pyiceberg's expressions --------------------------------------------------------------


def _on_partition(atom: Atom, spec: _Spec) -> tuple[BooleanExpression, BooleanExpression]:
    """The conditions on partition values where a comparison could be true, and where it certainly is."""
    if isinstance(atom, TransformCompare):
        for part in spec.spec.fields:
            if part.source_id == atom.field.field_id and part.transform == atom.transform:
                same = _compared(
                    part.name, _result_type(part, None, atom.field.type), atom.operator, atom.value
                )
                return same, same
    try:
        inclusive = InclusiveProjection(spec.columns, spec.spec, True).project(_on_column(atom, strict=False))
        strict = StrictProjection(spec.columns, spec.spec, True).project(_on_column(atom, strict=True))
    except OverflowError:  # the day after 9999-12-31: partitions do not help
        return AlwaysTrue(), AlwaysFalse()
    return inclusive, strict


def _on_column(atom: Bound, strict: bool) -> Any:
    """A condition on columns named `c<id>`. `strict`: true only where `atom` is; else true wherever it is."""
    match atom:
        case Always(value):
            return AlwaysTrue() if value else AlwaysFalse()
        case AllOf(parts):
            return _joined(And, [_on_column(part, strict) for part in parts])
        case AnyOf(parts):
            return _joined(Or, [_on_column(part, strict) for part in parts])
        case InPartitions():
            return _unknown(strict)
        case TransformCompare(column, _, _, _, plain):
            return _or_unknown(column, strict) if plain is None else _on_column(plain, strict)
        case IsNull(column):
            return _make.IsNull(_reference(column))
        case NotNull(column):
            return _make.NotNull(_reference(column))
        case IsNan(column):
            return And(_make.NotNull(_reference(column)), _make.IsNaN(_reference(column)))
        case NotNan(column):
            return And(_make.NotNull(_reference(column)), _make.NotNaN(_reference(column)))
        case Compare(column, operator, value):
            return _comparison(column, operator, value, strict)
        case Among(column, values, negated):
            literals = {_literal(column.type, value) for value in values}
            inside = (_make.NotIn if negated else _make.In)(_reference(column), literals)
            return And(_make.NotNull(_reference(column)), inside)
        case Matches(column, _, prefix, negated):
            return _like(column, prefix, negated, strict)


def _comparison(column: Field, operator: Operator, value: Any, strict: bool) -> Any:
    if isinstance(column.type, FloatType) and not _is_float(value):
        return _or_unknown(column, strict)  # pyiceberg would round it and compare with another number
    compared = _compared(_reference(column), column.type, operator, value)
    if isinstance(column.type, FloatType | DoubleType) and operator is not Operator.NOT_EQUAL:
        return And(compared, _make.NotNaN(_reference(column)))
    return compared


def _compared(name: str | Reference, kind: IcebergType, operator: Operator, value: Any) -> BooleanExpression:
    reference = Reference(name) if isinstance(name, str) else name
    return And(_make.NotNull(reference), _COMPARE[operator](reference, _literal(kind, value)))


def _like(column: Field, prefix: str, negated: bool, strict: bool) -> Any:
    if negated or strict or not prefix:
        return _or_unknown(column, strict)
    low, high = Compare(column, Operator.GREATER_OR_EQUAL, prefix), after_prefix(prefix)
    bound = low if high is None else both(low, Compare(column, Operator.LESS, high))
    return _on_column(bound, strict)


def _or_unknown(column: Field, strict: bool) -> Any:
    return AlwaysFalse() if strict else _make.NotNull(_reference(column))


def _unknown(strict: bool) -> BooleanExpression:
    return AlwaysFalse() if strict else AlwaysTrue()


def _joined(
    join: Callable[[BooleanExpression, BooleanExpression], BooleanExpression], parts: list[BooleanExpression]
) -> BooleanExpression:
    first, *rest = parts
    for part in rest:
        first = join(first, part)
    return first


_EXCLUDED: dict[Operator, Callable[[int, int, int], bool]] = {
    Operator.EQUAL: lambda low, high, value: value < low or value > high,
    Operator.LESS: lambda low, _, value: low >= value,
    Operator.LESS_OR_EQUAL: lambda low, _, value: low > value,
    Operator.GREATER: lambda _, high, value: high <= value,
    Operator.GREATER_OR_EQUAL: lambda _, high, value: high < value,
}


@dataclass(frozen=True, slots=True)
class _NumberTest:
    """A comparison with an integer, evaluated on the bounds of a column.

    pyiceberg's evaluator gives the same answers, but takes many times as long, which is most of the time of a
    plan that is decided by bounds.
    """

    column: int
    excluded: Callable[[int, int, int], bool]
    value: int

    @classmethod
    def of(cls, atom: Atom) -> _NumberTest | None:
        """None for a comparison that is not with an integer, or that no bounds exclude."""
        if not isinstance(atom, Compare) or not isinstance(atom.field.type, NUMBERED):
            return None
        excluded = _EXCLUDED.get(atom.operator)
        if excluded is None or type(atom.value) is not int:
            return None
        return cls(atom.field.field_id, excluded, atom.value)

    def excludes(self, known: Range | None) -> bool:
        """Whether no value within these bounds can match; False means unknown."""
        return known is not None and self.excluded(*known, self.value)


def _is_float(value: float) -> bool:
    """Whether pyiceberg makes the same float of it. It treats infinities as out of range for floats."""
    try:
        return math.isfinite(value) and bool(struct.unpack("<f", struct.pack("<f", value))[0] == value)
    except OverflowError:
        return False


def _literal(kind: IcebergType, value: Any) -> IcebergLiteral[Any]:
    for types, make in _LITERALS:
        if isinstance(kind, types):
            return make(value)  # type: ignore[call-arg]
    return BinaryLiteral(value)


def _reference(column: Field) -> Reference:
    return Reference(f"c{column.field_id}")


def _column_schema(bound: Bound) -> Schema:
    """The columns of a predicate as top-level columns, because pyiceberg looks only for bounds of those.

    All of them are optional: the counts determine whether a value can be missing.
    """
    fields = {column.field_id: column for column in fields_of(bound)}
    return Schema(*(NestedField(number, f"c{number}", column.type) for number, column in fields.items()))


def column_with_id(schema: Schema, field_id: int) -> NestedField | None:
    """The column of a schema, at any depth, or None if it has no such one."""
    try:
        return schema.find_field(field_id)
    except ValueError:
        return None


def _result_type(
    part: PartitionField, schema: Schema | None, source: IcebergType | None = None
) -> IcebergType:
    if schema is not None:
        found = column_with_id(schema, part.source_id)
        source = None if found is None else found.field_type
    return UnknownType() if source is None else part.transform.result_type(source)


# --- our values in the form that pyiceberg reads -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Summary:
    contains_null: bool
    contains_nan: bool
    lower_bound: bytes | None
    upper_bound: bytes | None


@dataclass(frozen=True)
class _Summaries:
    manifest: Manifest
    partitions: list[_Summary] = field(init=False)

    def __post_init__(self) -> None:
        found = [
            _Summary(s.contains_null, s.contains_nan, s.lower, s.upper) for s in self.manifest.partitions
        ]
        object.__setattr__(self, "partitions", found)


def _metrics_of(file: DataFile) -> Any:
    return _Metrics(file)


class _Metrics:
    __slots__ = (
        "lower_bounds",
        "nan_value_counts",
        "null_value_counts",
        "record_count",
        "upper_bounds",
        "value_counts",
    )

    def __init__(self, file: DataFile) -> None:
        metrics = file.metrics
        self.record_count = file.record_count
        self.value_counts = metrics.values
        self.null_value_counts = metrics.nulls
        self.nan_value_counts = metrics.nans
        self.lower_bounds = metrics.lower
        self.upper_bounds = metrics.upper
