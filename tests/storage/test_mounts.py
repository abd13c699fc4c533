"""Files that are on other machines are told by how the file system is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.storage.local import LocalStore
from headgate.storage.mounts import is_on_this_machine

MOUNTS = """\
/dev/vda / ext4 rw,relatime 0 0
tmpfs /tmp tmpfs rw 0 0
server:/export /mnt/lake nfs4 rw,vers=4.2 0 0
/dev/vdb /mnt/lake/here xfs rw 0 0
s3fs /mnt/with\\040space fuse.s3fs rw 0 0
/dev/vdc /over ext4 rw 0 0
//server/share /over cifs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("/", True),
        ("/mnt", True),
        ("/mnt/lake", False),
        ("/mnt/lake/db/t", False),
        ("/mnt/lake2", True),
        ("/mnt/lake/here/db", True),
        ("/mnt/with space/lake", False),
        ("/over/lake", False),
    ],
)
def test_the_innermost_mount_decides(tmp_path: Path, path: str, near: bool) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert is_on_this_machine(Path(path), str(mounts)) is near


@pytest.mark.parametrize("name", [b"a\x0cb", b"a\rb", "a\u2028b".encode(), b"a\xffb", b""])
def test_no_name_of_a_mount_is_too_odd(tmp_path: Path, name: bytes) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_bytes(b"x /mnt/" + name + b" fuse.x rw 0 0\n\nodd\n" + MOUNTS.encode())
    assert is_on_this_machine(Path("/tmp/lake"), str(mounts))
    assert not is_on_this_machine(Path("/mnt/lake"), str(mounts))


def test_what_cannot_be_told_counts_as_near(tmp_path: Path) -> None:
    assert is_on_this_machine(tmp_path, str(tmp_path / "missing"))


def test_a_store_of_a_temporary_directory_is_near(tmp_path: Path) -> None:
    assert LocalStore(tmp_path / "lake").is_near()
