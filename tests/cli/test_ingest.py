"""`headgate ingest`: files into tables, all in one version, and what is said if they do not fit."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.files import csv_file, json_lines
from tests.cli.program import run, run_json

ORDERS = "id,name,amount,ts\n1,ann,1.5,2026-11-15T10:00:00Z\n2,bob,2,2026-11-16T10:00:00+01:00\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    hg.Lake.init(tmp_path / "lake")
    return tmp_path / "lake"


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def rows(place: Path, table: str = "sales.orders") -> list[dict[str, object]]:
    return list(hg.Lake.open(place).table(table).read_arrow().to_pylist())


def test_a_csv_file_makes_a_table_and_fills_it_in_one_version(
    place: Path, file: Callable[[str, str], Path]
) -> None:
    source = file("a.csv", ORDERS)
    result = run("ingest", place, "sales.orders", source, "--partition-by", "day(ts)")
    assert result.exit_code == 0
    assert result.stdout.startswith(
        "version 1: 2 rows from 1 file into sales.orders (new), as 2 data files of "
    )
    assert result.stderr == ""  # a progress bar is for terminals
    table = hg.Lake.open(place).table("sales.orders")
    assert table.partition_by == ("day(ts)",)
    assert [str(field.field_type) for field in table.schema.fields] == [
        "long",
        "string",
        "double",
        "timestamptz",
    ]
    assert rows(place)[1] == {
        "id": 2,
        "name": "bob",
        "amount": 2.0,
        "ts": datetime(2026, 11, 16, 9, tzinfo=UTC),
    }


def test_many_files_of_every_format_are_one_version(place: Path, file: Callable[..., Path]) -> None:
    file("1.csv", "id,name\n1,a\n")
    file("2.csv", "id,name\n2,b\n")
    file("3.tsv", "id\tname\n3\tc\n")
    file("4.jsonl", '{"id": 4, "name": "d"}\n\n{"name": "e", "id": 5}')
    file("5.csv.gz", gzip.compress(b"name,id\nf,6\n"))
    pq.write_table(pa.table({"id": [7], "name": ["g"]}), place.parent / "6.parquet")
    shown = run_json("ingest", place, "a.b", place.parent / "[0-9].*", place.parent / "5.csv.gz")
    assert shown == {
        "table": "a.b",
        "version": 1,
        "created": True,
        "rows": 7,
        "files": 1,
        "bytes": shown["bytes"],
        "sources": 6,
        "already_committed": False,
        "hook_failures": [],
        "clock_warning": None,
    }
    assert [(row["id"], row["name"]) for row in rows(place, "a.b")] == list(
        zip(range(1, 8), "abcdefg", strict=True)
    )


def test_null_and_empty_text_differ_and_quotes_hold_line_ends(place: Path, file: Callable[..., Path]) -> None:
    run("ingest", place, "a.b", file("a.csv", 'id,name\n1,\n2,""\n3,"a ""b"",\nc"\n'))
    assert [row["name"] for row in rows(place, "a.b")] == [None, "", 'a "b",\nc']


def test_values_are_exact_as_the_table_wants_them(place: Path, file: Callable[..., Path]) -> None:
    columns = (
        "d DECIMAL(20, 4), t TIMESTAMP, n TIMESTAMP_NTZ, b BINARY, u UUID, f FIXED(2), day DATE, ok BOOLEAN"
    )
    u = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
    header = "d,t,n,b,u,f,day,ok\n"
    moments = "2026-11-15 10:00:00.000001,2026-11-15T10:00:00"
    line = f"1234567890123456.7891,{moments},00ff,{u},0a0b,2026-11-15,true\n"
    assert run("ingest", place, "a.b", file("a.csv", header + line), "--schema", columns).exit_code == 0
    object_ = (
        '{"d": "1234567890123456.7891", "t": "2026-11-15T10:00:00.000001Z", "n": "2026-11-15T10:00:00", '
        f'"b": "00ff", "u": "{u}", "f": "0a0b", "day": "2026-11-15", "ok": true}}\n'
    )
    assert run("ingest", place, "a.b", file("b.jsonl", object_), "--schema", columns).exit_code == 0
    one, other = rows(place, "a.b")
    assert one == other
    assert one == {
        "d": Decimal("1234567890123456.7891"),
        "t": datetime(2026, 11, 15, 10, 0, 0, 1, tzinfo=UTC),
        "n": datetime(2026, 11, 15, 10),
        "b": b"\x00\xff",
        "u": UUID(u),
        "f": b"\x0a\x0b",
        "day": date(2026, 11, 15),
        "ok": True,
    }


def test_whole_numbers_beyond_bigint_stay_exact(place: Path, file: Callable[..., Path]) -> None:
    numbers = [12345678901234567890, 12345678901234567891, None]
    text = "id,x\n" + "".join(f"{'' if n is None else n},1.5\n" for n in numbers)
    sources = [file("a.csv", text), file("b.csv", "id,x\n7,2\n")]
    assert run("ingest", place, "sales.orders", *sources).exit_code == 0
    assert [row["id"] for row in rows(place)] == [
        Decimal(12345678901234567890),
        Decimal(12345678901234567891),
        None,
        7,
    ]
    assert [row["x"] for row in rows(place)] == [1.5, 1.5, 1.5, 2.0]


def test_two_spellings_of_a_path_are_one_file(place: Path, file: Callable[..., Path]) -> None:
    source = file("a.csv", "id\n1\n")
    other = source.parent / "lake" / ".." / "a.csv"
    assert run("ingest", place, "sales.orders", source, other).exit_code == 0
    assert rows(place) == [{"id": 1}]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.jsonl", '{"a": {}}\n', "a has no fields"),
        ("a.csv", "a,A\n1,2\n", "a occurs twice"),
        ("a.csv", "a,\n1,2\n", "'' is not a valid name"),
    ],
)
def test_columns_that_no_table_can_have(
    place: Path, file: Callable[..., Path], name: str, content: str, told: str
) -> None:
    result = run("ingest", place, "sales.orders", file(name, content))
    assert result.exit_code == 2
    assert told in result.stderr
    assert hg.Lake.open(place).version == 0


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.decimal256(50, 2)])
def test_a_parquet_type_that_iceberg_has_not(place: Path, tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(pa.table({"d": pa.array([None], kind)}), tmp_path / "a.parquet")
    result = run("ingest", place, "sales.orders", tmp_path / "a.parquet")
    assert result.exit_code == 2
    assert "type that Iceberg does not support" in result.stderr


def test_json_makes_nested_columns(place: Path, file: Callable[..., Path]) -> None:
    one = '{"id": 1, "tags": ["a"], "at": {"x": 1, "on": "2026-11-15"}}'
    other = '{"id": 2.5, "tags": [], "at": {"y": 2}}'
    assert run("ingest", place, "a.b", file("a.json", f"{one}\n{other}\n")).exit_code == 0
    found = rows(place, "a.b")
    assert found[0] == {"id": 1.0, "tags": ["a"], "at": {"x": 1, "on": date(2026, 11, 15), "y": None}}
    assert found[1] == {"id": 2.5, "tags": [], "at": {"x": None, "on": None, "y": 2}}


def test_csv_without_a_header_has_the_columns_of_the_table(place: Path, file: Callable[..., Path]) -> None:
    args = ("--no-header", "--delimiter", ";", "--schema", "id INT, name STRING")
    assert run("ingest", place, "a.b", file("a.csv", "1;a\n2;b\n"), *args).exit_code == 0
    assert rows(place, "a.b") == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_overwrite_replaces_all_rows(place: Path, file: Callable[..., Path]) -> None:
    run("ingest", place, "a.b", file("a.csv", "id\n1\n2\n"))
    shown = run_json("ingest", place, "a.b", file("b.csv", "id\n3\n"), "--overwrite")
    assert (shown["version"], shown["rows"]) == (2, 1)
    assert rows(place, "a.b") == [{"id": 3}]


def test_a_batch_is_loaded_once(place: Path, file: Callable[..., Path]) -> None:
    args = ("ingest", place, "a.b", file("a.csv", "id\n1\n"), "--app", "loader", "--batch", "7")
    assert run_json(*args)["already_committed"] is False
    before = set(place.rglob("*.parquet"))
    again = run_json(*args)
    assert (again["already_committed"], again["version"], again["rows"]) == (True, 1, 0)
    assert set(place.rglob("*.parquet")) == before  # it was not even read
    assert "nothing was loaded" in run(*args).output


def test_the_same_options_may_be_given_again(place: Path, file: Callable[..., Path]) -> None:
    source = file("a.csv", "id,ts\n1,2026-11-15T10:00:00Z\n")
    args = ("--schema", "id BIGINT, ts TIMESTAMP", "--partition-by", "day( ts )")
    assert [run("ingest", place, "a.b", source, *args).exit_code for _ in range(2)] == [0, 0]


def test_files_larger_than_what_is_held_are_cut_at_the_target_size(
    place: Path, file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_file, "BLOCK_BYTES", 64 * 1024)
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", 64 * 1024)
    lake = hg.Lake.open(place)
    lake.create_table("a.b", "id BIGINT, text STRING", properties={"write.target-file-size-bytes": "100000"})
    numbers = range(20_000)
    source = file("a.csv", "id,text\n" + "".join(f"{n},{hash(n) * 7919:x}{n * 104729:x}\n" for n in numbers))
    lines = file("b.jsonl", "".join(f'{{"id": {n}, "text": "{n * 7919:x}"}}\n' for n in numbers))
    shown = run_json("ingest", place, "a.b", source, lines)
    sizes = [each.size_bytes for each in lake.table("a.b").files()]
    assert shown["version"] == lake.version == 2
    assert shown["rows"] == 40_000
    assert len(sizes) > 3
    assert all(size <= 150_000 for size in sizes)
    assert sum(sizes) == shown["bytes"]


WRONG = [
    ("a.csv", "id,name\n1,a\nx,b\n", "a.csv, row 3, column id"),
    ("a.csv", "id,name\n1\n", "a.csv, row 2: Expected 2 columns, got 1"),
    ("a.csv", "id,name\n1,a\n,b\n", "a.csv, row 3): column id is required"),
    ("a.csv", "id,name,more\n1,a,2\n", "column more (int64) is not in the table"),
    ("a.csv", "name\nx\n", "column id (int64) is required but missing"),
    ("a.csv", "", "a.csv: Empty CSV file"),
    ("a.csv", b"id,name\n1,\xff\n", "a.csv, row 2, column name"),
    ("a.jsonl", '{"id": 1}\n{"id": "x"}\n', "a.jsonl, line 2: column id is a string, not a number"),
    ("a.jsonl", '{"id": 1}\n\n{"id": 2, "more": 1}\n', "a.jsonl, line 3: column more is not in the table"),
    ("a.jsonl", '{"id": 1}\n{"id": 2\n', "a.jsonl, line 2 is not JSON"),
    ("a.jsonl", '{"id": 1}\n5\n', "a.jsonl, line 2 is not a JSON object"),
    ("a.jsonl", '{"name": "x"}\n', "a.jsonl, row 1): column id is required"),
    ("a.json", '[{"id": 1}]', "contains one JSON array"),
    ("a.csv.gz", "not compressed", "a.csv.gz cannot be read"),
    ("a.parquet", "not parquet", "a.parquet is not a Parquet file"),
    ("a.txt", "id\n", "cannot infer the format from the file extension"),
]


@pytest.mark.parametrize(("name", "content", "message"), WRONG, ids=lambda value: repr(value)[:30])
def test_what_does_not_fit_is_named_and_nothing_changes(
    place: Path, file: Callable[..., Path], name: str, content: str | bytes, message: str
) -> None:
    lake = hg.Lake.open(place)
    lake.create_table("a.b", "id BIGINT NOT NULL, name STRING")
    good = file("good.csv", "id,name\n1,a\n")
    result = run("ingest", place, "a.b", good, file(name, content))
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert lake.version == 1


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("id,name\n1,2026-11-15\n", "b.csv: column name is date32[day], but string in"),
        ("id\n1\n", "b.csv has no column name, which"),
        ("id,name,x\n1,a,2\n", "b.csv has a column x, which"),
    ],
)
def test_files_that_disagree_make_no_table(
    place: Path, file: Callable[..., Path], other: str, message: str
) -> None:
    result = run("ingest", place, "a.b", file("a.csv", "id,name\n1,a\n"), file("b.csv", other))
    assert result.exit_code == 2
    assert message in result.output
    assert hg.Lake.open(place).version == 0


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["{tmp}/none.csv"], 2, "there is no file {tmp}/none.csv"),
        (["{tmp}/*.none"], 2, "no file matches {tmp}/*.none"),
        (["{tmp}"], 2, "is a directory"),
        (["{file}", "--app", "x"], 2, "--app and --batch must be given together"),
        (["{file}", "--format", "xml"], 2, "choose one of csv, json, parquet"),
        (["{file}", "--delimiter", "ab"], 2, "is not a delimiter"),
        (["{file}", "--schema", "id NUMBER"], 2, "is not a type"),
        (["{file}", "--partition-by", "week(id)"], 2, "week"),
        (["{file}", "--schema", "id INT, l ARRAY<INT>"], 2, "which CSV cannot express"),
    ],
)
def test_wrong_options_change_nothing(
    place: Path, file: Callable[..., Path], args: list[str], code: int, message: str
) -> None:
    known = {"tmp": str(place.parent), "file": str(file("a.csv", "id\n1\n"))}
    result = run("ingest", place, "a.b", *(arg.format(**known) for arg in args))
    assert result.exit_code == code, result.output
    assert message.format(**known) in result.output
    assert hg.Lake.open(place).version == 0


def test_a_table_that_exists_is_not_what_the_options_say(place: Path, file: Callable[..., Path]) -> None:
    source = file("a.csv", "id\n1\n")
    run("ingest", place, "a.b", source)
    assert (
        "columns of a.b differ from --schema"
        in run("ingest", place, "a.b", source, "--schema", "x INT").output
    )
    assert (
        "partitioned by nothing, not by id"
        in run("ingest", place, "a.b", source, "--partition-by", "id").output
    )
    assert hg.Lake.open(place).version == 1


def test_ctrl_c_leaves_nothing_to_see(place: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "endless.csv"
    os.mkfifo(pipe)
    program = (sys.executable, "-c", "from headgate.cli import main; main()")
    args = ("ingest", str(place), "a.b", str(pipe), "--schema", "id BIGINT")
    process = subprocess.Popen([*program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with pipe.open("w") as feed:  # returns when the command has opened it
        feed.write("id\n" + "1\n" * 100_000)
        feed.flush()
        process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "interrupted" in said and "Traceback" not in said
    assert hg.Lake.open(place).version == 0


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["01234", "99999"], ["01234", "99999"]),
        (["007.5", "1.5"], ["007.5", "1.5"]),
        (["-01", "2"], ["-01", "2"]),
        (["0", "10", "-5"], [0, 10, -5]),
        (["0.5", "00"], ["0.5", "00"]),
        (["0.5", "2"], [0.5, 2.0]),
        (["9007199254740993", "1"], [2**53 + 1, 1]),
        (["9007199254740992", "1.5"], [2.0**53, 1.5]),
        (["0" + "9" * 20, "1"], ["0" + "9" * 20, "1"]),
        (["9" * 20, "1"], [Decimal("9" * 20), Decimal(1)]),
        (["9" * 40, "0.5"], ["9" * 40, "0.5"]),
    ],
)
def test_numbers_of_csv_files_keep_what_is_written(
    place: Path, file: Callable[..., Path], texts: list[str], expected: list[object]
) -> None:
    run_json("ingest", place, "a.b", file("a.csv", "\n".join(["x", *texts, ""])))
    assert [row["x"] for row in rows(place, "a.b")] == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["9007199254740993", "1"], [2**53 + 1, 1]),
        (["9007199254740992", "1.5"], [2.0**53, 1.5]),
        (["[1, 9007199254740993]"], [[1, 2**53 + 1]]),
        (['{"y": 1}', '{"y": 1.5}'], [{"y": 1.0}, {"y": 1.5}]),
        (["9" * 20, "1"], [Decimal("9" * 20), Decimal(1)]),
        (["1", "2"], [1, 2]),
    ],
)
def test_numbers_of_json_lines_keep_what_is_written(
    place: Path, file: Callable[..., Path], texts: list[str], expected: list[object]
) -> None:
    run_json("ingest", place, "a.b", file("a.jsonl", "".join(f'{{"x": {text}}}\n' for text in texts)))
    assert [row["x"] for row in rows(place, "a.b")] == expected


@pytest.mark.parametrize(
    "files",
    [
        {"a.jsonl": '{"x": 9007199254740993}\n{"x": 0.5}\n'},
        {"a.jsonl": '{"x": 0.5}\n{"x": 9007199254740993}\n'},
        {"a.jsonl": '{"x": {"y": [0.5, 9007199254740993]}}\n'},
        {"a.csv": "x\n9007199254740993\n0.5\n"},
        {"a.csv": "x\n9007199254740993\n", "b.csv": "x\n0.5\n"},
        {"a.jsonl": '{"x": 0.5}\n', "b.jsonl": '{"x": 9007199254740993}\n'},
        {"a.jsonl": f'{{"x": {"9" * 40}}}\n'},
    ],
)
def test_whole_numbers_that_would_be_rounded_are_refused(
    place: Path, file: Callable[..., Path], files: dict[str, str]
) -> None:
    paths = [file(name, content) for name, content in files.items()]
    result = run("ingest", place, "a.b", *paths)
    assert result.exit_code == 2, result.output
    assert "--schema" in result.output and "column x" in result.output
    assert hg.Lake.open(place).version == 0


def test_small_whole_numbers_of_one_file_go_beside_fractions_of_another(
    place: Path, file: Callable[..., Path]
) -> None:
    run_json("ingest", place, "a.b", file("a.csv", "x\n1\n"), file("b.csv", "x\n0.5\n"))
    assert sorted(row["x"] for row in rows(place, "a.b")) == [0.5, 1.0]  # type: ignore[type-var]


def test_unsigned_numbers_of_parquet_files_become_those_that_hold_them(place: Path, tmp_path: Path) -> None:
    values = {
        "a": pa.array([255], pa.uint8()),
        "b": pa.array([2**16 - 1], pa.uint16()),
        "c": pa.array([2**32 - 1], pa.uint32()),
        "d": pa.array([2**64 - 1], pa.uint64()),
        "e": pa.array([[2**32 - 1]], pa.list_(pa.uint32())),
        "f": pa.array([{"g": 2**32 - 1}], pa.struct([("g", pa.uint32())])),
    }
    pq.write_table(pa.table(values), tmp_path / "a.parquet")
    run_json("ingest", place, "a.b", tmp_path / "a.parquet")
    (row,) = rows(place, "a.b")
    expected = {"a": 255, "b": 2**16 - 1, "c": 2**32 - 1, "d": Decimal(2**64 - 1)}
    assert row == expected | {"e": [2**32 - 1], "f": {"g": 2**32 - 1}}
    kinds = [str(field.field_type) for field in hg.Lake.open(place).table("a.b").schema.fields]
    assert kinds[:4] == ["int", "int", "long", "decimal(20, 0)"]
    lake = hg.Lake.open(place)
    lake.create_table("a.c", pa.table(values).schema).append(pa.table(values))
    assert lake.table("a.c").read_arrow().to_pylist() == [row]
