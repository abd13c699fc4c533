"""Lists a tree of directories, with any function that reads one directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entries:
    """The names in one directory."""

    files: frozenset[str]
    directories: frozenset[str]


EMPTY = Entries(frozenset(), frozenset())


def keys_below(look: Callable[[str], Entries], prefix: str, after: str) -> Iterator[str]:
    """The keys below `prefix` that sort above `after`, unordered. `look` reads the directory of a prefix.

    A directory is read again after its subdirectories, until nothing new is found. So a subdirectory that is
    not reported did not exist when the ones before it had been read. FileTracker's scan needs this order,
    since clean-up empties attempts only after the committed record has appeared behind them.
    """
    walked: set[str] = set()
    first_look = True
    while True:
        found = look(prefix)
        if first_look:
            yield from (prefix + name for name in found.files if prefix + name > after)
        new = sorted(found.directories - walked, key=lambda name: f"{name}/")
        if not new:
            return
        for name in new:
            below = f"{prefix}{name}/"
            if below > after or after.startswith(below):
                yield from keys_below(look, below, after)
        walked.update(new)
        first_look = False
