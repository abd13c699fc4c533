"""Where attempts put the metadata of a table, and lakes whose attempts put it elsewhere."""

from __future__ import annotations

import re
from datetime import timedelta

import pyarrow as pa

import headgate as hg
from headgate.iceberg.format.directories import attempt_metadata
from headgate.model.identifiers import TxId, Version
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import all_keys
from tests.lake.older import COMMITTED, older_lake, rows
from tests.maintenance.aging import AgingHost, Clock

BY_PATH = re.compile(r"data/[^/]+/[^/]+/metadata.*\.metadata\.json.*")
"""What engines take for a version of a table when they list it: some go by the beginning of the key alone,
some below directories, and some by an extension that stands anywhere."""


def numbers(table: pa.Table) -> list[int]:
    return sorted(table.column("n").to_pylist())


def test_no_engine_takes_the_name_of_an_attempt_for_a_version() -> None:
    key = attempt_metadata("data/t/t", Version(7), TxId("0" * 32))
    assert not BY_PATH.fullmatch(key)
    # Given the file itself, engines want this extension, and ClickHouse the number before a dash.
    assert re.fullmatch(r".*/\d{20}-[0-9a-f]{32}\.metadata\.json", key)


def test_an_older_lake_reads_as_it_did() -> None:
    lake = hg.Lake.open(older_lake())
    table = lake.table("t.t")
    assert numbers(table.read_arrow()) == COMMITTED
    assert [numbers(table.read_arrow(version=version)) for version in (2, 4)] == [[0, 1], [*range(6)]]
    assert lake.fsck(all_versions=True, deep=True).ok


def test_an_older_lake_goes_on_with_the_new_names() -> None:
    store = older_lake()
    lake = hg.Lake.open(store)
    table = lake.table("t.t")
    before = set(all_keys(store, "data/"))
    table.append(rows(8, 9))
    table.delete("n = 0")
    new = {key for key in set(all_keys(store, "data/")) - before if key.endswith(".metadata.json")}
    assert {key.split("/")[3] for key in new if not key.rpartition("/")[2].startswith("v")} == {"attempts"}
    assert numbers(table.read_arrow()) == [*COMMITTED[1:], 8, 9]
    assert numbers(table.read_arrow(version=6)) == COMMITTED
    assert [row["_version"] for row in table.changes_arrow(since=5).to_pylist()] == [6, 7, 7, 8]
    assert lake.fsck(all_versions=True, deep=True).ok


def test_vacuum_knows_the_attempts_of_an_older_lake() -> None:
    """What they never committed goes, in both directories; what a version needs stays."""
    store, clock = older_lake(), Clock(timedelta(days=3))
    lake = hg.Lake.open(store, host=AgingHost(clock))
    assert any(f"/metadata/{7:020d}-" in key for key in all_keys(store, "data/"))
    report = lake.vacuum()
    assert len(report.cancelled) == 1
    left = list(all_keys(store, "data/"))
    assert not any(f"/{7:020d}-" in key for key in left)
    assert sum("/metadata/0000" in key for key in left) == 6
    require_clean(lake)


def test_expire_knows_the_metadata_of_an_older_lake() -> None:
    store, clock = older_lake(), Clock(timedelta(days=3))
    lake = hg.Lake.open(store, host=AgingHost(clock))
    lake.table("t.t").append(rows(8))
    clock.pass_time(timedelta(days=3))
    lake.table("t.t").append(rows(9))
    lake.expire(["all:1d"])
    lake.vacuum(older_than="0s")
    left = [key for key in all_keys(store, "data/") if key.endswith(".metadata.json")]
    # The last version that was current within the day, and the newest.
    assert {key.split("/")[3] for key in left} == {"attempts", "metadata"}
    assert not [key for key in left if "/metadata/0000" in key]
    assert numbers(lake.table("t.t").read_arrow()) == [*COMMITTED, 8, 9]
    require_clean(lake)


def test_a_replica_of_an_older_lake() -> None:
    source = hg.Lake.open(older_lake())
    source.table("t.t").append(rows(8))
    target = MemoryStore("replica")
    source.replicate(target)
    replica = hg.Lake.open(target)
    assert numbers(replica.table("t.t").read_arrow()) == [*COMMITTED, 8]
    assert numbers(replica.table("t.t").read_arrow(version=5)) == [*range(8)]
    require_clean(replica)


def require_clean(lake: hg.Lake) -> None:
    report = lake.fsck(all_versions=True, deep=True)
    assert report.ok, report.damage
    assert not [one for one in report.notes if one.kind == "files-unreferenced"]
