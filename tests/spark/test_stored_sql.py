"""SQL that a lake stores is somebody else's text: what it may do to its reader, and what still works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf, udtf

import headgate as hg
from headgate.core.plans.refresh import VIEW_SQL
from headgate.core.sql.allowed import FUNCTIONS, REFUSED_FUNCTIONS, TABLE_FUNCTIONS
from headgate.errors import HeadgateError, InvalidInputError
from headgate.model.named_object import NamedObject, View
from headgate.model.record import PropertyChange
from headgate.spark.sql import parser
from headgate.transaction.changes import Alteration, ObjectChange

SECRET = "swordfish"

CLASS = (
    '{{"type":"struct","fields":[{{"name":"a","nullable":true,"metadata":{{}},"type":{{"type":"udt",'
    '"class":"org.apache.spark.ml.linalg.VectorUDT","pyClass":null,"sqlType":"integer"}}}}]}}'
)
"""A type that makes Spark load a class by its name, and make an object of it."""

HOSTILE = {
    "script": "SELECT TRANSFORM(id) USING 'touch {out}' AS (x) FROM sales.orders",
    "script behind FROM": "FROM sales.orders SELECT TRANSFORM(id) USING 'touch {out}' AS (x)",
    "script by MAP": "FROM sales.orders MAP id USING 'touch {out}' AS (x)",
    "script in a subquery": "SELECT * FROM (SELECT TRANSFORM(id) USING 'touch {out}' AS x FROM sales.orders)",
    "directory": "FROM sales.orders INSERT OVERWRITE LOCAL DIRECTORY '{out}' USING csv SELECT id",
    "directory behind WITH": (
        "WITH t AS (SELECT 1 AS x) INSERT OVERWRITE DIRECTORY '{out}' USING csv SELECT * FROM t"
    ),
    "insert": "FROM sales.orders INSERT INTO default.mine SELECT id",
    "insert behind WITH": "WITH t AS (SELECT 1 AS x) INSERT INTO default.mine SELECT * FROM t",
    "path": "SELECT * FROM text.`{secret}`",
    "path by IDENTIFIER": "SELECT * FROM IDENTIFIER('text.`{secret}`')",
    "path by IDENTIFIER of an expression": "SELECT * FROM IDENTIFIER('text.`' || '{secret}`')",
    "path under the name of a part": "WITH `text.{secret}` AS (SELECT 1) SELECT * FROM text.`{secret}`",
    "path in a comma list": "SELECT * FROM sales.orders, text.`{secret}`",
    "path in EXISTS": "SELECT id FROM sales.orders WHERE EXISTS (SELECT 1 FROM text.`{secret}`)",
    "path in IN": "SELECT id FROM sales.orders WHERE name IN (SELECT value FROM text.`{secret}`)",
    "path as a value": "SELECT (SELECT max(value) FROM text.`{secret}`) AS x",
    "path in a lateral query": "SELECT * FROM sales.orders, LATERAL (SELECT * FROM text.`{secret}`)",
    "path in a union": "SELECT name FROM sales.orders UNION ALL SELECT value FROM text.`{secret}`",
    "path by TABLE": "TABLE text.`{secret}`",
    "path with options": "SELECT * FROM text.`{secret}` WITH ('wholetext' = 'true')",
    "path in another case": "SELECT * FROM TEXT.`{secret}`",
    "path behind a comment": "SELECT * FROM /* FROM sales.orders */ text -- x\n . `{secret}`",
    "path behind EXTRACT": "SELECT extract(day FROM DATE '2026-11-15') FROM text.`{secret}`",
    "path behind DISTINCT FROM": "SELECT 1 IS DISTINCT FROM 2, * FROM text.`{secret}`",
    "path behind a pipe": "SELECT * FROM sales.orders |> JOIN text.`{secret}`",
    "path at a version": "SELECT * FROM text.`{secret}` VERSION AS OF 1",
    "path in a window": (
        "SELECT sum(id) OVER (ORDER BY (SELECT max(value) FROM text.`{secret}`)) FROM sales.orders"
    ),
    "path in LIMIT": "SELECT id FROM sales.orders LIMIT (SELECT count(*) FROM text.`{secret}`)",
    "reflect": "SELECT reflect('java.lang.System', 'getenv', 'PATH') AS x",
    "java_method": "SELECT java_method('java.lang.System', 'getenv', 'PATH') AS x",
    "try_reflect": "SELECT try_reflect('java.lang.System', 'getenv', 'PATH') AS x",
    "reflect in another case": "SELECT `ReFlect`('java.lang.System', 'getProperty', 'user.home') AS x",
    "reflect with a qualifier": (
        "SELECT system.builtin.reflect('java.lang.System', 'getProperty', 'user.home')"
    ),
    "reflect in VALUES": "SELECT * FROM VALUES (reflect('java.lang.System', 'getProperty', 'user.home'))",
    "reflect in a table function": (
        "SELECT * FROM explode(array(reflect('java.lang.System', 'getProperty', 'user.home')))"
    ),
    "reflect in LATERAL VIEW": (
        "SELECT * FROM sales.orders LATERAL VIEW explode(array(reflect('java.lang.System', 'gc'))) t AS x"
    ),
    "reflect in a lambda": (
        "SELECT transform(array(1), x -> reflect('java.lang.System', 'gc')) FROM sales.orders"
    ),
    "reflect in HAVING": "SELECT max(id) FROM sales.orders HAVING reflect('java.lang.System', 'gc') IS NULL",
    "reflect by IDENTIFIER": "SELECT IDENTIFIER('reflect')('java.lang.System', 'getProperty', 'user.home')",
    "file names": "SELECT input_file_name() FROM sales.orders",
    "schema from a file": "SELECT from_protobuf(X'00', 'M', '{secret}')",
    "schema by XML": "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '{secret}'))",
    "avro schema from a URL": "SELECT from_avro(X'00', '\"int\"', map('avroSchemaUrl', '{secret}'))",
    "table function of the session": "SELECT * FROM planted_table_function(1)",
    "function of the session": "SELECT planted_function('x')",
    "view of the session": "SELECT * FROM planted_view",
    "view of the session out of scope": (
        "SELECT * FROM (WITH planted_view AS (SELECT 1) SELECT * FROM planted_view) JOIN planted_view"
    ),
    "view of the session before its name is taken": (
        "WITH a AS (SELECT * FROM planted_view), planted_view AS (SELECT 1) SELECT * FROM a"
    ),
    "view of all sessions": "SELECT * FROM global_temp.planted_global",
    "table of the session": "SELECT * FROM spark_catalog.default.mine",
    "variable": "SELECT planted_variable AS x",
    "variable in VALUES": "SELECT * FROM VALUES (planted_variable)",
    "variable in a table function": "SELECT * FROM range(length(session.planted_variable))",
    "variable by its full name": "SELECT system.session.planted_variable AS x FROM sales.orders",
    "environment": "SELECT ${{env:PATH}} AS x",
    "setting": "SELECT ${{spark.headgate.test.secret}} AS x",
    "parameter": "SELECT :x",
    "positional parameter": "SELECT ?",
    "options of a relation": "SELECT * FROM sales.orders WITH ('path' = '{secret}')",
    "stream": "SELECT * FROM STREAM sales.orders",
    "function over a table": "SELECT * FROM planted_table_function(TABLE(sales.orders))",
    "keywords": "SELECT * FROM sql_keywords()",
    "statements": "BEGIN SELECT 1; END",
    "two statements": "SELECT 1; DROP TABLE default.mine",
    "statement in a text": "EXECUTE IMMEDIATE 'SELECT 1'",
    "command": "DROP TABLE default.mine",
    "setting a setting": "SET spark.headgate.test.secret = other",
    "adding a JAR": "ADD JAR '{secret}'",
    "explain": "EXPLAIN SELECT 1",
    "describe": "DESCRIBE QUERY SELECT 1",
    "name in one part": "SELECT * FROM `sales.orders`",
    "class by the JSON of a type": "SELECT from_json('{{}}', '" + CLASS + "')",
    "class by the JSON of a type, computed": "SELECT from_json('{{}}', concat('', '" + CLASS + "'))",
    "class by the JSON of a type of rows of CSV": "SELECT from_csv('1', '" + CLASS + "')",
    "class by the JSON of a type of a variant": "SELECT variant_get(parse_json('1'), '$', '" + CLASS + "')",
    "hidden column": "SELECT _metadata.file_path FROM sales.orders",
    "hidden column by the name of the table": "SELECT orders._metadata.file_path FROM sales.orders",
    "all of a hidden column": "SELECT _metadata.* FROM sales.orders",
    "version of many digits": "SELECT * FROM sales.orders VERSION AS OF " + "9" * 5000,
    "year 294247": "SELECT * FROM sales.orders TIMESTAMP AS OF TIMESTAMP '294247-01-10 04:00:54'",
    "brackets": "SELECT " + "(" * 30_000 + "1" + ")" * 30_000,
    "parts that double": (
        "WITH a0 AS (SELECT 1 AS x), "
        + ", ".join(f"a{n} AS (SELECT * FROM a{n - 1} UNION ALL TABLE a{n - 1})" for n in range(1, 40))
        + " SELECT count(*) FROM a39"
    ),
    "deep": "SELECT " + "-" * 0 + "(" * 500 + "1" + ")" * 500 + " + 1" * 3000,
}

COLUMN_OR_VARIABLE = {
    case for case in HOSTILE if case.startswith(("variable", "hidden column", "all of", "parts that"))
}
"""What shows only when the view is read; it can be made."""

HARMLESS = {
    "star": ("SELECT * FROM sales.orders", 3),
    "qualified columns": ("SELECT sales.orders.id, orders.name FROM sales.orders", 3),
    "part": ("WITH t AS (SELECT id FROM sales.orders) SELECT * FROM t JOIN t u ON t.id = u.id", 3),
    "part in another case": ("WITH T AS (SELECT 1 AS x) SELECT * FROM t", 1),
    "part of a part": ("WITH a AS (SELECT 1 AS x), b(y) AS (SELECT x FROM a) SELECT y FROM b", 1),
    "part in a subquery": (
        "WITH a AS (SELECT 1 AS x) SELECT id FROM sales.orders WHERE id IN (SELECT x FROM a)",
        1,
    ),
    "nested part": ("SELECT * FROM (WITH a AS (SELECT 1 AS x) SELECT * FROM a) b", 1),
    "recursion": (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT * FROM r",
        4,
    ),
    "join with itself": ("SELECT a.id FROM sales.orders a JOIN sales.orders b ON a.id = b.id - 1", 2),
    "joins": (
        "SELECT * FROM sales.orders o NATURAL JOIN sales.orders p LEFT JOIN sales.orders q USING (id) "
        "LEFT ANTI JOIN sales.orders r ON r.id > 9",
        3,
    ),
    "window": (
        "SELECT id, sum(id) OVER (PARTITION BY name ORDER BY id ROWS 1 PRECEDING) FROM sales.orders",
        3,
    ),
    "named window": (
        "SELECT rank() OVER w, lag(id, 1) OVER w FROM sales.orders WINDOW w AS (ORDER BY id)",
        3,
    ),
    "range window": (
        "SELECT sum(id) OVER (ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND 1 "
        "FOLLOWING) FROM sales.orders",
        3,
    ),
    "qualify": ("SELECT id FROM sales.orders QUALIFY row_number() OVER (ORDER BY id) = 1", 1),
    "lateral view": ("SELECT id, x FROM sales.orders LATERAL VIEW OUTER explode(array(1, 2)) t AS x", 6),
    "lateral function": ("SELECT id, x FROM sales.orders, LATERAL posexplode(array(id)) AS t(p, x)", 3),
    "lateral query": ("SELECT * FROM sales.orders o, LATERAL (SELECT o.id + 1 AS next) n", 3),
    "generator": ("SELECT id, explode(sequence(1, id)) AS x FROM sales.orders", 6),
    "two columns of a generator": ("SELECT inline(array(struct(1, 'a'), struct(2, 'b'))) AS (a, b)", 2),
    "aggregates": (
        "SELECT count(*), count(DISTINCT name), sum(id) FILTER (WHERE id > 1), max_by(name, id), "
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY id), first(name) IGNORE NULLS, any_value(id) "
        "FROM sales.orders HAVING count(*) > 1",
        1,
    ),
    "grouping sets": (
        "SELECT id, name, grouping_id() FROM sales.orders GROUP BY GROUPING SETS ((id), (name))",
        6,
    ),
    "rollup": ("SELECT id, count(*) FROM sales.orders GROUP BY ROLLUP (id)", 4),
    "cube": ("SELECT id, count(*) FROM sales.orders GROUP BY id WITH CUBE", 4),
    "group by all": ("SELECT id % 2 AS odd, count(*) AS n FROM sales.orders GROUP BY ALL ORDER BY ALL", 2),
    "case": ("SELECT CASE WHEN id > 1 THEN 'a' ELSE 'b' END, CASE id WHEN 1 THEN 2 END FROM sales.orders", 3),
    "pivot": (
        "SELECT * FROM (SELECT id, name FROM sales.orders) PIVOT (max(id) AS m FOR name "
        "IN ('n1', 'n2' AS two))",
        1,
    ),
    "unpivot": ("SELECT * FROM (SELECT 1 AS a, 2 AS b) UNPIVOT (v FOR n IN (a, b AS bee))", 2),
    "subqueries": (
        "SELECT (SELECT max(id) FROM sales.orders) AS top FROM sales.orders o "
        "WHERE EXISTS (SELECT 1 FROM sales.orders p WHERE p.id = o.id + 1) AND id NOT IN (SELECT 9)",
        2,
    ),
    "set operations": (
        "SELECT id FROM sales.orders UNION SELECT 7 UNION ALL SELECT 7 INTERSECT SELECT "
        "7 EXCEPT ALL SELECT 8",
        5,
    ),
    "rows of an array": ("SELECT * FROM UNNEST(array(1, 2)) LIMIT ALL", 2),
    "values": ("VALUES (1, 'a'), (2, 'b') AS t(x, y)", 2),
    "values that are computed": ("SELECT * FROM VALUES (1 + 1, upper('a'), current_date()) AS t(x, y, z)", 1),
    "range": ("SELECT * FROM range(3) r JOIN sales.orders o ON r.id = o.id", 2),
    "table": ("TABLE sales.orders", 3),
    "from first": ("FROM sales.orders SELECT id", 3),
    "version": ("SELECT * FROM sales.orders VERSION AS OF 1", 0),
    "tag": ("SELECT * FROM sales.orders FOR VERSION AS OF 'filled' o WHERE o.id > 1", 2),
    "tag of digits": ("SELECT * FROM sales.orders VERSION AS OF '1'", 3),
    "timestamp": ("SELECT * FROM sales.orders TIMESTAMP AS OF '9999-01-01T00:00:00Z'", 3),
    "typed timestamp": (
        "SELECT * FROM sales.orders FOR SYSTEM_TIME AS OF TIMESTAMP '9999-01-01 00:00:00'",
        3,
    ),
    "sample": ("SELECT * FROM sales.orders TABLESAMPLE (100 PERCENT) REPEATABLE (1)", 3),
    "sample of rows": ("SELECT * FROM sales.orders TABLESAMPLE (2 ROWS) s", 2),
    "hint": ("SELECT /*+ BROADCAST(o), REPARTITION(2) */ * FROM sales.orders o", 3),
    "order, limit, offset": ("SELECT * FROM sales.orders ORDER BY id DESC NULLS LAST LIMIT 2 OFFSET 1", 2),
    "sort": ("SELECT DISTINCT name FROM sales.orders SORT BY name", 3),
    "pipes": (
        "FROM sales.orders |> WHERE id > 1 |> EXTEND id + 1 AS n |> AGGREGATE sum(n) "
        "GROUP BY name |> LIMIT 5",
        2,
    ),
    "columns but one": ("SELECT * EXCEPT (name) FROM sales.orders", 3),
    "operators": (
        "SELECT id + 1 - 2 * 3 / 4 % 5, id DIV 2, -id, +id, id & 1 | 2 ^ ~3, id << 1, id >> 1, NOT id = 1, "
        "id <=> 1, id <> 1, id >= 1 AND id <= 2 OR id < 3, id BETWEEN 1 AND 2, id IN (1, 2), id IS NULL, "
        "name LIKE 'n%' ESCAPE '!', name RLIKE 'n.', name ILIKE 'N%', name LIKE ANY "
        "('a', 'n1'), name || 'x', "
        "name NOT LIKE ALL ('a', 'b'), name IS NOT NULL, id IS NOT DISTINCT FROM 1, (id = 1) IS TRUE, "
        "(id = 1) IS UNKNOWN, name COLLATE UNICODE = 'N1' FROM sales.orders",
        3,
    ),
    "casts and literals": (
        "SELECT CAST(id AS DECIMAL(10, 2)), id::string, try_cast(name AS INT), "
        "CAST(NULL AS ARRAY<STRUCT<a: INT>>), "
        "DATE '2026-11-15', TIMESTAMP '2026-11-15 10:00:00', INTERVAL 1 DAY, INTERVAL "
        "'1-2' YEAR TO MONTH > INTERVAL 1 MONTH, X'1F', "
        "1.5E3, 1.5BD, 7S, true, NULL, 'a' 'b', r'x\\n', MAP('a', 1)['a'], array(1)[0], "
        "named_struct('a', 1).a "
        "FROM sales.orders",
        3,
    ),
    "functions with a syntax of their own": (
        "SELECT extract(year FROM now()), trim(BOTH 'n' FROM name), substring(name FROM 1 FOR 1), "
        "position('n' IN name), overlay(name PLACING 'x' FROM 1), timestampadd(HOUR, 1, "
        "now()), struct(id, name), "
        "ceil(1.5, 0), current_date, current_timestamp, current_user, user FROM sales.orders",
        3,
    ),
    "lambdas": (
        "SELECT filter(array(1, 2), x -> x > id), aggregate(array(1), 0, (a, x) -> a + x) FROM sales.orders",
        3,
    ),
    "json": (
        "SELECT from_json('{\"a\": 1}', 'a INT').a, get_json_object('{}', '$.a'), "
        "parse_json('{\"b\": 1}'):b::int",
        1,
    ),
    "a dollar": (
        "SELECT regexp_replace('ab', '(?<n>a)', '${n}') AS x, '${env:PATH}' AS y",
        1,
    ),
    "a semicolon": ("SELECT ';' AS x -- ;\n;", 1),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> hg.Lake:
    """One for all of these tests."""
    made = hg.Lake.init(tmp_path_factory.mktemp("shop") / "lake")
    orders = made.create_table("sales.orders", "id BIGINT, name STRING")
    orders.append(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["n1", "n2", "n3"]}))
    made.tag("filled")
    made.tag("1", 2)
    return made


@pytest.fixture(scope="module")
def reader(session: SparkSession) -> SparkSession:
    """A session of somebody who has things of his own."""
    mine = session.newSession()
    mine.conf.set("spark.headgate.test.secret", SECRET)
    mine.range(1).selectExpr(f"'{SECRET}' AS x").createTempView("planted_view")
    mine.range(1).selectExpr(f"'{SECRET}' AS x").createOrReplaceGlobalTempView("planted_global")
    mine.sql(f"DECLARE VARIABLE planted_variable STRING DEFAULT '{SECRET}'")
    mine.udf.register("planted_function", udf(lambda _: SECRET))
    mine.udtf.register("planted_table_function", _planted_rows())
    mine.udf.register("upper", udf(lambda _: SECRET))
    return mine


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the reader."""
    path = tmp_path / "secret"
    path.write_text(SECRET)
    return path


