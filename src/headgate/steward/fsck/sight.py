"""Reading a lake that may be broken: whatever an object does not give becomes a value, never an error.

Sends GET and LIST requests only, and keeps nothing: what others read before may have changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from headgate.commit.driver import Driver
from headgate.core.fsck.sight import Seen, Trouble
from headgate.errors import HeadgateError

OBJECTS_AT_ONCE = 256
"""How many objects are held in memory while they are judged."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sight:
    """The objects of one lake."""

    driver: Driver

    def get(self, key: str) -> Seen:
        try:
            return self.driver.get(key)
        except HeadgateError as error:  # no rights, a broken disk, a name that no key has
            return Trouble(error.problem)

    def get_all(self, keys: Sequence[str]) -> list[Seen]:
        return self.together([partial(self.get, key) for key in keys])

    def keys(self, prefix: str) -> list[str]:
        """Every key below a prefix. An error of the storage is raised: without a listing nothing is known."""
        return self.driver.keys(prefix)

    def sizes(self, prefix: str) -> dict[str, int | None]:
        """Every key below a prefix with its size, or with None if the storage lists no sizes."""
        return self.driver.sizes(prefix)

    def size(self, key: str) -> int | Trouble | None:
        """The size of an object, asked for by itself; None if it is gone."""
        try:
            tail = self.driver.tail(key, 1)
        except HeadgateError as error:
            return Trouble(error.problem)
        return None if tail is None else tail.object_bytes

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        return self.driver.host.together(tasks)


def attempt(read: Callable[[], T]) -> T | Trouble:
    """What `read` returns, or why it cannot: damaged bytes can end in any error of those who read them."""
    try:
        return read()
    except HeadgateError as error:
        return Trouble(error.problem)
    except Exception as error:  # noqa: BLE001 — told as damage, with what was said
        return Trouble(f"it cannot be read: {type(error).__name__}: {error}"[:500])


def batches(items: Iterable[T]) -> Iterable[list[T]]:
    """The items in lists of bounded length."""
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == OBJECTS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
