"""Spark jobs: their descriptions, which of them run concurrently, and what their failures mean.

Spark distinguishes errors in the data from errors of the environment by the class of their SQLSTATE. The
first kind becomes an `InvalidInputError`, the second a `StorageError`. Neither changes anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from headgate.core.input.arguments import nearest
from headgate.errors import HeadgateError, InvalidInputError, StorageError, interruption_before
from headgate.iceberg.format.directories import Target
from headgate.spark.fitting import DOES_NOT_FIT, NULL_IN_REQUIRED

A = TypeVar("A")
B = TypeVar("B")

_REFUSED_BY_A_WORKER = re.compile(r"headgate\.errors\.InvalidInputError: (?P<problem>.+)")
"""How one of our errors appears in the traceback of a Python worker."""

_MISSING_FOR_A_WORKER = re.compile(
    r"headgate\.errors\.(?:CorruptLakeError|ConflictError): (?P<uri>.+) is missing, "
    r"(?:but the lake refers to it|which transaction)"
)

ROW_ASTRAY = "HEADGATE_ROW_DOES_NOT_MATCH"
"""Marks the error of a Spark job that met a row which its overwrite does not select; the row follows."""

_DATA_ERROR = re.compile(r"^.*\bSQLSTATE: (?:21|22|P0)\w{3}", re.MULTILINE)
"""A value or a row that cannot be processed, or `raise_error`."""
_PYTHON_ERROR = re.compile(r"^(?!headgate\.)[\w.]+(?:Error|Exception)\b.*", re.MULTILINE)
"""The last line of a Python traceback. One of our own errors in a worker is no error of the data."""
_IN_PYTHON = "An exception was thrown from the Python worker"
_UNKNOWN_COLUMN = re.compile(r"with name (?P<name>`.+?`) cannot be resolved")


@contextmanager
def described(spark: SparkSession, description: str) -> Iterator[None]:
    """Jobs inside have this description in Spark's UI and logs."""
    context: Any = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setLocalProperty("spark.job.description", description)
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", before)


@contextmanager
def translated(target: Target, doing: str, where: str | None = None) -> Iterator[None]:
    """Translates Spark's failures inside to our errors.

    `doing` names the failed step on `target`. `where` is the predicate that rows were checked against, for
    ROW_ASTRAY.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        interrupt = interruption_before(error)
        if interrupt is not None:
            raise interrupt from error
        text = "\n".join(_said(error))
        missing = _MISSING_FOR_A_WORKER.search(text)
        if missing is not None:
            # Workers do not know the state of the transaction; its loader does.
            raise target.loader.missing(target.loader.key(missing["uri"])) from error
        raise _our_error(target.table, doing, where, text) from error


@contextmanager
def analysed(what: str, known: tuple[str, ...], next_step: str | None = None) -> Iterator[None]:
    """Translates Spark's analysis errors inside: `what` the caller passed is wrong; columns are `known`."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        told = str(error).strip()
        first = told.split("\n", maxsplit=1)[0]
        name = unknown_column(told)
        if name is None:
            raise InvalidInputError(f"{what} cannot be computed: {first}", next_step) from error
        hint = nearest(name, known) or next_step
        raise InvalidInputError(f"{what} cannot be computed: there is no column {name}", hint) from error


def unknown_column(told: str) -> str | None:
    """The column that Spark reports as unknown."""
    found = _UNKNOWN_COLUMN.search(told)
    return None if found is None else found["name"].replace("`", "")


def at_once(spark: SparkSession, here: Callable[[], A], beside: Callable[[], B]) -> tuple[A, B]:
    """Runs both at the same time and returns their results: a small job idles most of the time between tasks.

    `beside` runs in a thread of its own, with the caller's job group, pool and tags. Both have ended when
    this function returns or raises. If both fail, it raises the error of `here`.
    """
    ended: list[B | BaseException] = []

    def run() -> None:
        try:
            ended.append(beside())
        except BaseException as error:  # noqa: BLE001 — raised again below
            ended.append(error)

    thread = InheritableThread(target=run, session=spark, name="headgate-jobs", daemon=True)
    thread.start()
    try:
        one = here()
    finally:
        thread.join()
    (other,) = ended
    if isinstance(other, BaseException):
        raise other
    return one, other


def _said(error: BaseException) -> Iterator[str]:
    """The message of an error, followed by the messages of its causes."""
    cause: BaseException | None = error
    while cause is not None:
        yield str(cause.java_exception) if isinstance(cause, Py4JJavaError) else str(cause)
        cause = cause.__cause__


def _our_error(table: str, doing: str, where: str | None, text: str) -> HeadgateError:
    if NULL_IN_REQUIRED in text:
        column = text.partition(NULL_IN_REQUIRED)[2].split()[0]
        return InvalidInputError(
            f"{table}: column {column} is required, but some values are null",
            "fill them, or leave those rows out; nothing was changed",
        )
    if DOES_NOT_FIT in text:
        told = text.partition(DOES_NOT_FIT)[2].strip().split("\n", maxsplit=1)[0]
        return InvalidInputError(
            f"{table}: {told}", "leave those rows out, or widen the column; nothing was changed"
        )
    if ROW_ASTRAY in text:
        row = text.partition(ROW_ASTRAY)[2].strip().split("\n", maxsplit=1)[0]
        return InvalidInputError(
            f"{table}: a new row does not match {where!r}: {row}",
            "leave it out, or overwrite with a predicate that selects it; nothing was changed",
        )
    refused = _REFUSED_BY_A_WORKER.search(text)
    if refused is not None:
        return InvalidInputError(
            refused["problem"], "correct those rows, or leave them out; nothing was changed"
        )
    wrong = _DATA_ERROR.search(text)
    if wrong is None and _IN_PYTHON in text:
        wrong = next(iter(list(_PYTHON_ERROR.finditer(text))[-1:]), None)
    if wrong is not None:
        return InvalidInputError(
            f"{table}: Spark could not {doing}: {wrong[0]}",
            "correct the data or the expression; nothing was changed",
        )
    first = text.strip().split("\n", maxsplit=1)[0]
    return StorageError(f"{table}: Spark could not {doing}: {first}", "see the cause; nothing was changed")
