"""`headgate replicate`: making, following, refusing, promoting."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from tests.cli.program import run, run_json

ROWS = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def lake(tmp_path: Path) -> hg.Lake:
    lake = hg.Lake.init(tmp_path / "lake")
    lake.create_table("a.b", "id BIGINT").append(ROWS)
    return lake


def test_making_and_following(lake: hg.Lake, tmp_path: Path) -> None:
    target = tmp_path / "replica"
    made = run_json("replicate", lake.place, target)
    assert (made["created"], made["since"], made["until"], made["versions"]) == (True, 0, 2, 2)
    assert (made["lake_id"], made["source"], made["target"]) == (lake.id, lake.place, str(target))
    assert made["files"] == 1 and made["bytes"] > 0 and made["expired"] == []
    assert run("replicate", lake.place, target).output == f"{target} is up to date, at version 2\n"
    lake.table("a.b").append(ROWS)
    assert run("replicate", lake.place, target).output.startswith(
        f"{target} was brought from version 2 to 3: 1 file of "
    )
    assert run_json("read", target, "a.b")["rows"] == [{"id": 1}, {"id": 1}]
    assert run_json("show", target)["replica_of"] == lake.place
    assert run_json("show", lake.place)["replica_of"] is None
    assert re.search(rf"replica of +{re.escape(lake.place)}, since 20", run("show", target).output)


def test_refusals_have_the_code_1_and_say_what_to_do(lake: hg.Lake, tmp_path: Path) -> None:
    other = hg.Lake.init(tmp_path / "other")
    result = run("replicate", lake.place, other.place)
    assert result.exit_code == 1 and "another lake" in result.stderr and "next: choose" in result.stderr
    result = run("replicate", lake.place, other.place, "--json")
    assert json.loads(result.stderr)["error"]["kind"] == "already-exists"


def test_wrong_usage(lake: hg.Lake, tmp_path: Path) -> None:
    assert run("replicate", lake.place).exit_code == 2
    assert run("replicate", lake.place, tmp_path / "r", "--promote").exit_code == 2
    assert run("replicate", lake.place, "--promote", "--adopt").exit_code == 2
    assert run("replicate", lake.place, "--promote").exit_code == 2  # it is no replica
    assert run("replicate", lake.place, tmp_path / "lake" / "inside").exit_code == 2
    assert run("replicate", lake.place, tmp_path / "r", "--target-option", "x").exit_code == 2
    assert run("replicate", tmp_path / "nowhere", tmp_path / "r").exit_code == 1
    assert not (tmp_path / "r").exists()


def test_promoting_and_adopting(lake: hg.Lake, tmp_path: Path) -> None:
    target = tmp_path / "replica"
    run_json("replicate", lake.place, target, "--target-option", "fsync=false")
    refused = run("ingest", target, "a.b", _csv(tmp_path))
    assert refused.exit_code == 1 and "is a replica of" in refused.stderr and "--promote" in refused.stderr
    promoted = run_json("replicate", target, "--promote")
    assert promoted == {"promoted": str(target), "was_replica_of": lake.place, "version": 2}
    assert "not marked as its replica" in run("replicate", lake.place, target).stderr
    assert run("replicate", lake.place, target, "--adopt").exit_code == 0
    assert "now an independent lake" in run("replicate", target, "--promote").output
    assert run("ingest", target, "a.b", _csv(tmp_path)).exit_code == 0
    diverged = run("replicate", lake.place, target, "--adopt")
    assert diverged.exit_code == 1 and "versions of its own from version 4 on" in diverged.stderr


def _csv(directory: Path) -> Path:
    file = directory / "rows.csv"
    file.write_text("id\n7\n")
    return file
