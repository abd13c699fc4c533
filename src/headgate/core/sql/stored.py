"""Whether SQL that a lake stores is harmless, and what it reads: decided from the syntax tree.

The SQL of a view may come from somebody else. It may be a query over relations of its lake, made of nodes and
functions that `core/sql/allowed.py` lists; everything else is rejected. Spark's parser provides the tree (see
`spark/sql/parser.py`), and Spark then runs the same tree, so a query cannot be read in two ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from headgate.core.sql.allowed import (
    FUNCTION,
    FUNCTION_NAME,
    FUNCTIONS,
    GENERATOR,
    KINDS,
    LITERAL,
    REFUSED_FUNCTIONS,
    RELATION,
    SCHEMA_ARGUMENT,
    SCHEMA_FUNCTIONS,
    SOME,
    TABLE_FUNCTION,
    TABLE_FUNCTIONS,
    TIMESTAMP_TYPE,
    TRAVEL,
    WITH,
)
from headgate.core.sql.query import Travel
from headgate.core.sql.view_rules import MAX_SQL
from headgate.errors import InvalidInputError, NotFoundError
from headgate.model.identifiers import number_in
from headgate.model.table import is_table_name

MAX_DEPTH = 400
"""How deep the nodes of a stored query may be nested."""
MAX_NODES = 200_000
"""How many nodes and values a stored query may have.

64 KB of SQL have some 130,000 at most. But the parser repeats parts: `CASE x WHEN …` has `x` once for each of
its branches, so forty of them, each inside the other, are a million million nodes.
"""
MAX_PLACES = 1_000
"""How many relations and parts a stored query may have, with views and parts expanded where they are named.

Spark does expand them: twenty views that each name the one below twice are a million.
"""
MAX_OPENED = 4_000
"""How many brackets of any kind may be open at once: the memory of Spark's parser grows with their square."""

Part: TypeAlias = "Node | tuple[Part, ...] | str | int | float | bytes | bool | None"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree, or a value in it: the name of its class, and all its parts.

    `number` is unique in the tree. `source` is the string that it was parsed from, where that matters.
    """

    kind: str
    parts: tuple[Part, ...] = ()
    number: int = 0
    source: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, view or mount that a query names. `number` is that of the node that its rows replace."""

    table: str
    number: int
    travel: Travel | None = None


def require_readable(owner: str, sql: str) -> None:
    """Rejects a string for which Spark's parser would need too much time or memory. It is not parsed yet."""
    if len(sql) > MAX_SQL:
        raise InvalidInputError(f"the query of {owner} has {len(sql):,} characters; the limit is {MAX_SQL:,}")
    # Only the parser knows where strings and comments end; this check errs on the safe side.
    opened = sum(map(sql.count, "([<"))
    if opened > MAX_OPENED and (set(sql) & _HIDING or _depth(sql) > MAX_OPENED):
        raise InvalidInputError(
            f"the query of {owner} has {opened:,} open brackets; the limit is {MAX_OPENED:,}",
            "split it, or remove its quotes and comments: without them, only the nesting is limited",
        )


_HIDING = frozenset("\\\"'`/-$")
"""With these characters, a closing bracket can be hidden in a string or a comment."""


def _depth(sql: str) -> int:
    deepest = depth = 0
    for sign in sql:
        depth += (sign in "([<") - (sign in ")]>" and depth > 0)
        deepest = max(deepest, depth)
    return deepest


