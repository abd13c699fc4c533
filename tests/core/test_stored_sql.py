"""Which trees of stored SQL are harmless; tests/spark/test_stored_sql.py has those of real queries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.sql import allowed as sql_allowed
from headgate.core.sql.allowed import (
    FUNCTION,
    KINDS,
    LITERAL,
    NONE,
    RELATION,
    SOME,
    TIMESTAMP_TYPE,
    TRAVEL,
    WITH,
)
from headgate.core.sql.query import Travel, find_relations
from headgate.core.sql.stored import MAX_OPENED, Node, Part, harmless_relations, places, require_readable
from headgate.core.sql.view_rules import MAX_SQL
from headgate.errors import HeadgateError, InvalidInputError, NotFoundError

PROJECT = "org.apache.spark.sql.catalyst.plans.logical.Project"
SCRIPT = "org.apache.spark.sql.catalyst.plans.logical.ScriptTransformation"
NOTHING = Node(NONE)


def relation(*name: str, options: Part = (), streams: bool = False) -> Node:
    return Node(RELATION, (name, options, streams), number=7)


def part(name: str, query: Node) -> Node:
    return Node("scala.Tuple3", (name, query, NOTHING))


def with_(child: Node, *parts: Node, recursive: bool = False) -> Node:
    return Node(WITH, (child, parts, recursive))


def tables(tree: Node, *, case_sensitive: bool = False) -> list[str]:
    return [found.table for found in harmless_relations("v.x", tree, case_sensitive)]


def test_relations_are_found_wherever_they_stand() -> None:
    tree = Node(PROJECT, ((Node(LITERAL, (1,)), relation("a", "b")), Node(SOME, (relation("c", "d"),))))
    assert tables(tree) == ["a.b", "c.d"]


@pytest.mark.parametrize(
    "tree",
    [
        relation("t"),
        relation("a.b"),
        relation("a", "b", "c"),
        relation("text", "/etc/passwd"),
        relation("a", "b.c"),
        relation("a b", "c"),
        with_(relation("u"), part("t", relation("a", "b"))),
        with_(relation("a", "t.c"), part("t.c", relation("a", "b"))),
        with_(relation("t"), part("s", relation("t")), part("t", relation("a", "b"))),
        with_(relation("a", "b"), part("t", relation("t"))),
        Node(PROJECT, (with_(relation("t"), part("t", relation("a", "b"))), relation("t"))),
        Node(TRAVEL, (relation("t"), NOTHING, Node(SOME, ("3",)))),
    ],
)
def test_what_is_no_name_of_a_table_is_not_read(tree: Node) -> None:
    with pytest.raises(NotFoundError, match=r"the view v\.x reads"):
        tables(tree)


def test_names_of_the_query_itself_are_followed() -> None:
    assert tables(with_(relation("t"), part("t", relation("a", "b")))) == ["a.b"]
    assert tables(with_(relation("u"), part("t", relation("a", "b")), part("u", relation("t")))) == ["a.b"]
    assert tables(with_(relation("t"), part("T", relation("a", "b")))) == ["a.b"]
    with pytest.raises(NotFoundError):
        tables(with_(relation("t"), part("T", relation("a", "b"))), case_sensitive=True)
    assert tables(with_(relation("t"), part("t", relation("t")), recursive=True)) == []
    assert tables(with_(relation("ärger"), part("ÄRGER", relation("a", "b")))) == ["a.b"]
    with pytest.raises(NotFoundError):  # to Spark, it is a name of the session
        tables(with_(relation("i\u0307x"), part("\u0130x", relation("a", "b"))))


def travel(timestamp: Part, version: Part, source: str = "") -> Travel | None:
    (found,) = harmless_relations(
        "v.x", Node(TRAVEL, (relation("a", "b"), timestamp, version), source=source), False
    )
    return found.travel


def test_earlier_versions() -> None:
    assert travel(NOTHING, Node(SOME, ("41",)), "VERSION AS OF 41") == Travel(version=41)
    assert travel(NOTHING, Node(SOME, ("41",)), "VERSION AS OF '41'") == Travel(tag="41")
    assert travel(NOTHING, Node(SOME, ("eom",))) == Travel(tag="eom")
    text = Node(SOME, (Node(LITERAL, ("2026-11-15", Node("org.apache.spark.sql.types.StringType$"))),))
    assert travel(text, NOTHING) == Travel(timestamp="2026-11-15")
    micros = Node(SOME, (Node(LITERAL, (1_500_000, Node(TIMESTAMP_TYPE))),))
    assert travel(micros, NOTHING) == Travel(timestamp="1970-01-01T00:00:01.500000+00:00")
    for odd in (Node(SOME, (Node(LITERAL, (5, NOTHING)),)), Node(SOME, (Node(FUNCTION, (("now",), ())),))):
        with pytest.raises(InvalidInputError, match="AS OF"):
            travel(odd, NOTHING)


def test_an_earlier_version_that_no_lake_has() -> None:
    far = Node(SOME, (Node(LITERAL, (2**63 - 1, Node(TIMESTAMP_TYPE))),))
    with pytest.raises(InvalidInputError, match="years 1 to 9999"):
        travel(far, NOTHING)
    with pytest.raises(InvalidInputError, match="5,000 digits"):
        travel(NOTHING, Node(SOME, ("9" * 5000,)), "VERSION AS OF " + "9" * 5000)


@pytest.mark.parametrize("version", ["9" * 5000, "²"])
def test_nor_in_the_text_alone(version: str) -> None:
    with pytest.raises(InvalidInputError):
        find_relations(f"SELECT * FROM a.b VERSION AS OF {version}")


def text(value: str) -> Node:
    return Node(LITERAL, (value, Node("org.apache.spark.sql.types.StringType$")))


def call(name: str, *arguments: Part) -> Node:
    return Node(FUNCTION, ((name,), arguments))


@pytest.mark.parametrize(
    "schema",
    [
        text('{"type":"udt","class":"some.Class"}'),
        text(' \n{"type":"struct","fields":[]}'),
        call("concat", text("a"), text(" INT")),
        Node("org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression", ("schema", text("{"))),
        call("upper", text("a INT")),
    ],
)
def test_a_type_that_can_name_a_class_is_refused(schema: Node) -> None:
    for name, before in (("from_json", 1), ("FROM_CSV", 1), ("variant_get", 2), ("try_variant_get", 2)):
        with pytest.raises(InvalidInputError, match="not a DDL string"):
            tables(call(name, *[text("x")] * before, schema))
        assert tables(call(name, *[text("{}")] * before, text("a INT"))) == []
    assert tables(call("from_json", text("{}"), call("schema_of_json", text("{}")))) == []


def union(*nodes: Node) -> Node:
    return Node(PROJECT, (nodes,))


def test_parts_count_as_often_as_they_are_named() -> None:
    def size(tree: Node, each: int = 1) -> int:
        return places(tree, False, lambda _: each)

    table = relation("a", "b")
    assert size(union(table, table, relation("c", "d"))) == 3
    assert size(union(table, table), each=7) == 14
    assert size(with_(union(relation("T"), relation("t")), part("t", table))) == 1 + 2 * 2
    assert size(Node(TRAVEL, (table, NOTHING, Node(SOME, ("3",))))) == 1
    doubled = [part(f"t{n}", union(relation(f"t{n - 1}"), relation(f"t{n - 1}"))) for n in range(1, 40)]
    assert size(with_(relation("t39"), part("t0", table), *doubled)) > 2**39
    assert size(with_(relation("t"), part("t", union(relation("t"), table)), recursive=True)) == 5


@pytest.mark.parametrize("hidden", ["", "/*{}*/", "'{}'", "r'\\' '{}'", "`{}`", "-- {}\n", "{}"])
def test_a_text_with_too_many_open_brackets_is_not_parsed(hidden: str) -> None:
    for open_, close in ("()", "[]", "<>"):
        sql = "SELECT " + open_ * (MAX_OPENED + 1) + hidden.format(close * 9) + "1" + close * MAX_OPENED
        with pytest.raises(InvalidInputError, match="open brackets"):
            require_readable("v.x", sql)
    require_readable("v.x", "VALUES " + ", ".join(["(1)"] * (2 * MAX_OPENED)))
    require_readable("v.x", "SELECT " + ", ".join(["upper('a')"] * 3000))
    with pytest.raises(InvalidInputError, match="characters"):
        require_readable("v.x", "x" * (MAX_SQL + 1))


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        (Node(SCRIPT, ("sh",)), "ScriptTransformation"),
        (relation("a", "b", options=("path",)), "options"),
        (relation("a", "b", streams=True), "stream"),
        (Node(FUNCTION, (("reflect",), ())), "Java methods"),
        (Node(FUNCTION, (("system", "builtin", "upper"), ())), "not known"),
        (Node(FUNCTION, ((), ())), "not known"),
        (Node(FUNCTION, (NOTHING,)), "is computed"),
        (Node(sql_allowed.TABLE_FUNCTION, (("upper",), ())), "upper"),
        (Node(sql_allowed.GENERATOR, (Node(sql_allowed.FUNCTION_NAME, ("f", NOTHING, NOTHING)),)), "f:"),
        (
            Node(
                sql_allowed.GENERATOR,
                (Node(sql_allowed.FUNCTION_NAME, ("explode", Node(SOME, ("db",)), NOTHING)),),
            ),
            "db.explode",
        ),
        (Node(WITH, (relation("a", "b"), NOTHING)), "does not understand"),
        (Node(WITH, (relation("a", "b"), (NOTHING,))), "does not understand"),
        (Node(TRAVEL, (NOTHING, NOTHING, NOTHING)), "not a table"),
    ],
)
def test_what_is_not_known_is_refused(tree: Node, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        tables(tree)


HARMLESS = st.sampled_from(sorted(KINDS - {RELATION, TRAVEL, WITH, FUNCTION}))


@given(st.recursive(st.text(), lambda inner: st.tuples(HARMLESS, st.lists(inner, max_size=3))), st.data())
def test_one_unknown_node_is_enough_wherever_it_lies(shape: object, data: st.DataObject) -> None:
    """Around it any nodes that are harmless; the one that is not may be of a release that is yet to come."""
    unknown = Node("org.apache.spark.sql.catalyst.plans.logical." + data.draw(st.text(min_size=1)) + "!")

    def built(part: object) -> Part:
        if not isinstance(part, tuple):
            return unknown
        kind, inner = part
        return Node(kind, tuple(built(one) for one in inner) or (unknown,))

    with pytest.raises(HeadgateError):
        tables(Node(PROJECT, ((built(shape),),)))