class _Planted:
    def eval(self, *_: object) -> Iterator[tuple[str]]:
        yield (SECRET,)


def _planted_rows() -> Any:
    return udtf(_Planted, returnType="x STRING")


def planted(lake: hg.Lake, sql: str) -> str:
    """A view that came past every check, as in a lake that another program wrote."""
    name = f"v.planted{lake.version}"
    with lake.transaction() as tx:
        tx._work.noted = tx._work.noted.with_object(ObjectChange(name, None, NamedObject(name, View(sql))))
    return name


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_not_known_to_be_harmless_is_refused(
    lake: hg.Lake, reader: SparkSession, secret: Path, case: str
) -> None:
    out = secret.with_name("out")
    sql, before = HOSTILE[case].format(out=out, secret=secret), lake.version
    if case not in COLUMN_OR_VARIABLE:
        with pytest.raises(HeadgateError):
            lake.create_view("v.made", sql, replace=True)
    with pytest.raises(HeadgateError):
        lake.create_materialized_view(reader, "v.table", sql)
    assert lake.version == before
    name = planted(lake, sql)
    with pytest.raises(HeadgateError) as caught:
        lake.table(name).read(reader).collect()
    assert caught.value.kind in ("invalid-input", "not-found", "unsupported")
    assert SECRET not in str(caught.value)
    with pytest.raises(HeadgateError):
        lake.sql(reader, f"SELECT * FROM {name}").collect()
    assert not out.exists()


