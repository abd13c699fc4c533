"""Spark opens files by name: names that lead out of a local lake are not given to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headgate as hg
from headgate.errors import CorruptLakeError, StorageRefusedError
from headgate.spark.store.hadoop import HadoopStore
from headgate.storage.local import LocalStore
from tests.hostile.crafting import change_avro, make_lake, manifests, rename_files


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
