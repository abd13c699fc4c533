"""One Spark session for all tests of a process. Starting it takes seconds, so all tests here are `slow`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headgate as hg
from headgate.spark.read import NESTED_PRUNING

PLACES = ("test_cluster", "test_hadoop", "test_hdfs", "test_own_session", "test_s3")
"""What takes minutes, or needs Maven: `make places`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if item.path.stem in PLACES:
                item.add_marker(pytest.mark.places)


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    spark = hg.session(
        "local[2]",
        spark_sql_shuffle_partitions=4,
        spark_sql_warehouse_dir=str(warehouse),
        spark_driver_memory="1g",
    )
    yield spark
    spark.stop()


@pytest.fixture
def spark(session: SparkSession) -> Iterator[SparkSession]:
    """The session, with its settings as they were when the test ends."""
    yield session
    session.conf.unset("spark.headgate.files")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.unset(NESTED_PRUNING)


@pytest.fixture
def lake(tmp_path: Path) -> hg.Lake:
    return hg.Lake.init(tmp_path / "lake")


@pytest.fixture(params=["native", "arrow"])
def both_ways(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    """Run with Spark's own Parquet reader and writer, and with Arrow in the Python workers."""
    spark.conf.set("spark.headgate.files", request.param)
    return str(request.param)
