"""The SQL of views: which text is taken for a query, what it reads, and what is refused."""

from __future__ import annotations

import pytest

from headgate.core.sql.query import find_relations
from headgate.core.sql.view_rules import MAX_DEPTH, changes_with_time, checked_sql, sources_of
from headgate.errors import InvalidInputError, NotFoundError, UnsupportedError
from headgate.model.named_object import CsvMount, NamedObject, View

TABLES = ("sales.orders", "sales.customers")


def views(**sql: str) -> dict[str, NamedObject]:
    return {f"v.{name}": NamedObject(name, View(text)) for name, text in sql.items()}


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM sales.orders", ["sales.orders"]),
        ("SELECT * FROM orders", ["orders"]),
        ("SELECT * FROM `a b`.`c.d` x, spark_catalog.s.t", ["a b.c.d", "spark_catalog.s.t"]),
        ("WITH t AS (SELECT 1), u(a, b) AS (SELECT * FROM a.b) SELECT * FROM t JOIN u", ["a.b"]),
        ("SELECT * FROM range(10), (SELECT * FROM x) y, VALUES (1)", ["x"]),
        ("SELECT * FROM a.b LATERAL VIEW explode(xs) t AS x", ["a.b"]),
        ("SELECT * FROM a.b VERSION AS OF 3 UNION ALL TABLE c.d", ["a.b", "c.d"]),
        ("SELECT (SELECT max(x) FROM a.b) FROM c.d WHERE y IN (SELECT y FROM e)", ["a.b", "c.d", "e"]),
        ("SELECT 1", []),
        ("SELECT extract(day FROM ts), 'FROM x' FROM parquet.`/tmp/f`", ["parquet./tmp/f"]),
    ],
)
def test_every_relation_is_found(sql: str, names: list[str]) -> None:
    assert [mention.table for mention in find_relations(sql)] == names


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("", "empty"),
        ("SELECT (1", "not closed"),
        ("SELECT 1)", "closes nothing"),
        ("SELECT 'it", "not closed"),
        ("SELECT `it", "not closed"),
        ("SELECT 1 /* and", "not closed"),
        ("SELECT 1; SELECT 2", "follows its ';'"),
        ("SELECT 'postgres://ann:hunter2@db/x'", "credential"),
        ("SELECT 1 -- password=hunter2", "credential"),
        ("SELECT 'AKIAABCDEFGHIJKLMNOP'", "credential"),
        ("SELECT '\ud800'", "Unicode"),
        ("SELECT " + "1" * 70_000, "65,536"),
    ],
)
def test_what_is_no_query_is_refused(sql: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem) as caught:
        checked_sql(sql)
    assert "hunter2" not in str(caught.value)


def test_a_statement_is_no_query() -> None:
    with pytest.raises(UnsupportedError, match="DROP"):
        checked_sql("DROP TABLE sales.orders")
    with pytest.raises(InvalidInputError, match="a string, not a int"):
        checked_sql(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sql", ["SELECT 1;", "SELECT ';' -- ;", "SELECT '(' || `)` FROM t WHERE a.token = 'x'"]
)
def test_what_only_looks_odd_is_fine(sql: str) -> None:
    assert checked_sql(sql) == sql


def test_sources_are_found_through_views() -> None:
    objects = views(one="SELECT * FROM sales.orders", two="SELECT * FROM v.one, sales.customers") | {
        "raw.in": NamedObject("m", CsvMount("/in", {}))
    }
    found = sources_of("v.new", "SELECT * FROM v.two JOIN raw.in", TABLES, objects)
    assert found.tables == {"sales.orders", "sales.customers"}
    assert found.mounts == {"raw.in"}
    assert set(found.views) == {"v.one", "v.two"}
    assert not found.elsewhen
    assert sources_of("v.new", "SELECT * FROM sales.orders VERSION AS OF 'eom'", TABLES, {}).elsewhen
    fixed = sources_of("v.new", "SELECT * FROM sales.gone VERSION AS OF 3", TABLES, {})
    assert (fixed.tables, fixed.elsewhen) == (frozenset(), False)


def test_a_name_that_is_not_there_is_told_with_the_view_that_reads_it() -> None:
    with pytest.raises(NotFoundError, match=r"the view v.new reads sales.order, which") as caught:
        sources_of("v.new", "SELECT * FROM sales.order", TABLES, {})
    assert "sales.orders" in str(caught.value.next_step)
    with pytest.raises(NotFoundError, match=r"the view v.one reads gone"):
        sources_of("v.new", "SELECT * FROM v.one", TABLES, views(one="SELECT * FROM gone"))


def test_a_circle_is_told_as_a_path() -> None:
    objects = views(a="SELECT * FROM v.b", b="SELECT * FROM v.a")
    with pytest.raises(InvalidInputError, match=r"v.a → v.b → v.a"):
        sources_of("v.a", "SELECT * FROM v.b", TABLES, objects)
    with pytest.raises(InvalidInputError, match=r"these views read each other: v.a → v.b → v.a"):
        sources_of("v.new", "SELECT * FROM v.a", TABLES, objects)


def test_views_lie_on_each_other_within_bounds_and_wide_ones_are_followed_once() -> None:
    tower = {"v.n0": NamedObject("n0", View("SELECT * FROM sales.orders"))}
    for level in range(1, MAX_DEPTH + 2):
        below = f"SELECT * FROM v.n{level - 1} a JOIN v.m{level - 1} b" if level > 1 else "SELECT * FROM v.n0"
        tower |= {f"v.{side}{level}": NamedObject(f"{side}{level}", View(below)) for side in "nm"}
    fine = f"SELECT * FROM v.n{MAX_DEPTH - 2}"
    assert sources_of("v.top", fine, TABLES, tower).tables == {"sales.orders"}
    with pytest.raises(InvalidInputError, match=f"more than {MAX_DEPTH} deep"):
        sources_of("v.top", f"SELECT * FROM v.n{MAX_DEPTH + 1}", TABLES, tower)


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        ("SELECT now() FROM t", True),
        ("SELECT Current_Date FROM t", True),
        ("SELECT TIMESTAMP 'today'", True),
        ("SELECT 'now is the time', known FROM t -- now", False),
    ],
)
def test_what_differs_from_run_to_run(sql: str, changes: bool) -> None:
    assert changes_with_time(sql) is changes
