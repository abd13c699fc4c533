"""Reads predicates in a subset of SQL. Reports where a string cannot be read, and knows no table."""

from __future__ import annotations

from headgate.core.sql.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    Like,
    Membership,
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
from headgate.core.sql.tokens import SqlReader, unquoted
from headgate.errors import InvalidInputError, UnreadablePredicateError

_OPERATORS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_TRANSFORMS = {
    **{name.value: name for name in TransformName},
    "years": TransformName.YEAR,
    "months": TransformName.MONTH,
    "days": TransformName.DAY,
    "hours": TransformName.HOUR,
}
_WITH_WIDTH = (TransformName.BUCKET, TransformName.TRUNCATE)
MAX_WIDTH = 2**31 - 1


def parse_predicate(text: str) -> Predicate:
    """The predicate that `text` describes; `UnreadablePredicateError` shows where it cannot be read."""
    if not isinstance(text, str):
        raise InvalidInputError(f'a predicate must be a string such as "id = 7", not a {type(text).__name__}')
    return _Parser(text).whole()


class _Parser(SqlReader):
    def refusal(self, problem: str) -> UnreadablePredicateError:
        return UnreadablePredicateError(f"the predicate {problem}")

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
                self._fail("LIKE requires a column", token)
            if pattern.kind != "text":
                self._fail("expected a pattern in quotes", pattern)
            return Like(term, unquoted(pattern.text))
        return None

    def _membership(self, term: Term) -> Predicate:
        self._expect("(")
        literals = [self._literal()]
        while self._accept(","):
            literals.append(self._literal())
        self._expect(")")
        return Membership(term, tuple(literals))

    # --- terms ------------------------------------------------------------------------------------------

    def _term(self) -> Term:
        token, follows = self._peek(), self._follows()
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
            self._fail(f"the first argument of {transform.value} must be a positive integer", token)
        return int(token.text)

    def _operator(self) -> Operator | None:
        token = self._peek()
        if token.kind != "sign" or token.text not in _OPERATORS:
            return None
        return Operator(_OPERATORS[self._take().text])
