"""Where an SQL query names tables of the lake, and at which version.

This is not a parser: Spark parses. It only finds the positions in a query at which a relation stands (after
FROM, JOIN, and commas between relations), so that the names there can be replaced by the names of views.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from headgate.errors import InvalidInputError, UnsupportedError
from headgate.model.identifiers import number_in

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<number>\d+(?:\.\d+)?)
  | (?P<word>\w+)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS_RELATIONS = frozenset(
    {"WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW"}
    | {"QUALIFY", "UNION", "INTERSECT", "EXCEPT", "MINUS", "SELECT"}
)
_NO_ALIAS = _ENDS_RELATIONS | frozenset(
    {"ON", "USING", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "OUTER"}
    | {"LATERAL", "TABLESAMPLE", "PIVOT", "UNPIVOT"}
)
_NO_RELATION = _NO_ALIAS | frozenset({"VALUES", "TABLE", "WITH", "FROM", "UNNEST", "AS"})
"""Words that may stand where a relation is expected, and are not its name."""
_READS = frozenset(["SELECT", "WITH", "FROM", "VALUES", "TABLE"])
_INSTEAD = {
    "INSERT": "use Table.append or Table.overwrite",
    "DELETE": "use Table.delete",
    "UPDATE": "use Table.update",
    "MERGE": "use Table.merge",
    "CREATE": "use Lake.create_table",
    "DROP": "use Lake.drop_table",
    "ALTER": "use Table.add_column and its siblings, or Lake.rename_table",
}


@dataclass(frozen=True, slots=True)
class Travel:
    """`VERSION AS OF 41`, `VERSION AS OF 'tag'` or `TIMESTAMP AS OF '…'`.

    Exactly one of the three is given.
    """

    version: int | None = None
    tag: str | None = None
    timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class Mention:
    """A table that a query names, from `start` to `end`.

    `relation`: it is a source of rows; otherwise it qualifies a column. `named`: an alias follows.
    """

    table: str
    start: int
    end: int
    relation: bool
    travel: Travel | None = None
    named: bool = False


def rewritten(query: str, tables: Collection[str], view_of: Callable[[str, Travel | None], str]) -> str:
    """The query with each table of `tables` replaced by the view that `view_of` names."""
    parts, position = list[str](), 0
    for mention in find_mentions(query, tables):
        short = quoted(mention.table.rpartition(".")[2])
        parts.append(query[position : mention.start])
        if mention.relation:
            view = quoted(view_of(mention.table, mention.travel))
            parts.append(view if mention.named else f"{view} AS {short}")
        else:
            parts.append(short)
        position = mention.end
    return "".join((*parts, query[position:]))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def find_mentions(query: str, tables: Collection[str]) -> tuple[Mention, ...]:
    """Every mention of one of `tables` in `query`, from left to right.

    Raises `UnsupportedError` for statements that are not queries.
    """
    return _Scan(query, tables).run()


def find_relations(query: str) -> tuple[Mention, ...]:
    """Every relation that `query` names, whether it exists or not, from left to right.

    Leaves out those that the query defines itself (`WITH t AS (…)`), and functions. Otherwise like
    `find_mentions`.
    """
    scan = _Scan(query, None)
    found = scan.run()
    own = scan.named_queries()
    return tuple(mention for mention in found if mention.table not in own)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text

    @property
    def name(self) -> str | None:
        """What the token means as a part of a name."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        return self.text if self.kind in ("word", "number") else None


@dataclass(slots=True)
class _Frame:
    """The state inside one pair of parentheses."""

    expecting: bool = False
    in_relations: bool = False
    selects: bool = False


