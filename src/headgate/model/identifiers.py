"""Identifiers as types of their own: a version is not an int that could be anything, a txid not any text."""

from __future__ import annotations

import re
from dataclasses import dataclass

DIGITS = 20
"""Width of a number in an object name, so that a listing in key order is a listing in number order."""

MAX_NUMBER = 2**63 - 1
"""The largest number that is taken from outside: that of an Iceberg sequence number, which a version is."""

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
        """The number as it stands in object names."""
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
    """Whether `text`, read from outside, has the form of a transaction id."""
    return _TXID.fullmatch(text) is not None


def padded(number: int) -> str:
    """`number` as it stands in object names."""
    return f"{number:0{DIGITS}d}"


def unpadded(text: str) -> int | None:
    """The number that `padded` wrote, or None if `text` is not one."""
    if len(text) != DIGITS or not text.isascii() or not text.isdigit():
        return None
    number = int(text)
    return number if number <= MAX_NUMBER else None
