"""`headgate compact`: doing, showing, watching, and stopping cleanly."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.testing.inspector import Inspector
from tests.cli.program import run, run_json

DIVISOR = 4


@pytest.fixture
def lake(tmp_path: Path) -> hg.Lake:
    lake = hg.Lake.init(tmp_path / "lake", divisor=DIVISOR)
    lake.create_table("shop.orders", "id BIGINT, part STRING", partition_by=["part"])
    return filled(lake, 17)


def filled(lake: hg.Lake, until: int) -> hg.Lake:
    while lake.version < until:
        lake.table("shop.orders").append(pa.table({"id": [lake.version, -1], "part": ["a", "b"]}))
    return lake


def test_doing_what_is_due(lake: hg.Lake) -> None:
    rows = run_json("read", lake.place, "shop.orders")["rows"]
    done = run_json("compact", lake.place)
    assert (done["files_in"], done["files_out"], done["rows"]) == (30, 2, 30)
    assert (done["tables"], done["versions"], done["until"]) == (["shop.orders"], [18, 19], 19)
    assert len(done["planned"]) == 1 and done["planned"] == done["completed"] and done["cancelled"] == []
    again = run("compact", lake.place)
    assert (again.exit_code, again.output) == (0, "nothing is ready to compact at version 19\n")
    after = run_json("read", lake.place, "shop.orders")["rows"]
    assert sorted(map(str, after)) == sorted(map(str, rows))


def test_one_table_and_what_is_said_of_it(lake: hg.Lake) -> None:
    said = run("compact", lake.place, "shop.orders").output
    assert "shop.orders: 30 files of " in said and " became 2 files of " in said and "with 30 rows" in said
    assert "1 plan made, 1 completed, 0 cancelled; the lake is at version 19" in said
    assert run("compact", lake.place, "shop.other").exit_code == 1


def test_what_is_due_is_shown_as_a_tree(lake: hg.Lake) -> None:
    shown = run("compact", lake.place, "--dry-run").output
    assert lake.version == 17
    lines = [re.sub("^[│├└─\\s]+", "", line) for line in shown.splitlines()]
    assert lines[0] == "/  version 17, 2 groups ready"
    assert lines[1].startswith("/shop/orders  ") and lines[2] == "part=a"
    assert lines[3].startswith("level 0: 16 segments, 16 small, ")
    assert lines[4].startswith("ready: level 2, versions 1-16: 15 files, ")
    (table,) = run_json("compact", lake.place, "shop.orders", "--dry-run")
    due = table["paths"][0]["due"][0]
    assert (due["level"], due["first"], due["last"], len(due["files"])) == (2, 1, 16, 15)
    lake.compact()
    assert "0 groups ready" in run("compact", lake.place, "--dry-run").output


def test_wrong_usage(lake: hg.Lake) -> None:
    assert run("compact", lake.place, "--dry-run", "--watch").exit_code == 2
    assert run("compact", lake.place, "--interval", "5").exit_code == 2
    assert run("compact", lake.place, "--watch", "--interval", "0").exit_code == 2
    assert lake.version == 17


def test_watching_goes_on_until_it_is_stopped(lake: hg.Lake) -> None:
    """It does what is due, then what becomes due, and ends cleanly by Ctrl-C."""
    command = [sys.executable, "-c", "from headgate.cli import main; main()", "compact", lake.place]
    watching = subprocess.Popen(
        [*command, "--watch", "--interval", "0.1", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    ended = threading.Timer(120, watching.kill)
    ended.start()
    try:
        assert watching.stdout is not None and watching.stderr is not None
        first = json.loads(watching.stdout.readline())
        assert (first["files_in"], first["until"]) == (30, 19)
        filled(lake, 24)
        second = json.loads(watching.stdout.readline())
        assert second["files_in"] > 0
        watching.send_signal(signal.SIGINT)
        assert "stopped; " in watching.stderr.read()
        assert watching.wait() == 130
    finally:
        ended.cancel()
        watching.kill()
        watching.communicate()
    assert not Inspector(lake).refresh().plans
    assert lake.timeline(pending=True) == ()
    assert lake.fsck(deep=True).ok


def test_the_hook_compacts_after_commits(lake: hg.Lake, tmp_path: Path) -> None:
    config, rows = tmp_path / "headgate.toml", tmp_path / "rows.csv"
    config.write_text('[[hooks]]\nname = "small-files"\naction = "compact"\ntables = ["shop.orders"]\n')
    rows.write_text("id,part\n7,a\n")
    assert run_json("hooks", "list", lake.place, "--config", config)[0]["action"] == "compact"
    result = run("ingest", lake.place, "shop.orders", rows, "--config", config)
    assert result.exit_code == 0
    # The append, then the plan and its completion, which ask for no hook.
    assert lake.version == 20
    assert [entry.kind for entry in lake.log(limit=3)] == ["commit", "plan", "commit"]
    assert lake.open_hooks() == ()
    assert Inspector(lake).handle.log.record(Inspector(lake).refresh().version).hooks == ()
    assert run("hooks", "list", lake.place, "--config", _wrong(tmp_path)).exit_code == 2


def _wrong(directory: Path) -> Path:
    config = directory / "wrong.toml"
    config.write_text('[[hooks]]\nname = "c"\naction = "compact"\ntables = "shop.orders"\n')
    return config
