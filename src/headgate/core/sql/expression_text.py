"""Reads expressions in a subset of SQL. Reports where a string cannot be read, and knows no table."""

from __future__ import annotations

from headgate.core.sql.expression import Calculated, Calculation, Expression, Negated
from headgate.core.sql.predicate import Literal
from headgate.core.sql.tokens import SqlReader
from headgate.errors import InvalidInputError, UnsupportedError, shown

START_SPARK = "start a Spark session (headgate.session()), which evaluates any SQL"
MAX_CALCULATIONS = 200
"""The most calculations in one expression."""

_SUMS = frozenset(["+", "-", "||"])
_PRODUCTS = frozenset(["*", "/", "%"])


def parse_expression(text: str) -> Expression:
    """The expression that `text` describes.

    `UnsupportedError` shows where it cannot be read, and what can read it.
    """
    if not isinstance(text, str):
        raise InvalidInputError(
            f"an expression must be a string of SQL, not {shown(text)}",
            "put a string in quotes inside the SQL: \"'paid'\"",
        )
    return _Parser(text).whole()


class _Parser(SqlReader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._calculations = 0

    def refusal(self, problem: str) -> UnsupportedError:
        return UnsupportedError(f"the expression {problem}", f"correct it, or {START_SPARK}")

    def whole(self) -> Expression:
        expression = self._sum()
        if self._peek().kind != "end":
            self._fail("expected + - * / % || or the end")
        return expression

    def _sum(self) -> Expression:
        left = self._product()
        while self._next_is(_SUMS):
            left = Calculated(self._calculation(), left, self._product())
        return left

    def _product(self) -> Expression:
        left = self._signed()
        while self._next_is(_PRODUCTS):
            left = Calculated(self._calculation(), left, self._signed())
        return left

    def _signed(self) -> Expression:
        token = self._peek()
        if not self._next_is(frozenset(["+", "-"])) or self._follows().kind == "number":
            return self._atom()
        self._take()
        self._enter(token)
        inner = self._signed()
        self._depth -= 1
        return inner if token.text == "+" else Negated(inner)

    def _atom(self) -> Expression:
        token = self._peek()
        if self._accept("("):
            self._enter(token)
            inner = self._sum()
            self._expect(")")
            self._depth -= 1
            return inner
        if self._starts_literal():
            return self._plain_literal()
        return self._column()

    def _plain_literal(self) -> Literal:
        token = self._peek()
        if "\\" in token.text:
            # Spark reads it as an escape; one expression must not have two meanings.
            self._fail("a backslash in a string is not supported", token)
        return self._literal()

    def _calculation(self) -> Calculation:
        token = self._take()
        self._calculations += 1
        if self._calculations > MAX_CALCULATIONS:
            self._fail(f"there are more than {MAX_CALCULATIONS} calculations", token)
        return Calculation(token.text)

    def _next_is(self, signs: frozenset[str]) -> bool:
        token = self._peek()
        return token.kind == "sign" and token.text in signs
