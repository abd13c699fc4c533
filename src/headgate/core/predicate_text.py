"""Reading predicates from a subset of SQL. Says where a text cannot be read, and knows no table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import NoReturn

from headgate.core.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    Like,
    Literal,
    Membership,
    Moment,
    Not,
    NullTest,
    Operator,
    Or,
    Predicate,
    Term,
    Transformed,
    TransformName,
    Truth,
)
from headgate.errors import InvalidInputError, UnreadablePredicateError

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<binary>[xX]'[^']*')
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<text>'(?:[^']|'')*')
    | (?P<sign><=|>=|<>|!=|==|[=<>(),.+-])
    )""",
    re.VERBOSE,
)
_OPERATORS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TRANSFORMS = {
    **{name.value: name for name in TransformName},
    "years": TransformName.YEAR,
    "months": TransformName.MONTH,
    "days": TransformName.DAY,
    "hours": TransformName.HOUR,
}
_WITH_WIDTH = (TransformName.BUCKET, TransformName.TRUNCATE)
_RESERVED = frozenset(["and", "or", "not", "in", "is", "null", "like", "between", "true", "false"])
MAX_DEPTH = 50
MAX_WIDTH = 2**31 - 1


def parse_predicate(text: str) -> Predicate:
    """The predicate that `text` is; `UnreadablePredicateError` shows where it cannot be read."""
    if not isinstance(text, str):
        raise InvalidInputError(f'a predicate is a text such as "id = 7", not a {type(text).__name__}')
    return _Parser(text).whole()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "word" else ""


