"""Drivers and executors as processes of their own: a standalone cluster, executors that die, Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from tests.spark.cluster import spark_cluster

DRIVER_SECONDS = 600


def driver(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.cluster_driver", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_a_cluster_whose_executors_die(tmp_path: Path) -> None:
    place = tmp_path / "lake"
    with spark_cluster(tmp_path) as master, driver("work", master, str(place)) as running:
        said, errors = running.communicate(timeout=DRIVER_SECONDS)
    assert said == "done\n", errors[-4000:]
    lake = hg.Lake.open(place)
    # Read again without Spark; and no file lies in a place where an attempt that died was at work.
    for name in ("t.native", "t.arrow"):
        table = lake.table(name)
        assert sorted(table.read_arrow().column("id").to_pylist()) == list(range(20_000))
        assert not any("_temporary" in file.path for file in table.files())


@pytest.mark.parametrize(("signals", "verb"), [(1, "append"), (2, "append"), (1, "upsert")])
def test_ctrl_c_in_the_middle_of_a_change(tmp_path: Path, signals: int, verb: str) -> None:
    place = tmp_path / "lake"
    table = hg.Lake.init(place).create_table("t.one", "id BIGINT")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(DRIVER_SECONDS)
        with driver("wait", "local[1]", str(place), str(listener.getsockname()[1]), verb) as running:
            line, _ = listener.accept()
            with line:
                for _ in range(signals):
                    running.send_signal(signal.SIGINT)
                _, errors = running.communicate(timeout=DRIVER_SECONDS)
    assert running.returncode != 0
    assert "KeyboardInterrupt" in errors or running.returncode == -signal.SIGINT, errors[-4000:]
    assert table.read_arrow().num_rows == 0
    assert hg.Lake.open(place).version == 1
    table.append(pa.table({"id": pa.array([1], pa.int64())}))
    assert table.read_arrow().num_rows == 1
