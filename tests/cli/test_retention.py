"""`headgate expire` and `headgate vacuum`."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.storage.local import LocalStore
from tests.cli.program import run, run_json
from tests.maintenance.aging import AgingHost, Clock


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A lake whose versions were made half a day apart, up to now."""
    root = tmp_path / "lake"
    clock = Clock(timedelta(days=-10))
    lake = hg.Lake.init(LocalStore(root, fsync=False), divisor=5, host=AgingHost(clock))
    table = lake.create_table("t.t", "id BIGINT")
    for number in range(20):
        clock.pass_time(timedelta(hours=12))
        table.overwrite(rows(number))
    return root


def test_expire(place: Path) -> None:
    told = run("expire", place, "--keep", "all:2d", "--keep", "1:5d", "--dry-run")
    assert told.exit_code == 0, told.output
    assert told.output.startswith("would expire 15 versions; kept: every version from 17 on, and 15\n")
    assert "would delete " in told.output
    assert hg.Lake.open(place).version == 21
    done = run("expire", place, "--keep", "all:2d", "--keep", "1:5d")
    assert done.output.startswith(
        "expired 15 versions (recorded by version 22); kept: every version from 17 on, "
    )
    assert "deleted " in done.output
    log = run("log", place, "--kind", "expire")
    assert "expire up to 16" in log.output
    assert "expire all:2d 1:5d" in log.output
    refused = run("read", place, "t.t", "--version", "12")
    assert refused.exit_code == 1
    assert "version 12 has expired" in refused.stderr
    assert "the nearest that can be read: 15; every version from 17 on" in refused.stderr
    assert run("read", place, "t.t", "--version", "15").exit_code == 0
    assert run("fsck", place, "--deep").exit_code == 0
    again = run_json("expire", place, "--keep", "all:2d", "--keep", "1:5d")
    assert set(again) == set(hg.ExpireReport.__dataclass_fields__)
    assert (again["version"], again["expired"], again["until"], again["kept"]) == (None, 0, 16, [15])


@pytest.mark.parametrize(
    ("keep", "reason"),
    [
        (["1:30d"], "has no tier for all versions"),
        (["all:1d", "1:1h"], "keeps nothing that all:1d does not keep already"),
        (["all:tomorrow"], "is not a tier"),
    ],
)
def test_policies_that_are_refused(place: Path, keep: list[str], reason: str) -> None:
    options = [word for tier in keep for word in ("--keep", tier)]
    result = run("expire", place, *options)
    assert result.exit_code == 2
    assert reason in result.stderr
    shown = run("expire", place, *options, "--json")
    assert json.loads(shown.stderr)["error"]["kind"] == "invalid-input"
    assert hg.Lake.open(place).version == 21


def test_what_holds_it_back_is_told(place: Path) -> None:
    lake = hg.Lake.open(place)
    with lake.transaction() as tx:
        tx.plan("compaction", "t.t", [file.path for file in lake.table("t.t").files()], ["/t/t"])
    (entry,) = lake.log(limit=1, kind="plan")
    lake.table("t.t").overwrite(rows(77))
    assert entry.version == 22
    # The plan is young; everything before it may go.
    assert "held back" not in run("expire", place).output


def test_vacuum(place: Path) -> None:
    tx = hg.Lake.open(place).transaction()
    tx.table("t.t").append(rows(1000))
    early = run("vacuum", place)
    assert early.exit_code == 0, early.output
    assert "deleted 0 objects" in early.output
    assert "kept 1 object: too new, or of a running transaction" in early.output
    for path in place.glob(f"data/t/t/data/L0-{tx.txid}/**/*.parquet"):
        os.utime(path, (0, 0))
    told = run("vacuum", place, "--dry-run")
    assert f"would cancel transaction {tx.txid}, which never committed" in told.output
    report = run_json("vacuum", place)
    assert set(report) == set(hg.VacuumReport.__dataclass_fields__)
    assert (report["cancelled"], report["objects"], report["versions"]) == ([tx.txid], 1, [22])
    assert f"cancels {tx.txid}" in run("log", place, "--limit", "1").output
    assert run("vacuum", place, "--older-than", "next week").exit_code == 2
    assert "deleted 0 objects" in run("vacuum", place, "--older-than", "0s").output
