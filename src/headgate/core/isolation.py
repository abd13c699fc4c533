"""How much of what others did meanwhile a transaction may overlook."""

from __future__ import annotations

from enum import Enum

from headgate.errors import InvalidInputError


class Isolation(Enum):
    """The value of the table property `isolation`, and of `Lake.transaction(isolation=…)`.

    From weak to strong. Reads and files of a transaction are always those of one version; the levels differ
    in what a commit must still find as it was.
    """

    SNAPSHOT = "snapshot"
    WRITE_SERIALIZABLE = "write-serializable"
    SERIALIZABLE = "serializable"


def isolation_named(given: object, what: str = "isolation") -> Isolation:
    """The isolation of this name; `InvalidInputError` lists those that there are."""
    known = {isolation.value: isolation for isolation in Isolation}
    if not isinstance(given, str) or given not in known:
        raise InvalidInputError(f"{what} is {given!r}", f"set it to {', '.join(known)}")
    return known[given]
