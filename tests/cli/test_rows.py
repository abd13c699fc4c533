"""`headgate read` and `headgate sql`: rows as a table, CSV, JSON lines and a JSON document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.cli.rows import csv_cell
from headgate.cli.values import column_values
from tests.cli.program import run, run_json

OLD = -(2**60)
PROGRAM = (sys.executable, "-c", "from headgate.cli import main; main()")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    lake = hg.Lake.init(tmp_path / "lake")
    table = lake.create_table(
        "sales.orders",
        "id BIGINT, name STRING, amount DECIMAL(20, 2), ts TIMESTAMP, tags ARRAY<STRING>, data BINARY",
    )
    table.append(
        pa.table(
            {
                "id": [1, 2, 3],
                "name": ["ann", "", None],
                "amount": [Decimal("123456789012345678.90"), None, Decimal("0.01")],
                "ts": [datetime(2026, 11, 15, 10, 0, 0, 1, tzinfo=UTC), None, None],
                "tags": [["a,b", 'c"'], [], None],
                "data": [b"\x00\xff", b"", None],
            }
        )
    )
    lake.tag("eom")
    table.append(pa.table({"id": [4], "name": ["x\x1b[2J\ny"]}))
    return tmp_path / "lake"


def test_a_pipe_gets_csv(place: Path) -> None:
    assert run("read", place, "sales.orders", "--where", "id < 4").stdout == (
        "id,name,amount,ts,tags,data\n"
        '1,ann,123456789012345678.90,2026-11-15T10:00:00.000001+00:00,"[""a,b"", ""c\\""""]",00ff\n'
        '2,"",,,[],""\n'
        "3,,0.01,,,\n"
    )


def test_what_changed_since_a_version(place: Path) -> None:
    hg.Lake.open(place).table("sales.orders").delete("id = 2")
    assert run("read", place, "sales.orders", "--since", "3", "--columns", "id").stdout == (
        "id,_change_type,_version\n4,insert,4\n2,delete,5\n"
    )
    at = run_json("read", place, "sales.orders", "--since", "3", "--version", "4", "--limit", "5")
    assert [row["_change_type"] for row in at["rows"]] == ["insert"]
    refused = run("read", place, "sales.orders", "--since", "99")
    assert refused.exit_code == 2
    assert "from 0 to 5" in refused.stderr
    assert run("read", place, "sales.orders", "--since", "1", "--where", "id = 1").exit_code == 2


def test_json_lines_and_a_document(place: Path) -> None:
    lines = run("read", place, "sales.orders", "--output", "jsonl", "--columns", "id, amount,tags").stdout
    assert [json.loads(line) for line in lines.splitlines()][:2] == [
        {"id": 1, "amount": "123456789012345678.90", "tags": ["a,b", 'c"']},
        {"id": 2, "amount": None, "tags": []},
    ]
    shown = run_json("read", place, "sales.orders", "--columns", "id", "--limit", "1")
    assert shown == {
        "table": "sales.orders",
        "version": 4,
        "columns": [{"name": "id", "type": "int64"}],
        "rows": [{"id": 1}],
    }


def test_a_table_cannot_control_the_terminal(place: Path) -> None:
    shown = run("read", place, "sales.orders", "--output", "table", "--columns", "id,name").stdout
    assert shown.splitlines()[1:] == ["1\tann", "2\t", "3\tNULL", "4\tx\\x1b[2J\\ny"]


def test_a_terminal_gets_the_first_rows_in_a_box(place: Path) -> None:
    lake = hg.Lake.open(place)
    lake.create_table("a.long", "n BIGINT").append(pa.table({"n": list(range(60))}))
    command = " ".join(
        [sys.executable, "-c", "'from headgate.cli import main; main()'", "read", str(place), "a.long"]
    )
    result = subprocess.run(
        ["script", "-qec", command, "/dev/null"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TERM": "dumb"},
    )
    assert "│ 49 │" in result.stdout and "│ 50 │" not in result.stdout
    assert "the first 50 rows" in result.stdout


@pytest.mark.parametrize(
    ("args", "count"),
    [
        (["--version", "2"], 3),
        (["--tag", "eom"], 3),
        (["--version", "1"], 0),
        (["--timestamp", "2999-01-01"], 4),
        (["--limit", "0"], 0),
    ],
)
def test_rows_as_they_were(place: Path, args: list[str], count: int) -> None:
    assert len(run("read", place, "sales.orders", *args, "--columns", "id").stdout.splitlines()) == 1 + count


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["sales.ordrs"], 1, "did you mean sales.orders?"),
        (["sales.orders", "--columns", "nme"], 2, "nme"),
        (["sales.orders", "--where", "id <"], 2, "id <"),
        (["sales.orders", "--version", "99"], 1, "the newest is 4"),
        (["sales.orders", "--tag", "eon"], 1, "eom"),
        (["sales.orders", "--tag", "eom", "--version", "1"], 2, "give only one of"),
        (["sales.orders", "--output", "xml"], 2, "--output"),
        (["sales.orders", "--limit", "-1"], 2, "--limit"),
    ],
)
def test_what_cannot_be_read_is_said(place: Path, args: list[str], code: int, message: str) -> None:
    result = run("read", place, *args)
    assert (result.exit_code, message in result.output) == (code, True), result.output


