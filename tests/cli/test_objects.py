"""`headgate view`, `mount` and `drop`, and what other commands make of views and mounts; without a JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from tests.cli.program import run, run_json

SQL = "SELECT * FROM sales.orders WHERE id > 1"
QUIET: dict[str, object] = {"hook_failures": [], "clock_warning": None}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    lake = hg.Lake.init(tmp_path / "lake")
    lake.create_table("sales.orders", "id BIGINT").append(pa.table({"id": [1, 2]}))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id;name\n1;ann\n2;\n")
    return tmp_path / "lake"


def test_a_view_is_made_shown_replaced_and_dropped(place: Path, tmp_path: Path) -> None:
    assert run("view", place, "v.late", "--sql", SQL).stdout == "version 3: v.late is a view\n"
    shown = run_json("show", place, "v.late")
    assert (shown["kind"], shown["sql"], shown["version"]) == ("view", SQL, 3)
    assert f"  sql      {SQL}" in run("show", place, "v.late").stdout
    (tmp_path / "late.sql").write_text("SELECT 1 AS one\n")
    again = run("view", place, "v.late", "--file", tmp_path / "late.sql")
    assert again.exit_code == 1
    assert "a view v.late already exists" in again.stderr
    replaced = run_json("view", place, "v.late", "--file", tmp_path / "late.sql", "--replace")
    assert replaced == {"name": "v.late", "kind": "view", "version": 4} | QUIET
    assert run_json("show", place, "v.late", "--version", "3")["sql"] == SQL
    assert run("drop", place, "v.late").stdout == "version 5: the view v.late is dropped\n"
    assert "v.late" not in run("tables", place).stdout
    changes = [line.split("\t")[4] for line in run("log", place).stdout.splitlines()[1:4]]
    assert changes == ["drop view v.late", "replace view v.late", "create view v.late"]


def test_tables_shows_the_kind(place: Path, tmp_path: Path) -> None:
    run("view", place, "v.late", "--sql", SQL)
    run("mount", place, "raw.in", tmp_path / "in", "--delimiter", ";")
    lines = [line.split("\t") for line in run("tables", place).stdout.splitlines()]
    assert [line[:3] for line in lines] == [
        ["table", "kind", "rows"],
        ["raw.in", "csv", ""],
        ["sales.orders", "table", "2"],
        ["v.late", "view", ""],
    ]
    listed = {each["name"]: each for each in run_json("tables", place)}
    assert listed["raw.in"]["columns"] == ["id long", "name string"]
    assert listed["v.late"]["columns"] is None
    assert set(run_json("show", place)["objects"]) == {"raw.in", "v.late"}


def test_a_mount_is_read_without_a_jvm(place: Path, tmp_path: Path) -> None:
    made = run(
        "mount", place, "raw.in", tmp_path / "in", "--delimiter", ";", "--schema", "id INT, name STRING"
    )
    asked = f"to read it: --allow-mounts {tmp_path / 'in'}, or HEADGATE_MOUNTS_ALLOW\n"
    assert made.stdout == "version 3: raw.in is a mount\n" + asked
    allowed = ("--allow-mounts", tmp_path)
    found = run("read", place, "raw.in", "--where", "id = 2", *allowed)
    assert found.stdout == "id,name\n2,\n"
    shown = run("show", place, "raw.in").stdout
    assert str(tmp_path / "in") in shown
    assert "name\tstring" in shown
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "a.txt").write_text("one\ntwo\n")
    assert run("mount", place, "raw.log", tmp_path / "log", "--format", "text").exit_code == 0
    first = run("read", place, "raw.log", "--limit", "1", "--output", "jsonl", *allowed)
    assert first.stdout == '{"value": "one"}\n'
    (tmp_path / "log" / "a.txt").unlink()
    gone = run("read", place, "raw.log", *allowed)
    assert gone.exit_code == 1
    assert "there is no text file in" in gone.stderr
    assert run("drop", place, "raw.log").stdout.endswith("the host raw.log is dropped\n")


def test_a_mount_is_read_only_where_the_reader_allows_it(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("mount", place, "raw.in", tmp_path / "in", "--delimiter", ";")
    refused = run("read", place, "raw.in", "--allow-mounts", tmp_path / "other")
    assert refused.exit_code == 2
    assert f"--allow-mounts {tmp_path / 'in'}" in refused.stderr
    assert run("read", place, "raw.in", "--allow-mounts", tmp_path / "in").exit_code == 0
    monkeypatch.setenv("HEADGATE_MOUNTS_ALLOW", f"/nowhere:{tmp_path}")
    assert run("read", place, "raw.in").exit_code == 0


def test_drop_drops_a_table_too(place: Path) -> None:
    dropped = run_json("drop", place, "sales.orders")
    assert dropped == {"name": "sales.orders", "kind": "table", "version": 3} | QUIET
    assert run("drop", place, "sales.orders").exit_code == 1


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["view", "v.a"], 2, "needs a query"),
        (["view", "v.a", "--sql", "SELECT 1", "--file", "x"], 2, "needs a query"),
        (["view", "v.a", "--file", "/no/such/file"], 2, "cannot read"),
        (["view", "v.a", "--sql", "SELECT * FROM sales.order"], 1, "sales.orders"),
        (["view", "v.a", "--sql", "DROP TABLE x"], 1, "a query cannot begin with"),
        (["view", "v.a", "--sql", "SELECT 1", "--partition-by", "x"], 2, "has no files"),
        (["view", "v.a", "--sql", "SELECT 1", "--materialized", "--replace"], 2, "is a table"),
        (["mount", "raw.x", "/no/such/place"], 2, "there is no directory"),
        (["mount", "raw.x", "/", "--format", "json", "--delimiter", ";"], 2, "need --format csv"),
        (["mount", "raw.x", "/", "--format", "orc"], 2, "not a format"),
        (["drop", "v.gone"], 1, "there is no table v.gone"),
        (["ingest", "v.view", "x.csv"], 2, "x.csv"),
    ],
)
def test_wrong_usage(place: Path, words: list[str], code: int, problem: str) -> None:
    command, *rest = words
    result = run(command, place, *rest)
    assert (result.exit_code, problem in result.stderr) == (code, True), result.output
    assert hg.Lake.open(place).version == 2


def test_files_are_not_loaded_into_a_view(place: Path, tmp_path: Path) -> None:
    run("view", place, "v.late", "--sql", SQL)
    refused = run("ingest", place, "v.late", tmp_path / "in" / "a.csv")
    assert refused.exit_code == 2
    assert "v.late is a view, not a table" in refused.stderr


def test_lines_of_text_are_loaded(place: Path, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("one\n\ntwo")
    assert run("ingest", place, "raw.lines", tmp_path / "a.log", "--format", "text").exit_code == 0
    read = hg.Lake.open(place).table("raw.lines").read_arrow()
    assert read.column("value").to_pylist() == ["one", "", "two"]
