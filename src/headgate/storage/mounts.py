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
    place = Path(os.path.realpath(path))
    kind, depth = "", -1
    for line in lines:
        _, where, file_system, *_ = (*map(os.fsdecode, line.split(b" ")), "", "", "")
        mounted = Path(_unescaped(where))
        # Of two on the same directory the later one hides the earlier.
        if place.is_relative_to(mounted) and len(mounted.parts) >= depth:
            kind, depth = file_system, len(mounted.parts)
    return not kind.startswith(FAR)


def _unescaped(name: str) -> str:
    """A space in a name is written as an octal number."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), name)
