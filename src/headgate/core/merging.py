"""MERGE as a value: which rows meet, and what becomes of them, clause by clause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from headgate.errors import InvalidInputError

Expression: TypeAlias = object
"""SQL, or a column of Spark. Only the engine that evaluates it knows more."""

TABLE, SOURCE = "t", "s"
"""What the rows of the table and of the source are called in the expressions of a merge."""


class Match(Enum):
    """Which rows a clause is about. The value is how people say it."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class Action(Enum):
    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class Clause:
    """What becomes of rows. `values` are the columns that are set; None: all, from the source by name."""

    match: Match
    action: Action
    condition: Expression | None = None
    values: Mapping[str, Expression] | None = None

    def __str__(self) -> str:
        condition = "" if self.condition is None else f" and {self.condition}"
        return f"when {self.match.value}{condition} then {self.action.value}"


@dataclass(frozen=True, slots=True)
class MergeSpec:
    """`on` says which row of the source (`s`) meets which of the table (`t`).

    Of the clauses for a pair or a row, the first one whose condition holds is applied; if there is none, the
    row stays as it is.
    """

    on: Expression
    clauses: tuple[Clause, ...] = ()

    def of(self, match: Match) -> tuple[Clause, ...]:
        """The clauses for such rows, in their order."""
        return tuple(clause for clause in self.clauses if clause.match is match)

    @property
    def depends_on_rows_it_leaves(self) -> bool:
        """Whether rows are inserted, or not, because of rows of the table that it does not update.

        Who updates a row is refused if others have changed it; who deletes one is not if they did so, too.
        """
        updates_all = any(
            clause.condition is None and clause.action is Action.UPDATE for clause in self.of(Match.MATCHED)
        )
        return bool(self.of(Match.NOT_MATCHED)) and not updates_all


def require_sound(spec: MergeSpec) -> None:
    """Refuses a merge that does nothing, or that has a clause which can never be reached."""
    if not spec.clauses:
        raise InvalidInputError(
            "the merge has no clause, so it would do nothing",
            "add one, such as when_matched_update() or when_not_matched_insert()",
        )
    for match in Match:
        _require_reachable(spec.of(match))


def _require_reachable(clauses: Sequence[Clause]) -> None:
    for number, clause in enumerate(clauses[:-1]):
        if clause.condition is None:
            raise InvalidInputError(
                f"'{clauses[number + 1]}' is never reached: '{clause}' before it takes every such row",
                "give the earlier clause a condition, or leave the later one out",
            )


def upsert_spec(keys: Sequence[str]) -> MergeSpec:
    """The merge that an upsert by key is."""
    on = " AND ".join(f"{TABLE}.{_quoted(key)} = {SOURCE}.{_quoted(key)}" for key in keys)
    return MergeSpec(on, (Clause(Match.MATCHED, Action.UPDATE), Clause(Match.NOT_MATCHED, Action.INSERT)))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def assignments(values: object) -> Mapping[str, Expression]:
    """Expressions by column, as a caller gave them. Only a column of Spark's is one that is no text."""
    if not isinstance(values, Mapping) or not values or not all(isinstance(name, str) for name in values):
        raise InvalidInputError(
            f"expressions by column are needed, but got {values!r}", "such as {'status': \"'paid'\"}"
        )
    for name, value in values.items():
        if not isinstance(value, str) and not type(value).__module__.startswith("pyspark.sql."):
            raise InvalidInputError(
                f"the value of {name} is to be SQL, but is the {type(value).__name__} {value!r}",
                "write it as SQL, in which a text has quotes of its own: \"'paid'\"",
            )
    return dict(values)
