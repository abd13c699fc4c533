"""No credential that Spark is given with a change is anywhere in the lake: MERGE, queries and views."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import headgate as hg
from tests.steward.secrets import SHAPES, Attempts, require_nowhere

SOME = ("user of a url", "option and value", "aws key", "sas", "json", "jwt")
"""Not all: how a text is cleaned does not depend on Spark, and every change of rows is some jobs."""


def test_changes_queries_and_views(spark: SparkSession, tmp_path: Path) -> None:
    lake, attempt = hg.Lake.init(tmp_path / "lake", divisor=4), Attempts()
    table = lake.create_table("a.b", "id BIGINT, name STRING")
    table.append(pa.table({"id": pa.array(range(8), pa.int64()), "name": [f"n{n}" for n in range(8)]}))
    source = spark.createDataFrame([(1, "x"), (99, "y")], "id BIGINT, name STRING")
    for number, text in enumerate(SHAPES[name] for name in SOME):
        quoted = text.replace("\\", "").replace("'", "")
        literal = f"'{quoted}'"
        done = attempt.done
        merge = table.merge(source, on=f"t.id = s.id AND t.name != {literal}", args=[text])
        merge = merge.when_matched_update({"name": "s.name"}, condition=f"s.name != {literal}")
        attempt(merge.when_not_matched_insert(condition=f"s.name != {literal}").commit)
        attempt(lambda: table.delete(f"id = 99 OR name = {literal}", args=[text]))  # noqa: B023
        attempt(lambda: table.update({"id": "id"}, where=f"name != {literal}", args=[text]))  # noqa: B023
        attempt(lambda: lake.sql(spark, f"SELECT id FROM a.b WHERE name = {literal}").collect())  # noqa: B023
        assert attempt.done >= done + 3
        name, alias = f"a.v{number}", text.replace("`", "")
        for query in (
            f"SELECT id, name FROM a.b WHERE name != {literal}",
            f"SELECT id, {literal} AS noted FROM a.b",
            f"SELECT id AS `{alias}` FROM a.b",
            f"SELECT id FROM a.b /* {text} */",
        ):
            attempt(lambda: lake.create_materialized_view(spark, name, query))  # noqa: B023
        attempt(lambda: lake.refresh(spark, name))  # noqa: B023
        attempt(lambda: table.cluster(spark, [text], args=[text]))  # noqa: B023
        attempt(lambda: table.cluster(spark, ["id"], where=f"name = {literal}", args=[text]))  # noqa: B023
    lake.compact(spark)
    assert attempt.refused > 2 * len(SOME)
    assert lake.fsck().ok
    require_nowhere(tmp_path / "lake")
