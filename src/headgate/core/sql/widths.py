"""How much a stored query can become while Spark analyzes it: a bound from its syntax tree.

A short query can have billions of columns: `SELECT *, *` from `SELECT *, *`, and so on, doubles them at each
level, and so do structs of structs. `CUBE` has two to the power of its columns grouping sets. Spark computes
all of them in the driver, and cannot be interrupted. The tree is known to be harmless otherwise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headgate.core.sql.allowed import FUNCTION, RELATION, TRAVEL, WITH
from headgate.core.sql.stored import Node, Part, Relation, Walk
from headgate.errors import InvalidInputError

MAX_COLUMNS = 100_000
"""How many columns a stored query may have at any level, counting the fields of structs that it builds."""
MAX_GROUPING_SETS = 4_096
"""How many grouping sets a level of a stored query may have: those of `CUBE` with twelve columns."""

_SPARK = "org.apache.spark.sql.catalyst"
_PLANS, _ANALYSIS, _EXPRESSIONS = f"{_SPARK}.plans.logical.", f"{_SPARK}.analysis.", f"{_SPARK}.expressions."
_STARS = frozenset(f"{_ANALYSIS}UnresolvedStar{kind}" for kind in ("", "Except", "ExceptOrReplace"))
_ATTRIBUTE = f"{_ANALYSIS}UnresolvedAttribute"
_CONSTANTS = frozenset({f"{_EXPRESSIONS}Literal", f"{_ANALYSIS}NamePlaceholder$"})
_STRUCT, _LAMBDA = f"{_EXPRESSIONS}CreateNamedStruct", f"{_EXPRESSIONS}LambdaFunction"
_BUILDERS = frozenset(["struct", "named_struct", "map", "map_from_arrays", "arrays_zip", "array"])
"""Functions whose results contain each of their arguments."""
_PROJECT, _AGGREGATE, _PIVOT = f"{_PLANS}Project", f"{_PLANS}Aggregate", f"{_PLANS}Pivot"
_SUBQUERIES = frozenset(
    f"{_EXPRESSIONS}{name}" for name in ("ScalarSubquery", "Exists", "ListQuery", "LateralSubquery")
)
_LATERAL = f"{_EXPRESSIONS}LateralSubquery"
_SETS_OF_ROWS = frozenset(f"{_PLANS}{name}" for name in ("Union", "Except", "Intersect"))
_SETS = {f"{_EXPRESSIONS}{name}": name for name in ("Cube", "Rollup", "GroupingSets")}
_CUBE = re.compile(r"\b(?:cube|rollup)\b", re.IGNORECASE)
_WORD_SETS = re.compile(r"\bsets\b", re.IGNORECASE)
_LEAVES = frozenset(
    {RELATION, TRAVEL, WITH}
    | {
        f"{_ANALYSIS}Unresolved{name}"
        for name in (
            "Having",
            "InlineTable",
            "Qualify",
            "SubqueryColumnAliases",
            "TVFAliases",
            "TableValuedFunction",
        )
    }
)
"""The plans that have their classes among those of the analysis."""


@dataclass(frozen=True, slots=True)
class Width:
    """Of rows: the number of columns with the fields of built structs, and those of the largest column."""

    columns: int
    largest: int = 1


def require_small_cubes(owner: str, sql: str) -> None:
    """Rejects a string that Spark's parser would expand too far: it does so for `CUBE` in `GROUPING SETS`."""
    starts = [*_CUBE.finditer(sql)]
    if not starts or not _WORD_SETS.search(sql):
        return
    # Only the parser knows where the list of columns ends: this check errs on the safe side.
    ends = [found.start() for found in starts[1:]] + [len(sql)]
    terms = [sql.count(",", found.end(), end) + 1 for found, end in zip(starts, ends, strict=True)]
    kinds = [found.group().lower() for found in starts]
    _require_sets(owner, sum(map(_sets_of, kinds, terms)))


def require_narrow(
    owner: str, tree: Node, case_sensitive: bool, width_of: Callable[[Relation], Width]
) -> Width:
    """The width of the result. Raises before Spark analyzes a query that is too wide at any level."""
    return _Widths(owner, Walk(owner, case_sensitive), width_of).plan(tree, {})


def _sets_of(kind: str, terms: int) -> int:
    return 1 << min(terms, 64) if kind == "cube" else terms + 1


def _require_sets(owner: str, count: int) -> None:
    if count > MAX_GROUPING_SETS:
        raise InvalidInputError(
            f"the query of {owner} has more than {MAX_GROUPING_SETS:,} grouping sets",
            "use CUBE and ROLLUP with fewer columns, and not inside of GROUPING SETS",
        )


