"""Versions that are told by later files, read with Spark; views that are refreshed after an expire."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headgate as hg
from headgate.storage.local import LocalStore
from tests.maintenance.aging import AgingHost, Clock
from tests.maintenance.windows import compact_window

pytestmark = pytest.mark.slow

HOURS = timedelta(hours=12)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{number}" for number in ids]})


def test_a_boundary_is_read_from_compacted_files(session: SparkSession, tmp_path: Path) -> None:
    clock = Clock()
    lake = hg.Lake.init(LocalStore(tmp_path / "lake", fsync=False), divisor=4, host=AgingHost(clock))
    table = lake.create_table("t.t", "id BIGINT, name STRING", partition_by=["bucket(2, id)"])
    for number in range(14):
        clock.pass_time(HOURS)
        table.append(rows(3 * number, 3 * number + 1, 3 * number + 2))
        if number % 3 == 2:
            table.delete(f"id IN ({3 * number - 2}, {number})")
    table.rename_column("name", "label")
    table.add_column("name", "BIGINT")  # another column has the name by now
    for last in (4, 8, 12):
        compact_window(lake, "t.t", 1, last)
    clock.pass_time(4 * HOURS)
    table.append(pa.table({"id": [900], "label": ["x"], "name": [1]}))
    before = {version: table.read_arrow(version=version) for version in (8, 12)}
    report = lake.expire(["all:1h", "1:forever"])
    assert {8, 12} <= set(report.kept)
    told = table._view(8)
    assert told.told_by is not None
    for version, expected in before.items():
        frame = table.read(session, version=version)
        assert frame.columns == ["id", "name"]
        found = sorted((row.id, row.name) for row in frame.collect())
        assert found == sorted(zip(*expected.to_pydict().values(), strict=True))
        one = table.read(session, version=version, where="name = 'n6'").collect()
        assert [(row.id, row.name) for row in one] == [(6, "n6")]
        counted = lake.sql(session, f"SELECT count(*) AS n FROM t.t VERSION AS OF {version}").collect()
        assert counted[0].n == expected.num_rows
    with pytest.raises(hg.NotFoundError, match="version 9 has expired"):
        table.read(session, version=9)
    with pytest.raises(hg.NotFoundError, match="version 9 has expired"):
        lake.sql(session, "SELECT * FROM t.t VERSION AS OF 9")


def test_a_view_whose_source_is_expired_is_refreshed_in_full(session: SparkSession, tmp_path: Path) -> None:
    clock = Clock()
    lake = hg.Lake.init(LocalStore(tmp_path / "lake", fsync=False), divisor=4, host=AgingHost(clock))
    table = lake.create_table("t.t", "id BIGINT, name STRING")
    table.append(rows(1, 2))
    lake.create_materialized_view(session, "t.v", "SELECT id FROM t.t")
    for number in range(10):
        clock.pass_time(HOURS)
        table.append(rows(10 + number))
    held = lake.expire(["all:1d"])
    assert (held.until, len(held.held_back)) == (1, 1)
    refreshed = lake.refresh(session, "t.v")
    assert (refreshed.mode, refreshed.rows) == ("incremental", 10)
    clock.pass_time(4 * HOURS)
    table.append(rows(50))
    assert lake.expire(["all:1d"]).until == 13
    # As if it had been left alone for longer than anybody waited for it.
    lake.table("t.v").set_properties({"headgate.view.refreshed-at": "4"})
    refreshed = lake.refresh(session, "t.v")
    assert refreshed.mode == "full"
    assert "have expired" in refreshed.reason
    assert sorted(row.id for row in lake.table("t.v").read(session).collect()) == [1, 2, *range(10, 20), 50]
