"""A lake with everything in it that a replica must bring along, and what makes two lakes the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import headgate as hg
from headgate.core.input.arguments import found_table
from headgate.log.layout import REPLICA
from headgate.storage.requests import all_keys
from headgate.testing.inspector import Inspector
from tests.compactions import compact_files

ORDERS, TOTALS = "shop.orders", "shop.totals"
SCHEMA = "id BIGINT, day INT, name STRING"


def rows(*ids: int, day: int = 1, name: str = "a") -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": pa.array([day] * len(ids), pa.int32()),
            "name": pa.array([name] * len(ids), pa.string()),
        }
    )


def fill(lake: hg.Lake) -> None:
    """Commits of every kind: some 20 versions."""
    orders = lake.create_table(ORDERS, SCHEMA, partition_by=["day"])
    orders.append(rows(1, 2, 3))
    orders.append(rows(4, 5, 6, day=2))
    lake.tag("early")
    orders.delete("id = 2")
    orders.update({"name": "'b'"}, where="id = 5")
    orders.upsert(rows(3, 7, day=1, name="c"), keys=["id"])
    with lake.transaction(["nightly"], app=("loader", 1)) as tx:
        tx.create_table(TOTALS, "day INT, n BIGINT")
        tx.table(TOTALS).append(pa.table({"day": pa.array([1], pa.int32()), "n": pa.array([4], pa.int64())}))
        tx.table(ORDERS).append(rows(8, day=3))
    orders.add_partition_field("bucket(2, id)")
    orders.append(rows(9, 10, 11, day=3))
    orders.rename_column("name", "label")
    with lake.transaction() as tx:
        compact_files(tx, ORDERS, [file.path for file in orders.files()])
    orders.delete("id = 9")
    lake.rename_table(TOTALS, "shop.sums")
    lake.table("shop.sums").append(
        pa.table({"day": pa.array([2], pa.int32()), "n": pa.array([9], pa.int64())})
    )
    lake.create_table("shop.gone", "x INT").append(pa.table({"x": pa.array([1], pa.int32())}))
    lake.drop_table("shop.gone")
    careful = lake.create_table(
        "shop.careful",
        SCHEMA,
        properties={"write.delete.mode": "copy-on-write", "write.update.mode": "copy-on-write"},
    )
    careful.append(rows(1, 2, 3, 4))
    careful.delete("id = 2")
    careful.update({"name": "'z'"}, where="id = 3")
    lake.set_properties({"owner": "ann"})


def contents(lake: hg.Lake) -> list[Any]:
    """Everything that can be read of a lake: of all versions, the tables and their rows."""
    return [contents_at(lake, version) for version in range(lake.version + 1)]


def contents_at(lake: hg.Lake, version: int) -> Any:
    view = lake.at(version)
    tables = {name: table_rows(view.table(name).read_arrow()) for name in view.tables()}
    return view.version, dict(view.properties), view.strategy, dict(view.tags), view.committed_at, tables


def table_rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


def assert_same(source: hg.Lake, replica: hg.Lake) -> None:
    """The same versions, log, tables, rows; and nothing in the replica leads to the source."""
    assert (replica.id, replica.version) == (source.id, source.version)
    assert replica.log() == source.log()
    assert contents(replica) == contents(source)
    for name in source.tables():
        changes = [lake.table(name).changes_arrow(since=0) for lake in (source, replica)]
        assert changes[0].sort_by([("_version", "ascending")]).num_rows == changes[1].num_rows
        assert table_rows(changes[0]) == table_rows(changes[1])


def assert_complete(lake: hg.Lake) -> None:
    """Nothing is wrong with it; every version has its entry, every table is published as it is."""
    assert lake.fsck(all_versions=True, deep=True).damage == ()
    for version in range(1, lake.version + 1):
        entry = lake.control(version)
        assert entry is not None and not entry.open_hooks, version
    store = Inspector(lake).store
    for name in lake.tables():
        ref = found_table(Inspector(lake).refresh(), name)
        hint = store.get(f"{ref.location}/metadata/version-hint.text")
        assert hint is not None
        published = store.get(f"{ref.location}/metadata/v{hint.decode()}.metadata.json")
        assert published == store.get(ref.metadata)


def objects(lake: hg.Lake) -> dict[str, bytes]:
    """All objects of a lake but those whose bytes say when, by whom, or in which attempt."""
    store = Inspector(lake).store
    found = {key: store.get(key) or b"" for key in all_keys(store, "")}
    skipped = (
        REPLICA,
        "control/probe/",
        "control/log/commit/",
        "control/log/archive/",
        "control/log/tracker/",
    )
    return {key: data for key, data in found.items() if not key.startswith(skipped)}
