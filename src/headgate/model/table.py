"""Tables as the log knows them: a name, an identity, and where the current metadata lies."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headgate.errors import InvalidInputError

_PART = re.compile(r"[^\W_][\w\-]{0,99}|_[\w\-]{1,99}")
"""Letters of any script, digits, underscores and hyphens: safe in a path, a URL and an SQL name."""


@dataclass(frozen=True, order=True, slots=True)
class TableName:
    """A namespace and a name in it, as in `sales.orders`."""

    namespace: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """The name that a caller gave; `InvalidInputError` says what is wrong with it."""
        if not isinstance(text, str):
            raise InvalidInputError(f"a table name is a text such as 'sales.orders', not {text!r}")
        parts = text.split(".")
        if len(parts) != 2:
            raise InvalidInputError(
                f"{text!r} is not a table name", "write it as namespace.table, for example 'sales.orders'"
            )
        for part in parts:
            if not _PART.fullmatch(part):
                raise InvalidInputError(
                    f"{text!r} is not a table name: {part!r} is not allowed",
                    "use letters, digits, '_' and '-', at most 100 of them",
                )
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.table}"


@dataclass(frozen=True, slots=True)
class TableRef:
    """What the state of the lake holds of a table.

    `location` and `metadata` are keys inside the lake: the directory of the table, and its current metadata
    file. `version` is the one that wrote the metadata.
    """

    uuid: str
    location: str
    metadata: str
    version: int