class _Parser:
    """Recursive descent; one token ahead is enough, save for `NOT IN` and the like."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._next = 0
        self._depth = 0

    def whole(self) -> Predicate:
        predicate = self._either()
        if self._peek().kind != "end":
            self._fail("expected AND, OR or the end")
        return predicate

    # --- conditions -------------------------------------------------------------------------------------

    def _either(self) -> Predicate:
        parts = [self._both()]
        while self._accept_word("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _both(self) -> Predicate:
        parts = [self._negation()]
        while self._accept_word("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _negation(self) -> Predicate:
        if self._peek().word != "not":
            return self._condition()
        with_not = self._take()
        self._enter(with_not)
        inner = Not(self._negation())
        self._depth -= 1
        return inner

    def _condition(self) -> Predicate:
        token = self._peek()
        if self._accept("("):
            self._enter(token)
            inner = self._either()
            self._expect(")")
            self._depth -= 1
            return inner
        if self._starts_literal():
            return self._literal_first()
        return self._after_term(self._term())

    def _literal_first(self) -> Predicate:
        literal = self._literal()
        operator = self._operator()
        if operator is not None:
            return Comparison(self._term(), operator.flipped(), literal)
        if isinstance(literal.value, bool) or literal.value is None:
            return Constant(literal.value)
        raise self._failure("expected a comparison")

    def _after_term(self, term: Term) -> Predicate:
        operator = self._operator()
        if operator is not None:
            return Comparison(term, operator, self._literal())
        if self._accept_word("is"):
            negated = self._accept_word("not")
            if not self._accept_word("null"):
                self._fail("expected NULL")
            return Not(NullTest(term)) if negated else NullTest(term)
        negated = self._peek().word == "not" and self._accept_word("not")
        found = self._set_or_range(term)
        if found is not None:
            return Not(found) if negated else found
        if negated or not isinstance(term, Column):
            self._fail("expected a comparison, IN, BETWEEN, LIKE or IS NULL")
        return Truth(term)

    def _set_or_range(self, term: Term) -> Predicate | None:
        token = self._peek()
        if self._accept_word("in"):
            return self._membership(term)
        if self._accept_word("between"):
            low = self._literal()
            if not self._accept_word("and"):
                self._fail("expected AND")
            high = self._literal()
            return And(
                (
                    Comparison(term, Operator.GREATER_OR_EQUAL, low),
                    Comparison(term, Operator.LESS_OR_EQUAL, high),
                )
            )
        if self._accept_word("like"):
            pattern = self._take()
            if not isinstance(term, Column):
                self._fail("LIKE goes with a column", token)
            if pattern.kind != "text":
                self._fail("expected a pattern in quotes", pattern)
            return Like(term, _unquoted(pattern.text))
        return None

    def _membership(self, term: Term) -> Predicate:
        self._expect("(")
        literals = [self._literal()]
        while self._accept(","):
            literals.append(self._literal())
        self._expect(")")
        return Membership(term, tuple(literals))

    # --- terms and literals -----------------------------------------------------------------------------

    def _term(self) -> Term:
        token = self._peek()
        follows = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        if token.kind == "word" and follows.text == "(" and follows.kind == "sign":
            return self._transformed()
        return self._column()

    def _transformed(self) -> Transformed:
        token = self._take()
        transform = _TRANSFORMS.get(token.word)
        if transform is None:
            self._fail(f"{token.text!r} is not a transform; known: {', '.join(sorted(_TRANSFORMS))}", token)
        self._expect("(")
        width = None
        if transform in _WITH_WIDTH:
            width = self._width(transform)
            self._expect(",")
        column = self._column()
        self._expect(")")
        return Transformed(transform, column, width)

    def _width(self, transform: TransformName) -> int:
        token = self._take()
        if token.kind != "number" or not token.text.isdigit() or not 1 <= int(token.text) <= MAX_WIDTH:
            self._fail(f"{transform.value} needs a whole number above 0 first", token)
        return int(token.text)

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
        follows = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        return (
            token.word in ("date", "timestamp", "timestamp_ntz", "timestamp_ltz") and follows.kind == "text"
        )

    def _literal(self) -> Literal:
        if not self._starts_literal():
            self._fail("expected a literal")
        first = self._take()
        if first.kind == "text":
            return Literal(_unquoted(first.text), first.text)
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
        text = _unquoted(quoted.text).strip()
        shown = f"{first.text} {quoted.text}"
        return Literal(self._date(text, quoted) if first.word == "date" else Moment(text), shown)

    def _number(self, first: _Token) -> Literal:
        token = first if first.kind == "number" else self._take()
        if token.kind != "number":
            self._fail("expected a number", token)
        number = Decimal(token.text)
        negative = first.text == "-"
        return Literal(
            number.copy_negate() if negative else number, f"-{token.text}" if negative else token.text
        )

    def _date(self, text: str, token: _Token) -> date:
        try:
            if len(text) == len("2026-11-15"):  # Python reads other forms too
                return date.fromisoformat(text)
        except ValueError:
            pass
        raise self._failure("a date is written as '2026-11-15'", token)

    def _bytes(self, token: _Token) -> bytes:
        try:
            return bytes.fromhex(token.text[2:-1])
        except ValueError:
            self._fail("expected pairs of hexadecimal digits", token)

    # --- tokens -----------------------------------------------------------------------------------------

    def _operator(self) -> Operator | None:
        token = self._peek()
        if token.kind != "sign" or token.text not in _OPERATORS:
            return None
        return Operator(_OPERATORS[self._take().text])

    def _enter(self, token: _Token) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"nested deeper than {MAX_DEPTH}", token)

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
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

    def _split(self) -> Iterator[_Token]:
        position, end = 0, len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None:
                start = position + len(self._text[position:]) - len(self._text[position:].lstrip())
                self._fail("this is not expected", _Token("", "", start))
            kind = match.lastgroup
            assert kind is not None
            yield _Token(kind, match.group(kind), match.start(kind))
            position = match.end()
        yield _Token("end", "", len(self._text))

    def _fail(self, problem: str, token: _Token | None = None) -> NoReturn:
        raise self._failure(problem, token)

    def _failure(self, problem: str, token: _Token | None = None) -> UnreadablePredicateError:
        at = (token or self._peek()).position
        shown = f"{self._text[:at]}»{self._text[at:]}"
        return UnreadablePredicateError(f"the predicate cannot be read: {problem}: {shown}")


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")
