"""Every command with wrong input: the message names the thing, the reason and the next step.

A row is a command, the code that it ends with, and words of what it says. Nothing is changed by any of them.
"""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
import typer

import headgate as hg
from headgate.cli.app import app
from headgate.cli.options import examples_in
from tests.cli.program import run

MENDED = "a lake there with `headgate init`"
FSCK = "headgate fsck --deep reports what is damaged"
NOBODY = "0" * 32

CASES: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    # Places.
    ("init lake", 1, ("a lake already exists at", "open it, or choose another location")),
    ("init afile", 2, ("afile is a file", "name a directory")),
    ("init afile/below", 1, ("afile/below", "Not a directory", "fix the cause")),
    ("init ''", 2, ("the path of the lake is empty", "name a directory, or a URL")),
    ("init new --strategy psychic", 2, ("'psychic' is not a commit strategy", "conditional, rename")),
    ("init new --divisor many", 2, ("--divisor", "valid integer")),
    ("init new --divisor 1", 2, ("the divisor must be a number from", "but is 1")),
    ("init new --option fsync=maybe", 2, ("the option fsync cannot be 'maybe'", "true or false")),
    ("init new --option fsync", 2, ("the option 'fsync' has no value", "--option NAME=VALUE")),
    ("init new --option color=red", 2, ("unknown options", "color", "known: fsync")),
    ("init s3:///lake", 2, ("names no bucket", "s3://bucket/path")),
    ("init ftp://host/lake", 1, ("the scheme ftp:// is not supported", "use a path or one of")),
    *((f"{command} nowhere", 1, ("there is no lake at", "nowhere", MENDED)) for command in (
        "tables", "log", "show", "timeline", "recover", "metrics", "doctor", "fsck", "rebuild-control",
        "hooks list", "hooks status", "hooks run", "hooks retry",
    )),
    ("read nowhere sales.orders", 1, ("there is no lake at", MENDED)),
    ("sql nowhere 'SELECT 1'", 1, ("there is no lake at", MENDED)),
    ("ingest nowhere sales.orders good.csv", 1, ("there is no lake at", MENDED)),
    ("view nowhere sales.x --sql 'SELECT 1'", 1, ("there is no lake at", MENDED)),
    ("mount nowhere raw.x inbox", 1, ("there is no lake at", MENDED)),
    ("refresh nowhere sales.x", 1, ("there is no lake at", MENDED)),
    ("drop nowhere sales.x", 1, ("there is no lake at", MENDED)),
    ("replicate nowhere new", 1, ("there is no lake at", MENDED)),
    ("tables empty", 1, ("there is no lake at", "empty")),
    ("tables afile", 2, ("afile is a file",)),
    # Lakes that are damaged.
    ("tables corrupt", 1, ("the record of version 2", "field 'format' is missing", FSCK)),
    ("log corrupt", 1, ("the record of version 2", FSCK)),
    ("recover corrupt", 1, ("the record of version 2", FSCK)),
    ("rebuild-control corrupt", 1, ("the record of version 2", FSCK)),
    ("fsck corrupt", 1, ("record-unreadable", "restore control/log/ from a backup")),
    ("show badid", 1, ("headgate.json is not JSON", FSCK)),
    ("show nometa sales.orders", 1, (".metadata.json is missing, but the lake refers to it", FSCK)),
    # Versions and moments.
    ("tables lake --version -1", 2, ("--version", "greater than or equal to 0")),
    ("tables lake --version 99", 1, ("version 99 does not exist; the newest is 5", "from 0 to 5")),
    ("show lake --version x", 2, ("--version", "valid integer")),
    ("show lake --tag nope", 1, ("there is no tag 'nope'", "tags: eom")),
    ("show lake --timestamp soon", 2, ("'soon' is not a timestamp", "2026-11-15T10:00:00Z")),
    ("show lake --timestamp 1970-01-01", 1, ("the lake did not exist", "choose a later time")),
    ("show lake --version 1 --tag eom", 2, ("version and tag each name a version", "give only one of")),
    ("log lake --limit 0", 2, ("--limit", "greater than or equal to 1")),
    ("log lake --since yesterday", 2, ("'yesterday' is not a timestamp", "write it as")),
    ("log lake --kind frob", 2, ("'frob' is not a kind", "kinds: commit, plan")),
    ("log lake --table 'a b'", 2, ("'a b' is not a table name", "namespace.table")),
    # Names.
    ("show lake sales.order", 1, ("there is no table sales.order", "did you mean sales.orders")),
    ("show lake orders", 2, ("'orders' is not a table name", "namespace.table")),
    ("show lake sales.orders --version 0", 1, ("there is no table sales.orders", "at version 1")),
    ("read lake sales.order", 1, ("there is no table sales.order", "did you mean sales.orders")),
    ("drop lake sales.nope", 1, ("there is no table sales.nope", "next:")),
    ("refresh lake sales.orders", 2, ("not a materialized view", "can be refreshed")),
    ("ingest lake 'sales.a b' good.csv", 2, ("'a b' is not allowed", "letters, digits")),
    ("ingest lake sales.view good.csv", 2, ("sales.view is a view, not a table", "next:")),
    ("view lake sales.orders --sql 'SELECT 1'", 1, ("a table sales.orders already exists", "drop it")),
    ("view lake sales.view --sql 'SELECT 1'", 1, ("a view sales.view already exists", "--replace")),
    ("mount lake raw.a inbox", 1, ("a csv mount raw.a already exists", "--replace")),
    # Transactions.
    ("timeline lake --cancel x", 2, ("'x' is not a transaction id", "take it from")),
    ("doctor lake --resolve x", 2, ("'x' is not a transaction id", "take it from")),
    (f"doctor lake --resolve {NOBODY} --switch-to rename", 2, ("cannot be combined", "one after the")),
    ("doctor lake --switch-to psychic", 2, ("'psychic' is not a commit strategy", "choose one of")),
    # Files to load.
    ("ingest lake sales.new missing.csv", 2, ("there is no file missing.csv", "nothing was changed")),
    ("ingest lake sales.new '*.nope'", 2, ("no file matches *.nope", "check the path")),
    ("ingest lake sales.new inbox", 2, ("inbox is a directory", "'inbox/*'")),
    ("ingest lake sales.orders bad.csv", 2, ("bad.csv, row 2, column id", "invalid value 'x'", "--schema")),
    ("ingest lake sales.orders extra.csv", 2, ("column color", "is not in the table", "next:")),
    ("ingest lake sales.new empty.csv", 2, ("empty.csv", "Empty CSV file", "correct the file")),
    ("ingest lake sales.new binary.csv", 2, ("binary.csv, row 1", "not UTF-8", "save the file as UTF-8")),
    ("ingest lake sales.new bad.json", 2, ("bad.json, line 2 is not JSON", "correct the file")),
    ("ingest lake sales.new bad.parquet", 2, ("bad.parquet is not a Parquet file", "replace the file")),
    ("ingest lake sales.new a.dat", 2, ("a.dat: cannot infer the format", "--format csv, json")),
    ("ingest lake sales.new good.csv --format xml", 2, ("'xml' is not a format", "choose one of csv")),
    ("ingest lake sales.new good.csv --schema 'id FROB'", 2, ("'FROB' is not a type", "id BIGINT NOT")),
    ("ingest lake sales.new good.csv --partition-by 'week(id)'", 2, ("'week(id)'", "known: identity")),
    ("ingest lake sales.new good.csv --partition-by no", 2, ("there is no column 'no'", "columns: id")),
    ("ingest lake sales.new good.csv --delimiter ab", 2, ("'ab' is not a delimiter", "one character")),
    ("ingest lake sales.new good.csv --app x", 2, ("--app and --batch must be given together", "give both")),
    ("ingest lake sales.new", 2, ("Missing argument", "FILES")),
    # Hooks.
    ("ingest lake sales.orders good.csv --config bad.toml", 2, ("is not valid TOML", "correct the file")),
    ("hooks list lake --config bad.toml", 2, ("bad.toml is not valid TOML", "line 1", "correct the file")),
    ("hooks list lake --config fly.toml", 2, ("hook a: unknown action 'fly'", "actions: audit")),
    ("recover lake --dry-run --config missing.toml", 2, ("cannot read missing.toml", "--config")),
    ("metrics lake --versions -1", 2, ("--versions",)),
    ("metrics corrupt", 1, ("the record of version 2", FSCK)),
    ("recover lake --config missing.toml", 2, ("cannot read missing.toml", "--config")),
    ("hooks frob lake", 2, ("No such command 'frob'",)),
    # Rows.
    ("read lake sales.orders --where 'id <'", 2, ("expected a literal: id <", "docs/predicates.md")),
    ("read lake sales.orders --where 'idd = 1'", 2, ("there is no column 'idd'", "did you mean id?")),
    ("""read lake sales.orders --where "id = 'x'" """, 2, ("'x' does not fit id", "an integer")),
    ("read lake sales.orders --columns idd", 2, ("there is no column 'idd'", "did you mean id?")),
    ("read lake sales.orders --limit x", 2, ("--limit", "valid integer")),
    ("read lake sales.orders --output xml", 2, ("--output", "'xml'", "'jsonl'")),
    ("read lake sales.orders --since 99", 2, ("no changes from version 99", "from 0 to 5")),
    ("read lake sales.orders --since 1 --where 'id = 1'", 2, ("--where and --since cannot be", "leave")),
    ("sql lake 'SELEC 1'", 1, ("a query cannot begin with 'SELEC'", "write SELECT")),
    # Views, mounts, replicas.
    ("view lake sales.x", 2, ("a view needs a query", "give --sql or --file")),
    ("view lake sales.x --file missing.sql", 2, ("cannot read missing.sql", "No such file", "--file")),
    ("view lake sales.x --sql 'SELECT * FROM no.no'", 1, ("sales.x reads no.no", "of its own lake only")),
    ("view lake sales.x --sql 'SELECT 1' --partition-by a", 2, ("a view has no files", "--materialized")),
    ("mount lake raw.x missing", 2, ("there is no directory", "missing", "create it first")),
    ("mount lake raw.x empty", 2, ("there is no csv file in", "--schema")),
    ("mount lake raw.x inbox --format xml", 2, ("'xml' is not a format", "csv, json, parquet, text")),
    ("mount lake raw.x inbox --format json --delimiter ;", 2, ("need --format csv", "leave them out")),
    ("mount lake raw.x lake", 2, ("is inside the lake", "outside of it")),
    ("replicate lake", 2, ("needs either a target or --promote", "headgate replicate LAKE TARGET")),
    ("replicate lake lake/inside", 2, ("overlap", "outside of the lake")),
    ("replicate lake afile", 2, ("afile is a file",)),
    ("replicate lake --promote", 2, ("is not a replica",)),
    ("replicate lake new --target-option x", 2, ("'x' has no value", "--target-option NAME=VALUE")),
    # Services.
    ("compact nowhere", 1, ("there is no lake at", MENDED)),
    ("compact lake sales.order", 1, ("there is no table sales.order", "did you mean sales.orders")),
    ("compact lake --interval 5", 2, ("--interval needs --watch", "add --watch")),
    ("compact lake --dry-run --watch", 2, ("--dry-run cannot be combined", "leave --dry-run out",)),
    ("cluster lake sales.order --by id --no-spark", 1, ("there is no table sales.order", "sales.orders")),
    ("cluster lake sales.orders --by color --no-spark", 2, ("color", "id, amount")),
    ("expire lake --keep 1:30d", 2, ("has no tier for all versions", "all:1d")),
    ("expire lake --keep soon", 2, ("'soon' is not a tier", "all:1d")),
    ("vacuum lake --older-than soon", 2, ("'soon' is not a duration", "1d")),
    ("vacuum nowhere", 1, ("there is no lake at", MENDED)),
    ("hooks skip nowhere tell", 1, ("there is no lake at", MENDED)),
    # The program itself.
    ("frobnicate", 2, ("No such command 'frobnicate'",)),
    ("log --frob lake", 2, ("No such option", "--frob")),
    ("log lake more", 2, ("unexpected extra argument", "more")),
    ("log", 2, ("Missing argument", "LAKE")),
    ("--metrics-file nowhere/x log lake", 2, ("--metrics-file", "nowhere does not exist", "create it")),
)  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with all that it can have, some that are damaged, and files that do not fit."""
    root = tmp_path_factory.mktemp("wrong")
    for directory in ("inbox", "empty"):
        (root / directory).mkdir()
    files = {
        "inbox/a.csv": b"id,x\n1,2\n",
        "good.csv": b"id,amount\n3,1\n",
        "bad.csv": b"id,amount\nx,1\n",
        "extra.csv": b"id,color\n3,red\n",
        "empty.csv": b"",
        "binary.csv": b"\xff\xfe\x00id\n",
        "bad.json": b'{"id": 1}\n{bad\n',
        "bad.parquet": b"not parquet",
        "a.dat": b"x",
        "afile": b"x",
        "bad.toml": b"[[hooks]\n",
        "fly.toml": b'[[hooks]]\nname = "a"\naction = "fly"\n',
    }
    for name, content in files.items():
        (root / name).write_bytes(content)
    lake = hg.Lake.init(root / "lake")
    orders = lake.create_table("sales.orders", "id BIGINT NOT NULL, amount DOUBLE")
    orders.append(pa.table({"id": [1, 2], "amount": [1.0, 2.0]}))
    lake.create_view("sales.view", "SELECT * FROM sales.orders")
    lake.mount_csv("raw.a", root / "inbox")
    lake.tag("eom")
    for damaged in ("corrupt", "badid", "nometa"):
        shutil.copytree(root / "lake", root / damaged)
    next((root / "corrupt/control/log").glob("*2.json")).write_text("{}")
    (root / "badid/headgate.json").write_text("{nope")
    for metadata in (root / "nometa/data").rglob("*.metadata.json"):
        metadata.unlink()
    return root


@pytest.mark.parametrize(("command", "code", "words"), CASES, ids=[case[0] for case in CASES])
def test_wrong_input(
    world: Path, monkeypatch: pytest.MonkeyPatch, command: str, code: int, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(world)
    monkeypatch.setenv("COLUMNS", "300")
    before = sorted(path for path in world.rglob("*") if path.is_file())
    result = run(*shlex.split(command))
    assert result.exit_code == code, result.output
    assert [word for word in words if word not in result.output] == [], result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert sorted(path for path in world.rglob("*") if path.is_file()) == before


def commands(group: typer.core.TyperGroup | object, words: str) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, command in getattr(group, "commands", {}).items():
        inner = f"{words} {name}".strip()
        found += commands(command, inner) if getattr(command, "commands", None) else [(inner, command)]
    return found


COMMANDS = commands(typer.main.get_group(app), "")


def test_every_command_has_wrong_input() -> None:
    tried = {" ".join(shlex.split(case[0])) for case in CASES}
    missing = [name for name, _ in COMMANDS if not any(case.startswith(f"{name} ") for case in tried)]
    assert missing == ["demo"]


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_every_command_takes_json_and_shows_examples_that_parse(name: str, command: object) -> None:
    options = [option for parameter in command.params for option in parameter.opts]  # type: ignore[attr-defined]
    assert "--json" in options or name == "demo"
    shown = examples_in(command.epilog)  # type: ignore[attr-defined]
    assert shown
    for example in shown:
        words = shlex.split(example)
        assert words[0] == "headgate"
        assert " ".join(words[1:]).startswith(name)
        arguments = words[1 + len(name.split()) :]
        # Raises a usage error if an option or an argument is not one of the command.
        command.make_context(name, arguments)  # type: ignore[attr-defined]


def test_errors_are_json_where_json_is_asked_for(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    for command in ("show nowhere", "log lake --since soon", "read lake sales.order", "hooks run nowhere"):
        told = json.loads(run(*shlex.split(command), "--json").stderr)["error"]
        assert all(told[name] for name in ("kind", "problem", "next_step"))
