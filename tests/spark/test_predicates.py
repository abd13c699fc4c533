"""Predicates mean to Spark what they mean through Arrow, whatever the time zone of the session."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import assign_fresh_schema_ids
from pyspark.sql import SparkSession

from headgate.iceberg.arrow import schema_from_arrow
from headgate.iceberg.binding import bind_text
from headgate.iceberg.row_filter import selected
from headgate.iceberg.spark_text import BUCKET_FUNCTION, to_spark_sql
from tests.iceberg.predicates import PREDICATES, SCHEMA, Example, rows, table

ONCE = settings(
    max_examples=4, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_spark_selects_the_rows_that_arrow_selects(spark: SparkSession, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    schema = assign_fresh_schema_ids(schema_from_arrow(SCHEMA))

    @ONCE
    @given(rows(30, 40), st.lists(PREDICATES, min_size=40, max_size=60), st.integers())
    def agree(given_rows: list[dict[str, object]], examples: list[Example], seed: int) -> None:
        random.Random(seed).shuffle(given_rows)
        data = table(list(given_rows))
        bound = [bind_text(example.text, schema) for example in examples if "bucket" not in example.text]
        texts = [to_spark_sql(predicate) for predicate in bound]
        assert not any(BUCKET_FUNCTION in text for text in texts)
        frame = spark.createDataFrame(data)
        counts = [f"count_if({text})" for text in texts]
        (told,) = frame.selectExpr(*counts).collect()
        for text, predicate, count in zip(texts, bound, told, strict=True):
            assert selected(data, predicate).to_pylist().count(True) == count, text

    agree()
