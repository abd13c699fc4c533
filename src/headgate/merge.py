"""MERGE, clause by clause: `table.merge(source, on=…).when_matched_update(…)….commit()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from headgate.core.merging import Action, Clause, Match, MergeSpec, assignments, require_sound

if TYPE_CHECKING:
    from pyspark.sql import Column

    Value = str | Column

T = TypeVar("T")


@dataclass(frozen=True)
class Merge(Generic[T]):
    """A merge that is being described. Every `when_…` gives a new one; nothing happens before `commit`.

    In all expressions, rows of the table are `t` and those of the source `s`. Of the clauses for a row, the
    first one whose condition holds is applied.
    """

    _spec: MergeSpec
    _run: Callable[[MergeSpec], T]

    def when_matched_update(
        self, values: Mapping[str, Value] | None = None, *, condition: Value | None = None
    ) -> Merge[T]:
        """Sets columns of rows that met one of the source; all of them from the source without `values`."""
        return self._with(Match.MATCHED, Action.UPDATE, condition, values)

    def when_matched_delete(self, *, condition: Value | None = None) -> Merge[T]:
        """Deletes rows that met one of the source."""
        return self._with(Match.MATCHED, Action.DELETE, condition)

    def when_not_matched_insert(
        self, values: Mapping[str, Value] | None = None, *, condition: Value | None = None
    ) -> Merge[T]:
        """Adds rows of the source that met none of the table; columns that are not given are null."""
        return self._with(Match.NOT_MATCHED, Action.INSERT, condition, values)

    def when_not_matched_by_source_update(
        self, values: Mapping[str, Value], *, condition: Value | None = None
    ) -> Merge[T]:
        """Sets columns of rows that met none of the source."""
        return self._with(Match.NOT_MATCHED_BY_SOURCE, Action.UPDATE, condition, values)

    def when_not_matched_by_source_delete(self, *, condition: Value | None = None) -> Merge[T]:
        """Deletes rows that met none of the source."""
        return self._with(Match.NOT_MATCHED_BY_SOURCE, Action.DELETE, condition)

    def commit(self) -> T:
        """Merges. In a transaction, this only notes it: the transaction commits."""
        require_sound(self._spec)
        return self._run(self._spec)

    def _with(
        self,
        match: Match,
        action: Action,
        condition: Value | None,
        values: Mapping[str, Value] | None = None,
    ) -> Merge[T]:
        clause = Clause(match, action, condition, None if values is None else assignments(values))
        return replace(self, _spec=replace(self._spec, clauses=(*self._spec.clauses, clause)))
