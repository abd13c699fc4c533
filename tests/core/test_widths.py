"""How wide a stored query can become; tests/spark/test_stored_sql.py has real queries."""

from __future__ import annotations

import pytest

from headgate.core.sql.allowed import RELATION, WITH
from headgate.core.sql.stored import Node, Part
from headgate.core.sql.widths import (
    MAX_COLUMNS,
    MAX_GROUPING_SETS,
    Width,
    require_narrow,
    require_small_cubes,
)
from headgate.errors import InvalidInputError

SPARK = "org.apache.spark.sql.catalyst"
STAR = Node(f"{SPARK}.analysis.UnresolvedStar", (Node("scala.None$"),))
COLUMN = Node(f"{SPARK}.analysis.UnresolvedAttribute", (("a",),))
TABLE = Node(RELATION, (("a", "b"), (), False))


def project(child: Node, *items: Node) -> Node:
    return Node(f"{SPARK}.plans.logical.Project", (items, child))


def grouped(*groups: Node) -> Node:
    return Node(f"{SPARK}.plans.logical.Aggregate", (groups, (COLUMN,), TABLE, Node("scala.None$")))


def sets(kind: str, count: int) -> Node:
    listed: tuple[Part, ...] = tuple((number,) for number in range(count))
    return Node(f"{SPARK}.expressions.{kind}", (listed, (COLUMN,) * count))


def struct(*items: Node) -> Node:
    return Node(f"{SPARK}.expressions.CreateNamedStruct", (items,))


def width(tree: Node, of_table: int = 10) -> Width:
    return require_narrow("v.x", tree, False, lambda _: Width(of_table))


def test_stars_and_columns_are_counted() -> None:
    assert width(TABLE) == Width(10)
    assert width(project(TABLE, STAR, STAR, COLUMN)) == Width(21)
    assert width(project(TABLE, struct(STAR, COLUMN))) == Width(11, 11)
    assert width(project(project(TABLE, struct(STAR)), COLUMN, COLUMN)) == Width(20, 10)
    join = Node(f"{SPARK}.plans.logical.Join", (TABLE, TABLE))
    assert width(project(join, STAR)) == Width(20)
    union = Node(f"{SPARK}.plans.logical.Union", ((TABLE,) * 100, False))
    assert width(union) == Width(10)


@pytest.mark.parametrize("items", [(STAR, STAR), (struct(STAR, STAR),), (struct(COLUMN, COLUMN),)])
def test_levels_that_double_are_rejected(items: tuple[Node, ...]) -> None:
    tree = TABLE
    for _ in range(12):
        tree = project(tree, *items)
    assert width(tree).columns <= MAX_COLUMNS
    for _ in range(23):
        tree = project(tree, *items)
    with pytest.raises(InvalidInputError, match="more than 100,000 columns"):
        width(tree)


def test_parts_that_double_are_rejected() -> None:
    def named(number: int) -> Node:
        child = Node(RELATION, ((f"a{number - 1}",), (), False)) if number else TABLE
        return Node("scala.Tuple3", (f"a{number}", project(child, STAR, STAR), Node("scala.None$")))

    for count in (10, 35):
        last = Node(RELATION, ((f"a{count - 1}",), (), False))
        tree = Node(WITH, (last, tuple(named(number) for number in range(count)), False))
        if count == 10:
            assert width(tree) == Width(10 * 2**10)
        else:
            with pytest.raises(InvalidInputError, match="columns"):
                width(tree)


def test_ten_thousand_columns_at_many_levels_are_allowed() -> None:
    tree = TABLE
    for _ in range(100):
        tree = project(tree, STAR, COLUMN)
    assert width(tree, 10_000) == Width(10_100)


def test_grouping_sets_are_multiplied() -> None:
    assert MAX_GROUPING_SETS == 2**12
    width(grouped(COLUMN, sets("Cube", 12)))
    width(grouped(sets("Cube", 6), sets("Cube", 5), COLUMN))
    for groups in (
        [sets("Cube", 13)],
        [sets("Cube", 30_000)],
        [sets("Cube", 7), sets("Cube", 6)],
        [sets("Rollup", 5_000)],
        [sets("Rollup", 99), sets("GroupingSets", 99)],
    ):
        with pytest.raises(InvalidInputError, match="grouping sets"):
            width(grouped(*groups))


def test_cubes_that_the_parser_would_expand_are_not_parsed() -> None:
    terms = ", ".join(f"a{number}" for number in range(24))
    require_small_cubes("v.x", f"SELECT grouping(a) FROM a.b GROUP BY CUBE({terms})")  # see the tree
    require_small_cubes("v.x", "SELECT 1 FROM a.b GROUP BY GROUPING SETS (CUBE(a, b), ROLLUP(a, b), (a))")
    require_small_cubes("v.x", "SELECT 1 FROM a.b GROUP BY GROUPING SETS ((a), (b))")
    for sql in (
        f"SELECT 1 FROM a.b GROUP BY GROUPING SETS (CUBE({terms}))",
        f"SELECT 1 FROM a.b GROUP BY grouping/**/sets (cube/*(*/(`)`, (a), {terms}))",
        "SELECT 1 FROM a.b GROUP BY GROUPING SETS (" + ", ".join(["CUBE(a, b, c, d)"] * 999) + ")",
        "SELECT 1 FROM a.b GROUP BY GROUPING SETS (ROLLUP(" + ", ".join(["a"] * 20_000) + "))",
    ):
        with pytest.raises(InvalidInputError, match="grouping sets"):
            require_small_cubes("v.x", sql)
