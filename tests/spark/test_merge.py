"""MERGE and upsert with Spark, beside a merge that is computed row by row in Python."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import headgate as hg
from headgate.model.reports import RowCounts
from headgate.spark.change import kept_rows
from headgate.spark.change.kept_rows import FETCHED_BYTES, NOBODY_KNOWS, Kept, is_little, keep
from headgate.transaction.conflicts import TransactionConflictError
from tests.spark.test_row_changes import MODES, modes

COLUMNS = "id BIGINT, p STRING, v INT"
Values: TypeAlias = dict[str, Any]
Pair: TypeAlias = tuple[Values, Values]
"""A row of the table and one of the source; one that is not there is empty."""


@dataclass(frozen=True)
class Said:
    """The same for Spark and for Python."""

    sql: str
    value: Callable[[Values, Values], Any]


@dataclass(frozen=True)
class Clause:
    kind: str
    condition: Said | None = None
    values: tuple[tuple[str, Said], ...] | None = None

    def added_to(self, merge: Any) -> Any:
        condition = None if self.condition is None else self.condition.sql
        step = getattr(merge, f"when_{self.kind}")
        if self.values is None:
            return step(condition=condition)
        return step({name: said.sql for name, said in self.values}, condition=condition)

    def applies(self, t: Values, s: Values) -> bool:
        return self.condition is None or self.condition.value(t, s) is True


def compared(left: Any, right: Any, holds: Callable[[Any, Any], bool]) -> bool | None:
    return None if left is None or right is None else holds(left, right)


CONDITIONS = {
    "matched": [
        Said("t.v > s.v", lambda t, s: compared(t["v"], s["v"], lambda a, b: a > b)),
        Said("s.p = 'x'", lambda t, s: compared(s["p"], "x", lambda a, b: a == b)),
        Said("t.p is null or s.v is null", lambda t, s: t["p"] is None or s["v"] is None),
    ],
    "not_matched": [
        Said("s.v >= 5", lambda t, s: compared(s["v"], 5, lambda a, b: a >= b)),
        Said("s.p is not null", lambda t, s: s["p"] is not None),
    ],
    "not_matched_by_source": [
        Said("t.v < 4", lambda t, s: compared(t["v"], 4, lambda a, b: a < b)),
        Said("t.p = 'y'", lambda t, s: compared(t["p"], "y", lambda a, b: a == b)),
    ],
}
VALUES: dict[str, list[tuple[tuple[str, Said], ...] | None]] = {
    "matched_update": [
        None,
        (("v", Said("coalesce(s.v, 0) - t.id", lambda t, s: (s["v"] or 0) - t["id"])),),
        (("p", Said("concat(t.p, s.p)", lambda t, s: t["p"] + s["p"] if t["p"] and s["p"] else None)),),
    ],
    "not_matched_insert": [
        None,
        (("id", Said("s.id", lambda t, s: s["id"])), ("v", Said("7", lambda t, s: 7))),
    ],
    "not_matched_by_source_update": [(("v", Said("null", lambda t, s: None)),)],
}
ON = [
    Said("t.id = s.id", lambda t, s: compared(t["id"], s["id"], lambda a, b: a == b)),
    Said(
        "s.id = t.id AND t.p <=> s.p",
        lambda t, s: t["p"] == s["p"] and compared(t["id"], s["id"], lambda a, b: a == b),
    ),
    Said("t.id < s.id - 8", lambda t, s: compared(t["id"], s["id"], lambda a, b: a < b - 8)),
]


def merged(
    table: list[Values], source: list[Values], on: Said, clauses: Sequence[Clause]
) -> list[Values] | None:
    """What the rows of a table become; None if two rows of the source would change one."""

    def first(match: str, t: Values, s: Values) -> Clause | None:
        kinds = {"matched": ("matched_update", "matched_delete"), "not_matched": ("not_matched_insert",)}
        wanted = kinds.get(match, ("not_matched_by_source_update", "not_matched_by_source_delete"))
        return next((c for c in clauses if c.kind in wanted and c.applies(t, s)), None)

    result, met = [], set[int]()
    for t in table:
        numbers = [number for number, s in enumerate(source) if on.value(t, s) is True]
        met.update(numbers)
        found = [(first("matched", t, source[number]), source[number]) for number in numbers]
        if not numbers:
            found = [(first("not_matched_by_source", t, {}), {})]
        changes = [(clause, s) for clause, s in found if clause is not None]
        if len(changes) > 1:
            return None
        if not changes:
            result.append(t)
        elif not changes[0][0].kind.endswith("delete"):
            result.append(assigned(t, *changes[0], t))
    for number, s in enumerate(source):
        clause = None if number in met else first("not_matched", {}, s)
        if clause is not None:
            result.append(assigned({}, clause, s, dict.fromkeys(("id", "p", "v"))))
    return result


def assigned(t: Values, clause: Clause, s: Values, rest: Values) -> Values:
    if clause.values is None:
        return dict(s)
    return {**rest, **{name: said.value(t, s) for name, said in clause.values}}


def some_clauses(random_: random.Random) -> list[Clause]:
    """Clauses of several kinds; of each kind, all but the last have a condition."""
    clauses: list[Clause] = []
    for match, kinds in (
        ("matched", ["matched_update", "matched_delete"]),
        ("not_matched", ["not_matched_insert"]),
        ("not_matched_by_source", ["not_matched_by_source_update", "not_matched_by_source_delete"]),
    ):
        count = random_.choice([0, 1, 2, 3])
        for number in range(count):
            kind = random_.choice(kinds)
            last = number == count - 1
            condition = None if last and random_.random() < 0.5 else random_.choice(CONDITIONS[match])
            clauses.append(Clause(kind, condition, random_.choice(VALUES.get(kind, [None]))))
    return clauses or [Clause("matched_delete")]


def some_rows(random_: random.Random, count: int, distinct: bool) -> list[Values]:
    ids = random_.sample(range(14), count) if distinct else [random_.randrange(14) for _ in range(count)]
    return [
        {
            "id": None if random_.random() < 0.1 else number,
            "p": random_.choice(["x", "y", "z", None]),
            "v": random_.choice([None, *range(10)]),
        }
        for number in ids
    ]


def frame(spark: SparkSession, rows: Sequence[Values], columns: str = COLUMNS) -> DataFrame:
    names = [part.split()[0] for part in columns.split(", ")]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], columns)


def found_in(rows: DataFrame) -> list[Values]:
    return ordered([row.asDict() for row in rows.collect()])


def ordered(rows: list[Values]) -> list[Values]:
    return sorted(rows, key=lambda row: repr((row["id"], row["p"], row["v"])))


LAYOUTS: list[tuple[str, str, list[str]]] = [
    ("auto", "merge-on-read", ["p"]),
    ("auto", "copy-on-write", []),
    ("native", "merge-on-read", []),
    ("native", "copy-on-write", ["bucket(3, id)"]),
    ("arrow", "merge-on-read", ["p"]),
    ("arrow", "copy-on-write", []),
]


@pytest.mark.parametrize("seed", range(12))
def test_random_merges_beside_python(lake: hg.Lake, spark: SparkSession, seed: int) -> None:
    random_ = random.Random(seed)
    way, mode, partition_by = LAYOUTS[seed % len(LAYOUTS)]
    spark.conf.set("spark.headgate.files", way)
    table = lake.create_table("t.m", COLUMNS, partition_by=partition_by, properties=modes(mode))
    rows = some_rows(random_, 9, distinct=False)
    table.append(frame(spark, rows))
    for _ in range(2):
        # Twice, so that the second finds deleted rows and images.
        on, clauses = random_.choice(ON), some_clauses(random_)
        source = some_rows(random_, random_.randrange(1, 7), distinct=random_.random() < 0.8)
        after = merged(rows, source, on, clauses)
        merge: Any = table.merge(frame(spark, source, "v INT, id BIGINT, p STRING"), on=on.sql)
        for clause in clauses:
            merge = clause.added_to(merge)
        if after is None:
            with pytest.raises(hg.InvalidInputError, match="several source rows"):
                merge.commit()
        else:
            merge.commit()
            rows = after
        assert found_in(table.read(spark)) == ordered(rows), (on, clauses)


# --- sources ------------------------------------------------------------------------------------------------
def filled(lake: hg.Lake, spark: SparkSession, count: int = 6, **given: Any) -> hg.Table:
    table = lake.create_table("t.m", COLUMNS, **given)
    table.append(spark.range(count).selectExpr("id", "'old' AS p", "cast(id * 10 as int) AS v").coalesce(1))
    return table


def test_a_source_that_reads_the_table_itself(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    doubled = table.read(spark).where("id > 2").selectExpr("id * 2 AS id", "'new' AS p", "v AS v")
    # Columns of Spark's, of the DataFrame itself too.
    merge = table.merge(doubled, on=sf.col("t.id") == doubled["id"])
    result = (
        merge.when_matched_update({"p": sf.col("s.p"), "v": sf.col("t.v") + sf.col("s.v")})
        .when_not_matched_insert()
        .commit()
    )
    assert result.rows == RowCounts(updated=0, inserted=3)
    again = table.merge(table.read(spark), on=sf.col("t.id") == sf.col("s.id"))
    assert again.when_matched_update({"v": "s.v + 1"}, condition="t.p = 'new'").commit().rows == RowCounts(
        updated=3
    )
    assert [(row["id"], row["v"]) for row in found_in(table.read(spark))] == [
        (0, 0), (1, 10), (10, 51), (2, 20), (3, 30), (4, 40), (5, 50), (6, 31), (8, 41),
    ]  # fmt: skip


def test_a_source_that_is_not_deterministic_is_computed_once(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark, 40)
    source = spark.range(80).where(sf.rand() < 0.5).selectExpr("id", "uuid() AS p", "cast(id as int) AS v")
    # The condition as well: what it says for a row holds for the row.
    result = (
        table.merge(source, on="t.id = s.id")
        .when_matched_update(condition="rand() < 0.5")
        .when_matched_delete()
        .when_not_matched_insert({"id": "s.id", "p": "s.p"}, condition="rand() < 0.5")
        .commit()
    )
    rows = found_in(table.read(spark))
    assert result.rows is not None and result.rows.updated and result.rows.inserted and result.rows.deleted
    assert len(rows) == 40 - result.rows.deleted + result.rows.inserted
    assert len([row for row in rows if row["p"] != "old"]) == result.rows.updated + result.rows.inserted
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(row["p"] is not None for row in rows)


def test_empty_sources_and_empty_tables(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    empty = table.read(spark).where("id < 0")
    before = lake.version
    merge = table.merge(empty, on="t.id = s.id").when_matched_delete().when_not_matched_insert()
    assert not merge.commit().changed
    assert not table.upsert(empty, ["id"]).changed
    assert lake.version == before
    # No row of the table meets one.
    gone = (
        table.merge(empty, on="t.id = s.id").when_not_matched_by_source_delete(condition="t.id < 4").commit()
    )
    assert gone.rows == RowCounts(deleted=4)
    fresh = lake.create_table("t.fresh", COLUMNS)
    assert fresh.upsert(table.read(spark), ["id"]).rows == RowCounts(inserted=2)
    assert found_in(fresh.read(spark)) == found_in(table.read(spark))


def test_keys_that_are_twice_or_null_change_nothing(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    before = lake.version
    source = frame(spark, [{"id": n, "p": p, "v": 0} for n, p in ((1, "a"), (1, "b"), (2, "c"), (None, "d"))])
    with pytest.raises(hg.InvalidInputError) as caught:
        table.merge(source, on="t.id = s.id").when_matched_update().commit()
    assert "'id': 1, 'p': 'a'" in caught.value.problem and "'id': 1, 'p': 'b'" in caught.value.problem
    assert "'c'" not in caught.value.problem
    with pytest.raises(hg.InvalidInputError, match=r"null keys:\n  - \{'id': None\}\n  next"):
        table.upsert(source, ["id"])
    with pytest.raises(hg.InvalidInputError, match=r"more than once in the source:\n  - \{'id': 1\}"):
        table.upsert(source.dropna(), ["id"])
    assert lake.version == before
    # One of both changes nothing: then it is clear what becomes of the row. A null key meets nothing.
    result = (
        table.merge(source, on="t.id = s.id")
        .when_matched_update(condition="s.p <> 'b'")
        .when_not_matched_insert()
        .commit()
    )
    assert result.rows == RowCounts(updated=2, inserted=1)


@pytest.mark.parametrize("mode", MODES)
def test_upserts(lake: hg.Lake, spark: SparkSession, mode: str) -> None:
    columns = "count INT NOT NULL, `a b` STRING, _headgate_row INT, `x.y` ARRAY<INT>"
    table = lake.create_table("t.u", columns, partition_by=["bucket(2, count)"], properties=modes(mode))
    for start in (0, 3):
        rows = [(number, f"k{number}", start, [number]) for number in range(start, start + 6)]
        result = table.upsert(spark.createDataFrame(rows, columns), ["count", "a b"])
    assert result.rows == RowCounts(updated=3, inserted=3)
    # In Arrow, and in another order.
    numbers = pa.array([0, 9], pa.int32())
    rows_ = {"a b": ["k0", "k9"], "x.y": pa.array([[0], [9]], pa.list_(pa.int32())), "count": numbers}
    given = pa.table({**rows_, "_headgate_row": pa.array([9, 9], pa.int32())})
    assert table.upsert(given, ["a b"]).rows == RowCounts(updated=1, inserted=1)
    found = sorted(tuple(row) for row in table.read(spark).collect())
    assert found == [
        (number, f"k{number}", 9 if number in (0, 9) else 3 if number > 2 else 0, [number])
        for number in range(10)
    ]


def test_structs_that_are_null_though_their_fields_are_required(lake: hg.Lake, spark: SparkSession) -> None:
    columns = "id BIGINT, x STRUCT<a: INT NOT NULL, `b c`: STRUCT<d: STRING NOT NULL>>"
    table = lake.create_table("t.n", columns)
    table.append(spark.createDataFrame([(0, None), (1, (1, None)), (2, (2, ("old",)))], columns))
    source = spark.createDataFrame([(1, None), (2, (7, ("new",))), (3, (3, None)), (4, None)], columns)
    assert table.upsert(source, ["id"]).rows == RowCounts(updated=2, inserted=2)
    assert table.update({"id": "id + 10"}, "id < 3").rows == RowCounts(updated=3)
    found = sorted(
        (row["id"], row["x"] and row["x"].asDict(recursive=True)) for row in table.read(spark).collect()
    )
    assert found == [
        (3, {"a": 3, "b c": None}), (4, None), (10, None), (11, None), (12, {"a": 7, "b c": {"d": "new"}}),
    ]  # fmt: skip


# --- what is read -------------------------------------------------------------------------------------------


@contextmanager
def plans_with_scans(spark: SparkSession) -> Iterator[list[str]]:
    """The plans with a scan of Parquet files that Spark executes inside of the block."""
    before, found = set(_executed(spark)), list[str]()
    yield found
    plans = [plan for number, plan in _executed(spark).items() if number not in before]
    found += [plan for plan in plans if "Scan parquet" in plan]


def _executed(spark: SparkSession) -> dict[int, str]:
    jsession: Any = spark._jsparkSession
    context: Any = spark.sparkContext._jsc
    context.sc().listenerBus().waitUntilEmpty()
    known = jsession.sharedState().statusStore().executionsList()
    every = [known.apply(number) for number in range(known.size())]
    return {execution.executionId(): execution.physicalPlanDescription() for execution in every}


def test_the_table_is_read_once_and_only_what_is_needed(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark, 40)
    table.append(spark.range(100, 140).selectExpr("id", "'old' AS p", "1 AS v").coalesce(1))
    source = spark.range(0, 40, 2).selectExpr("id", "'new' AS p", "5 AS v")
    with plans_with_scans(spark) as found:
        assert table.upsert(source, ["id"]).rows == RowCounts(updated=20)
    (plan,) = found
    # What was planned first is told after what was done.
    done = plan.partition("== Initial Plan ==")[0]
    assert done.count("Scan parquet") == 1 and "BroadcastHashJoin" in done
    assert set(re.findall(r"ReadSchema: struct<(\w+):bigint,_tmp_metadata_row_index:bigint>", plan)) == {"id"}
    # Nor the other file, which no key of the source can be in.
    assert set(re.findall(r"InMemoryFileIndex(?:\((\d+) paths\))?", plan)) <= {"", "1"}
    with plans_with_scans(spark) as found:
        on = (sf.col("s.id") == sf.col("t.id")) & (sf.col("t.v") > 0)
        table.merge(source, on=on).when_matched_update({"v": "t.v + 1"}).commit()
    assert len(found) == 1


def jobs_of(spark: SparkSession, work: Callable[[], Any]) -> int:
    """How many jobs of Spark some work takes, in whatever threads."""
    group = uuid.uuid4().hex
    spark.sparkContext.setJobGroup(group, "counted")
    try:
        work()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    context: Any = spark.sparkContext._jsc
    context.sc().listenerBus().waitUntilEmpty()
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def test_a_merge_of_few_rows_takes_few_jobs(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark, 400)
    source = spark.range(0, 800, 2).selectExpr("id", "'new' AS p", "5 AS v").coalesce(1)
    merge = table.merge(source, on="t.id = s.id").when_matched_update({"v": "s.v"})
    # The source; fetched; at every executor; the pass; what was found.
    assert jobs_of(spark, merge.when_not_matched_insert().commit) == 5
    # The same, and the positions of updated rows, at every executor.
    assert jobs_of(spark, lambda: table.upsert(source, ["id"])) == 6
    # These positions, the pass, and what was found.
    assert jobs_of(spark, lambda: table.update({"v": "v + 1"}, "id % 3 = 0")) == 3
    rows = table.read(spark).where("id % 3 = 0").agg(sf.sum("v"), sf.count("v"), sf.min("p")).collect()
    assert tuple(rows[0]) == (6 * 134 + sum(10 * n + 1 for n in range(3, 400, 6)), 201, "new")


def writers_of(table: hg.Table, change: Callable[[], Any]) -> set[tuple[str, str]]:
    """Who writes the data files of a change, and with which codec."""
    before, found = {file.path for file in table.files()}, set()
    change()
    for path in {file.path for file in table.files()} - before:
        footer = pq.read_metadata(path.removeprefix("file://"))
        found.add((footer.created_by.split()[0], footer.row_group(0).column(0).compression))
    return found


def test_few_rows_are_written_by_the_driver(lake: hg.Lake, spark: SparkSession) -> None:
    table = lake.create_table("t.m", COLUMNS, properties={"write.parquet.compression-codec": "gzip"})
    source = spark.range(4).selectExpr("id", "'new' AS p", "5 AS v")
    by_driver, by_spark = {("parquet-cpp-arrow", "GZIP")}, {("parquet-mr", "GZIP")}
    few = keep(source)
    assert is_little(spark, few), f"{few} with {spark.conf.get('spark.headgate.files', None)}"
    assert writers_of(table, lambda: table.upsert(source, ["id"])) == by_driver
    assert writers_of(table, lambda: table.update({"v": "6"}, "true")) == by_driver
    # What clauses compute can be of any length, however short the source is.
    merge = table.merge(spark.range(2, 8), on="t.id = s.id")
    computed = merge.when_not_matched_insert({"id": "s.id", "p": "repeat('x', 1000)"})
    assert writers_of(table, computed.when_not_matched_by_source_delete().commit) == by_spark
    spark.conf.set("spark.headgate.files", "native")
    assert writers_of(table, lambda: table.upsert(source, ["id"])) == by_spark
    assert [row["id"] for row in found_in(table.read(spark))] == list(range(8))


def test_what_is_much_or_on_disk_or_unknown_is_not_fetched(spark: SparkSession) -> None:
    rows = spark.range(3)
    assert is_little(spark, Kept(rows, FETCHED_BYTES))
    assert not is_little(spark, Kept(rows, FETCHED_BYTES + 1))
    assert not is_little(spark, Kept(rows, 7, is_on_disk=True))
    assert not is_little(spark, Kept(rows, NOBODY_KNOWS))
    few = keep(rows)
    assert 0 < few.size_bytes < 10_000 and not few.is_on_disk and few.tasks == 1


def test_what_spark_has_not_reported_yet_is_waited_for(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    reported = kept_rows._reported

    def late(context: Any, number: int) -> Any | None:
        looks.append(number)
        return None if len(looks) == 1 else reported(context, number)

    monkeypatch.setattr(kept_rows, "_reported", late)
    assert is_little(spark, keep(spark.range(3)))
    assert len(looks) == 2


def test_the_source_is_computed_once_beside_clauses_without_it(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark, 40)
    source = spark.range(20, 60).selectExpr("id", "uuid() AS p", "5 AS v").coalesce(1)
    merge = table.merge(source, on="t.id = s.id").when_matched_update().when_not_matched_insert()
    # The source; fetched; at every executor; the pass; what was found.
    assert jobs_of(spark, merge.when_not_matched_by_source_delete().commit) == 5
    assert [row["id"] for row in found_in(table.read(spark))] == sorted(range(20, 60), key=repr)


def test_changes_of_a_table_that_the_user_has_cached(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    held = table.read(spark).cache()
    assert held.count() == 6
    assert table.update({"v": "v + 1"}, "id < 2").rows == RowCounts(updated=2)
    held = table.read(spark).cache()
    assert held.count() == 6
    assert table.upsert(held.where("id > 2").selectExpr("id", "p", "0 AS v"), ["id"]).rows == RowCounts(
        updated=3
    )
    assert [row["v"] for row in found_in(table.read(spark))] == [1, 11, 20, 0, 0, 0]
    spark.catalog.clearCache()


@pytest.fixture
def quoted_names_are_patterns(spark: SparkSession) -> Iterator[None]:
    setting = "spark.sql.parser.quotedRegexColumnNames"
    spark.conf.set(setting, "true")
    yield
    spark.conf.unset(setting)


@pytest.mark.usefixtures("quoted_names_are_patterns")
def test_names_that_sql_takes_for_something_else(lake: hg.Lake, spark: SparkSession) -> None:
    kinds = "id BIGINT, `a b` STRING, `x.y` STRING"
    table = lake.create_table("t.odd", kinds)
    table.append(spark.createDataFrame([(1, "B", "C"), (2, "E", "F")], kinds))
    assert table.update({"id": "id + 1"}, "id = 2").rows == RowCounts(updated=1)
    source = spark.createDataFrame([(1, "H", "I"), (4, "K", "L")], kinds)
    assert table.upsert(source, ["id"]).rows == RowCounts(updated=1, inserted=1)
    merge = table.merge(source, on="t.id = s.id").when_matched_update(condition="s.id = 4")
    assert merge.when_not_matched_insert(condition="s.id > 0").commit().rows == RowCounts(updated=1)
    found = sorted(tuple(row) for row in table.read(spark).collect())
    assert found == [(1, "H", "I"), (3, "E", "F"), (4, "K", "L")]


def test_a_file_that_is_gone(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    (file,) = table.files()
    Path(file.path.removeprefix("file://")).unlink()
    source = spark.range(3).selectExpr("id", "'new' AS p", "5 AS v")
    with pytest.raises(hg.CorruptLakeError):
        table.upsert(source, ["id"])
    with pytest.raises(hg.CorruptLakeError):
        table.merge(source, on="t.id = s.id").when_matched_delete().commit()
    with pytest.raises(hg.CorruptLakeError):
        table.update({"v": "1"}, "id = 1")


def test_bytes_of_a_fixed_length_are_not_taken_from_others(lake: hg.Lake, spark: SparkSession) -> None:
    table = lake.create_table("t.f", "id BIGINT, f FIXED(2)")
    source = spark.sql("SELECT 1L AS id, X'0102' AS f")
    with pytest.raises(hg.InvalidInputError, match=r"f is binary, but the table has fixed\[2\]"):
        table.merge(source, on="t.id = s.id").when_not_matched_insert().commit()


def test_what_is_not_inserted_is_not_computed(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    source = spark.createDataFrame([(1, "x", 1), (7, "7", 1)], COLUMNS)
    merge = table.merge(source, on="t.id = s.id").when_matched_update({"p": "s.p"})
    assert merge.when_not_matched_insert({"id": "s.id", "v": "cast(s.p AS int)"}).commit().rows == RowCounts(
        updated=1, inserted=1
    )
    # Nor is a number that fits no column looked at.
    wide = spark.createDataFrame([(1, "y", 2**40), (8, "8", 8)], "id BIGINT, p STRING, v BIGINT")
    merge = table.merge(wide, on="t.id = s.id").when_matched_update({"p": "s.p"}).when_not_matched_insert()
    assert merge.commit().rows == RowCounts(updated=1, inserted=1)
    assert found_in(table.read(spark).where("id IN (1, 7, 8)")) == [
        {"id": 1, "p": "y", "v": 10}, {"id": 7, "p": None, "v": 7}, {"id": 8, "p": "8", "v": 8},
    ]  # fmt: skip


# --- what is refused ----------------------------------------------------------------------------------------
def test_merges_that_cannot_be_understood(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark)
    source, few, before = table.read(spark), spark.range(9), lake.version
    merge = table.merge(source, on="t.id = s.id")
    wrong: list[tuple[Any, str]] = [
        (table.merge(source, on="t.idd = s.id").when_matched_delete(), r"no column t\.idd\n.*mean t\.id"),
        (table.merge(source, on="id = id").when_matched_delete(), "the match of the merge, id = id,"),
        (table.merge(source, on="t.id =").when_matched_delete(), "cannot be computed"),
        (table.merge(source, on="t.id + s.id").when_matched_delete(), "the match of the merge"),
        (merge.when_matched_delete(condition="t.v"), "is int, not boolean"),
        (merge.when_matched_update({"v": "s.w"}), r"the value of v, s\.w,.*no column s\.w"),
        (merge.when_matched_update({"w": "s.v"}), r"t\.m: there is no column w"),
        (merge.when_not_matched_insert({"v": "t.v"}), r"no column t\.v"),
        (merge.when_not_matched_by_source_update({"v": "s.v"}), r"no column s\.v"),
        (merge.when_matched_update({"v": "id"}), "the value of v, id,"),
        (merge.when_matched_update({"v": "s.p"}), "column v is string, but the table has int"),
        (table.merge(few, on="t.id = s.id").when_matched_update(), "the source lacks p, v"),
        (merge.when_matched_update({"v": "cast(s.p as int)"}), "The value 'old'"),
        (table.merge(few, on="t.id = s.id").when_not_matched_insert({"v": "1 div (s.id - 8)"}), "ivision"),
    ]  # fmt: skip
    for given, told in wrong:
        with pytest.raises(hg.InvalidInputError, match=told):
            given.commit()
    with pytest.raises(hg.InvalidInputError, match=r"column w .*is not in the table"):
        table.upsert(source.withColumn("w", sf.lit(1)), ["id"])
    with pytest.raises(hg.InvalidInputError, match="has no rows to merge"):
        table.upsert(sf.col("id"), ["id"])
    with pytest.raises(hg.InvalidInputError, match="duplicate columns: id"):
        table.upsert(source.select("id", "id"), ["id"])
    assert lake.version == before


# --- beside others ------------------------------------------------------------------------------------------

SEEN = ("write-serializable", "serializable")
"""Where what a merge has found must still be so when it commits."""


def insert_absent(tx: hg.Transaction, spark: SparkSession, *ids: int) -> RowCounts:
    """Inserts the rows whose ids are not there, and leaves the others."""
    source = spark.createDataFrame([(number, "x", 0) for number in ids], COLUMNS)
    return tx.table("t.beside").merge(source, on="t.id = s.id").when_not_matched_insert().commit()


def beside(lake: hg.Lake, isolation: str) -> hg.Table:
    table = lake.create_table("t.beside", COLUMNS, properties={"isolation": isolation})
    table.append(pa.table({"id": [1, 5], "p": ["a", "a"], "v": pa.array([0, 0], pa.int32())}))
    return table


@pytest.mark.parametrize("isolation", ["snapshot", *SEEN])
def test_two_merges_do_not_insert_the_same_row(lake: hg.Lake, spark: SparkSession, isolation: str) -> None:
    table = beside(lake, isolation)
    ours, theirs = lake.transaction(), lake.transaction()
    assert insert_absent(ours, spark, 5, 6) == insert_absent(theirs, spark, 6) == RowCounts(inserted=1)
    theirs.commit()
    # Rows that others added count where they are seen; keys that both insert count at every level.
    with pytest.raises(hg.ConflictError, match=r"\[rule 10:" if isolation in SEEN else r"\[rule 37:"):
        ours.commit()
    assert sorted(table.read_arrow()["id"].to_pylist()) == [1, 5, 6]


@pytest.mark.parametrize("isolation", ["snapshot", *SEEN])
def test_a_row_that_a_merge_matched_and_left_is_deleted_meanwhile(
    lake: hg.Lake, spark: SparkSession, isolation: str
) -> None:
    table = beside(lake, isolation)
    ours = lake.transaction()
    insert_absent(ours, spark, 5, 6)
    table.delete("id = 5")
    if isolation in SEEN:
        with pytest.raises(hg.ConflictError, match=r"decide what you insert: .*\[rule 12:"):
            ours.commit()
    else:
        ours.commit()
    # One that changes all that it matches does not depend on rows that it leaves.
    ours = lake.transaction()
    source = spark.createDataFrame([(1, "x", 1), (7, "x", 1)], COLUMNS)
    merge = ours.table("t.beside").merge(source, on="t.id = s.id")
    merge.when_matched_update().when_not_matched_insert().commit()
    table.append(pa.table({"id": [90, 91], "p": ["a", "a"], "v": pa.array([0, 0], pa.int32())}))
    table.delete("id = 90")
    ours.commit()
    assert sorted(table.read_arrow(where="v = 1")["id"].to_pylist()) == [1, 7]


@pytest.mark.parametrize("kind", ["delete", "update", "merge", "upsert"])
def test_a_batch_that_found_nothing_to_change_is_not_run_again(
    lake: hg.Lake, spark: SparkSession, kind: str
) -> None:
    table = lake.create_table("t.batches", COLUMNS)
    source = spark.createDataFrame([(7, "a", 0)], COLUMNS)

    def run() -> hg.CommitResult:
        with lake.transaction(app=("loader", 1)) as tx:
            rows = tx.table("t.batches")
            match kind:
                case "delete":
                    rows.delete(sf.col("id") == 7)
                case "update":
                    rows.update({"v": sf.col("v") + 1}, where="id = 7")
                case "merge":
                    rows.merge(source, on="t.id = s.id").when_matched_delete().commit()
                case "upsert":
                    rows.upsert(source.limit(0), keys=["id"])
        return tx.result

    first = run()
    assert (first.version, first.changed, lake.version) == (2, False, 2)
    table.append(source)
    assert run().already_committed
    assert [tuple(row) for row in table.read(spark).collect()] == [(7, "a", 0)]


# --- others who insert the same keys ------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["snapshot", "write-serializable", "serializable"])
@pytest.mark.parametrize("by_source", [False, True])
def test_two_merges_do_not_insert_the_same_key(
    lake: hg.Lake, spark: SparkSession, isolation: str, by_source: bool
) -> None:
    table = filled(lake, spark, properties={"isolation": isolation})
    ours, theirs = lake.transaction(), lake.transaction()
    for tx, key in ((ours, 60), (theirs, 60)):
        source = frame(spark, [{"id": key, "p": "new", "v": 1}])
        merge = tx.table(table.name).merge(source, on="t.id = s.id").when_not_matched_insert()
        if by_source:
            merge = merge.when_not_matched_by_source_update({"v": "t.v"}, condition="t.id = 77")
        merge.commit()
    theirs.commit()
    with pytest.raises(TransactionConflictError, match=r"\[rule 37:"):
        ours.commit()
    assert [row["id"] for row in found_in(table.read(spark))].count(60) == 1


def test_merges_that_insert_other_keys_go_at_the_same_time(lake: hg.Lake, spark: SparkSession) -> None:
    table = filled(lake, spark, properties={"isolation": "snapshot"})
    ours, theirs = lake.transaction(), lake.transaction()
    for tx, key in ((ours, 60), (theirs, 61)):
        source = frame(spark, [{"id": key, "p": "new", "v": 1}])
        tx.table(table.name).merge(source, on="t.id = s.id").when_not_matched_insert().commit()
    theirs.commit()
    ours.commit()
    assert sorted(row["id"] for row in found_in(table.read(spark)))[-2:] == [60, 61]
