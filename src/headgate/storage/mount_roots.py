"""The directories of this host from which mounts may be read. The reader decides this, never the lake.

A mount is a path in the log, and everybody who can write to the lake can add one. If it were read without
permission, a materialized view over it would copy files of the reader into the lake.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from headgate.errors import InvalidInputError, shown

VARIABLE = "HEADGATE_MOUNTS_ALLOW"
"""The environment variable: directories, separated like those of PATH."""


class MountRoots:
    """The directories from which a handle may read mounts. Links and `..` are resolved before comparing.

    `allowed` are the given directories, with everything below them. In addition, the directory of each mount
    that was created through this handle: its caller has named it.
    """

    def __init__(self, allowed: Iterable[Path] = ()) -> None:
        self._allowed = tuple(allowed)
        self._named: set[Path] = set()

    @classmethod
    def of(cls, given: Iterable[str | os.PathLike[str]] | None) -> MountRoots:
        """The directories of an option, and those of the environment."""
        if isinstance(given, str | os.PathLike) or not isinstance(given, Iterable | None):
            raise InvalidInputError(
                f"allow_mounts must be a list of directories, not {shown(given)}",
                'write allow_mounts=["/data/drop"]',
            )
        listed = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
        return cls(_resolved(each) for each in (*listed, *(given or ())))

    def name(self, directory: str) -> None:
        """Notes that the caller of this handle has named a directory."""
        self._named.add(_resolved(directory))

    def require(self, mount: str, directory: str) -> None:
        """Rejects the directory of a mount, unless it is allowed."""
        place = _resolved(directory)
        if place not in self._named and not self._is_below_allowed(place):
            raise _refusal(f"{mount} is a mount of {place}, a directory of this host", place)

    def require_file(self, mount: str, directory: str, file: Path) -> None:
        """Rejects a file outside the allowed directories, to which a link in one of them leads."""
        place = _resolved(file)
        if place.is_relative_to(_resolved(directory)) or self._is_below_allowed(place):
            return
        raise _refusal(f"{mount}: {file} is a link to {place}, outside of the directory", place.parent)

    def _is_below_allowed(self, place: Path) -> bool:
        return any(place.is_relative_to(root) for root in self._allowed)


def _refusal(problem: str, place: Path) -> InvalidInputError:
    return InvalidInputError(
        f"{problem}, and reading it is not allowed",
        f"if this lake may read what is there, open it with allow_mounts=[{str(place)!r}], or give "
        f"--allow-mounts {place} or {VARIABLE}; see docs/views.md",
    )


def _resolved(given: str | os.PathLike[str]) -> Path:
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else given
    if not isinstance(text, str) or not text:
        raise InvalidInputError(f"a directory must be a path, not {shown(given)}", 'write it as "/data/drop"')
    try:
        return Path(text).expanduser().resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise InvalidInputError(f"{text!r} is not a path: {error}") from error
