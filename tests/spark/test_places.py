"""Where rows are, told by numbers of files in place of their names."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import headgate as hg
from headgate.spark.read.row_locations import Located

ALIKE = ("plumless", "buckeroo")
"""Two texts with the same CRC-32."""


def located(spark: SparkSession, *names: str) -> Located:
    rows = spark.createDataFrame([(name, 3) for name in names], "_file STRING, _pos BIGINT")
    return Located(
        rows, "_file", "_pos", lambda shown: f"/{shown}", lambda: {f"/{one}": (one,) for one in names}
    )


def test_names_of_files_become_numbers(spark: SparkSession) -> None:
    names = ("a", "file:/x%20y/ä.parquet")
    short = located(spark, *names).short()
    assert dict(short.rows.dtypes) == {"_file": "bigint", "_pos": "bigint"}
    assert {short.path(row._file) for row in short.rows.collect()} == {f"/{name}" for name in names}
    assert {number for (number,) in short.shown().values()} == {row._file for row in short.rows.collect()}
    assert set(short.gather(short.rows).of({0}).by_file) == {f"/{name}" for name in names}
    with pytest.raises(hg.HeadgateError, match="not asked to read"):
        short.path(7)


def test_names_with_the_same_number_stay(spark: SparkSession) -> None:
    short = located(spark, *ALIKE).short()
    assert {short.path(row._file) for row in short.rows.collect()} == {f"/{name}" for name in ALIKE}
