"""Every row of the conflict matrix, on footprints and records as values.

Each example has what A does, what B did, and what the evidence would tell; the verdicts are those of the
design, written here a second time.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from headgate.core.conflict.detection import (
    Conflict,
    Incompatible,
    Rebasable,
    Retryable,
    find_conflicts,
    next_step,
    resolve,
)
from headgate.core.conflict.evidence import EVERY_ROW, NO_EVIDENCE, ChangedRows, Evidence, Selection
from headgate.core.conflict.footprint import Footprint, ObjectFootprint, Read, TableFootprint
from headgate.core.conflict.isolation import Isolation
from headgate.core.conflict.matrix import MATRIX, Elsewhere, OnHistory, OnRecord, OnTable, Verdict
from headgate.core.conflict.overlooked import is_overlooked
from headgate.model.footprint import FileFootprint, Upserted, file_mark
from headgate.model.identifiers import TxId, Version
from headgate.model.named_object import NamedObject, ObjectAction, ObjectCommit, View
from headgate.model.record import Record, TagChange
from headgate.model.retention import Retention
from headgate.model.table import TableAction, TableCommit, TableRef
from headgate.transaction import changes
from tests.model.test_record import a_record

OURS = TxId("0" * 32)
UUID = "11111111-1111-1111-1111-111111111111"
LEVELS = tuple(Isolation)
NEVER = (False, False, False)
SERIAL = (False, False, True)
WRITES = (False, True, True)
ALWAYS = (True, True, True)


# --- values ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Where:
    """The rows of some partitions that have a key in a range. Files are such ranges here."""

    partitions: frozenset[int]
    keys: range = range(1000)

    def partition(self, spec_id: int, values: tuple[Any, ...]) -> bool:
        return values[0] in self.partitions

    def file(self, file: object) -> bool:
        assert isinstance(file, range)
        return file.start < self.keys.stop and self.keys.start < file.stop


@dataclass
class Told:
    """Evidence that is given, and a count of how often each was asked for."""

    files: Mapping[str, object] | None = None
    changed: Mapping[str, ChangedRows] | None = None
    asked: list[str] = field(default_factory=list)

    def added(self, other: Record, table: TableCommit) -> Mapping[str, object] | None:
        self.asked.append("added")
        return self.files

    def rows(
        self, other: Record, table: TableCommit, files: frozenset[str]
    ) -> Mapping[str, ChangedRows] | None:
        self.asked.append("rows")
        return self.changed


def marks(*names: str) -> frozenset[str]:
    return frozenset(names)


def mine(**fields: Any) -> TableFootprint:
    names = {mark: f"s3://b/lake/{mark}.parquet" for mark in ("f", "g", "h")}
    return TableFootprint("s.t", UUID, names=names, **fields)


def seeking(*partitions: int, files: frozenset[str] = frozenset(), keys: range = range(1000)) -> Any:
    return (Read(Where(frozenset(partitions), keys), {mark: f"{mark}.parquet" for mark in files}),)


def rows(*positions: int) -> BitMap64:
    return BitMap64(positions)


def theirs(operation: str | None, *verbs: str, uuid: str = UUID, **fields: Any) -> Record:
    known = {name: fields.pop(name) for name in ("structure", "dropped_fields") if name in fields}
    names = {name: fields.pop(name) for name in ("property_names", "replaces_all") if name in fields}
    commit = TableCommit(
        "s.t",
        fields.pop("action", TableAction.CHANGE),
        TableRef(uuid, "l", "m"),
        snapshot_id=None if operation is None else 5,
        operation=operation,
        verbs=frozenset(verbs),
        footprint=None if operation is None else FileFootprint(**fields),
        **known,
        **names,
    )
    return a_record(tables=(commit,))


def added(*partitions: int) -> frozenset[Any]:
    return frozenset((0, (number,)) for number in partitions)


def appended(*partitions: int, **fields: Any) -> Record:
    return theirs("append", "append", added=added(*partitions), **fields)


def found(
    ours: TableFootprint, other: Record, evidence: Evidence = NO_EVIDENCE
) -> tuple[tuple[Conflict, ...], ...]:
    """The conflicts at each isolation, from weak to strong."""
    return tuple(
        find_conflicts(Footprint(OURS, tables=(replace(ours, isolation=level),)), [other], evidence)
        for level in LEVELS
    )


# --- the rows --------------------------------------------------------------------------------------------

APPEND = mine(written_fields=frozenset({1, 2}), verbs=marks("append"))
QUERY = mine(reads=seeking(1, files=marks("f", "g")))
CHANGE = mine(sought=seeking(1, files=marks("f", "g")), rewritten=marks("f"))
ROW_DELETE = mine(sought=seeking(1, files=marks("f")), deleted={"f": rows(1, 2)})
ROW_UPDATE = mine(sought=seeking(1, files=marks("f")), updated={"f": rows(1, 2)})
COMPACTION = mine(compacted=marks("f", "g"))
OVERWRITE = mine(overwrites=(Where(frozenset({1})),), removed=marks("f"))
OVERWRITE_PARTITIONS = replace(OVERWRITE, relies_on_spec=True)
OVERWRITE_ALL = mine(replaces_all=True, removed=marks("f", "g"))
ELSEWHERE_ROWS = {"h": ChangedRows(rows(1), rows(2))}


def delete_of(file: str, **fields: Any) -> Record:
    return theirs("delete", "delete", deleted=marks(file), **fields)


def update_of(file: str, **fields: Any) -> Record:
    return theirs("overwrite", "update", updated=marks(file), added=added(7), **fields)


def told(deleted: BitMap64 | None = None, updated: BitMap64 | None = None) -> Told:
    return Told(changed={"f": ChangedRows(deleted or BitMap64(), updated or BitMap64())})


def keys(low: int, high: int, *partitions: int) -> Upserted:
    return Upserted(added(*partitions), {1: (low, high)})


def upsert(upserted: Upserted) -> Record:
    return theirs("append", "upsert", upserted=upserted)


def inserted(*partitions: int) -> Record:
    """An insert from a query on another table."""
    return replace(appended(*partitions), reads={"third": frozenset()})


def untold(*partitions: int) -> Record:
    """An append whose record does not say what was read, as records did not before."""
    return replace(appended(*partitions), reads=None)


def beside_a_delete(*partitions: int) -> Record:
    """An append in one transaction with a delete in another table."""
    (commit,) = delete_of("f", uuid="third").tables
    append = appended(*partitions)
    return replace(append, tables=(*append.tables, commit))


OVERWROTE_F = theirs("overwrite", "overwrite", removed=marks("f"), overwritten=marks("f"))
Example = tuple[int, TableFootprint, Record, Evidence, tuple[bool, bool, bool]]
COMPACTED = theirs("replace", "compact", compacted=marks("f"), added=added(1))

EXAMPLES: list[Example] = [
    (1, APPEND, appended(1), NO_EVIDENCE, NEVER),
    (1, APPEND, update_of("f"), NO_EVIDENCE, NEVER),
    (1, APPEND, delete_of("f"), NO_EVIDENCE, NEVER),
    (1, APPEND, COMPACTED, NO_EVIDENCE, NEVER),
    (1, APPEND, theirs("overwrite", "overwrite", replaces_all=True, removed=None), NO_EVIDENCE, NEVER),
    (2, APPEND, theirs(None, structure=marks("schema")), NO_EVIDENCE, NEVER),
    (2, APPEND, theirs(None, dropped_fields=frozenset({3})), NO_EVIDENCE, NEVER),
    (3, APPEND, theirs(None, dropped_fields=frozenset({2})), NO_EVIDENCE, ALWAYS),
    (5, QUERY, appended(1), NO_EVIDENCE, SERIAL),
    (5, QUERY, appended(2), NO_EVIDENCE, NEVER),
    (5, mine(reads=seeking(1, keys=range(10))), appended(1), Told({"x": range(10, 20)}), NEVER),
    (5, mine(reads=seeking(1, keys=range(10))), appended(1), Told({"x": range(9, 20)}), SERIAL),
    (6, QUERY, delete_of("f"), NO_EVIDENCE, WRITES),
    (6, QUERY, delete_of("h"), NO_EVIDENCE, NEVER),
    (6, QUERY, theirs("overwrite", "merge", added=added(1)), NO_EVIDENCE, WRITES),
    (6, QUERY, theirs("overwrite", "merge", added=added(2), rewritten=marks("h")), NO_EVIDENCE, NEVER),
    (6, QUERY, theirs("overwrite", "overwrite", removed=marks("g")), NO_EVIDENCE, WRITES),
    (6, QUERY, theirs("overwrite", "overwrite", replaces_all=True, removed=None), NO_EVIDENCE, WRITES),
    (7, QUERY, COMPACTED, NO_EVIDENCE, NEVER),
    (7, mine(sought=seeking(1, files=marks("f"))), COMPACTED, NO_EVIDENCE, NEVER),
    (8, CHANGE, appended(1), NO_EVIDENCE, SERIAL),
    (8, CHANGE, appended(2), NO_EVIDENCE, NEVER),
    (8, ROW_DELETE, appended(1), NO_EVIDENCE, SERIAL),
    (9, CHANGE, theirs("overwrite", "update", rewritten=marks("f")), NO_EVIDENCE, ALWAYS),
    (9, CHANGE, theirs("delete", "delete", removed=marks("f")), NO_EVIDENCE, ALWAYS),
    (9, CHANGE, theirs("overwrite", "update", rewritten=marks("h")), NO_EVIDENCE, NEVER),
    (9, CHANGE, theirs("overwrite", "update", rewritten=None), NO_EVIDENCE, ALWAYS),
    (10, CHANGE, theirs("overwrite", "merge", added=added(1), rewritten=marks("h")), NO_EVIDENCE, WRITES),
    (10, CHANGE, theirs("overwrite", "overwrite", added=added(1)), NO_EVIDENCE, WRITES),
    (11, CHANGE, theirs("overwrite", "merge", added=added(2), rewritten=marks("h")), NO_EVIDENCE, NEVER),
    (
        11,
        mine(sought=seeking(1, keys=range(10))),
        theirs("overwrite", "merge", added=added(1), rewritten=marks("h")),
        Told({"x": range(10, 20)}),
        NEVER,
    ),
    (12, CHANGE, theirs("delete", "delete", removed=marks("g")), NO_EVIDENCE, WRITES),
    (12, CHANGE, theirs("overwrite", "update", rewritten=marks("g")), NO_EVIDENCE, WRITES),
    (12, CHANGE, delete_of("g"), NO_EVIDENCE, NEVER),
    (13, CHANGE, COMPACTED, NO_EVIDENCE, ALWAYS),
    (13, CHANGE, delete_of("f"), NO_EVIDENCE, ALWAYS),
    (13, CHANGE, update_of("f"), NO_EVIDENCE, ALWAYS),
    (13, CHANGE, delete_of("h"), NO_EVIDENCE, NEVER),
    (13, OVERWRITE, COMPACTED, NO_EVIDENCE, ALWAYS),
    (13, ROW_DELETE, theirs("overwrite", "update", rewritten=marks("f")), NO_EVIDENCE, ALWAYS),
    (13, ROW_UPDATE, theirs("overwrite", "delete", rewritten=marks("f")), NO_EVIDENCE, ALWAYS),
    (14, CHANGE, theirs("overwrite", "overwrite", replaces_all=True), NO_EVIDENCE, ALWAYS),
    (14, ROW_DELETE, theirs("overwrite", "overwrite", replaces_all=True), NO_EVIDENCE, ALWAYS),
    (14, OVERWRITE, theirs("overwrite", "overwrite", replaces_all=True), NO_EVIDENCE, ALWAYS),
    (15, ROW_DELETE, delete_of("f"), told(deleted=rows(0, 3)), NEVER),
    (15, ROW_UPDATE, update_of("f"), told(updated=rows(0, 3)), NEVER),
    (15, ROW_DELETE, delete_of("h"), Told(changed=ELSEWHERE_ROWS), NEVER),
    (16, ROW_DELETE, delete_of("f"), told(deleted=rows(2, 3)), SERIAL),
    (16, ROW_DELETE, delete_of("f"), NO_EVIDENCE, SERIAL),
    (17, ROW_UPDATE, delete_of("f"), told(deleted=rows(2, 3)), ALWAYS),
    (17, ROW_UPDATE, update_of("f"), told(updated=rows(2)), ALWAYS),
    (17, ROW_UPDATE, update_of("f"), NO_EVIDENCE, ALWAYS),
    (18, ROW_DELETE, update_of("f"), told(updated=rows(1)), ALWAYS),
    (18, ROW_DELETE, update_of("f"), NO_EVIDENCE, ALWAYS),
    (18, ROW_DELETE, update_of("f"), told(updated=rows(0)), NEVER),
    (19, ROW_DELETE, COMPACTED, NO_EVIDENCE, ALWAYS),
    (19, ROW_UPDATE, COMPACTED, NO_EVIDENCE, ALWAYS),
    (20, ROW_DELETE, theirs("delete", "delete", removed=marks("f")), NO_EVIDENCE, NEVER),
    (21, ROW_UPDATE, theirs("delete", "delete", removed=marks("f")), NO_EVIDENCE, ALWAYS),
    (22, COMPACTION, appended(1), NO_EVIDENCE, NEVER),
    (23, COMPACTION, theirs("overwrite", "update", rewritten=marks("g")), NO_EVIDENCE, ALWAYS),
    (23, COMPACTION, theirs("overwrite", "overwrite", removed=marks("g")), NO_EVIDENCE, ALWAYS),
    (23, COMPACTION, COMPACTED, NO_EVIDENCE, ALWAYS),
    (23, COMPACTION, theirs("replace", "compact", compacted=marks("h")), NO_EVIDENCE, NEVER),
    (24, COMPACTION, delete_of("f"), NO_EVIDENCE, ALWAYS),
    (24, COMPACTION, update_of("f"), NO_EVIDENCE, ALWAYS),
    (25, OVERWRITE, appended(1), NO_EVIDENCE, SERIAL),
    (25, OVERWRITE, appended(2), NO_EVIDENCE, NEVER),
    (
        25,
        mine(overwrites=(Where(frozenset({1}), range(5)),)),
        appended(1),
        Told({"x": range(5, 9)}),
        NEVER,
    ),
    (26, OVERWRITE, delete_of("f"), NO_EVIDENCE, ALWAYS),
    (26, OVERWRITE, delete_of("h"), NO_EVIDENCE, NEVER),
    (26, OVERWRITE, theirs("overwrite", "update", added=added(1)), NO_EVIDENCE, ALWAYS),
    (26, OVERWRITE, theirs("overwrite", "update", added=added(2)), NO_EVIDENCE, NEVER),
    (26, OVERWRITE_ALL, update_of("h"), NO_EVIDENCE, ALWAYS),
    (26, OVERWRITE, theirs("overwrite", "reshuffle", added=added(1)), NO_EVIDENCE, ALWAYS),
    (27, OVERWRITE, theirs("overwrite", "overwrite", removed=marks("f")), NO_EVIDENCE, ALWAYS),
    (27, OVERWRITE, theirs("overwrite", "overwrite", added=added(1)), NO_EVIDENCE, ALWAYS),
    (27, OVERWRITE, theirs("overwrite", "overwrite", added=added(2)), NO_EVIDENCE, NEVER),
    (27, OVERWRITE_ALL, theirs("overwrite", "overwrite", replaces_all=True), NO_EVIDENCE, ALWAYS),
    (27, OVERWRITE_ALL, theirs("overwrite", "overwrite", added=added(9)), NO_EVIDENCE, ALWAYS),
    (28, OVERWRITE_ALL, appended(9), NO_EVIDENCE, SERIAL),
    (29, mine(structure=marks("schema")), theirs(None, structure=marks("sort-order")), NO_EVIDENCE, ALWAYS),
    (29, mine(structure=marks("schema")), appended(1), NO_EVIDENCE, NEVER),
    (31, mine(property_names=marks("a")), theirs(None, property_names=marks("a", "b")), NO_EVIDENCE, ALWAYS),
    (31, mine(property_names=marks("a")), theirs(None, property_names=marks("b")), NO_EVIDENCE, NEVER),
    (37, mine(upserted=keys(1, 5, 3)), upsert(keys(5, 9, 3, 4)), NO_EVIDENCE, ALWAYS),
    (37, mine(upserted=keys(1, 5, 3)), upsert(Upserted(None, {1: (5, 9)})), NO_EVIDENCE, ALWAYS),
    (37, mine(upserted=keys(1, 5, 3)), upsert(Upserted(added(3), {})), NO_EVIDENCE, ALWAYS),
    (37, mine(upserted=keys(1, 5, 3)), upsert(Upserted(added(3), {1: ("a", "b")})), NO_EVIDENCE, ALWAYS),
    (37, mine(upserted=keys(1, 5, 3)), upsert(Upserted(frozenset({(1, (3,))}), {})), NO_EVIDENCE, ALWAYS),
    (38, mine(upserted=keys(1, 5, 3)), upsert(keys(1, 5, 4)), NO_EVIDENCE, NEVER),
    (38, mine(upserted=keys(1, 5, 3)), upsert(keys(6, 9, 3)), NO_EVIDENCE, NEVER),
    (6, QUERY, inserted(1), NO_EVIDENCE, WRITES),
    (6, QUERY, inserted(2), NO_EVIDENCE, NEVER),
    (10, CHANGE, inserted(1), NO_EVIDENCE, WRITES),
    (10, CHANGE, inserted(2), NO_EVIDENCE, NEVER),
    (10, CHANGE, untold(1), NO_EVIDENCE, WRITES),
    (10, CHANGE, beside_a_delete(1), NO_EVIDENCE, WRITES),
    (1, APPEND, inserted(1), NO_EVIDENCE, NEVER),
    (1, APPEND, untold(1), NO_EVIDENCE, NEVER),
    (41, APPEND, theirs(None, action=TableAction.DROP), NO_EVIDENCE, ALWAYS),
    (41, QUERY, theirs(None, action=TableAction.RENAME), NO_EVIDENCE, ALWAYS),
    (45, ROW_DELETE, OVERWROTE_F, NO_EVIDENCE, ALWAYS),
    (45, ROW_DELETE, theirs("overwrite", "overwrite", removed=None, overwritten=None), NO_EVIDENCE, ALWAYS),
    (45, ROW_DELETE, theirs("overwrite", "overwrite", removed=marks("h")), NO_EVIDENCE, NEVER),
    (46, CHANGE, theirs(None, structure=marks("schema")), NO_EVIDENCE, WRITES),
    (46, QUERY, theirs(None, structure=marks("schema", "sort-order")), NO_EVIDENCE, WRITES),
    (46, OVERWRITE, theirs(None, structure=marks("schema")), NO_EVIDENCE, WRITES),
    (46, CHANGE, theirs(None, structure=marks("row-policy")), NO_EVIDENCE, WRITES),
    (46, CHANGE, theirs(None, structure=marks("sort-order")), NO_EVIDENCE, NEVER),
    (46, OVERWRITE, theirs(None, structure=marks("partition-spec")), NO_EVIDENCE, NEVER),
    (46, OVERWRITE_PARTITIONS, theirs(None, structure=marks("partition-spec")), NO_EVIDENCE, WRITES),
    (46, OVERWRITE_PARTITIONS, theirs(None, structure=marks("sort-order")), NO_EVIDENCE, NEVER),
    (46, COMPACTION, theirs(None, structure=marks("schema", "partition-spec")), NO_EVIDENCE, NEVER),
    (47, OVERWRITE, inserted(1), NO_EVIDENCE, WRITES),
    (47, OVERWRITE, inserted(2), NO_EVIDENCE, NEVER),
    (47, OVERWRITE_ALL, inserted(9), NO_EVIDENCE, WRITES),
    (47, OVERWRITE_ALL, untold(9), NO_EVIDENCE, WRITES),
    (49, replace(CHANGE, bars_appends=True), appended(1), NO_EVIDENCE, WRITES),
    (49, replace(CHANGE, bars_appends=True), appended(2), NO_EVIDENCE, NEVER),
    (49, replace(QUERY, bars_appends=True), appended(1), NO_EVIDENCE, WRITES),
    (49, replace(OVERWRITE_ALL, bars_appends=True), appended(9), NO_EVIDENCE, WRITES),
    (49, mine(bars_appends=True), appended(1), NO_EVIDENCE, NEVER),
]


@pytest.mark.parametrize(("row", "ours", "other", "evidence", "refused"), EXAMPLES)
def test_a_row_at_every_isolation(
    row: int, ours: TableFootprint, other: Record, evidence: Evidence, refused: tuple[bool, bool, bool]
) -> None:
    conflicts = found(ours, other, evidence)
    assert tuple(row in {conflict.rule for conflict in level} for level in conflicts) == refused
    if not any(refused):
        assert conflicts == ((), (), ())


@pytest.mark.parametrize(("row", "ours", "other", "evidence", "refused"), EXAMPLES)
def test_other_tables_are_none_of_our_business(
    row: int, ours: TableFootprint, other: Record, evidence: Evidence, refused: tuple[bool, bool, bool]
) -> None:
    elsewhere = replace(ours, uuid="another")
    assert found(elsewhere, other, evidence) == ((), (), ())


def test_transactions_set_every_field_that_a_rule_can_ask_for() -> None:
    """A rule about a field that nothing sets is documented and never refuses anything."""
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(changes))) if isinstance(node, ast.Call)]
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "TableFootprint"]
    given = {keyword.arg for call in made for keyword in call.keywords}
    assert {field.name for field in fields(TableFootprint)} == given


def test_the_name_of_a_rule_says_a_change_that_both_made_only_once() -> None:
    names = {row.number: row.name for row in MATRIX}
    assert names[25] == "overwrite where p against append"
    assert names[40] == "new table, view or mount t"


def test_every_row_has_an_example_or_is_seen_to_elsewhere() -> None:
    assert [row.number for row in MATRIX] == [number for number in range(1, 50) if number != 30]
    # These are not about a table that both know; 48 is about three transactions.
    shown = {row for row, *_ in EXAMPLES} | {36, 40, 42, 43, 44, 48}
    elsewhere = {row.number for row in MATRIX if any(isinstance(rule, Elsewhere) for rule in row.rules)}
    assert elsewhere == {4, 32, 33, 34, 35, 39}
    assert shown | elsewhere == {row.number for row in MATRIX}
    for row in MATRIX:
        never = {row.verdicts.at(level) for level in LEVELS} == {Verdict.OK}
        assert never == (not row.rules), row
        if any(isinstance(rule, OnRecord) for rule in row.rules):
            assert len({row.verdicts.at(level) for level in LEVELS}) == 1


def test_row_18_the_updated_row_does_not_survive_its_delete() -> None:
    for conflicts in found(ROW_DELETE, update_of("f"), told(updated=rows(2))):
        (conflict,) = conflicts
        assert conflict.rule == 18
        assert conflict.reason == "it updated rows that you delete: 1 same row of …/f.parquet"
        assert isinstance(resolve(conflicts), Retryable)


def test_row_36_a_cancelled_transaction_is_over() -> None:
    ours = Footprint(OURS, tables=(APPEND,))
    conflicts = find_conflicts(ours, [a_record(cancels=(OURS,))])
    assert isinstance(resolve(conflicts), Incompatible)
    assert "new transaction" in next_step(conflicts)


def test_row_40_two_tables_of_one_name() -> None:
    ours = Footprint(OURS, tables=(TableFootprint("s.t", None, takes_name="s.t"),))
    (conflict,) = find_conflicts(ours, [theirs(None, action=TableAction.CREATE)])
    assert conflict.rule == 40
    assert isinstance(resolve([conflict]), Incompatible)


def view(name: str, uuid: str, action: ObjectAction, renamed_from: str | None = None) -> Record:
    return a_record(objects=(ObjectCommit(name, action, NamedObject(uuid, View("SELECT 1")), renamed_from),))


CREATED_VIEW = view("s.t", "v", ObjectAction.CREATE)
RENAMED_VIEW = view("s.t", "v", ObjectAction.RENAME, "s.old")


@pytest.mark.parametrize("other", [theirs(None, action=TableAction.CREATE), CREATED_VIEW, RENAMED_VIEW])
def test_row_40_tables_and_views_share_their_names(other: Record) -> None:
    table = Footprint(OURS, tables=(TableFootprint("s.t", None, takes_name="s.t"),))
    made = Footprint(OURS, objects=(ObjectFootprint("s.t", None, takes_name="s.t"),))
    renamed = Footprint(OURS, objects=(ObjectFootprint("s.u", "u", takes_name="s.t"),))
    for ours in (table, made, renamed):
        (conflict,) = find_conflicts(ours, [other])
        assert conflict.rule == 40
        assert isinstance(resolve([conflict]), Incompatible)


def test_row_40_a_view_does_not_replace_a_table() -> None:
    ours = Footprint(OURS, objects=(ObjectFootprint("s.t", None, takes_name="s.t", replaces=True),))
    (conflict,) = find_conflicts(ours, [theirs(None, action=TableAction.CREATE)])
    assert conflict.rule == 40


@pytest.mark.parametrize("action", list(ObjectAction))
def test_row_42_one_view_is_changed_by_one_at_a_time(action: ObjectAction) -> None:
    ours = Footprint(OURS, objects=(ObjectFootprint("s.v", "v"),))
    (conflict,) = find_conflicts(ours, [view("s.v", "v", action)])
    assert conflict.rule == 42
    assert isinstance(resolve([conflict]), Retryable)
    assert find_conflicts(ours, [view("s.other", "w", action)]) == ()


def test_row_42_who_may_replace_runs_again_on_what_was_made_meanwhile() -> None:
    ours = Footprint(OURS, objects=(ObjectFootprint("s.t", None, takes_name="s.t", replaces=True),))
    for other in (CREATED_VIEW, RENAMED_VIEW):
        (conflict,) = find_conflicts(ours, [other])
        assert conflict.rule == 42
        assert isinstance(resolve([conflict]), Retryable)


# --- row 48: an append that we have not seen, and somebody who has ----------------------------------------


def at(version: int, record: Record, base: int = 0, **fields: Any) -> Record:
    return replace(record, version=Version(version), base=Version(base), **fields)


UNSEEN = at(6, appended(1))
NEW_FILE = Told({"data/L0-x/new.parquet": range(1000)})
SAW_IT: dict[str, Any] = {UUID: frozenset({file_mark("data/L0-x/new.parquet")})}
MOVED_IT = at(7, theirs("replace", "compact", compacted=marks("n"), added=added(1)), base=6)


def in_history(ours: TableFootprint, *records: Record, evidence: Evidence = NEW_FILE) -> tuple[set[int], ...]:
    """The rules at each isolation that refuse `ours` after these records."""
    return tuple(
        {
            conflict.rule
            for conflict in find_conflicts(
                Footprint(OURS, tables=(replace(ours, isolation=level),)), records, evidence
            )
        }
        for level in LEVELS
    )


@pytest.mark.parametrize("ours", [CHANGE, QUERY, OVERWRITE, OVERWRITE_ALL])
@pytest.mark.parametrize(
    ("later", "between", "refused"),
    [
        (at(8, a_record(), base=6, reads=SAW_IT), (), True),
        (at(8, a_record(), base=7, reads={UUID: None}), (), True),
        (at(8, a_record(), base=7, reads=None), (), True),
        (at(8, delete_of("f"), base=5, reads=SAW_IT), (), False),
        (at(8, a_record(), base=6, reads={UUID: marks("h")}), (), False),
        (at(8, a_record(), base=6, reads={UUID: marks("h")}), (MOVED_IT,), False),
        (at(8, a_record(), base=7, reads={UUID: marks("h")}), (MOVED_IT,), True),
        (at(8, a_record(), base=7, reads={"another": None}), (MOVED_IT,), False),
        (at(8, appended(1), base=7), (MOVED_IT,), False),
    ],
)
def test_row_48_an_append_that_somebody_has_seen_is_not_taken_for_a_later_one(
    ours: TableFootprint, later: Record, between: tuple[Record, ...], refused: bool
) -> None:
    snapshot, write_serializable, serializable = in_history(ours, UNSEEN, *between, later)
    assert 48 not in snapshot
    assert (48 in write_serializable) == refused == (48 in serializable)


def test_row_48_what_was_judged_at_an_earlier_attempt_counts() -> None:
    later = at(8, a_record(), base=6, reads=SAW_IT)
    ours = Footprint(OURS, tables=(CHANGE,))
    assert find_conflicts(ours, [UNSEEN], NEW_FILE) == ()
    assert find_conflicts(ours, [later], NEW_FILE) == ()
    (conflict,) = find_conflicts(ours, [later], NEW_FILE, before=[UNSEEN])
    assert (conflict.rule, conflict.table) == (48, "s.t")
    assert "rows of version 6, in …/new.parquet" in conflict.reason


def test_row_48_an_append_elsewhere_is_no_matter() -> None:
    later = at(8, a_record(), base=6, reads={UUID: None})
    assert in_history(CHANGE, at(6, appended(2)), later) == (set(), set(), set())
    outside = Told({"data/L0-x/new.parquet": range(2000, 3000)})
    narrow = mine(sought=seeking(1, files=marks("f")), rewritten=marks("f"))
    assert in_history(narrow, UNSEEN, later, evidence=outside)[1] == set()


def in_tables(record: Record, *uuids: str) -> Record:
    """The same commit to several tables."""
    (commit,) = record.tables
    ref = commit.table
    return replace(record, tables=tuple(replace(commit, table=replace(ref, uuid=uuid)) for uuid in uuids))


ELSEWHERE = "22222222-2222-2222-2222-222222222222"
UNSEEN_IN_BOTH = in_tables(UNSEEN, UUID, ELSEWHERE)
MOVED_ELSEWHERE = in_tables(MOVED_IT, ELSEWHERE)


@pytest.mark.parametrize("ours", [CHANGE, QUERY, OVERWRITE, OVERWRITE_ALL])
@pytest.mark.parametrize(
    ("later", "between", "refused"),
    [
        (at(8, a_record(), base=6, reads={ELSEWHERE: SAW_IT[UUID]}), (), True),
        (at(8, a_record(), base=6, reads={ELSEWHERE: marks("h")}), (), False),
        (at(8, a_record(), base=7, reads={ELSEWHERE: marks("h")}), (MOVED_ELSEWHERE,), True),
        (at(8, a_record(), base=7, reads={ELSEWHERE: marks("h")}), (MOVED_IT,), False),
        (at(8, a_record(), base=5, reads={ELSEWHERE: SAW_IT[UUID]}), (), False),
        (at(8, a_record(), base=6, reads={"third": None}), (), False),
        (at(8, theirs(None, uuid=ELSEWHERE, action=TableAction.DROP), base=5), (), True),
        (at(8, theirs(None, uuid=ELSEWHERE, action=TableAction.RENAME), base=5), (), True),
        (at(8, theirs(None, uuid=ELSEWHERE, structure=marks("schema")), base=5), (), True),
        (at(8, theirs(None, uuid=ELSEWHERE, structure=marks("of-a-later-release")), base=5), (), True),
        (at(8, theirs(None, uuid=ELSEWHERE, structure=marks("partition-spec")), base=5), (), False),
        (at(8, theirs(None, uuid="third", action=TableAction.DROP), base=5), (), False),
        (at(8, appended(1, uuid=ELSEWHERE), base=6), (), False),
    ],
)
def test_row_48_an_append_is_needed_in_any_of_its_tables(
    ours: TableFootprint, later: Record, between: tuple[Record, ...], refused: bool
) -> None:
    snapshot, write_serializable, serializable = in_history(ours, UNSEEN_IN_BOTH, *between, later)
    assert 48 not in snapshot
    assert (48 in write_serializable) == refused == (48 in serializable)


def test_row_48_what_was_judged_before_includes_compactions_of_other_tables() -> None:
    ours = Footprint(OURS, tables=(CHANGE,))
    assert is_overlooked(MOVED_ELSEWHERE, ours)
    assert is_overlooked(UNSEEN_IN_BOTH, ours)
    assert not is_overlooked(in_tables(UNSEEN, ELSEWHERE), ours)


@pytest.mark.parametrize(
    ("misses", "bars", "refused"),
    [
        (CHANGE, ELSEWHERE, True),
        (QUERY, ELSEWHERE, True),
        (OVERWRITE_ALL, ELSEWHERE, True),
        (mine(sought=seeking(2)), ELSEWHERE, False),
        (CHANGE, "third", False),
    ],
)
def test_row_49_the_table_that_is_gone_may_be_another_one(
    misses: TableFootprint, bars: str, refused: bool
) -> None:
    for level in LEVELS:
        dropped = TableFootprint("s.u", bars, bars_appends=True, verbs=marks("drop"), isolation=level)
        ours = Footprint(OURS, tables=(replace(misses, isolation=level), dropped))
        rules = {conflict.rule for conflict in find_conflicts(ours, [UNSEEN_IN_BOTH], NEW_FILE)}
        assert (49 in rules) == (refused and level is not Isolation.SNAPSHOT)


def test_rows_19_and_24_can_be_carried_unless_something_else_is_in_the_way() -> None:
    carried = find_conflicts(Footprint(OURS, tables=(ROW_DELETE,)), [COMPACTED])
    assert resolve(carried) == Rebasable(carried)
    assert {conflict.verdict for conflict in carried} == {Verdict.CARRY}
    both = find_conflicts(
        Footprint(OURS, tables=(ROW_UPDATE,)),
        [COMPACTED, theirs("delete", "delete", removed=marks("f"))],
    )
    assert resolve(both) == Retryable(both)
    assert resolve(()) == Rebasable()


# --- evidence --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "other", "asked"),
    [
        (APPEND, appended(1), []),
        (OVERWRITE, appended(2), []),
        (ROW_DELETE, appended(2), []),
        (ROW_DELETE, delete_of("h"), []),
        (OVERWRITE, appended(1), ["added"]),
        (ROW_DELETE, delete_of("f"), ["rows"]),
    ],
)
def test_evidence_is_fetched_only_where_the_record_does_not_decide(
    ours: TableFootprint, other: Record, asked: list[str]
) -> None:
    evidence = Told({}, {})
    serial = replace(ours, isolation=Isolation.SERIALIZABLE)
    find_conflicts(Footprint(OURS, tables=(serial,)), [other], evidence)
    assert evidence.asked == asked


def test_nothing_is_fetched_for_a_row_that_allows_everything() -> None:
    evidence = Told({}, {})
    find_conflicts(Footprint(OURS, tables=(OVERWRITE,)), [appended(1)], evidence)
    assert evidence.asked == []


def test_a_record_without_a_footprint_is_taken_for_the_worst() -> None:
    commit = TableCommit("s.t", TableAction.CHANGE, TableRef(UUID, "l", "m"), snapshot_id=1)
    overwrite = a_record(tables=(replace(commit, operation="overwrite"),))
    append = a_record(tables=(replace(commit, operation="append"),))
    assert {c.rule for c in found(CHANGE, overwrite)[0]} == {9}
    assert {c.rule for c in found(ROW_DELETE, overwrite)[0]} == {13, 45}
    assert {c.rule for c in found(OVERWRITE, overwrite)[0]} == {27}
    assert {c.rule for c in found(COMPACTION, overwrite)[0]} == {23}
    assert [{c.rule for c in level} for level in found(OVERWRITE, append)] == [set(), set(), {25}]


# --- laws ------------------------------------------------------------------------------------------------

some_marks = st.frozensets(st.sampled_from("fgh"), max_size=2)
some_partitions = st.frozensets(st.integers(0, 3), max_size=2)
some_positions = st.dictionaries(
    st.sampled_from("fgh"), st.frozensets(st.integers(0, 3), min_size=1).map(BitMap64), max_size=2
)
selections: st.SearchStrategy[Selection] = st.one_of(
    st.just(EVERY_ROW), some_partitions.map(lambda given: Where(given, range(5)))
)
reads = st.lists(
    st.builds(Read, selections, some_marks.map(lambda given: {m: m for m in given})), max_size=2
).map(tuple)
upserts = st.none() | st.builds(
    Upserted,
    st.none() | some_partitions.map(lambda given: added(*given)),
    st.dictionaries(st.just(1), st.tuples(st.integers(0, 3), st.integers(4, 6))),
)
footprints = st.builds(
    mine,
    reads=reads,
    sought=reads,
    overwrites=st.lists(selections, max_size=2).map(tuple),
    replaces_all=st.booleans(),
    removed=some_marks,
    rewritten=some_marks,
    compacted=some_marks,
    deleted=some_positions,
    updated=some_positions,
    upserted=upserts,
    property_names=some_marks,
    structure=some_marks,
    bars_appends=st.booleans(),
    written_fields=st.frozensets(st.integers(1, 3)),
)
commits = st.builds(
    theirs,
    st.sampled_from([None, "append", "overwrite", "delete", "replace"]),
    st.sampled_from(["append", "overwrite", "update", "compact", "reshuffle"]),
    added=st.none() | some_partitions.map(lambda given: added(*given)),
    removed=st.none() | some_marks,
    rewritten=st.none() | some_marks,
    compacted=st.none() | some_marks,
    deleted=st.none() | some_marks,
    updated=st.none() | some_marks,
    upserted=upserts,
    replaces_all=st.booleans(),
    structure=some_marks,
    dropped_fields=st.frozensets(st.integers(1, 3)),
    property_names=some_marks,
    action=st.sampled_from(list(TableAction)),
)
changed_rows = st.dictionaries(
    st.sampled_from("fgh"), some_positions.map(lambda p: ChangedRows(p.get("f", rows()), p.get("g", rows())))
)
evidences = st.builds(
    Told,
    st.none() | st.dictionaries(st.text(max_size=3), st.integers(0, 9).map(lambda n: range(n, n + 1))),
    st.none() | changed_rows,
)


def test_no_verdict_is_weaker_at_a_stronger_isolation() -> None:
    strength = {Verdict.OK: 0, Verdict.CARRY: 1, Verdict.FAIL: 2}
    for row in MATRIX:
        levels = [strength.get(row.verdicts.at(level), 0) for level in LEVELS]
        assert levels == sorted(levels), row


@given(footprints, commits, evidences)
def test_what_is_refused_is_refused_at_every_stronger_isolation(
    ours: TableFootprint, other: Record, evidence: Told
) -> None:
    snapshot, writes, serializable = (
        {(conflict.rule, conflict.reason) for conflict in level} for level in found(ours, other, evidence)
    )
    assert snapshot <= writes <= serializable


@given(footprints, st.lists(commits, max_size=4), st.lists(commits, max_size=3), st.sampled_from(LEVELS))
def test_more_candidates_never_take_a_conflict_away(
    ours: TableFootprint, first: list[Record], more: list[Record], level: Isolation
) -> None:
    footprint = Footprint(OURS, tables=(replace(ours, isolation=level),))
    numbered = [replace(record, version=Version(n)) for n, record in enumerate((*first, *more), 1)]
    before = find_conflicts(footprint, numbered[: len(first)])
    after = find_conflicts(footprint, numbered)
    assert after[: len(before)] == before
    assert [conflict.other.version for conflict in after] == sorted(c.other.version for c in after)


@given(footprints, commits, evidences)
def test_knowing_less_never_takes_a_conflict_away(
    ours: TableFootprint, other: Record, evidence: Told
) -> None:
    for known, unknown in zip(found(ours, other, evidence), found(ours, other), strict=True):
        assert {conflict.rule for conflict in known} <= {conflict.rule for conflict in unknown}


@given(footprints, commits)
def test_a_footprint_that_was_too_large_never_takes_a_conflict_away(
    ours: TableFootprint, other: Record
) -> None:
    (commit,) = other.tables
    if commit.footprint is None:
        return
    unknown = FileFootprint(None, None, None, None, None, None, commit.footprint.upserted, overwritten=None)
    worst = replace(other, tables=(replace(commit, footprint=unknown),))
    for known, refused in zip(found(ours, other), found(ours, worst), strict=True):
        assert {conflict.rule for conflict in known} <= {conflict.rule for conflict in refused}


def test_a_rule_is_about_tables_records_or_histories() -> None:
    kinds = {type(rule) for row in MATRIX for rule in row.rules}
    assert kinds == {OnTable, OnRecord, OnHistory, Elsewhere}


def test_row_43_one_expires_at_a_time_and_keeps_what_was_named_meanwhile() -> None:
    ours = Footprint(OURS, expires=Retention(10, ((1, 0),)))
    expired = replace(theirs(None), tables=(), expires=Retention(8))
    named = [replace(expired, expires=None, tags=TagChange({"x": Version(v)})) for v in (10, 11)]
    assert [conflict.rule for conflict in find_conflicts(ours, [expired])] == [43]
    assert [conflict.rule for conflict in find_conflicts(ours, [named[0]])] == [43]
    assert find_conflicts(ours, [named[1]]) == ()
    assert isinstance(resolve(find_conflicts(ours, [expired, named[0]])), Retryable)


def test_row_44_what_may_be_expired_gets_no_name() -> None:
    expired = replace(theirs(None), tables=(), expires=Retention(10, ((1, 0),), frozenset({7})))
    for version, rules in ((5, [44]), (7, []), (11, [])):
        ours = Footprint(OURS, tag_names=frozenset({"x"}), tagged=frozenset({version}))
        assert [conflict.rule for conflict in find_conflicts(ours, [expired])] == rules
