"""Handing rows to Python: PySpark takes the names of columns for expressions, so none are told to it."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.schema import Schema
from pyspark.sql import DataFrame


def to_be_handed_over(rows: DataFrame) -> DataFrame:
    """The rows, with names that mean nothing."""
    return rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))


def handed_over(batch: pa.RecordBatch, schema: Schema) -> pa.Table:
    """What arrived of rows with the columns of `schema`, under their own names again."""
    return pa.Table.from_batches([batch]).rename_columns([field.name for field in schema.fields])
