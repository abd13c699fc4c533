"""Commands that need Spark, with hostile arguments: one of the documented exit codes, and never a traceback.

The other commands are in `tests/fuzz/test_commands.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import headgate as hg
from tests.cli.program import run
from tests.examples import examples
from tests.fuzz.test_commands import COMMANDS, EXIT_CODES, NUMBERS, STARTS_SPARK, TEXTS

ROUNDS = 12
QUERIES = (
    "SELECT * FROM db.t",
    "SELECT * FROM db.t VERSION AS OF " + "9" * 5000,
    "SELECT * FROM db.t TIMESTAMP AS OF '294247-01-01'",
    "SELECT * FROM db.missing",
    "SELECT raise_error('\x1b[31mred')",
    "SELECT 1 AS `\x1b[31mred`",
    "SELECT a.id, b.id FROM db.t a, db.t b",
    "WITH x AS (SELECT 1) SELECT * FROM x, x",
    "INSERT INTO db.t VALUES (1, 'x')",
    "DROP TABLE db.t",
    "SET spark.sql.ansi.enabled",
    "SELECT",
    "/* unclosed",
    "'",
    "`",
    ";;",
    "SELECT 1; SELECT 2",
    "SELECT * FROM parquet.`/etc/passwd`",
)
SPARK_OPTIONS = {
    name: [
        parameter
        for parameter in command.params
        if STARTS_SPARK & {*parameter.opts, *parameter.secondary_opts}
    ]
    for name, command in COMMANDS.items()
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table = hg.Lake.init(tmp_path / "lake").create_table("db.t", "id BIGINT, name STRING")
    table.append(pa.table({"id": [1, 2], "name": ["a", "b"]}))
    Path("rows.csv").write_text("id,name\n3,c\n")
    Path("broken.parquet").write_bytes(b"PAR1 not really PAR1")
    return tmp_path


def require_documented(line: list[str]) -> None:
    done = run(*line)
    shown = json.dumps([each[:60] for each in line])
    assert done.exception is None or isinstance(done.exception, SystemExit), (shown, done.exception)
    assert done.exit_code in EXIT_CODES, (shown, done.output)
    assert "Traceback" not in done.output, (shown, done.output)
    if done.exit_code != 0:  # what is asked for goes to a pipe as it is; messages go to people
        assert "\x1b[31m" not in done.output, (shown, done.output)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_any_kind(here: Path, spark: SparkSession, query: str) -> None:
    require_documented(["sql", "lake", query])
    require_documented(["sql", "lake", query, "--json"])
    assert hg.Lake.open("lake").table("db.t").read_arrow().num_rows == 2


def test_every_command_that_can_start_spark(here: Path, spark: SparkSession) -> None:
    names = [name for name, options in SPARK_OPTIONS.items() if options]
    assert set(names) >= {"ingest", "view"}
    dice = Random(2026)
    for name in names:
        for _ in range(examples(ROUNDS)):
            line = name.split()
            for parameter in COMMANDS[name].params:
                if parameter.param_type_name == "argument":
                    texts = ("rows.csv", "db.t", "lake", *TEXTS)
                    line.append("lake" if parameter.name == "place" else dice.choice(texts))
                elif parameter in SPARK_OPTIONS[name]:
                    line.append(parameter.opts[0])
                elif dice.random() < 0.3:
                    line.append(dice.choice(parameter.opts))
                    if not parameter.is_flag:
                        line.append(dice.choice((*NUMBERS, *TEXTS)))
            require_documented(line)