@dataclass(frozen=True, slots=True)
class _Widths:
    """Computes from the leaves to the root; `scope` has the widths of the parts that can be named."""

    owner: str
    walk: Walk
    width_of: Callable[[Relation], Width]

    def plan(self, node: Node, scope: Mapping[str, Width]) -> Width:
        match node:
            case Node(kind=kind) if kind == RELATION:
                found = self._relation(node, scope)
            case Node(kind=kind) if kind == TRAVEL:
                (relation,) = self.walk.node(node, frozenset())
                found = self.width_of(relation)
            case Node(kind=kind, parts=(Node() as child, tuple(definitions), *_)) if kind == WITH:
                found = self._with(child, definitions, scope)
            case _:
                found = self._operator(node, scope)
        if found.columns > MAX_COLUMNS:
            raise InvalidInputError(
                f"the query of {self.owner} has more than {MAX_COLUMNS:,} columns, counting the fields of "
                "structs that it builds",
                "select the columns that you need by their names",
            )
        return found

    def _relation(self, node: Node, scope: Mapping[str, Width]) -> Width:
        found = tuple(self.walk.node(node, frozenset(scope)))
        if found:
            return self.width_of(found[0])
        match node.parts:
            case ((str(name),), *_):
                return scope[self.walk.folded(name)]
        raise AssertionError(node)

    def _with(self, child: Node, definitions: tuple[Part, ...], scope: Mapping[str, Width]) -> Width:
        inner = dict(scope)
        for definition in definitions:
            match definition:
                case Node(parts=(str(name), Node() as query, *_)):
                    # Inside itself, a recursive part has as many columns as its first query.
                    own = {**inner, self.walk.folded(name): Width(1)}
                    inner[self.walk.folded(name)] = self.plan(query, own)
        return self.plan(child, inner)

    def _operator(self, node: Node, scope: Mapping[str, Width]) -> Width:
        inputs = [self.plan(child, scope) for child in _plans(node.parts)]
        together = max if node.kind in _SETS_OF_ROWS else sum
        given = Width(
            together([0, *(one.columns for one in inputs)]), max([1, *(one.largest for one in inputs)])
        )
        match node:
            case Node(kind=kind, parts=(tuple(items), *_)) if kind == _PROJECT:
                return self._selected(items, given, scope)
            case Node(kind=kind, parts=(tuple(groups), tuple(items), *_)) if kind == _AGGREGATE:
                _require_sets(self.owner, math.prod(map(_grouping_sets, groups)))
                self._selected(groups, given, scope)
                return self._selected(items, given, scope)
            case Node(kind=kind, parts=(_, _, tuple(values), tuple(aggregates), *_)) if kind == _PIVOT:
                return Width(given.columns + len(values) * len(aggregates), given.largest)
        # What such an operator adds, for example generated columns, it names or has as arguments.
        added = self._selected([*_expressions(node.parts)], given, scope)
        return Width(given.columns + added.columns, max(given.largest, added.largest))

    def _selected(self, items: Sequence[Part], given: Width, scope: Mapping[str, Width]) -> Width:
        columns, largest = 0, 1
        for item in items:
            if isinstance(item, Node) and item.kind in _STARS:
                columns, largest = columns + given.columns, max(largest, given.largest)
            else:
                size = self._size(item, given, scope)
                columns, largest = columns + size, max(largest, size)
        return Width(columns, largest)

    def _size(self, part: Part, given: Width, scope: Mapping[str, Width]) -> int:
        """How many values the result of an expression has at most."""
        if not isinstance(part, Node):
            return self._most(part, given, scope) if isinstance(part, tuple) else 1
        if part.kind in _STARS:
            return max(1, given.columns)
        if part.kind == _ATTRIBUTE:
            return given.largest
        if part.kind in _SUBQUERIES:
            queries = [self.plan(child, scope) for child in _plans(part.parts)]
            # In the place of a table, a query adds all its columns.
            sizes = [one.columns if part.kind == _LATERAL else one.largest for one in queries]
            return max(sizes, default=1)
        arguments = [inner for inner in _flat(part.parts) if inner.kind not in _CONSTANTS]
        sizes = [self._size(inner, given, scope) for inner in arguments]
        if part.kind == _STRUCT or _function(part) in _BUILDERS:
            return max(1, sum(sizes))
        if any(inner.kind == _LAMBDA for inner in arguments):
            # A variable of the lambda is one value here, and what it stands for is counted with the others.
            return math.prod(sizes)
        return max(sizes, default=1)

    def _most(self, parts: tuple[Part, ...], given: Width, scope: Mapping[str, Width]) -> int:
        return max((self._size(part, given, scope) for part in parts), default=1)


def _function(node: Node) -> str:
    match node:
        case Node(kind=kind, parts=(tuple(name), *_)) if kind == FUNCTION:
            return str(name[-1]).lower()
    return ""


def _grouping_sets(group: Part) -> int:
    match group:
        case Node(kind=kind, parts=(tuple(sets), *_)) if kind in _SETS:
            return _sets_of(_SETS[kind].lower(), len(sets))
    return 1


def _is_plan(node: Node) -> bool:
    return node.kind in _LEAVES or node.kind.startswith(_PLANS)


def _flat(parts: Sequence[Part]) -> Iterator[Node]:
    for part in parts:
        if isinstance(part, Node):
            yield part
        elif isinstance(part, tuple):
            yield from _flat(part)


def _plans(parts: Sequence[Part]) -> Iterator[Node]:
    return (node for node in _flat(parts) if _is_plan(node))


def _expressions(parts: Sequence[Part]) -> Iterator[Node]:
    return (node for node in _flat(parts) if not _is_plan(node))
