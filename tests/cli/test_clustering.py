"""headgate cluster: what it says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from tests.cli.program import run, run_json


@pytest.fixture
def place(tmp_path: Path) -> Path:
    lake = hg.Lake.init(tmp_path / "lake", divisor=4)
    table = lake.create_table("sales.orders", "id BIGINT, tags ARRAY<STRING>, state STRING")
    for number in range(4):
        table.append(pa.table({"id": [number, -number], "state": ["new", "paid"]}))
    return tmp_path / "lake"


def test_it_tells_what_it_did_and_what_it_left(place: Path) -> None:
    done = run("cluster", place, "sales.orders", "--by", "state, id", "--no-spark")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "clustered sales.orders by state, id: 3 files became 1, 6 rows (versions 6, 7)",
        "1 files are skipped: their window of versions is complete at version 8",
    ]
    again = run("cluster", place, "sales.orders", "--by", "state", "--by", "id", "--no-spark")
    assert again.stdout.splitlines()[:2] == [
        "nothing to cluster in sales.orders",
        "1 files are already clustered by state, id",
    ]


def test_json_is_for_programs(place: Path) -> None:
    told = run_json("cluster", place, "sales.orders", "--by", "state,id", "--zorder", "--no-spark")
    assert (told["changed"], told["files_in"], told["files_out"], told["rows"]) == (True, 3, 1, 6)
    assert (told["by"], told["zorder"], told["versions"]) == (["state", "id"], True, [6, 7])
    log = hg.Lake.open(place).log(limit=1)[0]
    assert log.args[:3] == ("headgate", "cluster", "sales.orders")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--by", "nosuch"], "there is no column nosuch that rows can be clustered by"),
        (["--by", "tags"], "rows cannot be clustered by tags, which is list<string>"),
        (["--by", "id", "--zorder"], "a Z-order needs 2 to 8 columns"),
        (["--by", ","], "a clustering needs at least one column"),
        (["--by", "id", "--where", "nosuch = 1"], "nosuch"),
    ],
)
def test_what_cannot_be_is_wrong_usage_and_changes_nothing(
    place: Path, options: list[str], said: str
) -> None:
    refused = run("cluster", place, "sales.orders", *options, "--no-spark")
    assert refused.exit_code == 2
    assert said in " ".join(refused.output.split())
    assert hg.Lake.open(place).version == 5


def test_help_teaches() -> None:
    told = run("cluster", "--help").output
    assert "--zorder" in told
    assert "clustering.allow_updates" in told
