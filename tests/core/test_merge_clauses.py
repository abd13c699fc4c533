"""Merges as values: what they depend on."""

from __future__ import annotations

import pytest

from headgate.core.sql.merge_clauses import Action, Clause, Match, MergeSpec

INSERT = Clause(Match.NOT_MATCHED, Action.INSERT)
UPDATE = Clause(Match.MATCHED, Action.UPDATE)
SOME = Clause(Match.MATCHED, Action.UPDATE, condition="t.n > s.n")
DELETE = Clause(Match.MATCHED, Action.DELETE)
GONE = Clause(Match.NOT_MATCHED_BY_SOURCE, Action.DELETE)


@pytest.mark.parametrize(
    ("clauses", "depends"),
    [
        ([INSERT], True),
        ([SOME, INSERT], True),
        ([DELETE, INSERT], True),
        ([UPDATE, INSERT], False),
        ([SOME, UPDATE, INSERT], False),
        ([SOME], False),
        ([DELETE], False),
        ([UPDATE, GONE], False),
    ],
)
def test_what_is_inserted_may_depend_on_rows_that_are_not_updated(
    clauses: list[Clause], depends: bool
) -> None:
    assert MergeSpec("t.id = s.id", tuple(clauses)).depends_on_rows_it_leaves is depends
