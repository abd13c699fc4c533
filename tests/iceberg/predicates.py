"""Random tables and predicates, and a plain evaluator of them: three values, row by row, no Arrow."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IcebergType, LongType, StringType

Row = Mapping[str, Any]
Truth = bool | None

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("x", pa.float64()),
        ("p", pa.decimal128(9, 2)),
        ("big", pa.decimal128(38, 3)),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("tn", pa.timestamp("us")),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("ok", pa.bool_()),
        ("place", pa.struct([("n", pa.int64()), ("name", pa.string())])),
    ]
)
PARTITIONINGS: tuple[tuple[str, ...], ...] = (
    (),
    ("i",),
    ("bucket(3, l)",),
    ("truncate(4, l)",),
    ("x",),
    ("f",),
    ("p",),
    ("truncate(150, p)",),
    ("truncate(7, big)", "ok"),
    ("d",),
    ("month(d)",),
    ("year(d)", "bucket(2, d)"),
    ("day(ts)",),
    ("hour(ts)",),
    ("year(ts)", "i"),
    ("month(tn)",),
    ("day(tn)", "bucket(2, s)"),
    ("ts",),
    ("truncate(2, s)",),
    ("s",),
    ("b",),
    ("truncate(1, b)",),
    ("bucket(4, b)",),
    ("ok",),
    ("place.n",),
    ("truncate(3, place.name)",),
)
# Few values near to each other, so that predicates hit; and the ones at the edges.
INTS = st.sampled_from([-(2**31), -5, -4, -1, 0, 1, 2, 3, 4, 7, 8, 2**31 - 1])
LONGS = st.sampled_from([-(2**63), -9, -4, -1, 0, 1, 3, 4, 5, 11, 2**63 - 1])
FLOATS = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.1, 0.5, 1.5, 3.0, math.inf, math.nan])
DECIMALS = st.sampled_from([Decimal(n).scaleb(-2) for n in (-999999900, -151, -150, -1, 0, 1, 149, 150, 300)])
BIG = st.sampled_from(
    [Decimal(n) for n in ("0.000", "0.001", "-0.006", "0.007", "-0.014", "9" * 35 + ".999")]
)
DATES = st.sampled_from(
    [
        dt.date(1969, 12, 31),
        dt.date(1970, 1, 1),
        dt.date(1969, 11, 2),
        dt.date(2026, 2, 28),
        dt.date(2026, 3, 1),
    ]
)
TIMES = st.sampled_from([dt.time(0), dt.time(10, 59, 59, 999999), dt.time(11), dt.time(23, 59, 59, 999999)])
LONG_TEXT = "a" * 15
TEXTS = st.sampled_from(
    ["", "a", "ab", "abc", "b", "%", "a_c", "a\nc", "é", "\U0001f600x", "'", "\\"]
    + [LONG_TEXT + end for end in ("a", "az", "b", "\U0010ffff\U0010ffff")]
)
BYTES = st.sampled_from([b"", b"\x00", b"a", b"ab", b"\xff", b"\xff\xff", b"\xff" * 20, b"a" * 16 + b"b"])


def _moment(zone: dt.tzinfo | None) -> st.SearchStrategy[dt.datetime]:
    return st.builds(lambda day, time: dt.datetime.combine(day, time, zone), DATES, TIMES)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": INTS,
    "l": LONGS,
    "f": FLOATS.map(lambda value: pa.scalar(value, pa.float32()).as_py()),
    "x": FLOATS,
    "p": DECIMALS,
    "big": BIG,
    "d": DATES,
    "ts": _moment(dt.UTC),
    "tn": _moment(None),
    "s": TEXTS,
    "b": BYTES,
    "ok": st.booleans(),
}
PLACE = st.none() | st.fixed_dictionaries({"n": st.none() | LONGS, "name": st.none() | TEXTS})


def rows(min_size: int = 0, max_size: int = 12) -> st.SearchStrategy[list[Row]]:
    columns: dict[str, st.SearchStrategy[Any]] = {name: st.none() | value for name, value in VALUES.items()}
    return st.lists(st.fixed_dictionaries({**columns, "place": PLACE}), min_size=min_size, max_size=max_size)


def table(given: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in given], schema=SCHEMA)


@dataclass(frozen=True)
class Example:
    """A predicate as text, and what it says of a row."""

    text: str
    truth: Callable[[Row], Truth]

    def __repr__(self) -> str:
        return self.text


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "<>": lambda a, b: bool(a != b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def _key(value: Any) -> Any:
    """Floating point as Spark orders it: NaN equals NaN and is the greatest."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case float():
            special = math.isnan(value) or math.isinf(value)
            return f"'{value!r}'" if special else repr(value)
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return _quoted(value)


