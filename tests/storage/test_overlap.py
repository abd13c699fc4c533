"""Places that lie in each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.storage.local import LocalStore
from headgate.storage.location import overlap
from headgate.storage.memory import MemoryStore


class At(MemoryStore):
    """A store that says that it is elsewhere."""

    def __init__(self, uri: str) -> None:
        super().__init__()
        self._uri = uri

    def uri(self) -> str:
        return self._uri


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("s3://b/lake", "s3://b/lake/inside", True),
        ("s3://b", "s3a://b/lake", True),
        ("s3://b/lake", "s3://b/lake-2", False),
        ("s3://b/lake", "gs://b/lake", False),
        # Perhaps two services: what is there tells.
        ("s3://b/lake", "s3://b/lake", False),
        ("memory://a", "memory://a", True),
        ("memory://a", "memory://a/b", False),
    ],
)
def test_urls(one: str, other: str, expected: bool) -> None:
    assert overlap(At(one), At(other)) is expected
    assert overlap(At(other), At(one)) is expected


def test_directories_and_links(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    lake = LocalStore(tmp_path / "lake")
    for inside in ("lake", "lake/x", "link", "link/x", "."):
        assert overlap(lake, LocalStore(tmp_path / inside)), inside
    assert not overlap(lake, LocalStore(tmp_path / "lake2"))
