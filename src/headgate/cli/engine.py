"""Spark for a command: started with a sign of life, and silent on standard output and standard error."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from headgate.errors import InvalidInputError, StorageError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_LINES = 5


@contextmanager
def engine(master: str = "local[*]") -> Iterator[SparkSession]:
    """A Spark session for the block. What Spark says goes to a file, of which errors show the end.

    Its errors become those of our tree. Raises `UnsupportedError` if there is no Java.
    """
    from headgate.spark.session import require_java, session

    require_java()
    with tempfile.TemporaryDirectory(prefix="headgate-spark-") as directory:
        log = Path(directory, "spark.log")
        with _translated(log):
            with _said_into(log) as terminal, terminal.status("Spark is starting …"):
                spark = session(master, **{"spark.log.level": "ERROR", "spark.sql.warehouse.dir": directory})
            try:
                with working("Spark is working …"):
                    yield spark
            finally:
                spark.stop()


@contextmanager
def working(what: str) -> Iterator[None]:
    """A sign of life on a terminal, on standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


@contextmanager
def _said_into(log: Path) -> Iterator[Console]:
    """Processes that are started in the block write to `log`, for as long as they live. We do not."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(os.dup(saved[1]), "w") as stream:
        try:
            os.dup2(file, 1)
            os.dup2(file, 2)
            yield Console(file=stream)
        finally:
            for number, original in enumerate(saved, 1):
                os.dup2(original, number)
                os.close(original)
            os.close(file)


@contextmanager
def _translated(log: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        text = str(error).strip()
        if "JAVA_GATEWAY_EXITED" in text:
            raise UnsupportedError(f"Spark did not start: {_end(log) or text}") from error
        condition = getattr(error, "getCondition", lambda: None)()
        if condition is not None:
            raise InvalidInputError(f"Spark cannot run it: {text}", "see Spark's SQL reference") from error
        raise StorageError(f"Spark failed: {text.splitlines()[0]}", "see what it says above") from error


def _end(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-LOG_LINES:])
