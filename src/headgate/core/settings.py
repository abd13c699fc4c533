"""Properties of lakes and tables that Headgate itself obeys: names, values, and which value is usual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


CANDIDATES = Setting("conflict.candidates", ("end", "start"))
EARLY = Setting("conflict.early", ("false", "true"))
COMPACTION = Setting("conflict.compaction", ("carry", "strict"))
ALLOW_UPDATES = Setting("clustering.allow_updates", ("false", "true"))

OF_LAKES = (CANDIDATES, EARLY, COMPACTION, ALLOW_UPDATES)
OF_TABLES = (COMPACTION, ALLOW_UPDATES)
"""A table that has one of these overrules its lake."""


def check_settings(properties: Mapping[str, str], settings: tuple[Setting, ...]) -> None:
    """Refuses a value that a setting cannot have."""
    for setting in settings:
        given = properties.get(setting.name, setting.values[0])
        if given not in setting.values:
            raise InvalidInputError(
                f"the property {setting.name} cannot be {given!r}", f"set it to {' or '.join(setting.values)}"
            )
