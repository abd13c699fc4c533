"""Spark's jobs: what they are called, which run at once, and what their failures mean.

Spark tells errors of the data from errors of the machine by the class of their SQLSTATE. The first kind is an
`InvalidInputError`, the second a `StorageError`. Neither changes anything.
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

from headgate.core.lookup import nearest
from headgate.errors import HeadgateError, InvalidInputError, StorageError, interruption_before
from headgate.spark.fitting import DOES_NOT_FIT, NULL_IN_REQUIRED

A = TypeVar("A")
B = TypeVar("B")

_REFUSED_BY_A_WORKER = re.compile(r"headgate\.errors\.InvalidInputError: (?P<problem>.+)")
"""How the traceback of a Python worker shows an error of ours."""

ROW_ASTRAY = "HEADGATE_ROW_DOES_NOT_MATCH"
"""Stands in the error of a Spark job that met a row which its overwrite does not select; the row follows."""

_DATA_ERROR = re.compile(r"^.*\bSQLSTATE: (?:21|22|P0)\w{3}", re.MULTILINE)
"""A value or a row that cannot be computed with, or `raise_error`."""
_PYTHON_ERROR = re.compile(r"^(?!headgate\.)[\w.]+(?:Error|Exception)\b.*", re.MULTILINE)
"""The last line of what Python says of an exception; one of ours in a worker is no error of the data."""
_IN_PYTHON = "An exception was thrown from the Python worker"
_UNKNOWN_COLUMN = re.compile(r"with name (?P<name>`.+?`) cannot be resolved")


@contextmanager
def described(spark: SparkSession, description: str) -> Iterator[None]:
    """Jobs inside carry the description in Spark's UI and logs."""
    context: Any = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setLocalProperty("spark.job.description", description)
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", before)


@contextmanager
def translated(table: str, doing: str, where: str | None = None) -> Iterator[None]:
    """Failures of Spark inside become ours.

    `doing` is what it then could not do; `where` what rows were checked against, as ROW_ASTRAY tells.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        interrupt = interruption_before(error)
        if interrupt is not None:
            raise interrupt from error
        raise _our_error(table, doing, where, "\n".join(_said(error))) from error


@contextmanager
def analysed(what: str, known: tuple[str, ...], next_step: str | None = None) -> Iterator[None]:
    """What Spark does not understand inside is wrong input: `what` the caller gave, among columns `known`."""
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
    """The column that an error of Spark says is not there."""
    found = _UNKNOWN_COLUMN.search(told)
    return None if found is None else found["name"].replace("`", "")


def at_once(spark: SparkSession, here: Callable[[], A], beside: Callable[[], B]) -> tuple[A, B]:
    """The results of both, whose jobs run at the same time: most of a small one goes by between its tasks.

    `beside` is run by a thread of its own, for which the caller's job group, pool and tags count too. Both
    have ended when it returns or raises; if both fail, with the error of `here`.
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
    """What an error says, and then what each of those says that it was caused by."""
    cause: BaseException | None = error
    while cause is not None:
        yield str(cause.java_exception) if isinstance(cause, Py4JJavaError) else str(cause)
        cause = cause.__cause__


def _our_error(table: str, doing: str, where: str | None, text: str) -> HeadgateError:
    if NULL_IN_REQUIRED in text:
        column = text.partition(NULL_IN_REQUIRED)[2].split()[0]
        return InvalidInputError(
            f"{table}: column {column} is required, but some of its values are null",
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
            f"{table}: a row to be added does not match {where!r}: {row}",
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
