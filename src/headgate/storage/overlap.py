"""Whether two places lie in each other: one lake must not be inside of another."""

from __future__ import annotations

from pathlib import Path

from headgate.storage.capabilities import Store

_FILE, _MEMORY = "file://", "memory://"


def overlap(one: Store, other: Store) -> bool:
    """Whether one of the places is inside the other, or they are the same directory.

    Two buckets of the same name at different services have the same URI, so that object storage at the same
    URI is not taken for the same place.
    """
    first, second = _resolved(one.uri()), _resolved(other.uri())
    if first == second:
        return first.startswith((_FILE, _MEMORY))
    if first.startswith(_MEMORY):
        return False
    return first.startswith(f"{second}/") or second.startswith(f"{first}/")


def _resolved(uri: str) -> str:
    if uri.startswith(_FILE):
        # Links may lead from one into the other.
        return f"{_FILE}{Path(uri.removeprefix(_FILE)).resolve()}"
    return uri if uri.startswith(_MEMORY) else uri.replace("s3a://", "s3://", 1).rstrip("/")
