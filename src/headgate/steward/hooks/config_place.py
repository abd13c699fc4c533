"""Whether a file lies in a lake: then it is no place for hooks.

Whoever may write to a lake on shared storage must not make other people's machines run commands.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from headgate.commit.layout import IDENTITY, LOG
from headgate.errors import InvalidInputError

MAX_LINKS = 40


def trusted_file(path: Path, root: Path | None = None) -> Path:
    """The real path of a file, if neither it nor a symbolic link on the way to it lies in a lake.

    That is any directory which looks like a lake, and `root`, that of the lake which is worked on. A hard
    link, or a storage that is also mounted elsewhere, cannot be seen.
    """
    roots = () if root is None else (root.resolve(),)
    *links, real = _on_the_way(path)
    for place in (*links, real):
        lake = next((above for above in place.parents if above in roots or _is_lake(above)), None)
        if lake is not None:
            how = (
                f"{path} is in the lake {lake}" if place == real else f"{path} leads through the lake {lake}"
            )
            raise InvalidInputError(
                f"{how}, and hooks are never read from a lake: whoever writes to it could run commands here",
                "keep the file outside of it, and name it with --config or HEADGATE_CONFIG",
            )
    return real


def _is_lake(directory: Path) -> bool:
    return any(os.path.lexists(directory / sign) for sign in (IDENTITY, LOG.rstrip("/")))


def _on_the_way(path: Path) -> Iterator[Path]:
    """Every symbolic link that is followed, by its real place, and at last the real path of the file."""
    whole = Path.cwd() / path
    current, left, links = Path(whole.anchor), [*reversed(whole.parts[1:])], 0
    while left:
        part = left.pop()
        step = current.parent if part == ".." else current / part
        if not step.is_symlink():
            current = step
            continue
        links += 1
        if links > MAX_LINKS:
            raise InvalidInputError(f"{path} has too many symbolic links on the way", "name the file itself")
        yield step
        target = step.readlink()
        current = Path(target.anchor) if target.is_absolute() else current
        left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    yield current
