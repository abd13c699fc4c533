"""How long versions are kept: tiers, as in "all for a day, level-1 boundaries for a month, others for ever".

As text: `all:1d`, `1:30d`, `2:forever`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from headgate.core.arguments import texts
from headgate.errors import InvalidInputError
from headgate.model.identifiers import MAX_NUMBER

_TIER = re.compile(r"(all|\d{1,4})\s*:\s*(?:(forever)|(\d{1,9})\s*([smhdw]))")
_AGE = re.compile(r"(\d{1,9})\s*([smhdw])")
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
    """Versions that are kept for some time: all of them (level 0), or boundaries of a level and above.

    `age` is counted from when a version was followed by the next one; None: for ever.
    """

    level: int
    age: timedelta | None

    def __str__(self) -> str:
        return f"{self.level or 'all'}:{'forever' if self.age is None else age_text(self.age)}"

    @property
    def name(self) -> str:
        return f"boundaries of level {self.level}" if self.level else "all versions"

    def outlives(self, other: Tier) -> bool:
        """Whether it keeps for longer."""
        return other.age is not None and (self.age is None or self.age > other.age)


@dataclass(frozen=True, slots=True)
class ExpirePolicy:
    """Tiers by level, from all versions on, each of which keeps fewer versions for longer."""

    tiers: tuple[Tier, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tiers", tuple(sorted(self.tiers, key=lambda tier: tier.level)))
        _refuse_senseless(self.tiers)

    @classmethod
    def parse(cls, *tiers: str) -> ExpirePolicy:
        """The policy that texts such as `all:1d` and `2:forever` name."""
        return cls(tuple(map(_tier, texts("tiers", tiers))))

    def __str__(self) -> str:
        return " ".join(map(str, self.tiers))


def _tier(text: str) -> Tier:
    found = _TIER.fullmatch(text.strip().lower())
    if found is None:
        raise InvalidInputError(f"{text!r} does not say which versions to keep for how long", _HOW)
    level, forever, count, unit = found.groups()
    if level == "0":
        raise InvalidInputError(
            f"{text!r}: every version is a boundary of level 0", "write all:… to keep every version"
        )
    age = None if forever else _age(int(count), unit, text)
    return Tier(0 if level == "all" else int(level), age)


def _age(count: int, unit: str, text: str) -> timedelta:
    if count > LONGEST // _UNITS[unit]:
        raise InvalidInputError(f"{text!r} is longer than {LONGEST.days // 365} years", "write forever")
    return count * _UNITS[unit]


def parse_age(text: str) -> timedelta:
    """A time that a caller gave as text, such as `1d` or `36h`."""
    found = _AGE.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    if found is None:
        raise InvalidInputError(f"{text!r} is not a time", "write it as 1d, 36h, 90m or 2w")
    return _age(int(found[1]), found[2], text)


def age_text(age: timedelta) -> str:
    """The shortest way to write it."""
    for unit, length in _UNITS.items():
        if unit != "w" and age % length == timedelta(0):
            return f"{age // length}{unit}"
    return f"{age.total_seconds():g}s"


def _refuse_senseless(tiers: Sequence[Tier]) -> None:
    for tier in tiers:
        if not isinstance(tier.level, int) or tier.level < 0 or 2**tier.level > MAX_NUMBER:
            raise InvalidInputError(f"no version is a boundary of level {tier.level}", "levels count from 1")
        if tier.age is not None and not timedelta(0) < tier.age <= LONGEST:
            raise InvalidInputError(f"{tier.name} cannot be kept for {tier.age}", "give a positive time")
    if not tiers or tiers[0].level:
        raise InvalidInputError(
            "the policy does not keep all versions for any time, so readers and writers would lose theirs",
            "say for how long all are kept, as all:1d",
        )
    for shorter, longer in pairwise(tiers):
        if shorter.level == longer.level:
            raise InvalidInputError(
                f"{longer.name} are to be kept both as {shorter} and as {longer}", "give one of the two"
            )
        if not longer.outlives(shorter):
            raise InvalidInputError(
                f"{longer} keeps nothing that {shorter} does not keep anyway",
                "keep boundaries of a higher level for longer, or leave the tier out",
            )


DEFAULT_POLICY = ExpirePolicy.parse("all:1d", "1:30d", "2:forever")
