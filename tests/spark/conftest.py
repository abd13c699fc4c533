"""One Spark session for all tests of a process. Starting it takes seconds, so all tests here are `slow`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame as Frame
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

import headgate as hg
from headgate.spark.read.table import NESTED_PRUNING

PLACES = ("test_cluster", "test_hadoop", "test_hdfs", "test_own_session", "test_s3")
"""What takes minutes, or needs Maven: `make places`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if item.path.stem in PLACES:
                item.add_marker(pytest.mark.places)
            if "session" in getattr(item, "fixturenames", ()):
                # One worker of xdist has the session: a second JVM would take memory and cores from it.
                item.add_marker(pytest.mark.xdist_group("spark"))


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


@pytest.fixture(autouse=True)
def no_texts_for_the_parser_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our code gives conditions to Spark as columns: Spark replaces `${…}` in strings (`test_house`)."""
    for name in ("filter", "where"):
        of_spark = getattr(DataFrame, name)

        def checked(rows: Frame, condition: Any, of_spark: Any = of_spark) -> Frame:
            caller = str(sys._getframe(1).f_globals.get("__name__"))
            is_ours = caller.startswith("headgate.") and not caller.startswith("headgate.cli.demo")
            assert not (is_ours and isinstance(condition, str)), f"{caller}: {condition}"
            found: Frame = of_spark(rows, condition)
            return found

        monkeypatch.setattr(DataFrame, name, checked)


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
