"""Records: what is written is read again, what is foreign is kept, what is wrong is named."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.identifiers import TxId, Version
from headgate.model.named_object import (
    CsvMount,
    Format,
    HostMount,
    NamedObject,
    ObjectAction,
    ObjectCommit,
    View,
)
from headgate.model.plan import PendingPlan
from headgate.model.record import AppBatch, Command, PropertyChange, Record
from headgate.model.table import TableAction, TableCommit, TableRef

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def a_record(**changes: Any) -> Record:
    fields: dict[str, Any] = {
        "version": Version(7),
        "txid": TxId("a" * 32),
        "previous": "sha256:00",
        "kind": "commit",
        "started_at": NOON,
        "committed_at": NOON,
        "command": Command(("load", "--day", "1"), "ann", "host-1", 42),
        "base": Version(5),
        "attempts": 2,
        "next_strategy": "conditional",
    }
    return Record(**fields | changes)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=20)


@given(
    set_=st.dictionaries(names, texts, max_size=4),
    removed=st.frozensets(names, max_size=3),
    properties=st.dictionaries(names, texts, max_size=4),
    app=st.none() | st.builds(AppBatch, names, st.integers(0, 2**40)),
    cancels=st.lists(st.integers(0, 2**128 - 1), max_size=3),
)
def test_a_written_record_is_read_again(
    set_: dict[str, str],
    removed: frozenset[str],
    properties: dict[str, str],
    app: AppBatch | None,
    cancels: list[int],
) -> None:
    record = a_record(
        lake_properties=PropertyChange(set_, removed),
        properties=properties,
        app=app,
        cancels=tuple(TxId(f"{number:032x}") for number in cancels),
    )
    assert Record.decode(record.encode(), Version(7), "here") == record


def test_a_record_says_what_was_read_or_that_it_does_not_say() -> None:
    mark = "0" * 16
    reads: dict[str, frozenset[str] | None]
    for reads in ({}, {"t": frozenset({mark}), "u": None, "v": frozenset()}):
        record = a_record(reads=reads)
        assert Record.decode(record.encode(), Version(7), "here") == record
    fields = json.loads(a_record().encode())
    assert fields.pop("reads") == {}
    before = Record.decode(json.dumps(fields).encode(), Version(7), "here")
    assert before.reads is None
    assert json.loads(before.encode()) == fields


def test_a_record_says_whether_views_and_mounts_were_read_or_that_it_does_not_say() -> None:
    for read in ((), ("m",)):
        record = a_record(read_objects=read)
        assert Record.decode(record.encode(), Version(7), "here") == record
    fields = json.loads(a_record().encode())
    assert fields.pop("read_objects") == []
    before = Record.decode(json.dumps(fields).encode(), Version(7), "here")
    assert before.read_objects is None
    assert not before.appends_blindly, "it may have read a mount"
    assert json.loads(before.encode()) == fields


def an_append(name: str = "s.t", **changes: Any) -> TableCommit:
    fields: dict[str, Any] = {"snapshot_id": 1, "operation": "append", "verbs": frozenset({"append"})}
    return TableCommit(name, TableAction.CHANGE, TableRef(name, "l", "m"), **fields | changes)


@pytest.mark.parametrize(
    ("changes", "blind"),
    [
        ({"tables": (an_append(),)}, True),
        ({"tables": (an_append(),), "lake_properties": PropertyChange({"a": "1"})}, True),
        ({"tables": (an_append(), an_append("s.u", property_names=frozenset({"a"})))}, True),
        ({"tables": (an_append(),), "reads": {"s.t": frozenset()}}, False),
        ({"tables": (an_append(),), "reads": {"s.u": None}}, False),
        ({"tables": (an_append(),), "reads": None}, False),
        ({"tables": (an_append(),), "read_objects": ("m",)}, False),
        ({"tables": (an_append(),), "read_objects": None}, False),
        ({"tables": (an_append(), replace(an_append("s.u"), action=TableAction.CREATE))}, False),
        ({"tables": (an_append(), an_append("s.u", verbs=frozenset({"upsert"})))}, False),
        ({"tables": (an_append(), an_append("s.u", operation="delete"))}, False),
        ({"tables": (an_append(structure=frozenset({"schema"})),)}, False),
        ({"tables": (an_append(), replace(an_append("s.u"), action=TableAction.DROP))}, False),
    ],
)
def test_an_append_is_blind_if_the_whole_transaction_is(changes: dict[str, Any], blind: bool) -> None:
    assert a_record(**changes).appends_blindly is blind


def test_unknown_fields_survive_reading_and_writing() -> None:
    full = a_record(app=AppBatch("loader", 1), lake_properties=PropertyChange({"a": "1"}))
    data = json.loads(full.encode()) | {"from_the_future": {"deep": [1, 2]}}
    for part in ("command", "app", "lake_properties"):
        data[part]["also_from_the_future"] = {"deep": None}
    record = Record.decode(json.dumps(data).encode(), Version(7), "here")
    assert json.loads(record.encode()) == data


def test_a_newer_format_is_refused_with_the_release_that_reads_it() -> None:
    data = json.loads(a_record().encode()) | {"format": 2, "needs_release": "3.1.0"}
    with pytest.raises(UnsupportedError) as caught:
        Record.decode(json.dumps(data).encode(), Version(7), "here")
    assert "3.1.0" in caught.value.next_step


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda fields: fields | {"version": 8}, "says that its version is 8"),
        (lambda fields: fields | {"version": -1}, "negative"),
        (lambda fields: fields | {"version": True}, "must be an integer, not true"),
        (lambda fields: fields | {"base": 10**25}, "larger than any number"),
        (lambda fields: fields | {"base": 2**63}, "larger than any number"),
        (lambda fields: fields | {"kind": "\ud800"}, "surrogates not allowed"),
        (lambda fields: fields | {"committed_at": "0001-01-01T00:00:00+23:59"}, "is not a timestamp"),
        (lambda fields: fields | {"deep": nested(101)}, "nested more than 100 deep"),
        (lambda fields: fields | {"txid": "xyz"}, "not a transaction id"),
        (lambda fields: fields | {"committed_at": "yesterday"}, "is not a timestamp"),
        (lambda fields: fields | {"command": []}, "must be an object"),
        (lambda fields: fields | {"cancels": [1]}, "must be a string"),
        (lambda fields: fields | {"lake_properties": {"set": {"a": 1}}}, "must be a string"),
        (lambda fields: {name: value for name, value in fields.items() if name != "previous"}, "missing"),
    ],
)
def test_damage_is_named_with_version_and_object(damage: Any, message: str) -> None:
    data = json.dumps(damage(json.loads(a_record().encode()))).encode()
    with pytest.raises(CorruptLakeError) as caught:
        Record.decode(data, Version(7), "control/log/7.json")
    assert message in caught.value.problem
    assert "version 7" in caught.value.problem
    assert "control/log/7.json" in caught.value.problem


def test_lists_and_objects_may_lie_in_each_other() -> None:
    data = json.loads(a_record().encode()) | {"deep": nested(98), "wide": [[{}]] * 1000}
    record = Record.decode(json.dumps(data).encode(), Version(7), "here")
    assert json.loads(record.encode()) == data


def test_a_year_has_four_digits() -> None:
    record = a_record(started_at=datetime(1, 2, 3, tzinfo=UTC))
    assert Record.decode(record.encode(), Version(7), "here") == record


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"\xff\xfe", b"[1]", b"null", b"[" * 100_000, b"9" * 5000),
        *('{"a":1}'.encode(encoding) for encoding in ("utf-16", "utf-8-sig")),
        b'{"a":"\xed\xa0\x80"}',
    ],
)
def test_what_is_not_a_json_object_is_named(data: bytes) -> None:
    with pytest.raises(CorruptLakeError, match="version 7"):
        Record.decode(data, Version(7), "here")


def test_a_plan_stands_in_its_record_with_what_a_later_release_adds_to_it() -> None:
    txid = TxId("a" * 32)
    for inputs in (frozenset({"00", "ff"}), frozenset[str](), None):
        plan = PendingPlan(
            txid, "compaction", "u", inputs, frozenset({"/a/b"}), Version(7), {"window": [0, 9]}
        )
        record = a_record(kind="plan", plan=plan, completes=(TxId("b" * 32),), cancels=(TxId("c" * 32),))
        assert Record.decode(record.encode(), Version(7), "here") == record
    plain = a_record()
    assert b"plan" not in plain.encode() and b"completes" not in plain.encode()


def test_a_record_with_a_service_that_nobody_knows_is_refused() -> None:
    plan = PendingPlan(TxId("a" * 32), "compaction", "u", None, frozenset(), Version(7))
    data = a_record(plan=plan).encode().replace(b'"compaction"', b'"cleaning"')
    with pytest.raises(CorruptLakeError, match="'cleaning' is not a table service"):
        Record.decode(data, Version(7), "here")


OBJECTS = (
    ObjectCommit("a.v", ObjectAction.CREATE, NamedObject("v", View("SELECT 1"))),
    ObjectCommit("a.w", ObjectAction.RENAME, NamedObject("w", View("SELECT 2")), "a.x"),
    ObjectCommit("a.m", ObjectAction.REPLACE, NamedObject("m", CsvMount("/in", {"fields": []}))),
    ObjectCommit("a.h", ObjectAction.DROP, NamedObject("h", HostMount("/h", Format.JSON, {"fields": []}))),
)


def test_views_and_mounts_are_read_again_with_what_a_later_release_says_of_them() -> None:
    record = a_record(objects=OBJECTS)
    assert Record.decode(record.encode(), Version(7), "here") == record
    data = json.loads(record.encode())
    for change in data["objects"]:
        change["from_the_future"] = {"deep": [1]}
        change["object"]["also_from_the_future"] = [2]
    data["objects"][3]["object"] |= {"kind": "host", "format": "orc"}
    data["objects"].append(
        {"name": "a.k", "action": "create", "object": {"uuid": "k", "kind": "kafka", "topic": "t"}}
    )
    later = Record.decode(json.dumps(data).encode(), Version(7), "here")
    assert json.loads(later.encode()) == data
    assert [change.object.kind for change in later.objects] == ["view", "view", "csv", "host", "kafka"]


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a.v", "action": "paint", "object": {"uuid": "v", "kind": "view", "sql": "SELECT 1"}},
        {"name": "a.v", "action": "create", "object": {"uuid": "v", "kind": "view"}},
        {"name": "a.v", "action": "create", "object": {"uuid": "v", "kind": "csv", "directory": 1}},
        {"name": "a.v", "action": "create"},
    ],
)
def test_an_object_that_is_none_is_named(change: Any) -> None:
    data = json.loads(a_record().encode()) | {"objects": [change]}
    with pytest.raises(CorruptLakeError, match=r"objects\[0\]"):
        Record.decode(json.dumps(data).encode(), Version(7), "here")
