"""The tokens of our subset of SQL, and what predicates and expressions share: columns and literals.

Reports where a string cannot be read. The reader decides which error that is: see `SqlReader.refusal`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import NoReturn

from headgate.core.sql.predicate import Column, Literal, Moment
from headgate.errors import HeadgateError

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<binary>[xX]'[^']*')
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<text>'(?:[^']|'')*')
    | (?P<comment>--|/\*)
    | (?P<sign><=|>=|<>|!=|==|\|\||[=<>(),.+*/%-])
    )""",
    re.VERBOSE,
)
_RESERVED = frozenset(["and", "or", "not", "in", "is", "null", "like", "between", "true", "false"])
MAX_DEPTH = 50


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is a group of the pattern, or `end`. A comment is recognised, and expected nowhere."""

    kind: str
    text: str
    position: int

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "word" else ""


class SqlReader(ABC):
    """Recursive descent over the tokens of a string, nearly always with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = 0
        self._depth = 0
        self._tokens = list(self._split())

    @abstractmethod
    def refusal(self, problem: str) -> HeadgateError:
        """The error to raise for a string that cannot be read."""

    # --- columns and literals -----------------------------------------------------------------------------

    def _column(self) -> Column:
        parts = [self._name()]
        while self._accept("."):
            parts.append(self._name())
        return Column(tuple(parts))

    def _name(self) -> str:
        token = self._take()
        if token.kind == "quoted":
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word" or token.word in _RESERVED:
            self._fail("expected the name of a column", token)
        return token.text

    def _starts_literal(self) -> bool:
        token = self._peek()
        if token.kind in ("number", "text", "binary") or token.text in ("+", "-"):
            return True
        if token.word in ("true", "false", "null"):
            return True
        kinds = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz")
        return token.word in kinds and self._follows().kind == "text"

    def _literal(self) -> Literal:
        if not self._starts_literal():
            self._fail("expected a literal")
        first = self._take()
        if first.kind == "text":
            return Literal(unquoted(first.text), first.text)
        if first.kind == "binary":
            return Literal(self._bytes(first), first.text)
        if first.kind == "number" or first.kind == "sign":
            return self._number(first)
        match first.word:
            case "true" | "false":
                return Literal(first.word == "true", first.text)
            case "null":
                return Literal(None, first.text)
        quoted = self._take()
        text = unquoted(quoted.text).strip()
        shown = f"{first.text} {quoted.text}"
        return Literal(self._date(text, quoted) if first.word == "date" else Moment(text), shown)

    def _number(self, first: Token) -> Literal:
        token = first if first.kind == "number" else self._take()
        if token.kind != "number":
            self._fail("expected a number", token)
        number = Decimal(token.text)
        negative = first.text == "-"
        return Literal(
            number.copy_negate() if negative else number, f"-{token.text}" if negative else token.text
        )

    def _date(self, text: str, token: Token) -> date:
        try:
            if len(text) == len("2026-11-15"):  # Python reads other formats too
                return date.fromisoformat(text)
        except ValueError:
            pass
        raise self._failure("a date is written as '2026-11-15'", token)

    def _bytes(self, token: Token) -> bytes:
        try:
            return bytes.fromhex(token.text[2:-1])
        except ValueError:
            self._fail("expected pairs of hexadecimal digits", token)

    # --- tokens -------------------------------------------------------------------------------------------

    def _enter(self, token: Token) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"nesting is deeper than {MAX_DEPTH}", token)

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _accept(self, sign: str) -> bool:
        found = self._peek().kind == "sign" and self._peek().text == sign
        if found:
            self._take()
        return found

    def _accept_word(self, word: str) -> bool:
        found = self._peek().word == word
        if found:
            self._take()
        return found

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            self._fail(f"expected {sign!r}")

    def _follows(self) -> Token:
        """The token after the next one."""
        return self._tokens[min(self._next + 1, len(self._tokens) - 1)]

    def _split(self) -> Iterator[Token]:
        position, end = 0, len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None:
                start = position + len(self._text[position:]) - len(self._text[position:].lstrip())
                self._fail("unexpected character", Token("", "", start))
            kind = match.lastgroup
            assert kind is not None
            yield Token(kind, match.group(kind), match.start(kind))
            position = match.end()
        yield Token("end", "", len(self._text))

    def _fail(self, problem: str, token: Token | None = None) -> NoReturn:
        raise self._failure(problem, token)

    def _failure(self, problem: str, token: Token | None = None) -> HeadgateError:
        at = (token or self._peek()).position
        return self.refusal(f"cannot be read: {problem}: {self._text[:at]}»{self._text[at:]}")


def unquoted(text: str) -> str:
    """The string in a literal."""
    return text[1:-1].replace("''", "'")