@dataclass(slots=True)
class _Scan:
    """Reads the tokens once. Without `tables`, it finds every relation."""

    query: str
    tables: Collection[str] | None
    tokens: list[_Token] = field(default_factory=list)
    position: int = 0

    def run(self) -> tuple[Mention, ...]:
        self.tokens = [
            _Token(match.lastgroup or "", match.group(), match.start(), match.end())
            for match in _TOKEN.finditer(self.query)
            if match.lastgroup != "space"
        ]
        self._require_query()
        frames, found = [_Frame(selects=True)], list[Mention]()
        while (token := self._peek()) is not None:
            path = self._path() or self._single(frames[-1])
            if path:
                found.extend(self._mention(path, frames[-1]))
                continue
            self.position += 1
            self._enter(token, frames)
        return tuple(found)

    def _require_query(self) -> None:
        first = next((token for token in self.tokens if token.text != "("), None)
        if first is None:
            raise InvalidInputError("the query is empty")
        if first.upper not in _READS:
            raise UnsupportedError(
                f"a query cannot begin with {first.text[:40]!r}", _INSTEAD.get(first.upper, "write SELECT …")
            )

    def _peek(self, ahead: int = 0) -> _Token | None:
        at = self.position + ahead
        return self.tokens[at] if 0 <= at < len(self.tokens) else None

    def _word(self, ahead: int = 0) -> str:
        token = self._peek(ahead)
        return "" if token is None or token.kind != "word" else token.upper

    def _path(self) -> list[_Token]:
        """The names of a dotted path that begins here; empty if none does."""
        first = self._peek()
        if first is None or first.kind not in ("word", "quoted"):
            return []
        path, ahead = [first], 1
        while (dot := self._peek(ahead)) is not None and dot.text == ".":
            part = self._peek(ahead + 1)
            if part is None or part.name is None:
                break
            path.append(part)
            ahead += 2
        return path if len(path) > 1 else []

    def _single(self, frame: _Frame) -> list[_Token]:
        """A name without dots that begins here, if every relation is wanted and one is expected."""
        token = self._peek()
        if self.tables is not None or not frame.expecting or token is None:
            return []
        following = self._peek(1)
        is_function = following is not None and following.text == "("
        is_name = token.kind == "quoted" or (token.kind == "word" and token.upper not in _NO_RELATION)
        return [token] if is_name and not is_function else []

    def _mention(self, path: Sequence[_Token], frame: _Frame) -> list[Mention]:
        self.position += 2 * len(path) - 1
        relation, frame.expecting = frame.expecting, False
        if self.tables is None:
            return [self._relation(path, len(path))] if relation else []
        table = ".".join(token.name or "" for token in path[:2])
        if table not in self.tables or (relation and len(path) != 2):
            return []
        if not relation:
            return [Mention(table, path[0].start, path[1].end, False)] if len(path) > 2 else []
        return [self._relation(path, 2)]

    def _relation(self, path: Sequence[_Token], parts: int) -> Mention:
        table = ".".join(token.name or "" for token in path[:parts])
        travel, end = self._travel(path[parts - 1].end)
        return Mention(table, path[0].start, end, True, travel, self._alias_follows())

    def named_queries(self) -> frozenset[str]:
        """The names of the query's own parts: every name before `AS (`, possibly with columns between."""
        names = set[str]()
        for at, token in enumerate(self.tokens[:-1]):
            if token.upper == "AS" and self.tokens[at + 1].text == "(":
                before = self._before_parentheses(at - 1)
                names.add("" if before < 0 else self.tokens[before].name or "")
        return frozenset(names)

    def _before_parentheses(self, at: int) -> int:
        """The position before a pair of parentheses that ends at `at`, or `at` itself if none does."""
        depth = 0
        while at >= 0 and (depth or self.tokens[at].text == ")"):
            depth += {")": 1, "(": -1}.get(self.tokens[at].text, 0)
            at -= 1
        return at

    def _travel(self, end: int) -> tuple[Travel | None, int]:
        skipped = 1 if self._word() == "FOR" else 0
        kind = self._word(skipped).removeprefix("SYSTEM_")
        if kind not in ("VERSION", "TIMESTAMP", "TIME"):
            return None, end
        if (self._word(skipped + 1), self._word(skipped + 2)) != ("AS", "OF"):
            return None, end
        self.position += skipped + 3
        if kind != "VERSION" and self._word() == "TIMESTAMP":
            self.position += 1
        literal = self._peek()
        self.position += 1
        match kind, literal:
            case "VERSION", _Token(kind="number", text=text) if (number := number_in(text)) is not None:
                return Travel(version=number), literal.end
            case "VERSION", _Token(kind="text", text=text):
                return Travel(tag=text[1:-1]), literal.end
            case "TIMESTAMP" | "TIME", _Token(kind="text", text=text):
                return Travel(timestamp=text[1:-1]), literal.end
        raise InvalidInputError(
            f"{kind} AS OF must be followed by a literal, not {self.query[end : end + 60].strip()!r}",
            "write VERSION AS OF 41, VERSION AS OF 'tag' or TIMESTAMP AS OF '2026-11-15T10:00:00Z'",
        )

    def _alias_follows(self) -> bool:
        token = self._peek()
        if token is None:
            return False
        if token.upper in ("AS", "TABLESAMPLE"):  # a sample comes before the alias, so none can be added
            return True
        return token.kind == "quoted" or (token.kind == "word" and token.upper not in _NO_ALIAS)

    def _enter(self, token: _Token, frames: list[_Frame]) -> None:
        """Follows the clauses, to know where a relation is expected."""
        frame, word = frames[-1], token.upper
        match word:
            case "(":
                frames.append(_Frame(expecting=frame.expecting, in_relations=frame.expecting))
                frame.expecting = False
            case ")":
                if len(frames) > 1:
                    frames.pop()
            case "SELECT":
                frame.selects, frame.in_relations, frame.expecting = True, False, False
            case "FROM":
                # Not the FROM of `extract(day FROM x)` or of `a IS DISTINCT FROM b`.
                if frame.selects and self._word(-2) != "DISTINCT":
                    frame.in_relations = frame.expecting = True
            case "TABLE":
                following = self._peek()
                frame.expecting = following is not None and following.text != "("
            case "JOIN":
                frame.in_relations = frame.expecting = True
            case ",":
                frame.expecting = frame.in_relations
            case _ if token.kind == "word" and word in _ENDS_RELATIONS:
                frame.in_relations = frame.expecting = False
            case _:
                frame.expecting = False
