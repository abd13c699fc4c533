"""`s3://` from a plain pip install, through Arrow in the Python workers; and with Hadoop's connector."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

import headgate as hg
from headgate.storage.location import open_store
from headgate.storage.requests import all_keys
from headgate.testing.contracts import race
from tests.row_deletes import delete_rows
from tests.servers.s3 import Behaviour, S3Server
from tests.spark.maven import Artifact, hadoop_version, resolved
from tests.spark.test_tables import ALL_TYPES, NESTED_TYPES, all_types, frame, nested_types, rows_of

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
IGNORING = Behaviour(ignore_if_none_match=True)
SDK_VERSION = "2.35.4"
"""Of the AWS SDK, whose modules for S3 are a fiftieth of the bundle that hadoop-aws asks for."""


@pytest.fixture
def options(s3: S3Server) -> dict[str, str]:
    return {**s3.options, "secret_access_key": SECRET}


@pytest.fixture(params=["conditional", "filetracker"])
def lake(request: pytest.FixtureRequest, s3: S3Server, options: dict[str, str]) -> Iterator[hg.Lake]:
    """On a storage that knows `If-None-Match`, and on one that ignores it."""
    ignoring = request.param == "filetracker"
    with s3.behaving(IGNORING) if ignoring else contextlib.nullcontext():
        lake = hg.Lake.init(s3.url(f"spark-{uuid4().hex}"), options=options)
        assert lake.strategy == request.param
        yield lake


def test_all_types_through_time(lake: hg.Lake, spark: SparkSession) -> None:
    df, nested = frame(spark, ALL_TYPES, all_types), frame(spark, NESTED_TYPES, nested_types)
    with lake.transaction() as tx:
        tx.create_table("t.types", df.schema, partition_by=["bucket(2, id)", "flag"]).append(df)
        tx.create_table("t.nested", nested.schema).append(nested)
    table = lake.table("t.types")
    table.append(df.where("id < 5"))
    assert rows_of(table.read(spark, version=1)) == rows_of(df)
    assert rows_of(table.read(spark)) == rows_of(df.union(df.where("id < 5")))
    assert rows_of(lake.table("t.nested").read(spark)) == rows_of(nested)
    assert table.read(spark, where="id = 4").count() == 2
    delete_rows(lake, "t.types", "id IN (1, 4)")
    assert rows_of(table.read(spark)) == rows_of(df.union(df.where("id < 5")).where("id NOT IN (1, 4)"))


def test_racing_appends(lake: hg.Lake, spark: SparkSession) -> None:
    table = lake.create_table("t.shared", spark.range(1).schema)
    table.append(spark.range(100, 110))

    def append_some(writer: int) -> None:
        for number in range(2):
            start = writer * 10 + number * 5
            table.append(spark.range(start, start + 5, 1, 1))

    race([partial(append_some, writer) for writer in range(3)])
    assert sorted(row.id for row in table.read(spark).collect()) == [*range(30), *range(100, 110)]
    assert lake.version == 8


def test_credentials_reach_the_workers_and_nobody_else(
    s3: S3Server, options: dict[str, str], spark: SparkSession
) -> None:
    place = s3.url(f"spark-{uuid4().hex}")
    lake = hg.Lake.init(place, options=options)
    table = lake.create_table("t.one", spark.range(1).schema)
    table.append(spark.range(10))
    rows = table.read(spark)
    assert rows.count() == 10
    explained = io.StringIO()
    with contextlib.redirect_stdout(explained):
        rows.explain("extended")
    assert "headgate_arrow_read" in explained.getvalue()
    assert SECRET not in explained.getvalue()
    assert SECRET not in json.dumps([dict(entry.record) for entry in lake.log()])
    store = open_store(place, s3.options)
    assert not any(SECRET.encode() in (store.get(key) or b"") for key in all_keys(store, ""))


def test_through_hadoop_where_it_has_a_connector(
    s3: S3Server, tmp_path: Path, options: dict[str, str]
) -> None:
    """In a process of its own: a connector must be there when the JVM starts."""
    jars = resolved(
        [
            Artifact("org.apache.hadoop", "hadoop-aws", hadoop_version(), alone=True),
            Artifact(
                "software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1", alone=True
            ),
            Artifact("software.amazon.awssdk", "s3-transfer-manager", SDK_VERSION),
            Artifact("software.amazon.awssdk", "apache-client", SDK_VERSION),
        ],
        tmp_path,
    )
    # Spark has its own of these.
    added = [jar for jar in jars if not jar.name.startswith(("slf4j", "netty", "commons-", "jackson"))]
    place = s3.url(f"spark-{uuid4().hex}")
    command = [sys.executable, "-m", "tests.spark.s3a_writer", place, json.dumps(options)]
    done = subprocess.run(
        [*command, ",".join(map(str, added))], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split() == ["Spark's", "Parquet", "40", "40", "40"]
