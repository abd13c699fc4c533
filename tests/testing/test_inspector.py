"""The inspector shows what a lake consists of, and changes nothing."""

from __future__ import annotations

import pytest

import headgate as hg
from headgate.model.identifiers import StrategyName, Version
from headgate.model.json_object import digest
from headgate.model.record import Record
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector


@pytest.mark.parametrize("strategy", [name.value for name in StrategyName])
def test_it_shows_the_storage_the_log_and_the_control_entries(strategy: str) -> None:
    store = MemoryStore()
    lake = hg.Lake.init(store, strategy=strategy, divisor=4)
    lake.set_properties({"a": "1"})
    lake.set_properties({"a": "2"})
    inside = Inspector(lake)
    assert inside.store is store
    assert inside.identity.divisor == 4
    assert inside.newest.version == Version(2)
    assert inside.record(2) == Record.decode(inside.data(2), Version(2), "here")
    assert inside.record(2).previous == inside.digest(1) == digest(inside.data(1))
    entry = inside.entries.read(Version(2))
    assert entry is not None and entry.record == inside.digest(2) == inside.newest.digest
    assert inside.keys("control/txn/") == [f"control/txn/{number:020d}.json" for number in (1, 2)]
    assert set(inside.keys("control/")) < set(inside.keys())


def test_what_is_done_through_the_store_is_not_counted() -> None:
    lake = hg.Lake.init(MemoryStore())
    before = lake.metrics()
    Inspector(lake).store.put("data/stray", b"")
    assert lake.metrics() == before


def test_another_handle_can_be_opened_on_the_same_storage() -> None:
    lake = hg.Lake.init(MemoryStore())
    other = hg.Lake.open(Inspector(lake).store)
    other.set_properties({"a": "1"})
    assert Inspector(lake).newest.version == Version(0)
    assert Inspector(lake).refresh().version == Inspector(lake).newest.version == Version(1)


def test_what_is_done_through_the_driver_is_counted() -> None:
    lake = hg.Lake.init(MemoryStore())
    before = lake.metrics().requests
    Inspector(lake).driver.put("data/stray", b"")
    assert lake.metrics().requests != before


def test_the_loader_reads_the_metadata_of_tables() -> None:
    lake = hg.Lake.init(MemoryStore())
    lake.create_table("a.b", "id BIGINT")
    inside = Inspector(lake)
    ref = inside.refresh().tables["a.b"]
    assert inside.loader().metadata(ref.metadata).uuid == ref.uuid
