"""Properties of lakes and tables that Headgate itself obeys: names, values, and which value is usual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from headgate.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Setting:
    """A property with a few values, of which the first is the usual one."""

    name: str
    values: tuple[str, ...]

    def of(self, *owners: Mapping[str, str]) -> str:
        """The value that the first of `owners` which has the property gives it.

        A value that is none counts as the usual one. It was refused when it was set; a later release may know
        it, and a lake on which every commit fails could not even be mended.
        """
        given = next((owner[self.name] for owner in owners if self.name in owner), self.values[0])
        return given if given in self.values else self.values[0]

    def is_on(self, *owners: Mapping[str, str]) -> bool:
        return self.of(*owners) == "true"

    def accepts(self, given: str) -> bool:
        return given in self.values

    @property
    def choice(self) -> str:
        """What it can be set to, in words."""
        return " or ".join(self.values)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A property that is a number, with its bounds: at least `least`, or above it if `above`.

    `usual` is None if it depends on the lake.
    """

    name: str
    usual: float | None
    least: float
    most: float = inf
    whole: bool = False
    above: bool = False

    def of(self, *owners: Mapping[str, str], usual: float | None = None) -> float:
        """The number that the first of `owners` which has the property gives it; the usual one if it is none.

        For the same reason as with settings: what is wrong was refused when it was set.
        """
        given = next((owner[self.name] for owner in owners if self.name in owner), None)
        value = None if given is None else self._number(given)
        if value is not None:
            return value
        chosen = self.usual if usual is None else usual
        assert chosen is not None, self.name
        return chosen

    def accepts(self, given: str) -> bool:
        return self._number(given) is not None

    @property
    def choice(self) -> str:
        low = f"above {self.least:g}" if self.above else f"of at least {self.least:g}"
        high = "" if self.most == inf else f" and at most {self.most:g}"
        return f"a {'whole ' if self.whole else ''}number {low}{high}"

    def _number(self, given: str) -> float | None:
        if self.whole and not (given.isascii() and given.isdigit()):
            return None
        try:
            value = int(given) if self.whole else float(given)
        except ValueError:
            return None
        low_enough = self.least < value if self.above else self.least <= value
        return value if low_enough and value <= self.most else None


CANDIDATES = Setting("conflict.candidates", ("end", "start"))
EARLY = Setting("conflict.early", ("false", "true"))
COMPACTION = Setting("conflict.compaction", ("carry", "strict"))
ALLOW_UPDATES = Setting("clustering.allow_updates", ("false", "true"))

MIN_INPUTS = Quantity("compaction.min_inputs", None, least=2, most=1_000_000, whole=True)
"""From how many segments on a window is compacted; usually the divisor of the lake."""
DELETE_SHARE = Quantity("compaction.delete_share", 0.3, least=0, most=1, above=True)
DELTAS = Setting("write.parquet.delta-encoding", ("true", "false"))
"""Whether files that Arrow writes may tell whole numbers by differences, which old readers do not know."""
TARGET_SIZE = Quantity("write.target-file-size-bytes", 128 * 1024 * 1024, least=1, most=2**62, whole=True)

OF_LAKES = (CANDIDATES, EARLY, COMPACTION, ALLOW_UPDATES, MIN_INPUTS, DELETE_SHARE)
OF_TABLES = (COMPACTION, ALLOW_UPDATES, MIN_INPUTS, DELETE_SHARE, TARGET_SIZE, DELTAS)
"""What a table and its lake both have, the table decides."""
OF_COMPACTION = frozenset({MIN_INPUTS.name, DELETE_SHARE.name, TARGET_SIZE.name})
"""Properties that decide what is due: if one is changed, everything is looked at again."""


def check_settings(properties: Mapping[str, str], settings: Sequence[Setting | Quantity]) -> None:
    """Refuses a value that a setting cannot have."""
    for setting in settings:
        given = properties.get(setting.name)
        if given is not None and not setting.accepts(given):
            raise InvalidInputError(
                f"the property {setting.name} cannot be {given!r}", f"set it to {setting.choice}"
            )
