"""The kind of file system that contains a path, as Linux reports it."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = "/proc/self/mounts"
FAR = ("nfs", "cifs", "smb", "fuse", "ceph", "lustre", "gluster", "9p", "afs", "beegfs", "gpfs")
"""Prefixes of the names of file systems whose files are on other machines."""


def is_on_this_machine(path: Path, mounts: str = MOUNTS) -> bool:
    """Whether its files are on a disk or in the memory of this machine; True if that is unknown."""
    try:
        lines = Path(mounts).read_bytes().split(b"\n")
    except OSError:  # a system other than Linux, or one that hides it
        return True
    place = os.fsencode(f"{os.path.realpath(path)}/")
    kind, longest = b"", -1
    for line in lines:
        _, where, file_system, *_ = (*line.split(b" "), b"", b"", b"")
        mounted = _unescaped(where).rstrip(b"/") + b"/"
        # Of the mounts above it the nearest counts, which has the longest name; of two on the same directory
        # the later one hides the earlier.
        if len(mounted) >= longest and where and place.startswith(mounted):
            kind, longest = file_system, len(mounted)
    return not os.fsdecode(kind).startswith(FAR)


def _unescaped(name: bytes) -> bytes:
    """A space in a name is written as an octal number."""
    if b"\\" not in name:
        return name
    return re.sub(rb"\\([0-3][0-7]{2})", lambda found: bytes([int(found[1], 8)]), name)
