"""The properties of lakes and tables that Headgate itself obeys: names, values, and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from headgate.errors import InvalidInputError, shown


@dataclass(frozen=True, slots=True)
class Setting:
    """A property with a few values, the first of which is the default."""

    name: str
    values: tuple[str, ...]

    def of(self, *owners: Mapping[str, str]) -> str:
        """The value from the first of `owners` that has the property.

        An invalid value counts as the default. Setting it was rejected, so a later release may know it; and a
        lake on which every commit fails could not even be repaired.
        """
        given = next((owner[self.name] for owner in owners if self.name in owner), self.values[0])
        return given if given in self.values else self.values[0]

    def is_on(self, *owners: Mapping[str, str]) -> bool:
        return self.of(*owners) == "true"

    def accepts(self, given: str) -> bool:
        return given in self.values

    @property
    def choice(self) -> str:
        """The allowed values, in words."""
        return " or ".join(self.values)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A property that is a number, with its bounds: at least `least`, or greater than it if `above`.

    `usual`, the default, is None if it depends on the lake.
    """

    name: str
    usual: float | None
    least: float
    most: float = inf
    whole: bool = False
    above: bool = False

    def of(self, *owners: Mapping[str, str], usual: float | None = None) -> float:
        """The number from the first of `owners` that has the property; the default if it is invalid.

        An invalid value counts as the default for the same reason as with settings.
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
        low = (
            f"greater than {self._shown(self.least)}"
            if self.above
            else f"of at least {self._shown(self.least)}"
        )
        high = "" if self.most == inf else f" and at most {self._shown(self.most)}"
        return f"{'an integer' if self.whole else 'a number'} {low}{high}"

    def _shown(self, bound: float) -> str:
        return f"{int(bound):,}" if self.whole else f"{bound:g}"

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
FOLLOW_UP = Setting("commit.follow-up", ("inline", "background"))
"""Whether a commit returns before its tables are published and its control entry is written."""
ALLOW_UPDATES = Setting("clustering.allow_updates", ("false", "true"))

MIN_INPUTS = Quantity("compaction.min_inputs", None, least=2, most=1_000_000, whole=True)
"""The number of segments from which a window is compacted; by default the divisor of the lake."""
DELETE_SHARE = Quantity("compaction.delete_share", 0.3, least=0, most=1, above=True)
DELTAS = Setting("write.parquet.delta-encoding", ("false", "true"))
"""Whether files that Arrow writes may store integers as differences, which some readers cannot read."""
TARGET_SIZE = Quantity("write.target-file-size-bytes", 128 * 1024 * 1024, least=1, most=2**62, whole=True)

OF_LAKES = (CANDIDATES, EARLY, FOLLOW_UP, COMPACTION, ALLOW_UPDATES, MIN_INPUTS, DELETE_SHARE)
OF_TABLES = (COMPACTION, ALLOW_UPDATES, MIN_INPUTS, DELETE_SHARE, TARGET_SIZE, DELTAS)
"""If both a table and its lake have a property, that of the table wins."""
OF_COMPACTION = frozenset({MIN_INPUTS.name, DELETE_SHARE.name, TARGET_SIZE.name})
"""Properties that decide what is ready to compact: if one changes, everything is checked again."""


def check_follow_up(given: object) -> None:
    """Rejects what `Lake.open` cannot do after a commit. None: as the lake says."""
    if given is not None and given not in FOLLOW_UP.values:
        raise InvalidInputError(
            f"follow_up cannot be {shown(given)}", f"set it to {' or '.join(map(repr, FOLLOW_UP.values))}"
        )


def check_settings(properties: Mapping[str, str], settings: Sequence[Setting | Quantity]) -> None:
    """Rejects a value that a setting cannot have."""
    for setting in settings:
        given = properties.get(setting.name)
        if given is not None and not setting.accepts(given):
            raise InvalidInputError(
                f"the property {setting.name} cannot be {given!r}", f"set it to {setting.choice}"
            )
