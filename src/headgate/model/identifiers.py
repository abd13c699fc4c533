"""Identifiers as separate types: a version is not just any int, and a txid not just any string.

Also the names of objects: what a key of a lake is, and which keys the files of a table have. What a lake says
about itself (a record, a metadata file, a manifest) was written by anybody who could write there. So every
name in it is checked here before anything is opened, copied or deleted by that name.

Also the names of the commit strategies as records contain them, and windows: ranges of versions that
compaction merges.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

DIGITS = 20
"""Width of a number in an object name, so that a listing in key order is a listing in number order."""

NUMBER_DIGITS = 19
"""Of a number that is stored as text, as in `version-hint.text`: that of the largest version."""

MAX_NUMBER = 2**63 - 1
"""The largest number that input may have: that of an Iceberg sequence number, which a version is."""

_TXID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, order=True, slots=True)
class Version:
    """A position in the log. Commits count from 1 and a number is never reused; 0 is the empty lake."""

    number: int

    def __post_init__(self) -> None:
        assert 0 <= self.number < 10**DIGITS, self.number

    def next(self) -> Version:
        return Version(self.number + 1)

    def padded(self) -> str:
        """The number as it appears in object names."""
        return padded(self.number)

    def __str__(self) -> str:
        return str(self.number)


GENESIS = Version(0)
"""The version before the first commit. Its record is the identity of the lake."""


@dataclass(frozen=True, order=True, slots=True)
class TxId:
    """The identity of one transaction: 128 random bits in hexadecimal, never reused."""

    text: str

    def __post_init__(self) -> None:
        assert _TXID.fullmatch(self.text), self.text

    def __str__(self) -> str:
        return self.text


def is_txid(text: str) -> bool:
    """Whether `text`, which comes from storage, has the form of a transaction id."""
    return _TXID.fullmatch(text) is not None


def padded(number: int) -> str:
    """`number` as it appears in object names."""
    return f"{number:0{DIGITS}d}"


def unpadded(text: str) -> int | None:
    """The number that `padded` wrote, or None if `text` is not one."""
    if len(text) != DIGITS or not text.isascii() or not text.isdigit():
        return None
    number = int(text)
    return number if number <= MAX_NUMBER else None


def named_version(name: str) -> int | None:
    """The version at which a metadata file was written: its name begins with it. None if it does not."""
    return unpadded(name.rpartition("/")[2][:DIGITS])


def number_in(text: str) -> int | None:
    """The number in a string of the lake, ignoring spaces around it.

    None if there is none, or it is too long.
    """
    stripped = text.strip()
    if len(stripped) > NUMBER_DIGITS or not (stripped.isascii() and stripped.isdecimal()):
        return None
    return int(stripped)


TABLES = "data/"
"""Everything below this belongs to tables; everything that decides about the lake is elsewhere."""

# Control characters and halves of surrogate pairs, which object storage rejects. The backslash separates
# directories on some systems.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f\\\\\ud800-\udfff]")
_NO_SEGMENT = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")
"""Segments that do not name an entry of a directory: empty ones, `.` and `..`."""
DATA, METADATA, ATTEMPTS = "data", "metadata", "attempts"
"""The parts of a table, each a directory."""
MAX_LEVELS = 1_000
"""How deep directories may be nested. HDFS allows no more, and a key of a lake has ten or twenty levels."""

_LOCATION = re.compile(r"data/[^/]+/[^/]+")


def is_key(text: str) -> bool:
    """Whether every store can hold it: relative, without empty, `.` or `..` segments, of plain characters.

    Also not nested too deeply: whatever creates or lists directories does so level by level.
    """
    return not (_NO_SEGMENT.search(text) or _FORBIDDEN.search(text)) and text.count("/") < MAX_LEVELS


def key_of(uri: str, root: str) -> str | None:
    """The key of the object with this `uri`, in a lake at `root`; None if it is not a key of this lake.

    Taken literally: a percent sign is a character like any other, and so is a question mark.
    """
    start = f"{root}/"
    key = uri.removeprefix(start)
    return key if uri.startswith(start) and is_key(key) else None


def is_location(text: str) -> bool:
    """Whether it can be the directory of a table."""
    return bool(_LOCATION.fullmatch(text)) and is_key(text)


def is_of_table(key: str, location: str, *parts: str) -> bool:
    """Whether it can be a file of the table at `location`, in one of these parts of it."""
    allowed = tuple(f"{location}/{part}/" for part in parts)
    return is_location(location) and is_key(key) and key.startswith(allowed)


class StrategyName(Enum):
    """How a version is claimed. The value is stored."""

    CONDITIONAL = "conditional"
    RENAME = "rename"
    FILETRACKER = "filetracker"

    @classmethod
    def find(cls, name: str) -> StrategyName | None:
        """The strategy with this name; None if this release does not know it."""
        # Callers of the library can pass anything as a name.
        return _BY_NAME.get(name) if isinstance(name, str) else None

    def __str__(self) -> str:
        return self.value


_BY_NAME = {strategy.value: strategy for strategy in StrategyName}


@dataclass(frozen=True, order=True, slots=True)
class Window:
    """The versions from `first` to `last`. A window of level L is as long as the divisor to the power of L.

    Level 0 is a single commit. The versions that a file covers are a window, too.
    """

    first: int
    last: int
    level: int = 0

    def __post_init__(self) -> None:
        assert 0 <= self.first <= self.last, self
        assert self.level >= 0, self

    def holds(self, other: Window) -> bool:
        """Whether the other window is inside this one."""
        return self.first <= other.first and other.last <= self.last

    def straddles(self, version: int) -> bool:
        """Whether it contains versions up to `version` and later ones: it cannot be read as of `version`."""
        return self.first <= version < self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}" if self.first < self.last else str(self.first)