@pytest.mark.parametrize("text", [None, "", "a", " a", 'q"q', "a,b", "a\nb", "a\rb"])
def test_csv_that_is_read_again_is_the_same(tmp_path: Path, text: str | None) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    lake.create_table("a.b", "id INT, text STRING").append(
        pa.table({"id": pa.array([1], pa.int32()), "text": [text]})
    )
    copy = tmp_path / "copy.csv"
    copy.write_bytes(run("read", tmp_path / "lake", "a.b").stdout_bytes)
    assert run("ingest", tmp_path / "lake", "a.c", copy, "--schema", "id BIGINT, text STRING").exit_code == 0
    assert lake.table("a.c").read_arrow().to_pylist() == [{"id": 1, "text": text}]


def test_cells_are_quoted_where_they_must_be() -> None:
    assert [csv_cell(text) for text in (None, "", "a b", 'a"')] == ["", '""', "a b", '"a"""']


def test_values_of_every_type_are_values_of_json() -> None:
    moments = pa.array([253402300800000000, OLD, None], pa.timestamp("us"))
    assert column_values(moments) == [
        "10000-01-01T00:00:00.000000",
        f"<value out of range: {-(2**60)}>",
        None,
    ]
    assert column_values(pa.array([float("nan"), float("inf"), 1.5])) == ["NaN", "Infinity", 1.5]
    assert column_values(pa.array([Decimal("1E-7")], pa.decimal128(10, 8))) == ["0.00000010"]
    by_text = pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64()))
    assert column_values(by_text) == [{"a": 1}, None, {}]
    assert column_values(by_text.slice(1)) == [None, {}]
    assert column_values(pa.array([[(1, "x")]], pa.map_(pa.int64(), pa.string()))) == [[[1, "x"]]]
    structs = pa.array([{"x": [b"\x01"]}, None, {"x": None}], pa.struct([("x", pa.list_(pa.binary()))]))
    assert column_values(structs) == [{"x": ["01"]}, None, {"x": None}]
    assert column_values(structs.slice(1)) == [None, {"x": None}]
    assert column_values(pa.array([[1], None, [2, 3]]).slice(1)) == [None, [2, 3]]


def run_process(*args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, **environment},
    )


def test_sql_without_java_says_how_to_get_it(place: Path, tmp_path: Path) -> None:
    result = run_process("sql", place, "SELECT 1", PATH=str(tmp_path), JAVA_HOME="")
    assert result.returncode == 1
    assert "Spark needs Java" in result.stderr and "install it" in result.stderr


@pytest.mark.slow
def test_sql_prints_rows_and_nothing_else(place: Path) -> None:
    query = "SELECT name, count(*) AS n FROM sales.orders VERSION AS OF 'eom' GROUP BY name ORDER BY name"
    result = run_process("sql", place, query, "--limit", "2")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == 'name,n\n,1\n"",1\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("SELECT * FROM sales.ordrs", 1, "did you mean sales.orders"),
        ("SELECT 1/0", 2, "DIVIDE_BY_ZERO"),
        ("SELECT 1 1 1", 2, "PARSE_SYNTAX_ERROR"),
    ],
)
def test_a_query_that_fails_is_said_in_a_few_lines(place: Path, query: str, code: int, message: str) -> None:
    result = run_process("sql", place, query)
    assert (result.returncode, result.stdout) == (code, "")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) < 12


@pytest.mark.slow
def test_ingest_with_spark_reads_files_as_without(place: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text('id,name\n1,\n2,""\n3,"a ""b"",\nc"\n')
    result = run_process(
        "ingest", place, "a.b", source, "--spark", "--partition-by", "bucket(2, id)", "--json"
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["rows"] == 3
    found = hg.Lake.open(place).table("a.b").read_arrow().sort_by("id").to_pylist()
    assert [row["name"] for row in found] == [None, "", 'a "b",\nc']
    source.write_text("id,name\nx,y\n")
    refused = run_process("ingest", place, "a.b", source, "--spark")
    assert refused.returncode == 2, refused.stderr
    assert "MALFORMED" in refused.stderr
