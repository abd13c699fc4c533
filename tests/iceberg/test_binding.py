"""Predicates from text to columns: what is read, what is refused and where, and what Spark is told."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema

from headgate.core.sql.predicate_text import parse_predicate
from headgate.core.sql.tokens import MAX_DEPTH
from headgate.errors import InvalidInputError, UnreadablePredicateError
from headgate.iceberg.format.metrics import after_prefix
from headgate.iceberg.predicate.binding import bind_text
from headgate.iceberg.predicate.spark_text import to_spark_sql
from headgate.iceberg.schema.ddl import parse_columns

SCHEMA = Schema(
    *parse_columns(
        "id BIGINT, n INT, ts TIMESTAMP, tn TIMESTAMP_NTZ, name STRING, d DATE, x DOUBLE, f FLOAT, "
        "p DECIMAL(10, 2), b BINARY, ok BOOLEAN, s STRUCT<a: INT, `b c`: STRING>, l ARRAY<INT>"
    ).fields
)


@pytest.mark.parametrize(
    ("where", "sql"),
    [
        ("id = 7", "`id` = 7L"),
        ("7 < ID", "`id` > 7L"),
        ("NOT (id = 7 AND name <> 'a''b')", "(`id` <> 7L OR `name` = 'a\\'b')"),
        ("NOT id IN (1, 2)", "`id` NOT IN (1L, 2L)"),
        ("id NOT IN (1, 2, NULL)", "false"),
        ("id IN (1, NULL)", "`id` = 1L"),
        ("id = NULL", "false"),
        ("ok OR NOT ok", "(`ok` = true OR `ok` = false)"),
        ("TRUE", "true"),
        ("s.`b c` IS NOT NULL", "`s`.`b c` IS NOT NULL"),
        ("l IS NULL", "`l` IS NULL"),
        ("name LIKE 'ab%'", "(`name` >= 'ab' AND `name` < 'ac')"),
        ("name LIKE 'ab'", "`name` = 'ab'"),
        ("name NOT LIKE 'a_%\\%'", "`name` NOT LIKE 'a_%\\\\%'"),
        (
            "p BETWEEN 1 AND 2.5",
            "(`p` >= CAST('1.00' AS DECIMAL(10, 2)) AND `p` <= CAST('2.50' AS DECIMAL(10, 2)))",
        ),
        ("b = x'C0FF'", "`b` = X'c0ff'"),
        ("x > 5", "(`x` > CAST('5.0' AS DOUBLE) OR (`x` IS NOT NULL AND isnan(`x`)))"),
        ("x = 'NaN'", "(`x` IS NOT NULL AND isnan(`x`))"),
        ("x > 'NaN'", "false"),
        ("f <= 0.1", "`f` <= CAST('0.1' AS DOUBLE)"),
        ("d < '2026-11-15'", "`d` < DATE '2026-11-15'"),
        (
            "ts < TIMESTAMP '2026-11-15 10:00:00+01:00'",
            "`ts` < TIMESTAMP_LTZ '2026-11-15 09:00:00.000000+00:00'",
        ),
        ("tn >= DATE '2026-11-15'", "`tn` >= TIMESTAMP_NTZ '2026-11-15 00:00:00.000000'"),
        (
            "day(tn) = '2026-11-15'",
            "(`tn` >= TIMESTAMP_NTZ '2026-11-15 00:00:00.000000'"
            " AND `tn` < TIMESTAMP_NTZ '2026-11-16 00:00:00.000000')",
        ),
        ("month(d) <= '2026-12'", "`d` < DATE '2027-01-01'"),
        ("year(d) > 2026", "`d` >= DATE '2027-01-01'"),
        ("hour(ts) < '2026-11-15 10'", "`ts` < TIMESTAMP_LTZ '2026-11-15 10:00:00.000000+00:00'"),
        ("bucket(8, id) = 3", "headgate_bucket(8, `id`) = 3"),
        ("truncate(4, name) = 'abcd'", "(`name` >= 'abcd' AND `name` < 'abce')"),
        ("truncate(4, name) = 'abcde'", "(`name` >= 'abce' AND `name` < 'abce')"),
        ("truncate(10, n) > 2147483640", "false"),
        ("truncate(10, id) < 25", "`id` < 30L"),
    ],
)
def test_a_predicate_means_the_same_to_spark(where: str, sql: str) -> None:
    assert to_spark_sql(bind_text(where, SCHEMA)) == sql


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("", "expected the name of a column: »"),
        ("id = ", "expected a literal: id = »"),
        ("id = 7 ) and", r"expected AND, OR or the end: id = 7 »\)"),
        ("upper(name) = 'X'", "'upper' is not a transform.*: »upper"),
        ("id ~ 7", "unexpected character: id »~ 7"),
        ('id = "a"', 'unexpected character: id = »"a"'),
        ("id IN ()", r"expected a literal: id IN \(»\)"),
        ("bucket(0, id) = 1", r"must be a positive integer: bucket\(»0"),
        ("d = DATE '15.11.2026'", "a date is written as '2026-11-15': d = DATE »"),
        ("b = X'abc'", "hexadecimal digits: b = »X'abc'"),
        ("id = n", "expected a literal: id = »n"),
        ("(" * (MAX_DEPTH + 1) + "ok" + ")" * (MAX_DEPTH + 1), "nesting is deeper than 50"),
    ],
)
def test_what_cannot_be_read_is_pointed_at(where: str, message: str) -> None:
    with pytest.raises(UnreadablePredicateError, match=message):
        parse_predicate(where)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("idd = 7", "there is no column 'idd'\n  next: did you mean id?"),
        ("s.a.b = 7", "there is no column 's.a.b'"),
        ("l.element = 7", "there is no column"),
        ("id = 'x'", "'x' does not fit id, which is long\n  next: write an integer"),
        ("id = 5.5", "5.5 does not fit id"),
        ("n = 3000000000", "3000000000 does not fit n, which is int"),
        ("p = 1.234", "1.234 does not fit p"),
        ("name = 5", "5 does not fit name"),
        ("tn = '2026-11-15 10:00:00+01:00'", "does not fit tn, .*\n  next: .*without a time zone"),
        ("month(ts) = 11", r"is Iceberg's transform\n  next: write it as month\(ts\) = '2026-11'"),
        ("hour(ts) = '2026-11-15T25'", "cannot be compared with hour"),
        ("hour(d) = '2026-11-15T10'", "d is date"),
        ("ok > TRUE", "ok is boolean, which has no order"),
        ("name", "name is string, not a condition"),
        ("id LIKE 'a%'", "LIKE needs a string column"),
        ("s = 5", "only be tested with IS NULL"),
        ("name LIKE 'a\\'", "ends with a backslash"),
    ],
)
def test_what_does_not_fit_the_table_is_refused(where: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"(?s){message}") as caught:
        bind_text(where, SCHEMA)
    assert not isinstance(caught.value, UnreadablePredicateError)


def test_a_predicate_is_a_text() -> None:
    with pytest.raises(InvalidInputError, match="not a int"):
        parse_predicate(7)  # type: ignore[arg-type]


def test_the_text_after_a_prefix_skips_what_is_no_character() -> None:
    assert after_prefix("a") == "b"
    assert after_prefix("a\U0010ffff") == "b"
    assert after_prefix("\ud7ff") == "\ue000"
    assert after_prefix("\U0010ffff") is None
    assert after_prefix("") is None
