"""Reads a lake that may be damaged: a failure to read an object becomes a value, never an error.

Sends only GET and LIST requests, and caches nothing, because objects may have changed since an earlier read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from headgate.core.fsck.kinds import Seen, Trouble
from headgate.errors import HeadgateError
from headgate.log.driver import Driver

OBJECTS_AT_ONCE = 256
"""How many objects are in memory while they are checked."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sight:
    """The objects of one lake."""

    driver: Driver

    def get(self, key: str, at_most_bytes: int | None = None) -> Seen:
        try:
            if at_most_bytes is not None:
                return self.driver.get_short(key, at_most_bytes)
            return self.driver.get(key)
        except HeadgateError as error:  # no permission, a broken disk, an invalid key
            return Trouble(error.problem)

    def get_all(self, keys: Sequence[str]) -> list[Seen]:
        return self.together([partial(self.get, key) for key in keys])

    def keys(self, prefix: str) -> list[str]:
        """Every key below a prefix.

        Raises errors of the storage, because nothing can be checked without a listing.
        """
        return self.driver.keys(prefix)

    def sizes(self, prefix: str) -> dict[str, int | None]:
        """Every key below a prefix with its size, or None if the storage lists no sizes."""
        return self.driver.sizes(prefix)

    def size(self, key: str) -> int | Trouble | None:
        """The size of one object, with a request of its own; None if it is missing."""
        try:
            tail = self.driver.tail(key, 1)
        except HeadgateError as error:
            return Trouble(error.problem)
        return None if tail is None else tail.object_bytes

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        return self.driver.host.together(tasks)


def attempt(read: Callable[[], T]) -> T | Trouble:
    """The result of `read`, or why it failed: damaged bytes can raise any error in code that reads them."""
    try:
        return read()
    except HeadgateError as error:
        return Trouble(error.problem)
    except Exception as error:  # noqa: BLE001 — reported as damage, with its text
        return Trouble(f"it cannot be read: {type(error).__name__}: {error}"[:500])


def batches(items: Iterable[T], most: int = OBJECTS_AT_ONCE) -> Iterable[list[T]]:
    """The items in lists of bounded length."""
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == most:
            yield batch
            batch = []
    if batch:
        yield batch
