"""Version 0 is audited as every other: who made the lake, where, and with which arguments."""

from __future__ import annotations

import json
from pathlib import Path

import headgate as hg
from headgate.log.layout import IDENTITY, TRACKER
from headgate.model.identifiers import GENESIS
from headgate.storage.memory import MemoryStore


def test_the_log_shows_who_made_the_lake() -> None:
    lake = hg.Lake.init(MemoryStore(), args=["setup", "--password", "hunter2"])
    lake.set_properties({"n": "1"})
    assert [entry.version for entry in lake.log()] == [1]
    first, made = lake.log(init=True)
    assert (made.version, made.kind, made.committed_at) == (0, "init", lake.created_at)
    assert (made.user, made.host) == (first.user, first.host)
    assert made.args == ("setup", "--password", "***")
    assert made.record["lake_id"] == lake.id and made.txid == lake.id


def test_version_0_counts_and_is_chosen_as_every_other() -> None:
    lake = hg.Lake.init(MemoryStore())
    lake.set_properties({"n": "1"})
    user = lake.log()[0].user
    assert [entry.version for entry in lake.log(init=True, limit=1)] == [1]
    assert [entry.version for entry in lake.log(init=True, before=1)] == [0]
    assert [entry.version for entry in lake.log(init=True, user=user)] == [1, 0]
    assert lake.log(init=True, user="nobody-else") == ()
    assert lake.log(init=True, table="a.b") == ()
    assert lake.log(init=True, since="2200-01-01") == ()
    assert [entry.version for entry in lake.log(init=True, kind="init")] == [0]


def test_a_lake_of_an_earlier_release_shows_what_is_known() -> None:
    store = MemoryStore()
    lake = hg.Lake.init(store)
    fields = json.loads(store.get(IDENTITY) or b"")
    del fields["command"]
    for key in (IDENTITY, TRACKER.record_key(GENESIS)):
        store.put(key, json.dumps(fields).encode())
    (made,) = hg.Lake.open(store).log(init=True)
    assert (made.version, made.user, made.host, made.args) == (0, "", "", ())
    assert made.committed_at == lake.created_at


def test_a_replica_has_the_same_version_0(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake", args=["setup"])
    lake.set_properties({"n": "1"})
    lake.replicate(tmp_path / "replica")
    assert hg.Lake.open(tmp_path / "replica").log(init=True)[-1].args == ("setup",)
