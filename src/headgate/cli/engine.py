"""Spark for a command: starts with a spinner, and prints nothing on standard output and standard error."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.cli.progress import working
from headgate.errors import InvalidInputError, StorageError, UnsupportedError, interruption_before

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

LOG_LINES = 5
_CONDITION = re.compile(r"\[[A-Z_.]+\]")
"""How Spark marks errors of its callers."""
_CAUSED_BY = re.compile(r"^Caused by: (?:[\w.$]+: )?(.+)$", re.MULTILINE)


@contextmanager
def engine(*, alive: bool = True, **settings: Any) -> Iterator[SparkSession]:
    """A Spark session on this machine for the block. Its log is a file; errors show the end of it.

    A session that is already running (when a command is called from Python) is used and left running.

    `alive` shows a spinner while the block works. Errors of Spark become errors of Headgate. Raises
    `UnsupportedError` before anything else if there is no Java.
    """
    from headgate.spark.session import require_java, running_session, session

    require_java()
    # Errors are raised, including that of a Ctrl-C; these loggers also write them to standard error.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    logging.getLogger().addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory(prefix="headgate-spark-") as directory:
        log = Path(directory, "spark.log")
        with _translated(log):
            ours = running_session() is None
            with _own_interrupts(), _said_into(log) as terminal, terminal.status("Spark is starting …"):
                spark = session(spark_log_level="ERROR", spark_sql_warehouse_dir=directory, **settings)
            try:
                with working("Spark is working …") if alive else nullcontext():
                    yield spark
            finally:
                if ours:
                    spark.stop()


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restores the Ctrl-C handler after the block, whatever was started in it.

    Spark's own handler asks the JVM to cancel its jobs from within the call that was interrupted, which can
    fail or wait forever. Stopping the session cancels the jobs too.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        # Spark sets the handler in the main thread only; Python allows it nowhere else.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def _said_into(log: Path) -> Iterator[Console]:
    """Redirects the output of processes that start in the block to `log`, for as long as they live.

    This process still writes to the terminal.
    """
    from rich.console import Console

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
        interrupt = interruption_before(error)
        if interrupt is not None:
            raise interrupt from error
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        text = _cause(str(error).strip())
        if "JAVA_GATEWAY_EXITED" in text:
            raise UnsupportedError(
                f"Spark did not start: {_end(log) or text}",
                "fix the cause; Spark needs a working Java, free memory, and space for temporary files",
            ) from error
        if _CONDITION.match(text):
            raise InvalidInputError(
                f"Spark rejected the statement: {text}", "correct the query or the data"
            ) from error
        raise StorageError(f"Spark failed: {text.splitlines()[0]}") from error


def _cause(text: str) -> str:
    """The message of a Spark error, or of its innermost cause."""
    found: list[str] = _CAUSED_BY.findall(text)
    marked = [cause for cause in found if _CONDITION.match(cause)]
    return (marked or found or [text])[-1]


def _end(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-LOG_LINES:])
