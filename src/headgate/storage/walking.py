"""Lists a tree of directories, with any function that reads one directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headgate.errors import StorageRefusedError
from headgate.model.identifiers import MAX_LEVELS


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

    `StorageRefusedError` if the directories are nested deeper than any lake is.
    """
    # Not by recursion: anybody who can write there decides how deep the directories are.
    open_ = [_directory(look, prefix, after)]
    while open_:
        found = next(open_[-1], None)
        if found is None:
            open_.pop()
        elif found.endswith("/"):
            require_shallow(found)
            open_.append(_directory(look, found, after))
        else:
            yield found


def require_shallow(prefix: str) -> None:
    """Raises `StorageRefusedError` for a directory at a level that no lake has."""
    if prefix.count("/") > MAX_LEVELS:
        raise StorageRefusedError(
            f"cannot list {prefix[:200]}…: directories are nested more than {MAX_LEVELS:,} deep there",
            "remove these directories: no lake creates them",
        )


def _directory(look: Callable[[str], Entries], prefix: str, after: str) -> Iterator[str]:
    """The keys in one directory, and the prefixes of its subdirectories, to be listed in between."""
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
                yield below
        walked.update(new)
        first_look = False
