"""Expressions against the same calculation in Python; what does not fit, and what only Spark can compute."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.arrow.assignments import evaluated
from headgate.core.sql.expression import Calculated, Calculation, DecimalShape, Negated, decimal_result
from headgate.core.sql.expression_text import MAX_CALCULATIONS, parse_expression
from headgate.core.sql.predicate import Column
from headgate.core.sql.tokens import MAX_DEPTH
from headgate.errors import InvalidInputError, UnsupportedError

ROWS = pa.table(
    {
        "n": pa.array([1, -7, None], pa.int32()),
        "id": pa.array([2**40, 3, 5], pa.int64()),
        "x": pa.array([1.5, None, -2.0], pa.float64()),
        "f": pa.array([0.5, 1.0, 2.0], pa.float32()),
        "p": pa.array([Decimal("10.05"), Decimal("-0.01"), None], pa.decimal128(10, 2)),
        "name": pa.array(["a", None, "ü"], pa.large_string()),
        "b": pa.array([b"\x01", b"", None], pa.large_binary()),
        "ok": pa.array([True, False, None], pa.bool_()),
        "d": pa.array([dt.date(2026, 11, 15), None, dt.date(1969, 1, 1)], pa.date32()),
        "ts": pa.array([dt.datetime(2026, 11, 15, tzinfo=dt.UTC)] * 3, pa.timestamp("us", "UTC")),
        "tn": pa.array([dt.datetime(2026, 11, 15)] * 3, pa.timestamp("us")),
        "place": pa.array([{"x": 1, "Town": "y"}, None, {"x": 3, "Town": None}]),
        "odd name": pa.array([1, 2, 3], pa.int64()),
        "u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * 3, pa.binary(16))),
        "fix": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    }
)


def values(text: str, column: str) -> list[Any]:
    found = evaluated(text, ROWS, ROWS.schema.field(column))
    assert found.type == ROWS.schema.field(column).type
    return list(found.to_pylist())


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("n + 1", "n", [2, -6, None]),
        ("n % 3", "n", [1, -1, None]),
        ("-n", "n", [-1, 7, None]),
        ("- -7", "n", [7] * 3),
        ("7 - -2 - 1", "n", [8] * 3),
        ("2 + 3 * 4 - 10 / 5", "x", [12.0] * 3),
        ("(2 + 3) * 4", "id", [20] * 3),
        ("id / 2", "x", [2.0**39, 1.5, 2.5]),
        ("1 / 2", "x", [0.5] * 3),
        ("6 / 2", "n", [3] * 3),
        ("x * 2", "x", [3.0, None, -4.0]),
        ("x % 1", "x", [0.5, None, -0.0]),
        ("f + 0.5", "f", [1.0, 1.5, 2.5]),
        ("f", "x", [0.5, 1.0, 2.0]),
        ("p * 1.1", "p", [Decimal("11.06"), Decimal("-0.01"), None]),
        ("p / 2", "p", [Decimal("5.03"), Decimal("-0.01"), None]),
        ("p + id", "x", [2.0**40 + 10.05, 2.99, None]),
        ("n * 1.5", "p", [Decimal("1.50"), Decimal("-10.50"), None]),
        ("x", "p", [Decimal("1.50"), None, Decimal("-2.00")]),
        ("0.1e0", "p", [Decimal("0.10")] * 3),
        ("2.0", "n", [2] * 3),
        ("-2147483648", "n", [-(2**31)] * 3),
        ("-9223372036854775808", "id", [-(2**63)] * 3),
        ("name || '-' || name", "name", ["a-a", None, "ü-ü"]),
        ("'it''s'", "name", ["it's"] * 3),
        ("b || X'ff'", "b", [b"\x01\xff", b"\xff", None]),
        ("X'0a0b'", "fix", [b"\n\v"] * 3),
        ("TRUE", "ok", [True] * 3),
        ("ok", "ok", [True, False, None]),
        ("NULL", "name", [None] * 3),
        ("null + n", "n", [None] * 3),
        ("DATE '2026-11-16'", "d", [dt.date(2026, 11, 16)] * 3),
        ("'2026-11-16'", "d", [dt.date(2026, 11, 16)] * 3),
        (
            "TIMESTAMP '2026-11-16 01:00:00+01:00'",
            "ts",
            [dt.datetime(2026, 11, 16, tzinfo=dt.UTC)] * 3,
        ),
        ("TIMESTAMP_NTZ '2026-11-16 01:00:00'", "tn", [dt.datetime(2026, 11, 16, 1)] * 3),
        ("place.x + 1", "id", [2, None, 4]),
        ("PLACE.town", "name", ["y", None, None]),
        ("place", "place", [{"x": 1, "Town": "y"}, None, {"x": 3, "Town": None}]),
        ("`odd name` * 2", "id", [2, 4, 6]),
        ("NULL", "u", [None] * 3),
        ("u", "u", [UUID(int=0)] * 3),
        ("'00000000-0000-0000-0000-000000000001'", "u", [UUID(int=1)] * 3),
    ],
)
def test_what_an_expression_is(text: str, column: str, expected: list[Any]) -> None:
    assert values(text, column) == expected


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("n + 2147483647", "n", "cannot be computed for all rows: overflow"),
        ("id * 9223372036854775807", "id", "overflow"),
        ("id", "n", "has values that do not fit the column n, which is int32"),
        ("x", "n", "has values that do not fit the column n"),
        ("n / 2", "n", "has values that do not fit the column n"),
        ("p", "n", "10.05 is not an integer"),
        ("99999999.995", "p", r"does not fit decimal\(10, 2\)"),
        ("1e300", "f", "too large"),
        ("1e300 * 1e300", "n", "has values that do not fit the column n"),
        ("1e300 * 1e300", "p", "inf is not a decimal"),
        ("n / 0", "x", "divides by zero in 2 of the rows"),
        ("n % (n - n)", "n", "divides by zero in 2 of the rows"),
        ("x / 0.0", "x", "divides by zero"),
        ("p / 0", "p", "divides by zero"),
        ("5", "name", "'5' is int32, but the column name is string"),
        ("name", "n", "'name' is string, but the column n is int32"),
        ("'5'", "n", "'5' does not fit n, which is int\n  next: write an integer"),
        ("TRUE", "n", "TRUE does not fit n"),
        ("X'0a'", "fix", "does not fit fix"),
        ("'x'", "place", "does not fit place"),
        ("'x'", "u", "does not fit u, which is uuid"),
        ("d", "ts", "but the column ts is timestamp"),
        ("-name", "name", "string cannot be negated"),
        ("nam", "name", "there is no column 'nam'\n  next: did you mean name?"),
        ("place.y", "id", "there is no column 'place.y'\n  next: did you mean place.x"),
        ("n.x", "id", "there is no column 'n.x'"),
        ("1" + "0" * 38, "p", "more than 38 digits"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, column: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"(?s){message}"):
        values(text, column)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("upper(name)", r"expected .* or the end: upper»\(name\)"),
        ("CASE WHEN ok THEN 1 END", "or the end: CASE »WHEN"),
        ("n > 1", "or the end: n »> 1"),
        ("", "expected the name of a column: »"),
        ("n +", r"expected the name of a column: n \+»"),
        ("(n", r"expected '\)': \(n»"),
        ("1--1", "or the end: 1»--1"),
        ("n /* less */", "or the end"),
        ("'a\\n'", "a backslash in a string"),
        ('"a"', "unexpected character"),
        ("d + 1", r"date32\[day\] \+ int32 cannot be computed without Spark"),
        ("name || 1", r"string \|\| int32 cannot"),
        ("DATE '2026-11-16' + 1", "DATE '2026-11-16' cannot be used in a calculation without Spark"),
        ("(" * (MAX_DEPTH + 1) + "n" + ")" * (MAX_DEPTH + 1), "nesting is deeper"),
        ("- " * (MAX_DEPTH + 1) + "n", "nesting is deeper"),
        ("+".join(["n"] * (MAX_CALCULATIONS + 2)), "more than 200 calculations"),
    ],
)
def test_what_only_spark_can_compute(text: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        values(text, "id")
    assert "headgate.session()" in caught.value.next_step


def test_an_expression_is_a_text() -> None:
    with pytest.raises(InvalidInputError, match="an expression must be a string of SQL, not 7"):
        parse_expression(7)  # type: ignore[arg-type]


def test_an_expression_as_a_value() -> None:
    n = Column(("n",))
    inner = Calculated(Calculation.MULTIPLY, n, Negated(n))
    assert parse_expression("n - n * -n") == Calculated(Calculation.SUBTRACT, n, inner)


def test_types_are_checked_without_rows() -> None:
    for text, column in (("name", "n"), ("nam", "name"), ("5", "name")):
        with pytest.raises(InvalidInputError):
            evaluated(text, ROWS.slice(0, 0), ROWS.schema.field(column))
    assert len(evaluated("n * 1.5 + p", ROWS.slice(0, 0), ROWS.schema.field("p"))) == 0


# --- against Python -----------------------------------------------------------------------------------------

WHOLE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": lambda a, b: int(math.copysign(abs(a) % abs(b), a)) if abs(a) < 2**53 else _remainder(a, b),
}


def _remainder(a: int, b: int) -> int:
    found = abs(a) % abs(b)
    return -found if a < 0 else found


def in_sql(value: object) -> str:
    return "NULL" if value is None else str(value)


longs = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-10, 10)


@given(longs, longs, st.sampled_from(sorted(WHOLE)), st.booleans())
def test_whole_numbers(a: int | None, b: int | None, sign: str, written: bool) -> None:
    rows = pa.table({"a": pa.array([a], pa.int64()), "b": pa.array([b], pa.int64())})
    # A written number that fits is an INT; one that is a column is a BIGINT.
    right = in_sql(b) if written and b is not None and abs(b) >= 2**31 and b > -(2**63) else "b"
    text, field = f"a {sign} {right}", pa.field("a", pa.int64())
    if a is None or b is None:
        assert evaluated(text, rows, field).to_pylist() == [None]
        return
    expected = None if sign == "%" and b == 0 else WHOLE[sign](a, b)
    if expected is None or not -(2**63) <= expected < 2**63:
        with pytest.raises(InvalidInputError):
            evaluated(text, rows, field)
    else:
        assert evaluated(text, rows, field).to_pylist() == [expected]


doubles = st.none() | st.floats(allow_nan=True, allow_infinity=True)


def same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return (math.isnan(one) and math.isnan(other)) or one == other


@given(doubles, doubles, st.sampled_from("+-*/%"))
def test_floating_point(a: float | None, b: float | None, sign: str) -> None:
    rows = pa.table({"a": pa.array([a], pa.float64()), "b": pa.array([b], pa.float64())})
    field = pa.field("a", pa.float64())
    if a is not None and b == 0 and sign in "/%":
        with pytest.raises(InvalidInputError, match="divides by zero"):
            evaluated(f"a {sign} b", rows, field)
        return
    expected = None if a is None or b is None else _floating(a, b, sign)
    assert same(evaluated(f"a {sign} b", rows, field).to_pylist()[0], expected)


def _floating(a: float, b: float, sign: str) -> float:
    match sign:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return a / b
    return math.nan if math.isinf(a) or math.isnan(a) or math.isnan(b) else math.fmod(a, b)


decimals = st.none() | st.decimals(-(10**7), 10**7, places=3)


@given(decimals, decimals, st.sampled_from("+-*/%"))
def test_decimals(a: Decimal | None, b: Decimal | None, sign: str) -> None:
    kind = pa.decimal128(12, 3)
    rows = pa.table({"a": pa.array([a], kind), "b": pa.array([b], kind)})
    field = pa.field("a", pa.decimal128(38, 10))
    if a is not None and b == 0 and sign in "/%":
        with pytest.raises(InvalidInputError, match="divides by zero"):
            evaluated(f"a {sign} b", rows, field)
        return
    expected = None if a is None or b is None else _decimal(a, b, sign)
    assert evaluated(f"a {sign} b", rows, field).to_pylist() == [expected]


def _decimal(a: Decimal, b: Decimal, sign: str) -> Decimal:
    with localcontext() as context:
        context.prec, context.rounding = 100, ROUND_HALF_UP
        operators = {"+": a.__add__, "-": a.__sub__, "*": a.__mul__, "/": a.__truediv__, "%": a.__mod__}
        scale = {"+": 3, "-": 3, "*": 6, "/": 16, "%": 3}[sign]
        exact = operators[sign](b).quantize(Decimal(1).scaleb(-scale))
        return exact.quantize(Decimal(1).scaleb(-10))


@pytest.mark.parametrize(
    ("sign", "left", "right", "expected"),
    [
        ("+", (10, 2), (5, 4), (13, 4)),
        ("*", (10, 2), (5, 4), (16, 6)),
        ("/", (10, 2), (5, 4), (20, 8)),
        ("%", (10, 2), (5, 4), (5, 4)),
        ("*", (38, 10), (38, 10), (38, 6)),
        ("/", (38, 10), (38, 10), (38, 6)),
        ("+", (38, 0), (38, 10), (38, 6)),
    ],
)
def test_the_types_of_decimals_are_those_of_spark(
    sign: str, left: tuple[int, int], right: tuple[int, int], expected: tuple[int, int]
) -> None:
    found = decimal_result(Calculation(sign), DecimalShape(*left), DecimalShape(*right))
    assert found == DecimalShape(*expected)
