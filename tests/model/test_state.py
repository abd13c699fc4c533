"""Checkpoints: the same bytes for the same state, and no damage goes unnoticed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.identifiers import TxId, Version
from headgate.model.json_object import digest, encode
from headgate.model.named_object import CsvMount, Foreign, Format, HostMount, NamedObject, View
from headgate.model.plan import PendingPlan
from headgate.model.state import AppProgress, LakeState
from headgate.model.table import TableRef

STATE = LakeState(
    Version(20),
    "sha256:1",
    "rename",
    "sha256:0",
    {"owner": "ann"},
    {"sales.orders": TableRef("u", "data/sales/orders", "data/sales/orders/metadata/1.json")},
    {"loader": AppProgress(4, Version(17))},
    {TxId("b" * 32): Version(9)},
    plans={
        TxId("c" * 32): PendingPlan(
            TxId("c" * 32),
            "clustering",
            "u",
            frozenset({"0f", "1e"}),
            frozenset({"/sales/orders/day=1"}),
            Version(12),
            {"window": [10, 20]},
        ),
        TxId("d" * 32): PendingPlan(TxId("d" * 32), "compaction", "u", None, frozenset(), Version(13)),
    },
    objects={
        "sales.recent": NamedObject("v", View("SELECT 1"), {"later": [1]}),
        "raw.orders": NamedObject("m", CsvMount("/in", {"type": "struct"}, False, ";")),
        "raw.logs": NamedObject("h", HostMount("/logs", Format.TEXT, {"type": "struct"})),
        "raw.stream": NamedObject("f", Foreign("kafka", {"topic": "orders"})),
    },
)


def test_a_checkpoint_is_the_state() -> None:
    assert LakeState.decode(STATE.encode(), Version(20), "here") == STATE


def test_a_checkpoint_that_was_written_before_there_were_plans_is_read() -> None:
    fields = json.loads(STATE.encode())
    del fields["plans"], fields["checksum"]
    older = encode({**fields, "checksum": digest(encode(fields))})
    assert LakeState.decode(older, Version(20), "here") == replace(STATE, plans={})


def test_a_checkpoint_that_was_written_before_there_were_views_is_read() -> None:
    without = replace(STATE, objects={})
    assert "objects" not in json.loads(without.encode())
    assert LakeState.decode(without.encode(), Version(20), "here") == without


def test_the_order_of_names_does_not_change_the_bytes() -> None:
    one = LakeState(Version(1), "d", "rename", "i", {"a": "1", "b": "2"})
    other = LakeState(Version(1), "d", "rename", "i", {"b": "2", "a": "1"})
    assert one.encode() == other.encode()


@given(position=st.integers(0, len(STATE.encode()) - 1), value=st.integers(0, 255))
def test_any_changed_byte_is_noticed(position: int, value: int) -> None:
    data = STATE.encode()
    damaged = data[:position] + bytes([value]) + data[position + 1 :]
    if damaged == data:
        return
    # A damaged format number reads as that of a later release, which is refused as well.
    with pytest.raises((CorruptLakeError, UnsupportedError)):
        LakeState.decode(damaged, Version(20), "here")


@pytest.mark.parametrize(
    "damage",
    [
        {"apps": {"loader": {"batch": 1, "version": 10**21}}},
        {"cancelled": {"b" * 32: 10**21}},
        {"cancelled": {"b": 1}},
        {"plans": {"c": {"service": "clustering", "table": "u", "paths": [], "version": 1}}},
        {"plans": {"c" * 32: {"service": "cleaning", "table": "u", "paths": [], "version": 1}}},
        {"objects": {"a.v": {"uuid": "v", "kind": "view"}}},
        {"objects": {"a.v": {"uuid": "v", "kind": "csv", "directory": "/in", "columns": 1}}},
        {"properties": {"owner": "\ud800"}},
    ],
)
def test_what_no_checkpoint_can_hold_is_named(damage: dict[str, Any]) -> None:
    fields = json.loads(STATE.encode()) | damage
    del fields["checksum"]
    # With a checksum that fits, where there is one: then only the range of the number is wrong.
    checksum = digest(encode(fields)) if "properties" not in damage else "sha256:0"
    data = json.dumps({**fields, "checksum": checksum}).encode()
    with pytest.raises(CorruptLakeError, match=r"the checkpoint of version 20 \(here\)"):
        LakeState.decode(data, Version(20), "here")