def _get(row: Row, column: str) -> Any:
    outer, _, inner = column.partition(".")
    value = row[outer]
    return value if not inner or value is None else value[inner]


LITERALS = {
    **VALUES,
    "f": FLOATS,  # not rounded: 0.1 is no float
    "place.n": LONGS,
    "place.name": TEXTS,
}


@st.composite
def comparisons(draw: st.DrawFn) -> Example:
    column = draw(st.sampled_from(sorted(LITERALS)))
    value = draw(LITERALS[column] | st.none() if draw(st.integers(0, 9)) == 0 else LITERALS[column])
    symbols = ["=", "<>"] if column == "ok" else sorted(OPERATORS)
    symbol = draw(st.sampled_from(symbols))
    return Example(f"{column} {symbol} {_literal(value)}", _compared(column, symbol, value))


def _compared(column: str, symbol: str, value: Any) -> Callable[[Row], Truth]:
    def truth(row: Row) -> Truth:
        found = _get(row, column)
        if found is None or value is None:
            return None
        return OPERATORS[symbol](_key(found), _key(value))

    return truth


@st.composite
def memberships(draw: st.DrawFn) -> Example:
    column = draw(st.sampled_from(sorted(LITERALS)))
    values = draw(st.lists(LITERALS[column] | st.none(), min_size=1, max_size=4))
    negated = draw(st.booleans())
    listed = ", ".join(map(_literal, values))

    def truth(row: Row) -> Truth:
        found = _get(row, column)
        if found is None:
            return None
        if any(value is not None and _key(value) == _key(found) for value in values):
            return not negated
        return None if None in values else negated

    return Example(f"{column} {'NOT IN' if negated else 'IN'} ({listed})", truth)


@st.composite
def null_tests(draw: st.DrawFn) -> Example:
    column = draw(st.sampled_from([*sorted(LITERALS), "place"]))
    negated = draw(st.booleans())
    text = f"{column} IS {'NOT ' if negated else ''}NULL"
    return Example(text, lambda row: (_get(row, column) is None) is not negated)


@st.composite
def ranges(draw: st.DrawFn) -> Example:
    column = draw(st.sampled_from([name for name in sorted(LITERALS) if name != "ok"]))
    low, high = draw(LITERALS[column]), draw(LITERALS[column])
    left, right = _compared(column, ">=", low), _compared(column, "<=", high)
    return Example(
        f"{column} BETWEEN {_literal(low)} AND {_literal(high)}", lambda row: _and((left(row), right(row)))
    )


@st.composite
def patterns(draw: st.DrawFn) -> Example:
    pattern = "".join(
        draw(st.lists(st.sampled_from(["a", "b", "%", "_", "\\%", "\\_", "é", "\n"]), max_size=4))
    )
    column = draw(st.sampled_from(["s", "place.name"]))
    negated = draw(st.booleans())
    regex = re.sub(
        r"\\(.)|(%)|(_)|(.)",
        lambda m: re.escape(m[1] or m[4]) if m[1] or m[4] else ".*" if m[2] else ".",
        pattern,
        flags=re.DOTALL,
    )

    def truth(row: Row) -> Truth:
        found = _get(row, column)
        return None if found is None else (re.fullmatch(regex, found, re.DOTALL) is not None) is not negated

    return Example(f"{column} {'NOT ' if negated else ''}LIKE {_quoted(pattern)}", truth)


