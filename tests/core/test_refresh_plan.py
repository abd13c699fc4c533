"""How a materialized view is refreshed, from the log alone: whatever cannot be told is a full refresh."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headgate.core.plans.refresh import REFRESHED_AT, VIEW_SQL, Mode, Sight, Traits, plan_refresh
from headgate.core.sql.query import find_relations
from headgate.core.sql.view_rules import Sources
from headgate.model.identifiers import Version
from headgate.model.named_object import View
from headgate.model.record import Record
from headgate.model.table import TableAction, TableCommit, TableRef
from tests.model.test_record import a_record

OWN, SOURCE = "own", "source"
NAME = "sales.orders"
SIGHT = Sight(Sources(find_relations(f"SELECT * FROM {NAME}"), frozenset({NAME})), {NAME: SOURCE})


def test_the_properties_that_are_on_storage_keep_their_names() -> None:
    assert (VIEW_SQL, REFRESHED_AT) == ("headgate.view.sql", "headgate.view.refreshed-at")


def did(operation: str | None, uuid: str = SOURCE, version: int = 7, **fields: Any) -> Record:
    commit = TableCommit(
        NAME if uuid == SOURCE else "sales.copy",
        fields.pop("action", TableAction.CHANGE),
        TableRef(uuid, "l", "m"),
        snapshot_id=None if operation is None else 5,
        operation=operation,
        **fields,
    )
    return a_record(version=Version(version), tables=(commit,))


APPEND = did("append", verbs=frozenset({"append"}))
REFRESH = did("overwrite", OWN, property_names=frozenset({REFRESHED_AT}))
CREATION = did("append", OWN, action=TableAction.CREATE)


@pytest.mark.parametrize(
    ("records", "mode"),
    [
        ([], Mode.UNCHANGED),
        ([a_record(), did("append", "another"), REFRESH, CREATION], Mode.UNCHANGED),
        ([did("replace"), did(None, property_names=frozenset({"owner"}))], Mode.UNCHANGED),
        ([did("replace", OWN)], Mode.UNCHANGED),
        ([APPEND], Mode.INCREMENTAL),
        ([CREATION, REFRESH, APPEND, did("replace"), APPEND], Mode.INCREMENTAL),
        ([APPEND, did("delete")], Mode.FULL),
        ([did("overwrite")], Mode.FULL),
        ([did(None, structure=frozenset({"schema"})), APPEND], Mode.FULL),
        ([did("append", OWN)], Mode.FULL),
        ([REFRESH, did("delete", OWN)], Mode.FULL),
        ([did(None, OWN, structure=frozenset({"schema"}))], Mode.FULL),
        ([did(None, OWN, structure=frozenset({"schema"})), APPEND], Mode.FULL),
        ([did(None, OWN, structure=frozenset({"spec", "sort-order"}))], Mode.UNCHANGED),
    ],
)
def test_what_the_records_lead_to(records: list[Record], mode: Mode) -> None:
    assert plan_refresh(OWN, Traits(), SIGHT, SIGHT, records).mode is mode


def test_reasons_name_the_version() -> None:
    deleted = did("delete", version=12, verbs=frozenset({"delete"}))
    assert plan_refresh(OWN, Traits(), SIGHT, SIGHT, [APPEND, deleted]).reason == (
        "version 12 (delete) changed rows of sales.orders"
    )
    written = did("append", OWN, version=9)
    assert plan_refresh(OWN, Traits(), SIGHT, SIGHT, [written]).reason == (
        "version 9 (append) wrote to the view directly"
    )


@pytest.mark.parametrize(
    "sources",
    [
        replace(SIGHT.sources, mounts=frozenset({"raw.in"})),
        replace(SIGHT.sources, elsewhen=True),
        replace(SIGHT.sources, views={"v.a": View("SELECT 1")}),
    ],
)
def test_sources_that_are_full_without_any_record(sources: Sources) -> None:
    assert plan_refresh(OWN, Traits(), SIGHT, Sight(sources, SIGHT.uuids), []).mode is Mode.FULL


def test_another_table_of_the_same_name() -> None:
    found = plan_refresh(OWN, Traits(), SIGHT, replace(SIGHT, uuids={NAME: "new"}), [])
    assert (found.mode, found.reason) == (Mode.FULL, "sales.orders was replaced by another table")


def test_the_query_decides_only_if_something_has_changed() -> None:
    more = Traits(more_than_rows="it counts")
    assert plan_refresh(OWN, more, SIGHT, SIGHT, []).mode is Mode.UNCHANGED
    assert plan_refresh(OWN, more, SIGHT, SIGHT, [APPEND]).reason == "it counts"
    varies = Traits(varies="it rolls dice")
    assert plan_refresh(OWN, varies, SIGHT, SIGHT, []).reason == "it rolls dice"


@pytest.mark.parametrize("sql", [f"SELECT * FROM {NAME} a, {NAME} b", f"SELECT * FROM {NAME}, range(2), v.x"])
def test_one_table_alone(sql: str) -> None:
    sight = Sight(replace(SIGHT.sources, direct=find_relations(sql)), SIGHT.uuids)
    assert plan_refresh(OWN, Traits(), sight, sight, [APPEND]).mode is Mode.FULL