def places(tree: Node, case_sensitive: bool, size_of: Callable[[Relation], int]) -> int:
    """How many relations and parts the query has, with its own parts expanded where they are named.

    `size_of` returns the size of a relation that is not its own. The tree is known to be harmless.
    """
    return _Sizes(Walk("", case_sensitive), size_of).of(tree, {})


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Counts; `scope` has the sizes of the parts that can be named at a node."""

    walk: Walk
    size_of: Callable[[Relation], int]

    def of(self, part: Part, scope: Mapping[str, int]) -> int:
        match part:
            case Node(kind=kind) if kind == RELATION:
                return self._relation(part, scope)
            case Node(kind=kind) if kind == TRAVEL:
                return sum(map(self.size_of, self.walk.node(part, frozenset())))
            case Node(kind=kind, parts=(child, tuple(definitions), *_)) if kind == WITH:
                return self._with(child, definitions, scope)
            case Node(parts=parts) | tuple(parts):
                return sum(self.of(inner, scope) for inner in parts)
        return 0

    def _relation(self, node: Node, scope: Mapping[str, int]) -> int:
        found = tuple(self.walk.node(node, frozenset(scope)))
        if found:
            return sum(map(self.size_of, found))
        match node.parts:
            case ((str(name),), *_):
                return scope[self.walk.folded(name)]
        raise AssertionError(node)

    def _with(self, child: Part, definitions: tuple[Part, ...], scope: Mapping[str, int]) -> int:
        inner, total = dict(scope), 0
        for definition in definitions:
            match definition:
                case Node(parts=(str(name), Node() as query, *_)):
                    # Spark bounds recursion: inside itself, a part counts once.
                    own = {**inner, self.walk.folded(name): 1}
                    size = self.of(query, own)
                    inner[self.walk.folded(name)] = 1 + size
                    total += size
        return total + self.of(child, inner)


def harmless_relations(owner: str, tree: Node, case_sensitive: bool) -> tuple[Relation, ...]:
    """The relations that the query of `owner` names, from left to right; their names may not exist.

    Raises `InvalidInputError` or `NotFoundError` for a tree that contains anything that is not known to be
    harmless. Names of its own (`WITH t AS …`) are resolved as Spark does, and are not relations.
    """
    return tuple(Walk(owner, case_sensitive).node(tree, frozenset()))


@dataclass(frozen=True, slots=True)
class Walk:
    """Reads a tree once. `scope` are the names that the query itself has defined at a node."""

    owner: str
    case_sensitive: bool

    def parts(self, parts: Sequence[Part], scope: frozenset[str]) -> Iterator[Relation]:
        for part in parts:
            if isinstance(part, Node):
                yield from self.node(part, scope)
            elif isinstance(part, tuple):
                yield from self.parts(part, scope)

    def node(self, node: Node, scope: frozenset[str]) -> Iterator[Relation]:
        if node.kind not in KINDS:
            raise self._refusal(f"contains {_short(node.kind)}, which is not known to be harmless")
        match node:
            case Node(kind=kind) if kind == RELATION:
                yield from self._relation(node, scope)
            case Node(kind=kind) if kind == TRAVEL:
                yield self._earlier(node)
            case Node(kind=kind, parts=(child, definitions, *rest)) if kind == WITH:
                yield from self._with(child, definitions, rest, scope)
            case _:
                self._check_function(node)
                yield from self.parts(node.parts, scope)

    def _relation(self, node: Node, scope: frozenset[str]) -> Iterator[Relation]:
        name = self._name(node)
        if len(name) != 1 or self.folded(name[0]) not in scope:
            yield Relation(self._table(name), node.number)

    def _table(self, name: Sequence[str]) -> str:
        """The name of a table; a directory or a table of another catalog is rejected."""
        table = ".".join(name)
        if len(name) != 2 or not is_table_name(table):
            raise NotFoundError(
                f"the view {self.owner} reads {table}, which is not a valid name of a table, view or mount",
                "write names as namespace.table; a view reads its own lake only",
            )
        return table

    def _name(self, node: Node) -> tuple[str, ...]:
        match node.parts:
            case (tuple(name), (), False):
                return tuple(str(part) for part in name)
        raise self._refusal("has options after a relation, or reads it as a stream")

    def _earlier(self, node: Node) -> Relation:
        match node.parts:
            case (Node(kind=kind) as relation, timestamp, version) if kind == RELATION:
                table = self._table(self._name(relation))
                return Relation(table, node.number, self._travel(node, timestamp, version))
        raise self._refusal("asks for an earlier version of something that is not a table")

    def _travel(self, node: Node, timestamp: Part, version: Part) -> Travel:
        match timestamp, version:
            case _, Node(kind=kind, parts=(str(text),)) if kind == SOME:
                if node.source.rstrip().endswith(("'", '"')) or not text.isdecimal():
                    return Travel(tag=text)
                return Travel(version=self._version(text))
            case Node(kind=kind, parts=(Node(kind=inner, parts=(value, type_)),)), _ if (
                kind == SOME and inner == LITERAL
            ):
                return Travel(timestamp=self._timestamp(value, type_))
        raise self._refusal("has an AS OF that is not followed by a literal")

    def _version(self, text: str) -> int:
        number = number_in(text)
        if number is None:
            raise self._refusal(f"asks for a version with {len(text):,} digits")
        return number

    def _timestamp(self, value: Part, type_: Part) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, int) and isinstance(type_, Node) and type_.kind == TIMESTAMP_TYPE:
            try:
                return (_EPOCH + timedelta(microseconds=value)).isoformat()
            except OverflowError:
                raise self._refusal("has a TIMESTAMP AS OF outside of the years 1 to 9999") from None
        raise self._refusal("has a TIMESTAMP AS OF that is not followed by a timestamp")

    def _with(
        self, child: Part, definitions: Part, rest: Sequence[Part], scope: frozenset[str]
    ) -> Iterator[Relation]:
        recursive = True in rest
        if not isinstance(definitions, tuple):
            raise self._refusal("has a WITH clause that Headgate does not understand")
        for definition in definitions:
            match definition:
                case Node(kind="scala.Tuple2" | "scala.Tuple3", parts=(str(name), Node() as query, *_)):
                    own = scope | {self.folded(name)}
                    yield from self.node(query, own if recursive else scope)
                    scope = own
                case _:
                    raise self._refusal("has a WITH clause that Headgate does not understand")
        yield from self.parts((child,), scope)

    def _check_function(self, node: Node) -> None:
        match node:
            case Node(kind=kind, parts=(tuple(name), *rest)) if kind == FUNCTION:
                self._require(name, FUNCTIONS)
                self._check_schema(str(name[-1]).lower(), rest[0] if rest else ())
            case Node(kind=kind, parts=(tuple(name), *_)) if kind == TABLE_FUNCTION:
                self._require(name, TABLE_FUNCTIONS)
            case Node(kind=kind, parts=(Node(kind=inner, parts=(name, *qualifier)), *_)) if (
                kind == GENERATOR and inner == FUNCTION_NAME
            ):
                given = [part.parts for part in qualifier if isinstance(part, Node) and part.parts]
                self._require((*(part for parts in given for part in parts), name), TABLE_FUNCTIONS)
            case Node(kind=kind) if kind in (FUNCTION, TABLE_FUNCTION, GENERATOR):
                raise self._refusal("calls a function whose name is computed")

    def _check_schema(self, function: str, arguments: Part) -> None:
        """A schema must be a DDL string: as JSON it could name a class that Spark instantiates."""
        at = SCHEMA_ARGUMENT.get(function)
        if at is None or not isinstance(arguments, tuple):
            return
        match arguments[at : at + 1]:
            case (Node(kind=kind, parts=(str(text), *_)),) if kind == LITERAL and "{" not in text:
                return
            case (Node(kind=kind, parts=((str(name),), *_)),) if (
                kind == FUNCTION and name.lower() in SCHEMA_FUNCTIONS
            ):
                return
        raise self._refusal(
            f"calls {function} with a type that is not a DDL string such as 'a INT, b ARRAY<STRING>'"
        )

    def _require(self, name: Sequence[Part], known: frozenset[str]) -> None:
        text = ".".join(str(part) for part in name)
        if len(name) == 1 and text.lower() in known:
            return
        why = REFUSED_FUNCTIONS.get(str(name[-1]).lower() if name else "", "it is not known to be harmless")
        raise self._refusal(f"calls the function {text}: {why}")

    def folded(self, name: str) -> str:
        """A name as Spark compares it: character by character.

        One whose lower case is longer stays as it is.
        """
        if self.case_sensitive:
            return name
        return "".join(small if len(small := sign.lower()) == 1 else sign for sign in name)

    def _refusal(self, problem: str) -> InvalidInputError:
        return InvalidInputError(
            f"the query of {self.owner} {problem}",
            "a stored query selects from tables, views and mounts of its lake, with Spark's own functions; "
            "see docs/views.md",
        )


def _short(kind: str) -> str:
    return kind.rpartition(".")[2].rstrip("$")
