"""What a storage can promise, each promise a small Protocol.

`isinstance` says whether a store makes a promise. Every store makes the three that any storage can keep:
reading, writing and listing. `PutIfAbsent` and `RenameNoReplace` are extra, and decide which commit
strategies a lake can use. `HoldObject` is for locations that can be replaced while they are open,
`ReachElsewhere` for those that other processes can reach, `StaysInside` for those where links can lead out.
`ReadTail`, `ReadRanges`, `ListSizes`, `KnowsItsPlace` and `IsNear` save requests, bytes or time, `PutInParts`
saves memory; `ListTimes` and `ShowLeftovers` are for clean-up.

Keys are relative to the root of the lake, separated by `/`. All methods raise errors of `headgate.errors`:
`StorageRefusedError` if certainly nothing changed, `NoAnswerError` if that is unknown.

A store itself retries what its service wants retried, within a bounded time; no caller does so again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing: some keys in order; `complete` if no key follows."""

    keys: tuple[str, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class SizedPage:
    """A part of a listing: some keys in order, each with the bytes of its object."""

    sizes: tuple[tuple[str, int], ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class Stored:
    """An object in a listing: its bytes, and when it was written, by the clock of the storage."""

    key: str
    size_bytes: int
    written_at: datetime

    @classmethod
    def of(cls, key: str, size_bytes: int, seconds: float) -> Stored:
        """From seconds since 1970, which may be outside of the calendar: the owner of a file can set them."""
        within = min(max(seconds, _FIRST.timestamp()), _LAST.timestamp())
        return cls(key, size_bytes, datetime.fromtimestamp(within, UTC))


_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimedPage:
    """A part of a listing: some objects in the order of their keys."""

    objects: tuple[Stored, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class Tail:
    """The last bytes of an object, and how long the whole object is."""

    data: bytes
    object_bytes: int


@runtime_checkable
class ReadWhole(Protocol):
    def get(self, key: str) -> bytes | None:
        """The whole object, or None if there is none. Sees every write that ended before the call."""
        ...


@runtime_checkable
class PutWhole(Protocol):
    def put(self, key: str, data: bytes) -> None:
        """Writes the object, replacing any other; readers see all of it or nothing. Idempotent."""
        ...

    def delete(self, key: str) -> None:
        """Removes the object; it is not an error if there is none. Idempotent."""
        ...


@runtime_checkable
class ListInPages(Protocol):
    def list_page(self, prefix: str, after: str | None = None) -> Page:
        """The next keys below `prefix` (which ends in `/`), in key order, starting above `after`.

        Contains every key in its range whose write ended before the call. Keys written or deleted during the
        call may be included or not, but they are observed in key order too: if the object of a higher key was
        written before that of a lower one was deleted, no page misses both. FileTracker relies on it between
        directories. A store that cannot promise it must return its keys in another order, all in one page;
        the probe notices, and `sub-hint/` is then listed by itself.
        """
        ...


@runtime_checkable
class Store(ReadWhole, PutWhole, ListInPages, Protocol):
    """What every storage provides."""

    def describe(self) -> str:
        """The location, for people: a path or URL, without credentials."""
        ...

    def uri(self) -> str:
        """The location, for engines: the prefix before `/` and a key in the name of an object."""
        ...


@runtime_checkable
class PutIfAbsent(Protocol):
    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Creates the object and returns True, or returns False because it exists.

        Of any number of concurrent calls at most one returns True. Not idempotent: a repeated call can be
        rejected because of the object that the first one created.
        """
        ...


@runtime_checkable
class RenameNoReplace(Protocol):
    def rename_no_replace(self, source: str, target: str) -> bool:
        """Moves the object in one step and returns True; False if `target` exists or `source` does not."""
        ...


@runtime_checkable
class ReadTail(Protocol):
    def tail(self, key: str, length_bytes: int) -> Tail | None:
        """The last `length_bytes` of the object (all of a shorter one), or None if there is none."""
        ...


@runtime_checkable
class ReadRanges(Protocol):
    def ranges(self, key: str, ranges: Sequence[range]) -> list[bytes] | None:
        """Those bytes of the object, or None if there is none. All of them must be inside it.

        For objects that nobody replaces: each range may be read at a different time.
        """
        ...


@runtime_checkable
class PutInParts(Protocol):
    def put_in_parts(self, key: str, parts: Iterable[bytes]) -> None:
        """Like `put`, for an object that may be too long for memory: only a few parts are there at once.

        What `parts` raises is raised, and nothing is written.
        """
        ...


@runtime_checkable
class IsNear(Protocol):
    def is_near(self) -> bool:
        """Whether reading takes no longer than using what was read, as on a disk of this machine.

        Then more reading threads than processors only slow each other down.
        """
        ...


@runtime_checkable
class ListSizes(Protocol):
    def list_sizes(self, prefix: str, after: str | None = None) -> SizedPage:
        """Like `list_page`, with the size of each object, at the same cost.

        An object that is written or deleted during the call may be included or not.
        """
        ...


@runtime_checkable
class ListTimes(Protocol):
    def list_times(self, prefix: str, after: str | None = None) -> TimedPage:
        """Like `list_sizes`, with the time of each object, at the same cost."""
        ...


@runtime_checkable
class ShowLeftovers(Protocol):
    def leftovers(self, prefix: str) -> tuple[Stored, ...]:
        """What writes that died, or are still running, have left below `prefix`, and no listing shows."""
        ...

    def remove_leftover(self, key: str) -> None:
        """Removes one of these; it is not an error if there is none."""
        ...


@runtime_checkable
class MakeDurable(Protocol):
    def make_durable(self, keys: Sequence[str]) -> None:
        """Makes objects that another program wrote survive a power failure, like those of `put`.

        After an error, nothing is promised about any of them.
        """
        ...


@runtime_checkable
class StaysInside(Protocol):
    def require_inside(self, keys: Sequence[str]) -> None:
        """Raises if an object, or a directory above it, is a link, or if it is not a file. A missing one is
        no error.

        The requests of the store check this themselves. This is for engines that open files by name, such as
        Spark: a person who can write into the lake can still put a link there between this check and the
        opening.
        """
        ...


@runtime_checkable
class ReachElsewhere(Protocol):
    def elsewhere(self) -> Store:
        """A store for the same location that can be sent to other processes, such as the workers of Spark.

        `UnsupportedError` if only Spark itself reaches it, and not its Python workers. Wrappers between a
        caller and a store, which count or disturb requests, stay in the process of the caller.
        """
        ...


@runtime_checkable
class HoldObject(Protocol):
    def hold(self, key: str) -> bool:
        """Ties the store to the object that is there now; False if there is none.

        From then on every request is rejected, with nothing changed, once this very object is gone or was
        replaced: the directory was removed, unmounted, restored or recreated. Another call only checks that
        the first object is still there. It is not a request: it costs nothing on a network.
        """
        ...


@runtime_checkable
class KnowsItsPlace(Protocol):
    def place(self) -> Hashable | None:
        """Equal for two stores of a process only if they have the same location, opened in the same way.

        None as long as that is unknown.
        """
        ...
