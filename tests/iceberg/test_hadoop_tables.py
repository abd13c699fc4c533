"""Iceberg's own library in Java opens our tables by path, and by their metadata files."""

from __future__ import annotations

import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

import headgate as hg
from tests.iceberg.test_peers import Place, with_an_attempt
from tests.maintenance.aging import AgingHost, Clock, rows
from tests.spark.maven import JARS, Artifact, resolved

pytestmark = pytest.mark.places

ICEBERG = Artifact("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0", alone=True)
PROGRAM = Path(__file__).parent / "AskIceberg.java"


def ask_java(jars: list[Path], *locations: Path) -> list[list[int]]:
    """The first column of each table."""
    classpath = ":".join([*map(str, jars), f"{JARS}/*"])
    command = ["java", "-cp", classpath, str(PROGRAM), *map(str, locations)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("rows")]
    return [sorted(map(int, line)) for line in lines]


def test_hadoop_tables_see_only_what_is_committed(tmp_path: Path) -> None:
    """With the hint and, on another copy, without it: then they look for the highest number."""
    jars = resolved([ICEBERG], tmp_path / "maven")
    place = Place(tmp_path / "lake")
    table = with_an_attempt(place, tmp_path / "lake")
    directory = place.directory(table)
    exact = Path(table.metadata_location.removeprefix("file://"))
    hintless = tmp_path / "hintless"
    shutil.copytree(directory / "metadata", hintless / "metadata")
    (hintless / "metadata" / "version-hint.text").unlink()
    assert ask_java(jars, directory, hintless, exact) == [[1, 2]] * 3


def test_hadoop_tables_read_what_writers_with_wrong_clocks_wrote(tmp_path: Path) -> None:
    """They refuse a table whose times are not in order."""
    jars = resolved([ICEBERG], tmp_path / "maven")
    place = tmp_path / "lake"
    hg.Lake.init(place).create_table("db.t", "id BIGINT, n BIGINT")
    for number, days in enumerate((0, 500 * 365, 0, 1, 0), 1):
        host = AgingHost(Clock(timedelta(days=days)))
        table = hg.Lake.open(place, host=host).table("db.t")
        table.append(rows(number))
    directory = Path(table.metadata_location.removeprefix("file://")).parents[1]
    assert ask_java(jars, directory) == [[1, 2, 3, 4, 5]]
