"""Tables in a record: what is written is read again, also what only a newer release knows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import CorruptLakeError
from headgate.model.identifiers import Version
from headgate.model.json_object import JsonObject, encode
from headgate.model.table import StructurePart, TableAction, TableCommit, TableRef

REF = TableRef("u", "data/sales/orders", "data/sales/orders/metadata/1.json")


def read(fields: dict[str, Any]) -> TableCommit:
    return TableCommit.from_json(JsonObject.parse(encode(fields), "here"), Version(9))


@given(
    structure=st.frozensets(st.sampled_from([*(part.value for part in StructurePart), "from-the-future"])),
    dropped=st.frozensets(st.integers(1, 10**6)),
    properties=st.frozensets(st.text(min_size=1, max_size=5)),
    replaces_all=st.booleans(),
)
def test_a_written_table_is_read_again(
    structure: frozenset[str], dropped: frozenset[int], properties: frozenset[str], replaces_all: bool
) -> None:
    commit = TableCommit(
        "sales.orders",
        TableAction.CHANGE,
        REF,
        snapshot_id=7,
        operation="append",
        replaces_all=replaces_all,
        property_names=properties,
        structure=structure,
        dropped_fields=dropped,
        unknown={"later": [1]},
    )
    assert read(commit.to_json()) == commit


def test_what_did_not_change_is_not_written() -> None:
    fields = TableCommit("sales.orders", TableAction.CHANGE, REF).to_json()
    assert set(fields) == {"name", "action", "uuid", "location", "metadata"}


@pytest.mark.parametrize(
    "damage",
    [{"dropped_fields": ["1"]}, {"dropped_fields": 1}, {"structure": [1]}, {"dropped_fields": [True]}],
)
def test_damage_is_named(damage: dict[str, Any]) -> None:
    fields = TableCommit("sales.orders", TableAction.CHANGE, REF).to_json()
    with pytest.raises(CorruptLakeError, match="here: field"):
        read({**fields, **damage})
