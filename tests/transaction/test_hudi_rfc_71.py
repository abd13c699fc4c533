"""The example of Hudi's RFC 71: a compaction that is planned between two writes of the same file group.

t0 is the last compaction. t1 writes and has not seen the plan, t2 plans to compact the file group, t3 writes
and has seen the plan, then the compaction of t2 is committed. In Hudi either the change of t1 is lost, or
that of t3 is dirty. Here a compaction carries row changes along, or is refused; no order loses a change.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pyarrow as pa
import pytest

import headgate as hg
from headgate.storage.memory import MemoryStore
from tests.compactions import compact_files

TABLE = "sales.fg1"
MODES = ("merge-on-read", "copy-on-write")
ORDERS = list(permutations(("t1", "t2", "t3")))


def file_group(mode: str, compaction: str) -> hg.Lake:
    """A table with one file, which a compaction has left: t0."""
    lake = hg.Lake.init(MemoryStore(), divisor=2)
    properties = {"write.update.mode": mode, "conflict.compaction": compaction}
    table = lake.create_table(TABLE, "id BIGINT, n BIGINT", properties=properties)
    for number in (1, 3):
        table.append(pa.table({"id": [number, number + 1], "n": [0, 0]}))
    with lake.transaction(["t0"]) as t0:
        compact_files(t0, TABLE, [file.path for file in table.files()])
    return lake


def changed(lake: hg.Lake, key: int, name: str) -> hg.Transaction:
    tx = lake.transaction([name])
    tx.table(TABLE).update({"n": "7"}, where=f"id = {key}")
    return tx


def ends(commit: Callable[[], object]) -> bool:
    try:
        commit()
    except hg.ConflictError:
        return False
    return True


def content(lake: hg.Lake) -> dict[int, int]:
    return {row["id"]: row["n"] for row in lake.table(TABLE).read_arrow().to_pylist()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("compaction", ["carry", "strict"])
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_rfc_71_t0_to_t3(mode: str, compaction: str, order: tuple[str, ...]) -> None:
    """Whoever is told that it committed finds its change, whatever the order in which they commit."""
    lake = file_group(mode, compaction)
    t1 = changed(lake, 1, "t1")  # before the plan
    with lake.transaction(["t2.compaction.requested"]) as requested:
        plan = requested.plan("compaction", TABLE, [file.path for file in lake.table(TABLE).files()], [])
    t2 = lake.transaction(["t2"])
    t2.complete(plan)
    compact_files(t2, TABLE, [file.path for file in lake.table(TABLE).files()])
    try:
        t3 = changed(lake, 2, "t3")  # has seen the plan
        pending = {"t1": t1.commit, "t2": t2.commit, "t3": t3.commit}
    except hg.ConflictError:
        pending = {"t1": t1.commit, "t2": t2.commit}
    done = {name: ends(pending[name]) for name in order if name in pending}
    expected = {1: 7 * done["t1"], 2: 7 * done.get("t3", False), 3: 0, 4: 0}
    assert content(lake) == expected
    assert not lake.fsck(deep=True).damage
    if compaction == "carry" and mode == "merge-on-read":
        assert done == {"t1": True, "t2": True, "t3": True}  # nobody had to give way
    assert any(done.values())
