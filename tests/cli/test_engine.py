"""Spark for a command: whose Ctrl-C it is, and what becomes of Spark's errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

import headgate as hg
from headgate.cli.engine import _translated, engine


@pytest.mark.slow
def test_ctrl_c_is_what_it_was_before_spark_started() -> None:
    before = signal.getsignal(signal.SIGINT)
    with engine(alive=False):
        assert signal.getsignal(signal.SIGINT) is before
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_is_not_hidden_by_what_fails_after_it(tmp_path: Path) -> None:
    interrupt = KeyboardInterrupt()
    interrupt.add_note("may have been committed")

    def interrupted_and_then_failed() -> None:
        try:
            raise interrupt
        finally:
            raise Py4JNetworkError("the gateway is gone")

    with pytest.raises(KeyboardInterrupt) as raised, _translated(tmp_path / "log"):
        interrupted_and_then_failed()
    assert raised.value is interrupt  # with its note


def test_errors_of_spark_are_those_of_our_tree(tmp_path: Path) -> None:
    with (
        pytest.raises(hg.StorageError, match="Spark failed: the gateway is gone"),
        _translated(tmp_path / "log"),
    ):
        raise Py4JNetworkError("the gateway is gone")
    text = "An error occurred.\nCaused by: org.x.E: [BAD_ROW] row 3\n\tat f\nCaused by: java.lang.E: x\n"
    with pytest.raises(hg.InvalidInputError, match=r"\[BAD_ROW\] row 3"), _translated(tmp_path / "log"):
        raise Py4JNetworkError(text)
    with pytest.raises(ValueError, match="ours"), _translated(tmp_path / "log"):
        raise ValueError("ours")


@pytest.mark.slow
def test_ctrl_c_ends_a_job_that_runs(tmp_path: Path) -> None:
    # The job never ends by itself, and says that it runs by making a file.
    started = tmp_path / "started"
    script = (
        "import headgate.cli.engine as e\n"
        "from headgate.cli.failure import reported\n"
        f"started = {str(started)!r}\n"
        "def busy(rows):\n"
        "    open(started, 'w').close()\n"
        "    while True:\n"
        "        pass\n"
        "with reported(as_json=False), e.engine(alive=False) as spark:\n"
        "    spark.sparkContext.range(2, numSlices=1).foreachPartition(busy)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not started.exists():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    assert (process.returncode, "Traceback" in said) == (130, False), said
