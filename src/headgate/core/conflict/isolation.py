"""Isolation levels: which changes by other transactions a commit may ignore."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from headgate.errors import InvalidInputError, shown

ISOLATION = "isolation"
"""The table property."""


class Isolation(Enum):
    """The value of the table property `isolation`, and of `Lake.transaction(isolation=…)`.

    From weak to strong. A transaction always reads one version, and its files belong to that version. The
    levels differ in what must be unchanged when it commits.
    """

    SNAPSHOT = "snapshot"
    WRITE_SERIALIZABLE = "write-serializable"
    SERIALIZABLE = "serializable"


def isolation_named(given: object, what: str = "isolation") -> Isolation:
    """The isolation with this name; `InvalidInputError` lists the valid ones."""
    known = {isolation.value: isolation for isolation in Isolation}
    if not isinstance(given, str) or given not in known:
        raise InvalidInputError(f"{what} cannot be {shown(given)}", f"set it to {', '.join(known)}")
    return known[given]


def isolation_of(table: Mapping[str, str]) -> Isolation:
    """The isolation that a table asks for in its properties."""
    given = table.get(ISOLATION, Isolation.WRITE_SERIALIZABLE.value)
    return isolation_named(given, f"the table property {ISOLATION}")
