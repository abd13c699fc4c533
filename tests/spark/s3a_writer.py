"""A session with Hadoop's connector for S3, which writes and reads with Spark's own Parquet."""

from __future__ import annotations

import json
import sys

import headgate as hg
from headgate.spark.reach import way_to_write
from headgate.spark.read.table import Scan
from headgate.storage.location import open_store
from tests.row_deletes import delete_rows
from tests.spark.test_tables import ALL_TYPES, NESTED_TYPES, all_types, frame, nested_types, rows_of


def main(place: str, options: dict[str, str], jars: str) -> None:
    spark = hg.session(
        "local[2]",
        spark_jars=jars,
        **{
            "spark.driver.memory": "1g",
            "spark.hadoop.fs.s3a.endpoint": options["endpoint"],
            "spark.hadoop.fs.s3a.endpoint.region": options["region"],
            "spark.hadoop.fs.s3a.access.key": options["access_key_id"],
            "spark.hadoop.fs.s3a.secret.key": options["secret_access_key"],
            "spark.hadoop.fs.s3a.path.style.access": "true",
        },
    )
    lake = hg.Lake.init(place, options=options)
    df, nested = frame(spark, ALL_TYPES, all_types), frame(spark, NESTED_TYPES, nested_types)
    table = lake.create_table("t.types", df.schema, partition_by=["bucket(2, id)", "name"])
    table.append(df)
    lists = lake.create_table("t.nested", nested.schema)
    lists.append(nested)
    assert rows_of(table.read(spark)) == rows_of(df)
    assert rows_of(lists.read(spark)) == rows_of(nested)
    way = way_to_write(spark, open_store(place, options), lists_or_maps=False)
    counts = [table.read(spark).count(), lists.read(spark).count(), table.read_arrow().num_rows]
    delete_rows(lake, "t.types", "id IN (3, 4, 5, 6)")
    assert rows_of(table.read(spark)) == rows_of(df.where("id NOT IN (3, 4, 5, 6)"))
    view = table._view()
    located = Scan(view.loader, view.files(), view.metadata, table.schema).located(spark)
    assert {located.path(row[0]) for row in located.rows.select("_file").collect()} <= {
        file.path for file in table.files()
    }
    sys.stdout.write(" ".join([way.value, *map(str, counts)]))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])
