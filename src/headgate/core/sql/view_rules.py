"""What the SQL of a view may be, and what it reads, from its text and the names of the lake.

Checked here, without Spark: the text is one statement and begins as a query; its quotes, comments and
parentheses are closed; every relation that it names is in the lake; no view reads itself; and no string in it
looks like a credential. These checks help the author of a view and are no protection: before Spark runs a
stored query, `core/sql/stored.py` decides by its syntax tree whether it is harmless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from headgate.core.input.arguments import nearest, refuse_credential, require_unicode
from headgate.core.sql.query import Travel, find_relations
from headgate.errors import InvalidInputError, NotFoundError
from headgate.model.named_object import NamedObject, View

MAX_DEPTH = 32
"""How deep views may be nested."""
MAX_SQL = 64 * 1024
"""How long the SQL of a view may be, in characters. It is part of the log and of every checkpoint."""

_PIECE = re.compile(
    r"""
    (?P<space>--[^\n]*|/\*.*?\*/)
  | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<word>\w+)
  | (?P<open>['"`]|/\*)
  | (?P<sign>[();])
    """,
    re.VERBOSE | re.DOTALL,
)
_OF_THE_MOMENT = frozenset(
    {"NOW", "CURDATE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP"}
    | {"UNIX_TIMESTAMP", "CURRENT_TIMEZONE", "CURRENT_USER", "SESSION_USER", "USER", "VERSION"}
    | {"CURRENT_CATALOG", "CURRENT_DATABASE", "CURRENT_SCHEMA"}
)
"""Functions that give one value throughout a query, and another one in the next query.

Spark treats them as deterministic.
"""
_MOMENTS = frozenset({"now", "today", "yesterday", "tomorrow", "epoch"})


class NamedRelation(Protocol):
    """A relation that a query names, and at which version."""

    @property
    def table(self) -> str: ...

    @property
    def travel(self) -> Travel | None: ...


RelationsOf: TypeAlias = Callable[[str, str], Sequence[NamedRelation]]
"""Finds the relations in a query. The first argument is the name of the view or other owner of the query."""


def relations_in_text(owner: str, sql: str) -> Sequence[NamedRelation]:  # noqa: ARG001
    """Finds them in the text alone, where no Spark session runs."""
    return find_relations(sql)


@dataclass(frozen=True, slots=True)
class Sources:
    """What a query reads, directly and through views: the names of tables and mounts, and the views in
    between.

    `direct` are the relations that the query names itself. `elsewhen`: something is read as of a timestamp or
    a tag, which may move.
    """

    direct: tuple[NamedRelation, ...] = ()
    tables: frozenset[str] = frozenset()
    mounts: frozenset[str] = frozenset()
    views: Mapping[str, View] = field(default_factory=dict)
    elsewhen: bool = False


def checked_sql(sql: str) -> str:
    """The SQL of a view, as far as its text alone can be checked."""
    if not isinstance(sql, str):
        raise InvalidInputError(f"the SQL of a view must be a string, not a {type(sql).__name__}")
    require_unicode("the SQL of a view", sql)
    if len(sql) > MAX_SQL:
        raise InvalidInputError(f"the SQL of a view has {len(sql):,} characters; the limit is {MAX_SQL:,}")
    _require_closed(sql)
    find_relations(sql)
    for piece in _PIECE.finditer(sql):
        if piece.lastgroup in ("text", "quoted", "space"):
            refuse_credential("a string in the SQL", piece.group())
    return sql


def _require_closed(sql: str) -> None:
    depth, ended = 0, False
    for piece in _PIECE.finditer(sql):
        if piece.lastgroup == "space":
            continue
        if ended:
            raise InvalidInputError("a view must be one query, but something follows its ';'")
        if piece.lastgroup == "open":
            raise InvalidInputError(f"the {piece.group()} at {sql[piece.start() :][:40]!r} is not closed")
        depth += {"(": 1, ")": -1}.get(piece.group(), 0)
        ended = piece.group() == ";"
        if depth < 0:
            raise InvalidInputError(f"the ) at {sql[piece.start() :][:40]!r} closes nothing")
    if depth:
        raise InvalidInputError(f"{depth} opening parentheses are not closed")


def changes_with_time(sql: str) -> bool:
    """Whether the query asks for the time, the user or the like, which differ from one run to the next."""
    return any(
        piece.group().upper() in _OF_THE_MOMENT
        if piece.lastgroup == "word"
        else piece.lastgroup == "text" and piece.group()[1:-1].strip().lower() in _MOMENTS
        for piece in _PIECE.finditer(sql)
    )


def sources_of(
    owner: str,
    sql: str,
    tables: Collection[str],
    objects: Mapping[str, NamedObject],
    relations_of: RelationsOf = relations_in_text,
) -> Sources:
    """What the query of the view `owner` reads, where the lake has `tables` and `objects`.

    Raises `NotFoundError` for a name that the lake does not have, and `InvalidInputError` if views read each
    other in a circle, or are nested deeper than `MAX_DEPTH`.
    """
    return _Search(tables, objects, relations_of, {}).of(owner, sql, ())


@dataclass(frozen=True, slots=True)
class _Search:
    """Follows the views of a lake. Each is `known` after it was followed to its end."""

    tables: Collection[str]
    objects: Mapping[str, NamedObject]
    relations_of: RelationsOf
    known: dict[str, Sources]

    def of(self, owner: str, sql: str, trail: tuple[str, ...]) -> Sources:
        require_no_circle((*trail, owner))
        relations = tuple(self.relations_of(owner, sql))
        require_names(owner, relations, (*self.tables, *self.objects))
        found = Sources(relations, elsewhen=any(_is_elsewhen(relation) for relation in relations))
        for name in sorted({relation.table for relation in relations if relation.travel is None}):
            if name not in self.known:
                self.known[name] = self._of_name(name, (*trail, owner))
            found = _joined(found, self.known[name])
        return found

    def _of_name(self, name: str, trail: tuple[str, ...]) -> Sources:
        if name in self.tables:
            return Sources(tables=frozenset({name}))
        definition = self.objects[name].definition
        if not isinstance(definition, View):
            return Sources(mounts=frozenset({name}))
        return _joined(Sources(views={name: definition}), self.of(name, definition.sql, trail))


def _is_elsewhen(relation: NamedRelation) -> bool:
    return relation.travel is not None and relation.travel.version is None


def _joined(one: Sources, other: Sources) -> Sources:
    return Sources(
        one.direct,
        one.tables | other.tables,
        one.mounts | other.mounts,
        {**one.views, **other.views},
        one.elsewhen or other.elsewhen,
    )


def require_names(owner: str, relations: Iterable[NamedRelation], names: Collection[str]) -> None:
    """Rejects relations that are not in the lake. Those at another version are checked when they are read."""
    for relation in relations:
        if relation.table not in names and (relation.travel is None or relation.table.count(".") != 1):
            raise NotFoundError(
                f"the view {owner} reads {relation.table}, which does not exist in the lake",
                nearest(relation.table, names)
                or "a view reads tables, views and mounts of its own lake only",
            )


def require_no_circle(trail: tuple[str, ...]) -> None:
    """Rejects a chain of views, each read by the one before, that comes back or does not end."""
    if trail[-1] in trail[:-1]:
        circle = trail[trail.index(trail[-1]) :]
        raise InvalidInputError(
            f"these views read each other: {' → '.join(circle)}", "replace one of them, or drop it"
        )
    if len(trail) > MAX_DEPTH:
        raise InvalidInputError(
            f"views are nested more than {MAX_DEPTH} deep: {' → '.join((*trail[:3], '…', trail[-1]))}",
            "let some of them read tables instead of views",
        )
