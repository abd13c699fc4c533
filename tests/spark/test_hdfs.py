"""A real HDFS: Hadoop's mini cluster, in a process of its own, where Maven can get it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pyarrow as pa
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from pyspark.sql import SparkSession

import headgate as hg
from headgate.log.driver import Driver
from headgate.log.strategy import strategy_named
from headgate.spark.read.table import Scan
from headgate.spark.store.hadoop import HadoopStore
from headgate.storage.capabilities import Store
from headgate.testing.contracts import (
    KEYS_OUTSIDE,
    ODD_KEYS,
    RenameNoReplaceContract,
    StoreContract,
    StrategyContract,
    StrategyOn,
    race,
)
from tests.contract.test_strategies import HastyHost
from tests.row_deletes import delete_rows
from tests.spark.maven import JARS, Artifact, hadoop_version, resolved
from tests.spark.test_tables import ALL_TYPES, NESTED_TYPES, all_types, frame, nested_types, rows_of

APPENDS = 5
WRITERS = 2


@contextmanager
def mini_cluster(jar: Path, place: Path) -> Iterator[str]:
    """The URL of a NameNode with one DataNode, which run in a JVM of their own until the end of the block."""
    (gateway_jar,) = JARS.glob("py4j-*.jar")
    port, token, process = launch_gateway(
        jarpath=str(gateway_jar),
        classpath=f"{jar}:{JARS}/*",
        javaopts=["-Xmx512m"],
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
    )
    try:
        hadoop: Any = gateway.jvm.org.apache.hadoop
        configuration = hadoop.conf.Configuration()
        builder = getattr(hadoop.hdfs, "MiniDFSCluster$Builder")(
            configuration, gateway.jvm.java.io.File(str(place))
        )
        cluster = builder.numDataNodes(1).build()
        cluster.waitActive()
        yield str(cluster.getURI())
        gateway.close()
    finally:
        process.kill()
        process.wait()
        process.stdin.close()


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cluster = Artifact("org.apache.hadoop", "hadoop-client-minicluster", hadoop_version(), alone=True)
    (jar,) = resolved([cluster], tmp_path_factory.mktemp("maven"))
    with mini_cluster(jar, tmp_path_factory.mktemp("hdfs")) as url:
        yield url


@pytest.fixture
def place(hdfs: str) -> str:
    return f"{hdfs}/lakes/{uuid4().hex}"


class TestContract(StoreContract, RenameNoReplaceContract):
    odd_keys: ClassVar[tuple[str, ...]] = tuple(key for key in ODD_KEYS if ":" not in key)
    refused_keys: ClassVar[tuple[str, ...]] = (*KEYS_OUTSIDE, "a:b", "c/d:e/f")
    races: ClassVar[int] = 5

    @pytest.fixture
    def store(self, session: SparkSession, place: str) -> Store:
        return HadoopStore(session, place)


class TestRename(StrategyContract):
    racers: ClassVar[int] = 4
    versions: ClassVar[int] = 5

    @pytest.fixture
    def store(self, session: SparkSession, place: str) -> Store:
        return HadoopStore(session, place)

    @pytest.fixture
    def strategy_on(self) -> StrategyOn:
        return lambda store: strategy_named("rename", Driver(store, HastyHost()), ordered_listing=True)


def test_tables_through_time(spark: SparkSession, place: str) -> None:
    lake = hg.Lake.init(place)
    assert lake.strategy == "rename"
    df = frame(spark, ALL_TYPES, all_types)
    table = lake.create_table("t.types", df.schema, partition_by=["bucket(3, id)"])
    table.append(df)
    table.append(df.where("id < 10"))
    table.overwrite(df.where("id >= 10"), where="id >= 10")
    again = hg.Lake.open(place).table("t.types")
    assert again.location.startswith(f"{place}/data/")
    assert rows_of(again.read(spark, version=2)) == rows_of(df)
    assert rows_of(again.read(spark)) == rows_of(df.union(df.where("id < 10")))
    assert again.read(spark, where="id = 4").count() == 2
    assert again.read_arrow(where="id < 4").num_rows == 8
    delete_rows(lake, "t.types", "id < 4")
    assert again.read(spark, where="id < 6").count() == 4
    located = Scan(again._view().loader, again._view().files(), again._view().metadata, again.schema).located(
        spark
    )
    assert {located.path(row[0]) for row in located.rows.select("_file").collect()} <= {
        file.path for file in again.files()
    }
    assert lake.doctor().safe


@pytest.mark.parametrize("partition_by", [[], ["bucket(4, id)"]], ids=["plain", "partitioned"])
def test_lists_and_maps_are_put_by_spark(spark: SparkSession, place: str, partition_by: list[str]) -> None:
    """The Python workers, which make these files, do not reach HDFS."""
    lake = hg.Lake.init(place)
    df = frame(spark, NESTED_TYPES, nested_types)
    table = lake.create_table("t.nested", df.schema, partition_by=partition_by)
    table.append(df)
    assert rows_of(table.read(spark)) == rows_of(df)
    assert table.read_arrow().num_rows == df.count()
    assert all(file.path.endswith(".parquet") for file in table.files())


def test_reading_in_python_workers_is_refused(spark: SparkSession, place: str) -> None:
    table = hg.Lake.init(place).create_table("t.one", spark.range(1).schema)
    table.append(spark.range(3))
    spark.conf.set("spark.headgate.files", "arrow")
    table.append(spark.range(3, 5))
    with pytest.raises(hg.UnsupportedError, match="Python workers of Spark cannot reach"):
        table.read(spark)
    spark.conf.unset("spark.headgate.files")
    assert sorted(row.id for row in table.read(spark).collect()) == [0, 1, 2, 3, 4]


def test_writers_of_two_processes(spark: SparkSession, place: str) -> None:
    lake = hg.Lake.init(place)
    lake.create_table("t.shared", "id BIGINT")
    command = [sys.executable, "-m", "tests.spark.hdfs_writer", place, "1000", str(APPENDS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        start, said = other.stdin, other.stdout
        assert start is not None and said is not None
        assert said.readline() == b"ready\n"

        def append_some(writer: int) -> None:
            table = hg.Lake.open(place).table("t.shared")
            for number in range(APPENDS):
                table.append(pa.table({"id": pa.array([writer * APPENDS + number], pa.int64())}))

        def let_go() -> None:
            start.write(b"go\n")
            start.close()
            assert other.wait(120) == 0

        writers: list[Callable[[], None]] = [partial(append_some, writer) for writer in range(WRITERS)]
        race([let_go, *writers])
    found = sorted(row.id for row in lake.table("t.shared").read(spark).collect())
    assert found == [*range(WRITERS * APPENDS), *range(1000, 1000 + APPENDS)]
    assert lake.version == 1 + (WRITERS + 1) * APPENDS
