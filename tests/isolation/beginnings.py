"""Every public method of a lake and of a table: those that commit, with a call of each, and the others.

A call gets a handle that has not looked at storage since somebody else has committed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import headgate as hg
from headgate.core.retention.expire_policy import ExpirePolicy, Tier
from headgate.lake.table import Table
from headgate.storage.memory import MemoryStore

TABLE = "a.b"
DDL = "id BIGINT NOT NULL, n INT, p STRING"
SOME = "ab" * 16
HERE = Path(__file__).parent
BRIEF = ExpirePolicy((Tier(0, timedelta(microseconds=1)),))
Call = Callable[[hg.Lake], object]


def rows(*numbers: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "n": pa.array(numbers, pa.int32()),
            "p": ["x"] * len(numbers),
        }
    )


def a_lake() -> MemoryStore:
    """A lake that every call below finds something to do in."""
    store = MemoryStore("beginnings")
    lake = hg.Lake.init(store, strategy="conditional", divisor=2)
    table = lake.create_table(
        TABLE,
        DDL,
        partition_by=["p"],
        sort_by=["id"],
        properties={"a": "1"},
    )
    for number in range(6):
        table.append(rows(number))
    lake.create_table("a.free", "id BIGINT")
    lake.create_view("a.view", "SELECT 1 AS one")
    lake.tag("known", 1)
    lake.set_properties({"a": "1"})
    with lake.transaction() as tx:
        tx.plan("compaction", "a.free", ["f"], ["/a/free"])
    left = lake.transaction()
    left.table(TABLE).append(rows(99))
    left.abort()
    return store


def on_table(call: Callable[[Table], object]) -> Call:
    # Not `lake.table`, which looks whether there is one.
    return lambda lake: call(Table(lake, TABLE))


OF_LAKE: dict[str, Call] = {
    "cancel": lambda lake: lake.cancel(SOME),
    "change_strategy": lambda lake: lake.change_strategy("filetracker"),
    "compact": lambda lake: lake.compact(table=TABLE),
    "create_table": lambda lake: lake.create_table("a.c", "id BIGINT"),
    "create_view": lambda lake: lake.create_view("a.other", "SELECT 2 AS two"),
    "drop_object": lambda lake: lake.drop_object("a.view"),
    "drop_table": lambda lake: lake.drop_table(TABLE),
    "expire": lambda lake: lake.expire(BRIEF),
    "mount_csv": lambda lake: lake.mount_csv("a.csv", HERE, schema="id BIGINT"),
    "mount_directory": lambda lake: lake.mount_directory("a.host", HERE, format="text"),
    "recover": lambda lake: lake.recover(patience=timedelta(0)),
    "remove_properties": lambda lake: lake.remove_properties("a"),
    "rename_object": lambda lake: lake.rename_object("a.view", "a.other"),
    "rename_table": lambda lake: lake.rename_table(TABLE, "a.c"),
    "resolve": lambda lake: lake.resolve(SOME),
    "set_properties": lambda lake: lake.set_properties({"a": "2"}),
    "tag": lambda lake: lake.tag("new"),
    "transaction": lambda lake: _committed(lake.transaction()),
    "untag": lambda lake: lake.untag("known"),
    "vacuum": lambda lake: lake.vacuum(older_than=timedelta(0)),
}
OF_TABLE: dict[str, Call] = {
    "add_column": on_table(lambda table: table.add_column("more", "INT")),
    "add_partition_field": on_table(lambda table: table.add_partition_field("bucket(2, id)")),
    "append": on_table(lambda table: table.append(rows(9))),
    "cluster": on_table(lambda table: table.cluster(None, ["n"])),
    "delete": on_table(lambda table: table.delete("id = 0")),
    "describe_column": on_table(lambda table: table.describe_column("id", "a number")),
    "drop_column": on_table(lambda table: table.drop_column("n")),
    "drop_partition_field": on_table(lambda table: table.drop_partition_field("p")),
    "make_optional": on_table(lambda table: table.make_optional("id")),
    "move_column": on_table(lambda table: table.move_column("p", first=True)),
    "overwrite": on_table(lambda table: table.overwrite(rows(9))),
    "overwrite_partitions": on_table(lambda table: table.overwrite_partitions(rows(9))),
    "remove_properties": on_table(lambda table: table.remove_properties("a")),
    "rename_column": on_table(lambda table: table.rename_column("n", "m")),
    "replace_partition_by": on_table(lambda table: table.replace_partition_by([])),
    "replace_sort_by": on_table(lambda table: table.replace_sort_by(["n"])),
    "set_properties": on_table(lambda table: table.set_properties({"a": "2"})),
    "update": on_table(lambda table: table.update({"p": "'y'"}, "id = 0")),
    "upsert": on_table(lambda table: table.upsert(rows(0), ["id"])),
    "widen_column": on_table(lambda table: table.widen_column("n", "BIGINT")),
}
WITH_SPARK: dict[str, Callable[[hg.Lake, Any], object]] = {
    "Lake.create_materialized_view": lambda lake, spark: lake.create_materialized_view(
        spark, "a.sum", "SELECT sum(id) AS total FROM a.b"
    ),
    "Lake.refresh": lambda lake, spark: lake.refresh(spark, "a.stale"),
    "Table.merge": lambda lake, spark: (
        Table(lake, TABLE)
        .merge(spark.createDataFrame(rows(0)), on="t.id = s.id")
        .when_matched_delete()
        .commit()
    ),
}
COMMITS: dict[str, Call] = {
    **{f"Lake.{name}": call for name, call in OF_LAKE.items()},
    **{f"Table.{name}": call for name, call in OF_TABLE.items()},
}
BLIND = {"Lake.remove_properties", "Lake.set_properties", "Table.append"}
"""What they commit follows from nothing that they found, so they need not look for what is new."""
LOOK_ON = {
    *(
        f"Lake.{name}"
        for name in ("at", "compaction_outlook", "control", "doctor", "fsck", "log", "log_frame")
    ),
    *(
        f"Lake.{name}"
        for name in ("metrics", "namespaces", "objects", "open_hooks", "sql", "table", "tables")
    ),
    *(f"Lake.{name}" for name in ("attempts", "measure", "recovery_needed", "timeline")),
    *(f"Table.{name}" for name in ("changes", "changes_arrow", "files", "history", "plan", "read")),
    "Table.read_arrow",
    "Table.read_batches",
}
BESIDE_THE_LOG = {
    *(f"Lake.{name}" for name in ("add_hook", "promote", "rebuild_control", "replicate", "run_hooks")),
    "Lake.skip_hooks",
}
"""They write, but no version."""


def public_methods() -> set[str]:
    """Every method that there is, as `Lake.name` and `Table.name`."""
    return {
        f"{owner.__name__}.{name}"
        for owner in (hg.Lake, Table)
        for name in dir(owner)
        if not name.startswith("_") and inspect.isfunction(inspect.getattr_static(owner, name))
    }


def _committed(tx: Any) -> None:
    tx.set_properties({"by": "a transaction"})
    tx.commit()
