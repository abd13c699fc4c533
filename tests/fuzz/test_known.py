"""Calls that once raised something else than an error of the tree."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.core.retention.expire_policy import Tier
from headgate.errors import InvalidInputError
from headgate.lake.ingest.load import IngestOptions, ingest
from headgate.storage.memory import MemoryStore

TWICE = pa.table([[1], [2]], names=["id", "id"])


@pytest.fixture
def lake() -> hg.Lake:
    lake = hg.Lake.init(MemoryStore())
    lake.create_table("db.t", "id BIGINT, name STRING").append(pa.table({"id": [1], "name": ["a"]}))
    return lake


@pytest.mark.parametrize(
    "call",
    [
        lambda lake: lake.table("db.t").append(TWICE),
        lambda lake: lake.table("db.t").overwrite(TWICE),
        lambda lake: lake.table("db.t").upsert(TWICE, keys=["id"]),
        lambda lake: lake.table("db.t").overwrite_partitions(TWICE),
        lambda lake: lake.table("db.t").describe_column("id", "\ud800"),
        lambda lake: lake.table("db.t").describe_column("id", 7),
        lambda lake: lake.table("db.t").move_column("name", first="x"),
        lambda lake: lake.table("db.t").add_column("more", "INT", first=1),
        lambda lake: lake.transaction().set_tag("x", 10**30),
        lambda lake: lake.tag("x", 10**30),
        lambda lake: lake.transaction().cancel("0" * 32),
        lambda _: hg.ExpirePolicy((Tier(10**30, None),)),
        lambda lake: lake.create_table("db.deep", pa.schema([("id", nested(300))])),
        lambda lake: lake.create_table("db.deep", pa.schema([("id", nested(60))])),
        lambda lake: lake.create_table("db.deep", f"id {'ARRAY<' * 49}INT{'>' * 49}"),
    ],
)
def test_they_are_rejected(lake: hg.Lake, call: Callable[[hg.Lake], Any]) -> None:
    before = lake.version
    with pytest.raises((InvalidInputError, hg.NotFoundError)):
        call(lake)
    assert lake.version == before


def test_large_numbers_are_as_good_as_none(lake: hg.Lake) -> None:
    assert len(lake.log(limit=10**30)) == len(lake.log()) == 2
    assert len(lake.timeline(limit=10**30)) == 2
    assert lake.vacuum(older_than=timedelta.max).objects == 0
    assert lake.table("db.t").read_arrow(limit=10**30).num_rows == 1


def nested(depth: int) -> pa.DataType:
    kind = pa.int64()
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


@pytest.mark.parametrize("depth", [60, 150, 300, 900, 5000])
@pytest.mark.parametrize("schema", [None, "id BIGINT"])
def test_deep_json_lines(tmp_path: Path, lake: hg.Lake, depth: int, schema: str | None) -> None:
    file = tmp_path / "deep.jsonl"
    file.write_text('{"id": ' + "[" * depth + "]" * depth + "}\n")
    with pytest.raises(InvalidInputError, match=r"deep\.jsonl, line 1"):
        ingest(lake, "db.deep", [str(file)], IngestOptions(schema=schema))


def test_types_that_parquet_can_hold_are_written_and_read(lake: hg.Lake) -> None:
    deep = nested(40)
    value: Any = 1
    for _ in range(40):
        value = [value]
    table = lake.create_table("db.deep", pa.schema([("id", deep)]))
    table.append(pa.table({"id": pa.array([value], deep)}))
    assert table.read_arrow()["id"].to_pylist() == [value]
