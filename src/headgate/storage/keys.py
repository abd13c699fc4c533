"""Which keys are allowed: none that names a place outside the lake, and none that a store cannot hold."""

from __future__ import annotations

import re

from headgate.errors import InvalidInputError

# Control characters and halves of surrogate pairs: object storage does not take them. The backslash separates
# directories on some systems.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f\\\\\ud800-\udfff]")


def checked_key(key: str) -> str:
    """`key`, if every store can hold it: relative, without empty, `.` or `..` segments, of plain text."""
    if any(part in ("", ".", "..") for part in key.split("/")) or _FORBIDDEN.search(key):
        raise InvalidInputError(f"{key!r} is not a key inside a lake")
    return key


def checked_prefix(prefix: str) -> str:
    """`prefix`, if it is empty or a key followed by `/`."""
    if prefix and not prefix.endswith("/"):
        raise InvalidInputError(f"the listing prefix {prefix!r} must end in '/'")
    if prefix:
        checked_key(prefix[:-1])
    return prefix
