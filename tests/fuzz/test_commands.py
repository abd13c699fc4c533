"""Every command with hostile arguments: one of the documented exit codes, and never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
import typer.main

import headgate as hg
from headgate.cli.app import app
from tests.cli.program import run
from tests.examples import examples

ROUNDS = 4
SEED = 2026
EXIT_CODES = frozenset({0, 1, 2, 3, 4})
NOT_HERE = frozenset({"demo"})
"""Starts Spark whatever it is given, and is only given a directory."""
WITHOUT_A_LAKE = frozenset({"sql"})
"""Starts Spark for a lake and anything that may be a query: see `tests/spark/test_hostile_commands.py`."""
STARTS_SPARK = frozenset({"--spark", "--materialized"})
TEXTS = (
    "",
    " ",
    "a.b",
    "db.t",
    "../../x",
    "\ud800",
    "x" * 5000,
    "-1",
    "0",
    "9" * 5000,
    "1e400",
    "nan",
    "\x1b[31mred",
    "id = 1",
    "(" * 3000,
    "=",
    "a=b",
    "2026-99-99",
    "9999-12-31T23:59:59-23:00",
    "99999999999999d",
    "missing.csv",
    "rows.csv",
    "deep.jsonl",
    "broken.parquet",
    "twice.csv",
    ".",
)
NUMBERS = ("-1", "0", "1", str(2**63), str(10**30), "9" * 5000, "x", "1.5", "")


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(path), command
        return
    for name, each in inner.items():
        yield from _leaves(each, (*path, name))


COMMANDS = dict(_leaves(typer.main.get_command(app), ()))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a lake and files of all kinds."""
    monkeypatch.chdir(tmp_path)
    lake = hg.Lake.init(tmp_path / "lake")
    table = lake.create_table("db.t", "id BIGINT, name STRING")
    table.append(pa.table({"id": [1, 2], "name": ["a", "b"]}))
    Path("rows.csv").write_text("id,name\n1,a\n")
    Path("twice.csv").write_text("id,id\n1,2\n")
    Path("deep.jsonl").write_text('{"id": ' + "[" * 5000 + "]" * 5000 + "}\n")
    Path("broken.parquet").write_bytes(b"PAR1 not really PAR1")
    return tmp_path


def hostile_line(name: str, command: Any, dice: Random) -> list[str]:
    """A line with arguments of all kinds, and some of the options."""
    line = name.split()
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            is_lake = parameter.name == "place" and name not in WITHOUT_A_LAKE and dice.random() < 0.8
            line.append("lake" if is_lake else dice.choice(TEXTS))
        elif dice.random() < 0.35 and not STARTS_SPARK & {*parameter.opts, *parameter.secondary_opts}:
            line.append(dice.choice(parameter.opts))
            if not parameter.is_flag:
                line.append(dice.choice((*NUMBERS, *TEXTS)))
    return line


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - NOT_HERE))
def test_whatever_is_given_the_exit_code_is_documented(name: str, here: Path) -> None:
    dice = Random(f"{SEED} {name}")
    for _ in range(examples(ROUNDS)):
        line = hostile_line(name, COMMANDS[name], dice)
        done = run(*line)
        shown = json.dumps([each[:60] for each in line])
        assert done.exception is None or isinstance(done.exception, SystemExit), (shown, done.exception)
        assert done.exit_code in EXIT_CODES, (shown, done.output)
        assert "Traceback" not in done.output, (shown, done.output)
    assert hg.Lake.open(here / "lake").table("db.t") is not None or name == "drop"
