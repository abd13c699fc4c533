"""MERGE as a value: which rows match, and what happens to them, clause by clause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from headgate.errors import InvalidInputError, shown

Expression: TypeAlias = object
"""SQL, or a column of Spark. Only the engine that evaluates it knows more."""

TABLE, SOURCE = "t", "s"
"""The names of the rows of the table and of the source in the expressions of a merge."""


class Match(Enum):
    """The rows that a clause is about. The value is the wording of the clause."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class Action(Enum):
    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True)
class Clause:
    """What happens to rows. `values` are the columns to set; None: all of them, from the source by name."""

    match: Match
    action: Action
    condition: Expression | None = None
    values: Mapping[str, Expression] | None = None

    def __str__(self) -> str:
        condition = "" if self.condition is None else f" and {self.condition}"
        return f"when {self.match.value}{condition} then {self.action.value}"


@dataclass(frozen=True, slots=True)
class MergeSpec:
    """`on` is the condition under which a row of the source (`s`) matches one of the table (`t`).

    For a pair of rows, or a row without a match, the first clause whose condition holds is applied; if there
    is none, the row stays as it is.
    """

    on: Expression
    clauses: tuple[Clause, ...] = ()

    def of(self, match: Match) -> tuple[Clause, ...]:
        """The clauses for such rows, in their order."""
        return tuple(clause for clause in self.clauses if clause.match is match)

    @property
    def depends_on_rows_it_leaves(self) -> bool:
        """Whether the merge inserts rows, or not, depending on rows of the table that it does not update.

        An update is rejected if another commit changed the row. A delete is not if the other one deleted the
        row too.
        """
        updates_all = any(
            clause.condition is None and clause.action is Action.UPDATE for clause in self.of(Match.MATCHED)
        )
        return bool(self.of(Match.NOT_MATCHED)) and not updates_all


def require_sound(spec: MergeSpec) -> None:
    """Rejects a merge that does nothing, or that has a clause that can never apply."""
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
                f"'{clauses[number + 1]}' never applies, because '{clause}' before it handles every such row",
                "give the earlier clause a condition, or leave the later one out",
            )


def upsert_spec(keys: Sequence[str]) -> MergeSpec:
    """The merge that an upsert by key is."""
    on = " AND ".join(f"{TABLE}.{_quoted(key)} = {SOURCE}.{_quoted(key)}" for key in keys)
    return MergeSpec(on, (Clause(Match.MATCHED, Action.UPDATE), Clause(Match.NOT_MATCHED, Action.INSERT)))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def assignments(values: object) -> Mapping[str, Expression]:
    """Expressions by column, as a caller gave them. Each is a string of SQL or a column of Spark."""
    if not isinstance(values, Mapping) or not values or not all(isinstance(name, str) for name in values):
        raise InvalidInputError(
            f"expected a mapping of columns to expressions, but got {shown(values)}",
            "write it as {'status': \"'paid'\"}",
        )
    for name, value in values.items():
        if not isinstance(value, str) and not type(value).__module__.startswith("pyspark.sql."):
            raise InvalidInputError(
                f"the value of {name} must be a string of SQL, not the {type(value).__name__} {shown(value)}",
                "write it as SQL, in which a string has quotes of its own: \"'paid'\"",
            )
    return dict(values)
