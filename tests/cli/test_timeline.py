"""`headgate timeline`: what is running, planned and ended; cancelling."""

from __future__ import annotations

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


def test_what_is_running_comes_first_then_the_commits(lake: hg.Lake) -> None:
    tx = lake.transaction()
    tx.table("a.b").overwrite(ROWS)
    lines = [line.split("\t") for line in run("timeline", lake.place).output.splitlines()]
    assert lines[0][:4] == ["state", "transaction", "kind", "tables"]
    assert re.match(r"inflight, last seen \d+ s ago", lines[1][0])
    assert lines[1][1:5] == [tx.txid, "overwrite", "a.b", "/a/b"]
    assert lines[1][-1] == "on 2"
    assert [(line[0], line[2], line[-1]) for line in lines[2:]] == [
        ("completed", "append", "2 on 1"),
        ("completed", "create", "1 on 0"),
    ]
    assert len(run("timeline", lake.place, "--pending").output.splitlines()) == 2
    assert len(run("timeline", lake.place, "--limit", "1").output.splitlines()) == 3
    tx.abort()
    assert run_json("timeline", lake.place, "--pending") == []


def test_many_paths_are_counted(lake: hg.Lake) -> None:
    lake.create_table("a.c", "id BIGINT", partition_by=["id"]).append(pa.table({"id": list(range(5))}))
    line = run("timeline", lake.place, "--limit", "1").output.splitlines()[1]
    assert "/a/c/id=0, /a/c/id=1, /a/c/id=2 and 2 more" in line


def test_json_has_every_field(lake: hg.Lake) -> None:
    with lake.transaction() as tx:
        tx.plan("clustering", "a.b", ["f"], ["/a/b"])
    plan, *_ = run_json("timeline", lake.place)
    assert (plan["txid"], plan["state"], plan["kind"]) == (tx.txid, "requested", "clustering plan")
    assert (plan["tables"], plan["paths"], plan["version"], plan["base"]) == (["a.b"], ["/a/b"], 3, 2)
    assert set(plan) == set(hg.Instant.__dataclass_fields__)
    shown = run("log", lake.place, "--limit", "1").output
    assert "\tplan\t" in shown and "plan clustering" in shown


def test_cancel_gives_up_a_plan_and_says_so(lake: hg.Lake) -> None:
    with lake.transaction() as tx:
        tx.plan("clustering", "a.b", ["f"], ["/a/b"])
    result = run("timeline", lake.place, "--cancel", tx.txid)
    assert result.exit_code == 0
    assert result.output == f"version 4: {tx.txid} is cancelled and can never commit\n"
    again = run("timeline", lake.place, "--cancel", tx.txid)
    assert again.exit_code == 2
    assert run_json("timeline", lake.place, "--pending") == []


def test_cancel_of_a_running_transaction(lake: hg.Lake) -> None:
    tx = lake.transaction()
    tx.table("a.b").overwrite(ROWS)
    assert run_json("timeline", lake.place, "--cancel", tx.txid) == {
        "txid": tx.txid,
        "cancelled": True,
        "version": 3,
        "hook_failures": [],
    }
    assert run_json("timeline", lake.place, "--pending") == []
    with pytest.raises(hg.ConflictError):
        tx.commit()


def test_cancel_takes_no_nonsense(lake: hg.Lake) -> None:
    result = run("timeline", lake.place, "--cancel", "nonsense")
    assert result.exit_code == 2
    assert "is not a transaction id" in result.output
