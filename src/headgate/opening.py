"""What a caller says when a lake is made or opened, checked: the place, and how patient to be."""

from __future__ import annotations

import os
from datetime import timedelta

from headgate.commit.announcements import MIN_HEARTBEAT
from headgate.core.retry import MAX_WAIT, RetryPolicy
from headgate.errors import InvalidInputError
from headgate.model.identity import MAX_DIVISOR, MIN_DIVISOR
from headgate.storage.capabilities import Store
from headgate.storage.location import Options, hadoop_place, open_store


def opened_store(place: str | os.PathLike[str] | Store, options: Options | None) -> Store:
    """The storage at a place; `InvalidInputError` if it is none."""
    if isinstance(place, str | os.PathLike):
        hadoop = hadoop_place(place, options)
        return open_store(place, options) if hadoop is None else _hadoop_store(hadoop)
    if not isinstance(place, Store):
        raise InvalidInputError(
            f"a lake is at a path, a URL or a store, not at a {type(place).__name__}",
            "write it as Lake.open('./lake') or Lake.open('s3://bucket/lake')",
        )
    if options:
        raise InvalidInputError("options go with a URL, not with a store that is open already")
    return place


def _hadoop_store(url: str) -> Store:
    # Imported here: no other place needs Spark before rows are moved.
    from headgate.spark.hadoop import open_hadoop_store

    return open_hadoop_store(url)


def checked_policy(retry: RetryPolicy | None, default: RetryPolicy) -> RetryPolicy:
    if retry is None:
        return default
    if not isinstance(retry, RetryPolicy):
        raise InvalidInputError(
            f"retry must be a RetryPolicy, not a {type(retry).__name__}",
            "write retry=RetryPolicy(attempts=3)",
        )
    return retry


def check_divisor(divisor: int) -> None:
    number = isinstance(divisor, int) and not isinstance(divisor, bool)
    if not number or not MIN_DIVISOR <= divisor <= MAX_DIVISOR:
        raise InvalidInputError(
            f"the divisor must be a number from {MIN_DIVISOR} to {MAX_DIVISOR}, but is {divisor!r}"
        )


def check_callable(name: str, given: object) -> None:
    """Refuses what is to be told something later and cannot be called; None is nobody."""
    if given is not None and not callable(given):
        raise InvalidInputError(
            f"{name} is to be called, but is a {type(given).__name__}", "give a function, or leave it out"
        )


def check_heartbeat(interval: timedelta) -> None:
    if not isinstance(interval, timedelta) or not MIN_HEARTBEAT <= interval <= MAX_WAIT:
        raise InvalidInputError(
            f"the heartbeat must be a timedelta from {MIN_HEARTBEAT.total_seconds():g} s to a day, "
            f"but is {interval!r}",
            "write heartbeat=timedelta(seconds=10)",
        )
