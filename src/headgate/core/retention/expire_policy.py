"""How long versions are kept: tiers such as "all for a day, level-1 boundaries for a month, others forever".

Written as text: `all:1d`, `1:30d`, `2:forever`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from headgate.core.input.arguments import of_kind, several, texts
from headgate.errors import InvalidInputError, shown
from headgate.model.identifiers import MAX_NUMBER

_TIER = re.compile(r"(all|\d{1,4})\s*:\s*(?:(forever)|(\d{1,9})\s*([smhdw]))")
_AGE = re.compile(r"(\d{1,9})\s*([smhdw])")
FIRST_TIME = datetime.min.replace(tzinfo=UTC)
_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}
_HOW = "write tiers as all:1d, 1:30d, 2:forever; units are s, m, h, d and w"
LONGEST = timedelta(days=365 * 1000)


@dataclass(frozen=True, slots=True)
class Tier:
    """Versions that are kept for some time: all of them (level 0), or boundaries of at least a level.

    `age` counts from when the next version was committed. None means forever.
    """

    level: int
    age: timedelta | None

    def __str__(self) -> str:
        return f"{self.level or 'all'}:{'forever' if self.age is None else age_text(self.age)}"

    @property
    def name(self) -> str:
        return f"boundaries of level {self.level}" if self.level else "all versions"

    def outlives(self, other: Tier) -> bool:
        """Whether it keeps versions for longer than `other`."""
        return other.age is not None and (self.age is None or self.age > other.age)


@dataclass(frozen=True, slots=True)
class ExpirePolicy:
    """Tiers by level, starting with all versions.

    Each keeps fewer versions for longer than the one before.
    """

    tiers: tuple[Tier, ...]

    def __post_init__(self) -> None:
        tiers = several("a tier", self.tiers, Tier)
        _refuse_impossible(tiers)
        object.__setattr__(self, "tiers", tuple(sorted(tiers, key=lambda tier: tier.level)))
        _refuse_senseless(self.tiers)

    @classmethod
    def parse(cls, *tiers: str) -> ExpirePolicy:
        """The policy that strings such as `all:1d` and `2:forever` describe."""
        return cls(tuple(map(_tier, texts("tiers", tiers))))

    def __str__(self) -> str:
        return " ".join(map(str, self.tiers))


def _tier(text: str) -> Tier:
    found = _TIER.fullmatch(text.strip().lower())
    if found is None:
        raise InvalidInputError(f"{text!r} is not a tier of the form LEVEL:AGE", _HOW)
    level, forever, count, unit = found.groups()
    if level == "0":
        raise InvalidInputError(
            f"{text!r} has the level 0, but levels count from 1",
            "write all:… to keep every version",
        )
    age = None if forever else _age(int(count), unit, text)
    return Tier(0 if level == "all" else int(level), age)


def _age(count: int, unit: str, text: str) -> timedelta:
    if count > LONGEST // _UNITS[unit]:
        raise InvalidInputError(f"{text!r} is longer than {LONGEST.days // 365} years", "write forever")
    return count * _UNITS[unit]


def parse_age(text: str) -> timedelta:
    """A duration that a caller gave as text, such as `1d` or `36h`."""
    found = _AGE.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    if found is None:
        raise InvalidInputError(f"{shown(text)} is not a duration", "write it as 1d, 36h, 90m or 2w")
    return _age(int(found[1]), found[2], text)


def earlier(now: datetime, age: timedelta) -> datetime:
    """The time that is `age` before `now`, or the earliest one that there is."""
    return now - age if age < now - FIRST_TIME else FIRST_TIME


def age_text(age: timedelta) -> str:
    """The shortest notation of a duration."""
    for unit, length in _UNITS.items():
        if unit != "w" and age % length == timedelta(0):
            return f"{age // length}{unit}"
    return f"{age.total_seconds():g}s"


def _refuse_impossible(tiers: Sequence[Tier]) -> None:
    for tier in tiers:
        if not isinstance(tier.level, int) or not 0 <= tier.level < MAX_NUMBER.bit_length():
            raise InvalidInputError(
                f"a tier cannot have the level {shown(tier.level)}", "levels count from 1"
            )
        if tier.age is not None and not timedelta(0) < of_kind("an age", tier.age, timedelta) <= LONGEST:
            raise InvalidInputError(f"{tier.name} cannot be kept for {tier.age}", "give a positive duration")


def _refuse_senseless(tiers: Sequence[Tier]) -> None:
    if not tiers or tiers[0].level:
        raise InvalidInputError(
            "the policy has no tier for all versions, so readers and writers could lose the version they use",
            "say how long all versions are kept, such as all:1d",
        )
    for shorter, longer in pairwise(tiers):
        if shorter.level == longer.level:
            raise InvalidInputError(
                f"{longer.name} have two tiers, {shorter} and {longer}", "give one of the two"
            )
        if not longer.outlives(shorter):
            raise InvalidInputError(
                f"{longer} keeps nothing that {shorter} does not keep already",
                "keep boundaries of a higher level for longer, or leave the tier out",
            )


DEFAULT_POLICY = ExpirePolicy.parse("all:1d", "1:30d", "2:forever")
