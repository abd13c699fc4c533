"""Control entries on storage: one for each version, and the outbox that tells which have hooks left to run.

All of it is derived from the log. An entry is the receipt of its version: it is written when everything else
that is due after the commit was done, so that recovery need only look for versions without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from headgate.commit.driver import Driver
from headgate.commit.layout import (
    ENTRIES,
    OUTBOX,
    RECOVERED,
    entry_key,
    entry_version,
    outbox_key,
    outbox_version,
)
from headgate.errors import CorruptLakeError
from headgate.model.control_entry import ControlEntry
from headgate.model.identifiers import GENESIS, Version
from headgate.model.json_object import JsonObject, encode


@dataclass(frozen=True, slots=True)
class ControlEntries:
    """The control entries of one lake."""

    driver: Driver

    def read(self, version: Version) -> ControlEntry | None:
        """The entry of a version; None if there is none, or none that can be read: it can be made again."""
        key = entry_key(version)
        data = self.driver.get(key)
        try:
            return None if data is None else ControlEntry.decode(data, version, key)
        except CorruptLakeError:
            return None

    def read_all(self, versions: Sequence[Version]) -> list[ControlEntry | None]:
        return self.driver.host.together([partial(self.read, version) for version in versions])

    def write(self, entry: ControlEntry, *, was_open: bool = False) -> None:
        """Writes an entry. `was_open`: an earlier one may have had hooks left.

        Idempotent. Whoever dies inside leaves a version without an entry, or one in the outbox whose hooks
        are all done; recovery makes up for both.
        """
        if entry.open_hooks:
            # Before the entry: one that has it is not looked at again unless the outbox says so.
            names = [hook.name for hook in entry.open_hooks]
            self.driver.put(outbox_key(entry.version), encode({"hooks": [*names]}))
        self.driver.put(entry_key(entry.version), entry.encode())
        if was_open and not entry.open_hooks:
            self.driver.delete(outbox_key(entry.version))

    def written_above(self, version: Version) -> frozenset[Version]:
        """The versions above `version` that have an entry. Lists only those."""
        keys = self.driver.keys(ENTRIES, after=entry_key(version))
        found = (entry_version(key) for key in keys)
        return frozenset(known for known in found if known is not None)

    def outbox(self) -> tuple[Version, ...]:
        """The versions that may have hooks left, oldest first."""
        found = (outbox_version(key) for key in self.driver.keys(OUTBOX))
        return tuple(sorted(version for version in found if version is not None))

    def recovered(self) -> Version:
        """The version up to which every entry is there. Never too high; too low costs a longer listing."""
        data = self.driver.get(RECOVERED)
        if data is None:
            return GENESIS
        try:
            return JsonObject.parse(data, RECOVERED).version("version")
        except CorruptLakeError:
            return GENESIS  # advice that cannot be read: everything is looked at once more

    def set_recovered(self, version: Version) -> None:
        self.driver.put(RECOVERED, encode({"version": version.number}))
