"""MERGE, clause by clause: `table.merge(source, on=…).when_matched_update(…)….commit()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from headgate.core.sql.merge_clauses import Action, Clause, Match, MergeSpec, assignments, require_sound

if TYPE_CHECKING:
    from pyspark.sql import Column

    Value = str | Column

T = TypeVar("T")


@dataclass(frozen=True)
class Merge(Generic[T]):
    """A merge under construction. Each `when_…` returns a new one, and nothing happens before `commit`.

    Expressions call a row of the table `t` and a row of the source `s`. For each row, the first clause whose
    condition is true is applied.
    """

    _spec: MergeSpec
    _run: Callable[[MergeSpec], T]

    def when_matched_update(
        self, values: Mapping[str, Value] | None = None, *, condition: Value | None = None
    ) -> Merge[T]:
        """Updates rows that match a source row. Without `values`, all columns come from the source."""
        return self._with(Match.MATCHED, Action.UPDATE, condition, values)

    def when_matched_delete(self, *, condition: Value | None = None) -> Merge[T]:
        """Deletes rows that match a source row."""
        return self._with(Match.MATCHED, Action.DELETE, condition)

    def when_not_matched_insert(
        self, values: Mapping[str, Value] | None = None, *, condition: Value | None = None
    ) -> Merge[T]:
        """Inserts source rows that match no row of the table. Columns missing from `values` are null."""
        return self._with(Match.NOT_MATCHED, Action.INSERT, condition, values)

    def when_not_matched_by_source_update(
        self, values: Mapping[str, Value], *, condition: Value | None = None
    ) -> Merge[T]:
        """Updates rows that match no source row."""
        return self._with(Match.NOT_MATCHED_BY_SOURCE, Action.UPDATE, condition, values)

    def when_not_matched_by_source_delete(self, *, condition: Value | None = None) -> Merge[T]:
        """Deletes rows that match no source row."""
        return self._with(Match.NOT_MATCHED_BY_SOURCE, Action.DELETE, condition)

    def commit(self) -> T:
        """Runs the merge. Inside a transaction, it takes effect when the transaction commits."""
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
