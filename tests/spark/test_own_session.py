"""A session that the user made, with none of our settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import headgate as hg


def test_a_session_of_the_users_own(tmp_path: Path) -> None:
    """In a process of its own, since a process has one Spark."""
    place = tmp_path / "lake"
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.own_session", str(place)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "America/St_Johns"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split() == ["40", "40"]
    assert hg.Lake.open(place).table("t.types").read_arrow().num_rows == 40