def _bucket(kind: IcebergType, count: int) -> Callable[[Any], Any]:
    return BucketTransform(count).transform(kind)


TRANSFORMS: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], str]]] = {
    "year(ts)": ("ts", lambda v: v.year, str),
    "year(d)": ("d", lambda v: v.year, lambda v: f"'{v}'"),
    "month(tn)": ("tn", lambda v: v.strftime("%Y-%m"), _quoted),
    "month(d)": ("d", lambda v: v.strftime("%Y-%m"), _quoted),
    "day(ts)": ("ts", lambda v: v.date(), _literal),
    "days(tn)": ("tn", lambda v: v.date(), lambda v: _quoted(v.isoformat())),
    "hour(ts)": ("ts", lambda v: v.strftime("%Y-%m-%dT%H"), _quoted),
    "bucket(3, l)": ("l", _bucket(LongType(), 3), str),
    "bucket(2, s)": ("s", _bucket(StringType(), 2), str),
    "truncate(4, l)": ("l", lambda v: v - v % 4, str),
    "truncate(4, i)": ("i", lambda v: v - v % 4, str),
    "truncate(150, p)": ("p", lambda v: v - (v * 100) % 150 / 100 if v >= 0 else _down(v), _literal),
    "truncate(2, s)": ("s", lambda v: v[:2], _quoted),
    "truncate(3, place.name)": ("place.name", lambda v: v[:3], _quoted),
    "truncate(1, b)": ("b", lambda v: v[:1], _literal),
}


def _down(value: Decimal) -> Decimal:
    unscaled = int(value.scaleb(2))
    return Decimal(unscaled - unscaled % 150).scaleb(-2)


@st.composite
def transformed(draw: st.DrawFn) -> Example:
    term = draw(st.sampled_from(sorted(TRANSFORMS)))
    column, function, shown = TRANSFORMS[term]
    # Mostly values that occur, sometimes ones that no value is transformed to.
    value = function(draw(LITERALS[column]))
    if term == "truncate(4, l)" and value < -(2**63):
        value = -4
    if draw(st.booleans()) and term.startswith("truncate"):
        value = draw(LITERALS[column])
    if term == "truncate(150, p)" and value < Decimal("-9999999.99"):
        value = Decimal("-1.50")
    if term == "truncate(4, i)" and value < -(2**31):
        value = -4
    symbol = draw(st.sampled_from(sorted(OPERATORS)))

    def truth(row: Row) -> Truth:
        found = _get(row, column)
        return None if found is None else OPERATORS[symbol](function(found), value)

    return Example(f"{term} {symbol} {shown(value)}", truth)


def _and(parts: tuple[Truth, ...]) -> Truth:
    return False if False in parts else None if None in parts else True


def _or(parts: tuple[Truth, ...]) -> Truth:
    return True if True in parts else None if None in parts else False


def _negated(inner: Example) -> Example:
    def truth(row: Row) -> Truth:
        found = inner.truth(row)
        return None if found is None else not found

    return Example(f"NOT ({inner.text})", truth)


def _joined(word: str, join: Callable[[tuple[Truth, ...]], Truth]) -> Callable[[list[Example]], Example]:
    return lambda parts: Example(
        f" {word} ".join(f"({part.text})" for part in parts),
        lambda row: join(tuple(part.truth(row) for part in parts)),
    )


LEAVES = st.one_of(comparisons(), memberships(), null_tests(), ranges(), patterns(), transformed())
PREDICATES: st.SearchStrategy[Example] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(_negated),
        st.lists(inner, min_size=2, max_size=3).map(_joined("AND", _and)),
        st.lists(inner, min_size=2, max_size=3).map(_joined("OR", _or)),
    ),
    max_leaves=4,
)


def comparable(given: list[Row]) -> list[str]:
    """Rows as texts in order, so that NaN compares."""
    return sorted(repr({name: _plain(row[name]) for name in SCHEMA.names}) for row in given)


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return sorted(value.items()) if isinstance(value, dict) else value
