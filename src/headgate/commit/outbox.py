"""Objects that a commit sends together with its metadata, because nobody asks for them earlier."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MOST_BYTES = 8 * 1024 * 1024
"""About how much waits in memory: threads that ask at the same moment do not count each other. What is longer
is better on its way while the rest is made."""


class Outbox:
    """New objects by their keys, each under a name that nobody else uses.

    Whoever puts one here may not read it before the commit, and the commit is not decided before all of them
    are on storage. If it never comes to that, nothing was written.
    """

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._bytes = 0

    @property
    def objects(self) -> Mapping[str, bytes]:
        return MappingProxyType(self._objects)

    def takes(self, key: str, data: bytes) -> bool:
        """Keeps the object, or says that there is no room for it."""
        if self._bytes + len(data) > MOST_BYTES:
            return False
        self._objects[key] = data
        self._bytes += len(data)
        return True
