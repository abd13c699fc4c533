"""Finding the tables of a lake in SQL text."""

from __future__ import annotations

import pytest

from headgate.core.sql.query import Travel, find_mentions, rewritten
from headgate.errors import InvalidInputError, UnsupportedError

TABLES = {"sales.orders", "sales.customers", "a.b"}


def rewrite(query: str) -> str:
    def view_of(table: str, travel: Travel | None) -> str:
        place = "" if travel is None else f"@{travel.version or travel.tag or travel.timestamp}"
        return f"v({table}{place})"

    return rewritten(query, TABLES, view_of)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM sales.orders", "SELECT * FROM `v(sales.orders)` AS `orders`"),
        ("select * from sales.orders o where o.id = 1", "select * from `v(sales.orders)` o where o.id = 1"),
        ("SELECT * FROM `sales`.`orders` AS x", "SELECT * FROM `v(sales.orders)` AS x"),
        (
            "SELECT * FROM sales.orders JOIN sales.customers c ON orders.c = c.id, a.b",
            "SELECT * FROM `v(sales.orders)` AS `orders` JOIN `v(sales.customers)` c ON orders.c = c.id, "
            "`v(a.b)` AS `b`",
        ),
        (
            "SELECT sales.orders.id, a.b FROM sales.orders",
            "SELECT `orders`.id, a.b FROM `v(sales.orders)` AS `orders`",
        ),
        (
            "SELECT * FROM sales.orders VERSION AS OF 41 WHERE id > 1",
            "SELECT * FROM `v(sales.orders@41)` AS `orders` WHERE id > 1",
        ),
        (
            "SELECT * FROM sales.orders FOR SYSTEM_VERSION AS OF 'eom' o",
            "SELECT * FROM `v(sales.orders@eom)` o",
        ),
        (
            "SELECT * FROM sales.orders TIMESTAMP AS OF TIMESTAMP '2026-11-15' x",
            "SELECT * FROM `v(sales.orders@2026-11-15)` x",
        ),
        (
            "WITH t AS (SELECT * FROM a.b) SELECT * FROM t, sales.orders",
            "WITH t AS (SELECT * FROM `v(a.b)` AS `b`) SELECT * FROM t, `v(sales.orders)` AS `orders`",
        ),
        (
            "SELECT (SELECT max(x) FROM a.b), extract(day FROM a.b) FROM (a.b CROSS JOIN sales.orders)",
            "SELECT (SELECT max(x) FROM `v(a.b)` AS `b`), extract(day FROM a.b) "
            "FROM (`v(a.b)` AS `b` CROSS JOIN `v(sales.orders)` AS `orders`)",
        ),
        ("SELECT x IS DISTINCT FROM a.b FROM t", "SELECT x IS DISTINCT FROM a.b FROM t"),
        ("SELECT * FROM t WHERE f(x, a.b) = 'FROM a.b' -- FROM a.b", None),
        ("SELECT * FROM t /* FROM a.b */ WHERE x IN (1, 2) ORDER BY x, a.b", None),
        ("SELECT * FROM a.b.c", None),
        ("SELECT * FROM x.y", None),
        ("SELECT * FROM a.b TABLESAMPLE (10 ROWS)", "SELECT * FROM `v(a.b)` TABLESAMPLE (10 ROWS)"),
        ("(SELECT 1) UNION (SELECT * FROM a.b)", "(SELECT 1) UNION (SELECT * FROM `v(a.b)` AS `b`)"),
    ],
)
def test_names_become_views(query: str, expected: str | None) -> None:
    assert rewrite(query) == (query if expected is None else expected)


@pytest.mark.parametrize("travel", ["VERSION AS OF x", "VERSION AS OF 1.5", "TIMESTAMP AS OF now()"])
def test_time_travel_needs_a_literal(travel: str) -> None:
    with pytest.raises(InvalidInputError, match="AS OF must be followed by a literal"):
        find_mentions(f"SELECT * FROM sales.orders {travel}", TABLES)


def test_statements_that_are_no_queries_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="INSERT") as caught:
        find_mentions("INSERT INTO sales.orders SELECT 1", TABLES)
    assert caught.value.next_step == "use Table.append or Table.overwrite"
    with pytest.raises(InvalidInputError, match="empty"):
        find_mentions("  -- nothing", TABLES)
