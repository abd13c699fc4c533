"""Whatever a caller types wrong is an `InvalidInputError`, and nothing has changed. What storage holds wrong
is a `CorruptLakeError`, or is not needed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.log.layout import IDENTITY, LAST_CHECKPOINT, PLAIN
from headgate.model.identifiers import Version
from headgate.storage.memory import MemoryStore
from headgate.system.host import SYSTEM

HUGE = 10**20
TXID = "0" * 32


@pytest.fixture
def lake() -> hg.Lake:
    lake = hg.Lake.init(MemoryStore(), strategy="conditional")
    lake.set_properties({"a": "1"})
    lake.create_table("sales.orders", "id BIGINT")
    return lake


def begin(**arguments: Any) -> Callable[[Any], object]:
    return lambda lake: lake.transaction(**arguments)


@pytest.mark.parametrize(
    "call",
    [
        lambda lake: lake.at(HUGE),
        lambda lake: lake.at(10**5000),
        lambda lake: lake.at(2**63),
        lambda lake: lake.at("1"),
        lambda lake: lake.at(1.0),
        lambda lake: lake.at(True),
        lambda lake: lake.tables(version=HUGE),
        lambda lake: lake.table("sales.orders", version=HUGE),
        lambda lake: lake.log(limit="5"),
        lambda lake: lake.log(limit=2.5),
        lambda lake: lake.log(limit=-1),
        lambda lake: lake.log(limit=True),
        lambda lake: lake.log(before="x"),
        lambda lake: lake.log(before=2.5),
        lambda lake: lake.resolve(5),
        begin(app=("\udcff", 1)),
        begin(app=("x", 10**5000)),
        begin(app=("x", 2**63)),
        begin(app=("x", -1)),
        begin(app=("x", True)),
        begin(app=("", 1)),
        begin(app="x"),
        begin(args=None),
        begin(args=5),
        begin(args="load"),
        begin(args=[1]),
        begin(args=["\ud800"]),
        begin(properties=5),
        begin(properties={"a": 5}),
        begin(retry=3),
        lambda lake: lake.set_properties({"a": 10**5000}),
        lambda lake: lake.set_properties({"db.password": "hunter2"}),
        lambda lake: lake.table("sales.orders").set_properties({"a": 5}),
        lambda lake: lake.table("sales.orders").set_properties({"api-key": "hunter2"}),
        lambda lake: lake.create_table("sales.more", "id BIGINT", properties={"secret": "hunter2"}),
        lambda lake: lake.create_table("sales.more", "id BIGINT", properties=5),
        lambda lake: lake.create_table("sales.more", "id BIGINT", partition_by=5),
        lambda lake: lake.create_table("sales.more", "id BIGINT", partition_by=None),
        lambda lake: lake.create_table("sales.more", "id BIGINT", partition_by="id"),
        lambda lake: lake.table("sales.orders").read_arrow(columns=5),
        lambda lake: lake.table("sales.orders").read_arrow(columns="id"),
        lambda lake: lake.table("sales.orders").read_arrow(columns=[5]),
        lambda lake: lake.change_strategy([]),
        lambda lake: lake.create_table("sales.more", "id BIGINT", partition_by=[f"bucket({2**31}, id)"]),
        lambda lake: lake.create_table("sales.more", "id BIGINT", partition_by=[f"truncate({2**31}, id)"]),
        lambda lake: lake.create_table("sales.more", "id BIGINT", sort_by=[f"bucket({'9' * 5000}, id)"]),
        lambda lake: lake.table("sales.orders").add_partition_field(f"bucket({HUGE}, id)"),
        lambda lake: lake.replicate(MemoryStore("other"), progress=5),
        lambda lake: lake.rebuild_control(progress=5),
        lambda lake: lake.fsck(progress=5),
        lambda lake: lake.at().table("sales.orders").append(pa.table({"id": [1]})),
        lambda lake: lake.at(2).table("sales.orders").overwrite(pa.table({"id": [1]})),
        lambda lake: lake.at(2).table("sales.orders").overwrite_partitions(pa.table({"id": [1]})),
        lambda lake: lake.at(2).table("sales.orders").delete("true"),
        lambda lake: lake.at(2).table("sales.orders").update({"id": "id + 1"}),
        lambda lake: lake.at(2).table("sales.orders").upsert(pa.table({"id": [1]}), ["id"]),
        lambda lake: lake.at(2).table("sales.orders").merge(pa.table({"id": [1]}), on="t.id = s.id"),
        lambda lake: lake.at(2).table("sales.orders").set_properties({"a": "1"}),
        lambda lake: lake.at(2).table("sales.orders").remove_properties("a"),
        lambda lake: lake.table("sales.orders", version=2).add_column("x", "INT"),
        lambda lake: lake.table("sales.orders", version=2).add_partition_field("id"),
    ],
)
def test_wrong_arguments_are_refused_and_change_nothing(
    lake: hg.Lake, call: Callable[[hg.Lake], object]
) -> None:
    with pytest.raises(hg.InvalidInputError) as caught:
        call(lake)
    assert "hunter2" not in str(caught.value)
    assert lake.version == 2


@pytest.mark.parametrize("act", [hg.Lake.open, hg.Lake.init])
@pytest.mark.parametrize("place", [None, b"", b"/tmp/lake", 5, object(), [], "", "a\nb"])
def test_a_place_is_a_path_a_url_or_a_store(act: Callable[[Any], object], place: Any) -> None:
    with pytest.raises(hg.InvalidInputError):
        act(place)


def test_a_path_of_bytes_is_refused(tmp_path: Path) -> None:
    hg.Lake.init(tmp_path / "lake")
    entries: list[Any] = list(os.scandir(os.fsencode(tmp_path)))
    with pytest.raises(hg.InvalidInputError, match="bytes"):
        hg.Lake.open(entries[0])


def test_init_refuses_whoever_cannot_be_told_of_the_probe_before_it_makes_a_lake() -> None:
    store = MemoryStore()
    with pytest.raises(hg.InvalidInputError, match="on_probe must be a function, not a int"):
        hg.Lake.init(store, on_probe=5)  # type: ignore[arg-type]
    assert store.list_page("").keys == ()


def test_the_most_buckets_that_other_engines_have(lake: hg.Lake) -> None:
    table = lake.create_table("sales.wide", "id BIGINT", partition_by=[f"bucket({2**31 - 1}, id)"])
    table.append(pa.table({"id": [34]}))
    assert table.read_arrow(where="id = 34").num_rows == 1


def test_init_refuses_a_wrong_policy_before_it_makes_a_lake() -> None:
    store, policy = MemoryStore(), object()
    with pytest.raises(hg.InvalidInputError, match="RetryPolicy"):
        hg.Lake.init(store, retry=policy)  # type: ignore[arg-type]
    assert store.list_page("").keys == ()


@pytest.mark.parametrize(
    "values",
    [
        {"attempts": "x"},
        {"attempts": 2.5},
        {"attempts": 0},
        {"attempts": True},
        {"base": 1},
        {"cap": None},
        {"total": "1 s"},
        {"base": timedelta(seconds=-1)},
        {"cap": timedelta(seconds=-1)},
        {"total": timedelta(seconds=-1)},
        {"base": timedelta.max},
        {"cap": timedelta(days=2)},
    ],
)
def test_a_retry_policy_has_sane_values(values: dict[str, Any]) -> None:
    with pytest.raises(hg.InvalidInputError):
        hg.RetryPolicy(**values)


def test_patience_can_be_without_end() -> None:
    lake = hg.Lake.init(MemoryStore(), retry=hg.RetryPolicy(total=timedelta.max))
    assert lake.set_properties({"a": "1"}).version == 1


def test_arguments_may_come_one_by_one(lake: hg.Lake) -> None:
    with lake.transaction(args=(word for word in ("load", "--fast"))) as tx:  # type: ignore[arg-type]
        tx.set_properties({"a": "2"})
    assert lake.log(limit=1)[0].args == ("load", "--fast")


def test_a_user_whose_name_is_not_utf8_can_commit(lake: hg.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann\udcff")
    lake.set_properties({"a": "2"})
    assert lake.log(limit=1)[0].user == "ann\\udcff"
    assert SYSTEM.user().encode()


# Secrets.


def test_no_secret_of_the_command_or_the_remarks_is_on_storage() -> None:
    store = MemoryStore()
    lake = hg.Lake.init(store)
    table = lake.create_table("sales.orders", "id BIGINT")
    remarks = {"password": "hunter2", "X-Api-Key": "hunter2", "note": "token=hunter2", "ticket": "42"}
    with lake.transaction(["--password=hunter2", "load"], properties=remarks) as tx:
        tx.table(table.name).append(pa.table({"id": [1]}))
    entry = lake.log(limit=1)[0]
    assert entry.args == ("--password=***", "load")
    assert dict(entry.properties) == {
        "password": "***",
        "X-Api-Key": "***",
        "note": "token=***",
        "ticket": "42",
    }
    for key in store.list_page("").keys:
        assert b"hunter2" not in (store.get(key) or b"")


def test_a_property_with_a_secret_name_can_be_removed(lake: hg.Lake) -> None:
    assert lake.remove_properties("db.password").version == 3


# What is on storage.


def test_advice_that_cannot_be_read_is_not_needed() -> None:
    store = MemoryStore()
    lake = hg.Lake.init(store, strategy="conditional")
    for number in range(12):
        lake.set_properties({"n": str(number)})
    for advice in (b'{"version":100000000000000000000}', b'{"version":1e3}', b"[]", b"\xff", b"[" * 100_000):
        store.put(LAST_CHECKPOINT, advice)
        assert hg.Lake.open(store).version == 12


@pytest.mark.parametrize(
    "damage",
    [{"base": 10**25}, {"kind": "\ud800"}, {"committed_at": "0001-01-01T00:00:00+23:59"}],
)
def test_a_damaged_record_is_named(damage: dict[str, Any]) -> None:
    store = MemoryStore()
    hg.Lake.init(store, strategy="conditional").set_properties({"a": "1"})
    key = PLAIN.record_key(Version(1))
    store.put(key, json.dumps(json.loads(store.get(key) or b"") | damage).encode())
    with pytest.raises(hg.CorruptLakeError, match=key):
        hg.Lake.open(store).log()


@pytest.mark.parametrize("divisor", [0, 1, 1001, 10**7, 10**30])
def test_an_identity_with_an_impossible_divisor_is_named(divisor: int) -> None:
    store = MemoryStore()
    hg.Lake.init(store)
    store.put(IDENTITY, json.dumps(json.loads(store.get(IDENTITY) or b"") | {"divisor": divisor}).encode())
    with pytest.raises(hg.CorruptLakeError, match=r"headgate\.json"):
        hg.Lake.open(store)


def test_a_name_with_a_number_beyond_all_versions_announces_nothing() -> None:
    assert PLAIN.indexed_version(f"control/log/{'9' * 20}.json") is None
    assert PLAIN.indexed_version(PLAIN.record_key(Version(2**63 - 1))) == Version(2**63 - 1)
