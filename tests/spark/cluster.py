"""A standalone Spark cluster on this machine, started from the pyspark that pip installed."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Queue

import pyspark

START_SECONDS = 120
_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def spark_cluster(place: Path, workers: int = 2) -> Iterator[str]:
    """The URL of a master with so many workers of one core each, until the end of the block."""
    with ExitStack() as running:
        start = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        url = running.enter_context(_daemon([_MASTER, *start], r"Starting Spark master at (spark://\S+)"))
        for number in range(workers):
            size = ["--cores", "1", "--memory", "700m", "--work-dir", str(place / f"worker-{number}")]
            command = [_WORKER, *start, *size, url]
            running.enter_context(_daemon(command, "(Successfully registered) with master"))
        yield url


@contextmanager
def _daemon(command: list[str], ready: str) -> Iterator[str]:
    """Runs a class of Spark; gives what it said when it was ready."""
    environment = {**os.environ, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
    process = subprocess.Popen(
        [str(_CLASS), *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    )
    said: Queue[str] = Queue()
    listener = threading.Thread(target=_listen, args=(process, re.compile(ready), said), daemon=True)
    listener.start()
    try:
        yield said.get(timeout=START_SECONDS)
    finally:
        process.terminate()
        process.wait()
        listener.join()


def _listen(process: subprocess.Popen[str], ready: re.Pattern[str], said: Queue[str]) -> None:
    assert process.stderr is not None
    with process.stderr as lines:
        for line in lines:  # to the end, so that the process never waits for us
            if found := ready.search(line):
                said.put(found[1])
