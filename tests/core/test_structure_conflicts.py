"""Rows 2, 3 and 29 of the matrix: structures that change under rows, and under each other."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.conflict.detection import find_conflicts
from headgate.core.conflict.footprint import Footprint, TableFootprint
from headgate.model.identifiers import TxId
from headgate.model.record import PropertyChange
from headgate.model.table import TableAction, TableCommit, TableRef
from tests.model.test_record import a_record

OURS = TxId("0" * 32)
ROWS: dict[str, Any] = {"written_fields": frozenset({1, 2, 7})}


def rules(ours: dict[str, Any], theirs: dict[str, Any], uuid: str = "u") -> list[int]:
    footprint = Footprint(OURS, PropertyChange(), tables=(TableFootprint("s.t", "u", **ours),))
    commit = TableCommit("s.t", TableAction.CHANGE, TableRef(uuid, "l", "m"), **theirs)
    return [conflict.rule for conflict in find_conflicts(footprint, [a_record(tables=(commit,))])]


def parts(*names: str) -> dict[str, Any]:
    return {"structure": frozenset(names)}


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (ROWS, parts("schema"), []),
        (ROWS, parts("partition-spec", "sort-order"), []),
        (ROWS, {**parts("schema"), "dropped_fields": frozenset({3})}, []),
        (ROWS, {**parts("schema"), "dropped_fields": frozenset({3, 7})}, [3]),
        ({**ROWS, **parts("schema")}, {**parts("schema"), "dropped_fields": frozenset({7})}, [3, 29]),
        (parts("schema"), parts("schema"), [29]),
        (parts("schema"), parts("partition-spec"), [29]),
        (parts("partition-spec"), parts("sort-order"), [29]),
        (parts("schema"), parts("from-the-future"), [29]),
        (parts("schema"), {"snapshot_id": 1, "operation": "append"}, []),
        (parts("schema"), {"snapshot_id": 1, "operation": "overwrite", "replaces_all": True}, []),
        (parts("schema"), {"property_names": frozenset({"a"})}, []),
    ],
)
def test_structures_against_rows_and_structures(
    ours: dict[str, Any], theirs: dict[str, Any], expected: list[int]
) -> None:
    assert rules(ours, theirs) == expected
    assert rules(ours, theirs, uuid="another table") == []
