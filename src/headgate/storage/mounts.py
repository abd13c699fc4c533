"""What kind of file system a path lies on, as Linux tells."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = "/proc/self/mounts"
FAR = ("nfs", "cifs", "smb", "fuse", "ceph", "lustre", "gluster", "9p", "afs", "beegfs", "gpfs")
"""How the names of file systems begin whose files are on other machines."""


def is_on_this_machine(path: Path, mounts: str = MOUNTS) -> bool:
    """Whether its files are on a disk or in the memory of this machine; True if that cannot be told."""
    try:
        lines = Path(mounts).read_bytes().split(b"\n")
    except OSError:  # another system than Linux, or one that hides it
        return True
    place = f"{os.path.realpath(path)}/"
    kind, longest = "", -1
    for line in lines:
        _, where, file_system, *_ = (*map(os.fsdecode, line.split(b" ")), "", "", "")
        mounted = f"{_unescaped(where).rstrip('/')}/"
        # Of those above it the nearest counts, which has the longest name; of two on the same directory the
        # later one hides the earlier.
        if where and place.startswith(mounted) and len(mounted) >= longest:
            kind, longest = file_system, len(mounted)
    return not kind.startswith(FAR)


def _unescaped(name: str) -> str:
    """A space in a name is written as an octal number."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), name)
