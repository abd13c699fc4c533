"""What the SQL of a view may be, and what it reads: told from its text and the names of the lake.

What is checked here without Spark: it begins as a query and is one statement, its quotes, comments and
parentheses are closed, every relation that it names is in the lake, no view reads itself, and no text in it
looks like a credential. Columns, functions and the rest of the grammar are Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from headgate.core.arguments import refuse_credential, require_unicode
from headgate.core.lookup import nearest
from headgate.core.query import Mention, find_relations
from headgate.errors import InvalidInputError, NotFoundError
from headgate.model.named_object import NamedObject, View

MAX_DEPTH = 32
"""How many views may lie on each other."""
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
"""Functions that give one value throughout a query, and another one in the next. Spark takes them for
deterministic."""
_MOMENTS = frozenset({"now", "today", "yesterday", "tomorrow", "epoch"})


@dataclass(frozen=True, slots=True)
class Sources:
    """What a query reads, through views and all: names of tables and mounts, and the views on the way.

    `direct` are the relations that the query names itself. `elsewhen`: something is read as it was at a
    moment or a tag, which may move.
    """

    direct: tuple[Mention, ...] = ()
    tables: frozenset[str] = frozenset()
    mounts: frozenset[str] = frozenset()
    views: Mapping[str, View] = field(default_factory=dict)
    elsewhen: bool = False


def checked_sql(sql: str) -> str:
    """The SQL of a view, as far as its text alone can be judged."""
    if not isinstance(sql, str):
        raise InvalidInputError(f"the SQL of a view is a text, not a {type(sql).__name__}")
    require_unicode("the SQL of a view", sql)
    if len(sql) > MAX_SQL:
        raise InvalidInputError(f"the SQL of a view is at most {MAX_SQL:,} characters long")
    _require_closed(sql)
    find_relations(sql)
    for piece in _PIECE.finditer(sql):
        if piece.lastgroup in ("text", "quoted", "space"):
            refuse_credential("a text in the SQL", piece.group())
    return sql


def _require_closed(sql: str) -> None:
    depth, ended = 0, False
    for piece in _PIECE.finditer(sql):
        if piece.lastgroup == "space":
            continue
        if ended:
            raise InvalidInputError("a view is one query, and something follows after its ';'")
        if piece.lastgroup == "open":
            raise InvalidInputError(f"the {piece.group()} at {sql[piece.start() :][:40]!r} is not closed")
        depth += {"(": 1, ")": -1}.get(piece.group(), 0)
        ended = piece.group() == ";"
        if depth < 0:
            raise InvalidInputError(f"the ) at {sql[piece.start() :][:40]!r} closes nothing")
    if depth:
        raise InvalidInputError(f"{depth} of the ( are not closed")


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
    trail: tuple[str, ...] = (),
) -> Sources:
    """What the query of the view `owner` reads, where the lake has `tables` and `objects`.

    `NotFoundError` for a name that the lake has not; `InvalidInputError` if views go round in a circle, or
    lie on each other more than `MAX_DEPTH` deep.
    """
    return _Search(tables, objects, {}).of(owner, sql, trail)


@dataclass(frozen=True, slots=True)
class _Search:
    """Follows the views of a lake; each is `known` once it was followed to its end."""

    tables: Collection[str]
    objects: Mapping[str, NamedObject]
    known: dict[str, Sources]

    def of(self, owner: str, sql: str, trail: tuple[str, ...]) -> Sources:
        require_no_circle((*trail, owner))
        relations = find_relations(sql)
        require_names(owner, relations, (*self.tables, *self.objects))
        found = Sources(relations, elsewhen=any(_is_elsewhen(mention) for mention in relations))
        for name in sorted({mention.table for mention in relations if mention.travel is None}):
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


def _is_elsewhen(mention: Mention) -> bool:
    return mention.travel is not None and mention.travel.version is None


def _joined(one: Sources, other: Sources) -> Sources:
    return Sources(
        one.direct,
        one.tables | other.tables,
        one.mounts | other.mounts,
        {**one.views, **other.views},
        one.elsewhen or other.elsewhen,
    )


def require_names(owner: str, relations: Iterable[Mention], names: Collection[str]) -> None:
    """Refuses relations that are not in the lake. At another version they may be: that is seen when read."""
    for mention in relations:
        if mention.table not in names and (mention.travel is None or mention.table.count(".") != 1):
            raise NotFoundError(
                f"the view {owner} reads {mention.table}, which the lake has not",
                nearest(mention.table, names) or "a view reads tables, views and mounts of its own lake only",
            )


def require_no_circle(trail: tuple[str, ...]) -> None:
    """Refuses a path of views, each read by the one before, that comes back or does not end."""
    if trail[-1] in trail[:-1]:
        circle = trail[trail.index(trail[-1]) :]
        raise InvalidInputError(
            f"views read each other in a circle: {' → '.join(circle)}", "replace one of them, or drop it"
        )
    if len(trail) > MAX_DEPTH:
        raise InvalidInputError(
            f"more than {MAX_DEPTH} views lie on each other: {' → '.join((*trail[:3], '…', trail[-1]))}",
            "let the upper ones read tables",
        )
