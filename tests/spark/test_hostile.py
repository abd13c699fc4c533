"""Spark opens files by name: names that lead out of a local lake are not given to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import headgate as hg
from headgate.errors import CorruptLakeError, StorageRefusedError
from headgate.spark.store.hadoop import HadoopStore
from headgate.storage.local import LocalStore
from tests.hostile.crafting import (
    change_avro,
    change_json,
    make_lake,
    manifests,
    metadata_files,
    rename_files,
)


def swapped_for_links(lake: Path, outside: Path) -> None:
    """The data files lie elsewhere now, behind links of the old names."""
    outside.mkdir()
    for number, file in enumerate(sorted((lake / "data/t/t/data").rglob("*.parquet"))):
        file.rename(outside / f"{number}.parquet")
        file.symlink_to(outside / f"{number}.parquet")


@pytest.mark.parametrize("way", ["native", "arrow"])
def test_spark_reads_nothing_behind_a_link(session: SparkSession, tmp_path: Path, way: str) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    table = lake.create_table("t.t", "id BIGINT", properties={"write.delete.mode": "merge-on-read"})
    table.append(pa.table({"id": [1, 2, 3]}))
    table.delete("id = 2")
    session.conf.set("spark.headgate.files", way)
    try:
        assert table.read(session).count() == 2
        swapped_for_links(tmp_path / "lake", tmp_path / "outside")
        with pytest.raises(Exception, match="symbolic link"):
            hg.Lake.open(tmp_path / "lake").table("t.t").read(session).collect()
    finally:
        session.conf.unset("spark.headgate.files")


def test_spark_writes_nothing_behind_a_link(session: SparkSession, tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    table = lake.create_table("t.t", "id BIGINT")
    directory, outside = tmp_path / "lake/data/t/t/data", tmp_path / "outside"
    outside.mkdir()
    directory.symlink_to(outside)
    session.conf.set("spark.headgate.files", "native")
    try:
        with pytest.raises(StorageRefusedError, match="symbolic link"):
            table.append(session.range(3).toDF("id"))
    finally:
        session.conf.unset("spark.headgate.files")
    assert list(outside.iterdir()) == []


def test_a_hadoop_store_on_a_disk_follows_no_link(session: SparkSession, tmp_path: Path) -> None:
    store = HadoopStore(session, f"file://{tmp_path}/lake")
    store.put("a/key", b"1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"2")
    (tmp_path / "lake/a/out").symlink_to(outside)
    (tmp_path / "lake/a/loop").symlink_to(".")
    os.mkfifo(tmp_path / "lake/a/pipe")
    calls: list[Callable[[], object]] = [
        partial(store.get, "a/out/secret"),
        partial(store.put, "a/out/secret", b""),
        partial(store.delete, "a/out/secret"),
        partial(store.rename_no_replace, "a/out/secret", "a/stolen"),
        partial(store.rename_no_replace, "a/key", "a/out/given"),
        partial(store.list_page, "a/out/"),
        partial(store.list_times, "a/out/"),
        partial(store.get, "a/pipe"),
    ]
    for call in calls:
        with pytest.raises(StorageRefusedError, match=r"symbolic link|not a regular file"):
            call()
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert store.list_page("").keys == ("a/key", "a/loop", "a/out", "a/pipe")
    assert {one.key for one in store.list_times("").objects} >= {"a/key", "a/out"}


@pytest.mark.parametrize("way", ["native", "arrow"])
def test_spark_reads_no_file_that_a_manifest_names_outside_of_the_lake(
    session: SparkSession, tmp_path: Path, way: str
) -> None:
    # Opened otherwise than below: so the two handles do not share what they have read.
    lake = hg.Lake.init(LocalStore(tmp_path / "lake", fsync=False))
    table = lake.create_table("t.t", "id BIGINT")
    table.append(pa.table({"id": [1, 2, 3]}))
    (file,) = (tmp_path / "lake/data/t/t/data").rglob("*.parquet")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.parquet").write_bytes(file.read_bytes())
    rename_files(tmp_path / "lake", lambda _: f"file://{tmp_path}/lake/data/../../outside/secret.parquet")
    session.conf.set("spark.headgate.files", way)
    try:
        with pytest.raises(Exception, match="is outside of"):
            hg.Lake.open(tmp_path / "lake").table("t.t").read(session).collect()
    finally:
        session.conf.unset("spark.headgate.files")


NAMES = (
    "{lake}/data/%2e%2e/%2e%2e/outside/secret.parquet",
    "{lake}/data/t/t/data/..%2f..%2f..%2foutside%2fsecret.parquet",
    "{lake}/data/t/t/data/p=a%2Fb%3Ac%25/missing.parquet",
    "{lake}/data/t/t/data/{{a,b}}*.parquet",
    "{lake}/data/t/t/data/x?y=1#z.parquet",
    "{lake}/data/t/t/data/",
    "{lake}/data/t/t/metadata/version-hint.text",
    "{lake}/control/log/00000000000000000001.json",
    "file://localhost{lake}/data/t/t/data/x.parquet",
    "jar:file:/x!/y.parquet",
    "s3a://bucket/x.parquet",
    "",
)
"""What a manifest calls its data files, or its delete files. None of them is a Parquet file."""


@pytest.mark.parametrize("content", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_with_any_name_is_an_error_of_ours(
    session: SparkSession, tmp_path: Path, name: str, content: int
) -> None:
    make_lake(tmp_path / "lake")
    told = name.format(lake=f"file://{tmp_path}/lake").replace("localhostfile://", "localhost")

    def change(entry: dict[str, Any]) -> None:
        if entry["data_file"]["content"] == content:
            entry["data_file"]["file_path"] = told

    for path in manifests(tmp_path / "lake"):
        change_avro(path, change)
    table = hg.Lake.open(tmp_path / "lake").table("t.t")
    for way in ("native", "arrow"):
        session.conf.set("spark.headgate.files", way)
        try:
            if way == "arrow" and told.startswith("file:///") and told.endswith(".parquet"):
                table.read(session)  # the workers find out that it does not exist
                continue
            with pytest.raises(CorruptLakeError):
                table.read(session).collect()
        finally:
            session.conf.unset("spark.headgate.files")


def list_position(lake: Path, position: int) -> None:
    """The delete file of the lake lists another position."""
    path = next(path for path in lake.rglob("*.parquet") if "pos" in pq.read_schema(path).names)
    before = pq.read_table(path)
    pq.write_table(pa.table({"file_path": before["file_path"][:1], "pos": [position]}), path)


@pytest.mark.parametrize("position", [9, 2**35])
def test_spark_needs_no_bit_for_a_position_that_a_file_does_not_have(
    session: SparkSession, tmp_path: Path, position: int
) -> None:
    make_lake(tmp_path / "lake")
    list_position(tmp_path / "lake", position)
    table = hg.Lake.open(tmp_path / "lake").table("t.t")
    session.conf.set("spark.headgate.files", "native")
    try:
        with pytest.raises(CorruptLakeError, match=f"the table refers to row {position:,} of it"):
            table.read(session).collect()
    finally:
        session.conf.unset("spark.headgate.files")


def test_spark_tells_no_position_that_a_file_does_not_have(session: SparkSession, tmp_path: Path) -> None:
    """A manifest says that a file has 64 billion rows. One is deleted, the change feed lists the others."""
    lake = hg.Lake.init(LocalStore(tmp_path / "lake", fsync=False))
    table = lake.create_table("t.t", "id BIGINT", properties={"write.delete.mode": "merge-on-read"})
    table.append(pa.table({"id": [1, 2, 3]}))
    table.delete("id = 2")
    table.overwrite(pa.table({"id": [7]}))

    def change(entry: dict[str, Any]) -> None:
        if entry["data_file"]["content"] == 0:
            entry["data_file"]["record_count"] = 2**36

    for path in manifests(tmp_path / "lake"):
        change_avro(path, change)
    table = hg.Lake.open(tmp_path / "lake").table("t.t")
    with pytest.raises(
        CorruptLakeError, match="has 3 rows, but the table refers to row 68,719,476,735 of it"
    ):
        table.changes(session, since=3)
    with pytest.raises(
        CorruptLakeError, match="has 3 rows, but the table refers to row 68,719,476,735 of it"
    ):
        table.changes_arrow(since=3)


def test_a_table_that_is_partitioned_by_what_it_does_not_have(session: SparkSession, tmp_path: Path) -> None:
    lake = hg.Lake.init(LocalStore(tmp_path / "lake", fsync=False))
    lake.create_table("t.t", "id BIGINT, d DATE", partition_by=["month(d)"])

    for source in (1, 99):  # a number, and nothing
        for path in metadata_files(tmp_path / "lake"):
            change_json(path, partial(partitioned_by, source))
        table = hg.Lake.open(tmp_path / "lake").table("t.t")
        for rows in (pa.table({"id": [1]}), session.range(3).selectExpr("id", "CAST(NULL AS DATE) AS d")):
            with pytest.raises(CorruptLakeError, match="rows are partitioned or sorted by"):
                table.append(rows)


def partitioned_by(source: int, metadata: dict[str, Any]) -> None:
    metadata["partition-specs"][0]["fields"][0]["source-id"] = source