@pytest.mark.parametrize("case", ["script", "directory", "path", "reflect", "view of the session"])
def test_the_query_of_a_materialized_view_is_checked_at_each_refresh(
    lake: hg.Lake, reader: SparkSession, secret: Path, case: str
) -> None:
    out, name = secret.with_name("out"), f"sales.copy{lake.version}"
    lake.create_materialized_view(reader, name, "SELECT id FROM sales.orders")
    sql = HOSTILE[case].format(out=out, secret=secret)
    with pytest.raises(HeadgateError):
        lake.table(name).set_properties({VIEW_SQL: sql})
    _plant_query(lake, name, sql)
    with pytest.raises(HeadgateError):
        lake.refresh(reader, name)
    assert not out.exists()


def _plant_query(lake: hg.Lake, name: str, sql: str) -> None:
    with lake.transaction() as tx:
        change = tx.table(name)._change()
        tx._work.noted = tx._work.noted.with_table(
            replace(change, alters=Alteration(PropertyChange({VIEW_SQL: sql})))
        )


@pytest.mark.parametrize("case", HARMLESS)
def test_what_is_harmless_works(lake: hg.Lake, reader: SparkSession, case: str) -> None:
    sql, rows = HARMLESS[case]
    lake.create_view("v.made", sql, replace=True)
    found = lake.table("v.made").read(reader).collect()
    assert len(found) == rows
    assert SECRET not in str(found)


