"""What a user does who has a session already."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession

import headgate as hg
from headgate.spark.session import REQUIRED
from tests.spark.test_tables import ALL_TYPES, NESTED_TYPES, all_types, frame, nested_types, rows_of


def main(place: str) -> None:
    builder: Any = SparkSession.builder
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        # Settings of old clusters, which would make wrong files.
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.fieldId.write.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.master("local[2]").getOrCreate()
    lake = hg.Lake.init(place)
    df, nested = frame(spark, ALL_TYPES, all_types), frame(spark, NESTED_TYPES, nested_types)
    table = lake.create_table("t.types", df.schema, partition_by=["day(at)"])
    table.append(df)
    lists = lake.create_table("t.nested", nested.schema)
    lists.append(nested)
    table.rename_column("name", "title")
    assert rows_of(table.read(spark)) == rows_of(df.withColumnRenamed("name", "title"))
    assert rows_of(lists.read(spark)) == rows_of(nested)
    assert all(spark.conf.get(name) == value for name, value in REQUIRED.items())
    # What is not required stays as the user has it.
    assert spark.conf.get("spark.sql.session.timeZone") == "America/St_Johns"
    sys.stdout.write(f"{table.read(spark).count()} {lists.read(spark).count()}")


if __name__ == "__main__":
    main(sys.argv[1])
