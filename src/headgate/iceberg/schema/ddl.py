"""Schemas written as DDL: `id BIGINT NOT NULL, tags ARRAY<STRING>, place STRUCT<x: DOUBLE, y: DOUBLE>`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from headgate.core.input.arguments import repeated
from headgate.errors import InvalidInputError

PRIMITIVES: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "bool": BooleanType(),
    "tinyint": IntegerType(),
    "smallint": IntegerType(),
    "int": IntegerType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "long": LongType(),
    "float": FloatType(),
    "real": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ltz": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
    "string": StringType(),
    "varchar": StringType(),
    "char": StringType(),
    "binary": BinaryType(),
    "time": TimeType(),
    "uuid": UUIDType(),
}
"""Spark's names of the types. As in Spark, a plain timestamp has a time zone. Iceberg's own names are
`uuid` and `fixed(n)`."""

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<word>[^\W\d]\w*)|(?P<number>\d+)|(?P<sign>[<>(),:])|(?P<text>'(?:[^']|'')*'))"
)
MAX_DEPTH = 50


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    position: int


def parse_columns(text: str) -> StructType:
    """The columns that `text` declares. Field ids are numbered from 1, in order of appearance."""
    parser = _Parser(text)
    fields = parser.fields(("",), separator=None)
    return StructType(*fields)


def parse_type(text: str) -> IcebergType:
    """The type that `text` names, such as `BIGINT` or `ARRAY<STRING>`."""
    parser = _Parser(text)
    return parser.type_alone()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0
        self._ids = 0
        self._depth = 0

    def fields(self, ends: tuple[str, ...], separator: str | None) -> list[NestedField]:
        fields: list[NestedField] = []
        while True:
            fields.append(self._field(separator))
            if not self._accept(","):
                break
        if self._peek().text not in ends:
            self._fail("expected ',' or the end of the columns")
        doubled = repeated(field.name.lower() for field in fields)
        if doubled:
            raise InvalidInputError(f"duplicate columns: {', '.join(doubled)}")
        return fields

    def type_alone(self) -> IcebergType:
        found = self._type()
        if self._peek().kind != "end":
            self._fail("expected the end of the type")
        return found

    def _field(self, separator: str | None) -> NestedField:
        name = self._name()
        if separator is not None:
            self._accept(separator)
        field_id = self._new_id()
        field_type = self._type()
        required = self._accept_words("not", "null")
        doc = self._comment()
        return NestedField(field_id, name, field_type, required=required, doc=doc)

    def _type(self) -> IcebergType:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(f"types are nested more than {MAX_DEPTH} levels deep")
        try:
            return self._inner_type()
        finally:
            self._depth -= 1

    def _inner_type(self) -> IcebergType:
        token = self._take()
        match token.text.lower() if token.kind == "word" else "":
            case "array":
                self._expect("<")
                element_id = self._new_id()
                element = self._type()
                self._expect(">")
                return ListType(element_id, element, element_required=False)
            case "map":
                self._expect("<")
                key_id, value_id = self._new_id(), self._new_id()
                key = self._type()
                self._expect(",")
                value = self._type()
                self._expect(">")
                return MapType(key_id, key, value_id, value, value_required=False)
            case "struct":
                self._expect("<")
                fields = self.fields((">",), separator=":")
                self._expect(">")
                return StructType(*fields)
            case "decimal" | "dec" | "numeric":
                return self._decimal()
            case "fixed":
                return self._fixed()
            case name if name in PRIMITIVES:
                if name in ("varchar", "char") and self._accept("("):
                    self._take()
                    self._expect(")")
                return PRIMITIVES[name]
        raise self._failure(f"{token.text!r} is not a type", token)

    def _decimal(self) -> IcebergType:
        precision, scale = 10, 0
        if self._accept("("):
            precision = self._number()
            if self._accept(","):
                scale = self._number()
            self._expect(")")
        if not 1 <= precision <= 38 or scale > precision:
            self._fail(f"decimal({precision}, {scale}) is out of range")
        return DecimalType(precision, scale)

    def _fixed(self) -> IcebergType:
        self._expect("(")
        length = self._number()
        self._expect(")")
        if length < 1:
            self._fail("a fixed type needs at least one byte")
        return FixedType(length)

    def _comment(self) -> str | None:
        if not self._accept_words("comment"):
            return None
        token = self._take()
        if token.kind != "text":
            self._fail("a comment must be a string in quotes", token)
        return token.text[1:-1].replace("''", "'")

    def _new_id(self) -> int:
        self._ids += 1
        return self._ids

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _name(self) -> str:
        token = self._take()
        if token.kind == "quoted":
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word":
            self._fail("expected a column name", token)
        return token.text

    def _number(self) -> int:
        token = self._take()
        if token.kind != "number":
            self._fail("expected a number", token)
        return int(token.text)

    def _accept(self, sign: str) -> bool:
        if self._peek().text == sign and self._peek().kind == "sign":
            self._take()
            return True
        return False

    def _accept_words(self, *words: str) -> bool:
        following = self._tokens[self._next : self._next + len(words)]
        if [token.text.lower() for token in following] != list(words):
            return False
        for _ in words:
            self._take()
        return True

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            self._fail(f"expected {sign!r}")

    def _fail(self, problem: str, token: Token | None = None) -> NoReturn:
        raise self._failure(problem, token)

    def _failure(self, problem: str, token: Token | None = None) -> InvalidInputError:
        at = token or self._peek()
        shown = f"{self._text[: at.position]}»{self._text[at.position :]}"
        return InvalidInputError(
            f"the schema cannot be read: {problem}: {shown}",
            "write it as 'id BIGINT NOT NULL, ts TIMESTAMP'; docs/tables.md lists all types",
        )


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidInputError(
                f"the schema cannot be read: {text[position:].strip()[:20]!r} is unexpected"
            )
        kind = match.lastgroup
        assert kind is not None
        yield Token(kind, match.group(kind), match.start(kind))
        position = match.end()
    yield Token("end", "", len(text))