def test_views_that_each_name_the_one_below_twice(lake: hg.Lake, reader: SparkSession) -> None:
    below = "sales.orders"
    for _ in range(20):
        below = planted(lake, f"SELECT id FROM {below} UNION ALL SELECT id FROM {below}")
    with pytest.raises(InvalidInputError, match="1,000 relations"):
        lake.table(below).read(reader)
    with pytest.raises(InvalidInputError, match="1,000 relations"), lake.transaction() as tx:
        tx.table(below).read(reader)
    with pytest.raises(InvalidInputError, match="1,000 relations"):
        lake.create_materialized_view(reader, "sales.copy", f"TABLE {below}")


@pytest.mark.timeout(120)
def test_parts_that_the_parser_repeats(
    lake: hg.Lake, reader: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`CASE x WHEN a … WHEN b …` has `x` twice in the tree: forty of them, in each other, have no end."""
    monkeypatch.setattr(parser, "MAX_NODES", 5_000)
    cases = (
        "SELECT " + "CASE " * 40 + "id" + " WHEN 1 THEN 2 WHEN 3 THEN 4 END" * 40 + " AS x FROM sales.orders"
    )
    with pytest.raises(InvalidInputError, match="more than 5,000 parts"):
        lake.create_view("v.made", cases, replace=True)
    with pytest.raises(InvalidInputError, match="more than 5,000 parts"):
        lake.table(planted(lake, cases)).read(reader)


TERMS = ", ".join(f"id + {number}" for number in range(24))
WIDE = {
    "nested stars": "SELECT * FROM " + "(SELECT *, * FROM " * 35 + "(SELECT 1 AS x)" + ")" * 35,
    "parts": "WITH a0 AS (SELECT 1 AS x), "
    + ", ".join(f"a{number} AS (SELECT *, * FROM a{number - 1})" for number in range(1, 35))
    + " SELECT count(*) FROM a34",
    "structs": "SELECT * FROM " + "(SELECT struct(x, x) AS x FROM " * 35 + "(SELECT 1 AS x)" + ")" * 35,
    "lambdas": "SELECT " + "transform(" * 30 + "array(1)" + ", x -> struct(x, x))" * 30,
    "a cube": f"SELECT count(*) FROM sales.orders GROUP BY CUBE({TERMS})",
    "with cube": f"SELECT count(*) FROM sales.orders GROUP BY {TERMS} WITH CUBE",
    "cubes": "SELECT count(*) FROM sales.orders GROUP BY " + ", ".join(["CUBE(id, id + 1, id + 2)"] * 6),
    "a cube in sets": f"SELECT count(*) FROM sales.orders GROUP BY GROUPING SETS (CUBE({TERMS}))",
    "a pivot": "SELECT * FROM sales.orders PIVOT ("
    + ", ".join(f"max(id) AS a{number}" for number in range(400))
    + f" FOR id IN ({', '.join(map(str, range(400)))}))",
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", WIDE)
def test_a_short_query_that_would_be_billions_of_columns_is_not_analyzed(
    lake: hg.Lake, reader: SparkSession, case: str
) -> None:
    with pytest.raises(InvalidInputError, match=r"100,000 columns|grouping sets"):
        lake.table(planted(lake, WIDE[case])).read(reader)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("select", ["*, *", "struct(x, x) AS x"])
def test_views_that_each_double_the_one_below_are_not_analyzed(
    lake: hg.Lake, reader: SparkSession, select: str
) -> None:
    below = planted(lake, "SELECT id AS x FROM sales.orders")
    for _ in range(25):
        below = planted(lake, f"SELECT {select} FROM {below}")
    with pytest.raises(InvalidInputError, match="100,000 columns"):
        lake.table(below).read(reader)


def test_a_wide_query_is_read(lake: hg.Lake, reader: SparkSession) -> None:
    many = ", ".join(f"id AS a{number}" for number in range(2_000))
    name = planted(lake, f"SELECT {many} FROM sales.orders")
    above = planted(lake, f"SELECT *, struct(a1, a2) AS s FROM {name}")
    assert len(lake.table(above).read(reader).columns) == 2_001
    sets = planted(lake, "SELECT id, grouping(id) AS g FROM sales.orders GROUP BY CUBE(id)")
    assert lake.table(sets).read(reader).columns == ["id", "g"]


def test_a_text_is_not_changed_by_settings_of_the_reader(lake: hg.Lake, reader: SparkSession) -> None:
    lake.create_view("v.made", "SELECT '${env:PATH} ${spark.headgate.test.secret}' AS x", replace=True)
    ((found,),) = lake.table("v.made").read(reader).collect()
    assert found == "${env:PATH} ${spark.headgate.test.secret}"


def test_settings_of_the_reader_count_as_in_his_own_queries(lake: hg.Lake, session: SparkSession) -> None:
    reader = session.newSession()
    sql = "SELECT CAST(TIMESTAMP '2026-11-15 10:00:00Z' AS STRING) AS x"
    lake.create_view("v.made", sql, replace=True)
    reader.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    ((found,),) = lake.table("v.made").read(reader).collect()
    assert found == "2026-11-15 19:00:00"
    lake.create_view("v.made", "WITH T AS (SELECT 1) SELECT * FROM t", replace=True)
    reader.conf.set("spark.sql.caseSensitive", "true")
    reader.range(1).createTempView("t")
    with pytest.raises(HeadgateError, match="reads t"):
        lake.table("v.made").read(reader)


def test_every_function_of_this_spark_was_looked_at(spark: SparkSession) -> None:
    known = {row[0].lower() for row in spark.newSession().sql("SHOW SYSTEM FUNCTIONS").collect()}
    words = {name for name in known if name.replace("_", "").isalnum()}
    assert words - FUNCTIONS - TABLE_FUNCTIONS - set(REFUSED_FUNCTIONS) - {"distinct", "case"} == set()
    assert not (FUNCTIONS | TABLE_FUNCTIONS) & set(REFUSED_FUNCTIONS)
