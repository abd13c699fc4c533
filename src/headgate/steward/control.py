"""Control entries on storage: one for each version, and the outbox, which names the versions with open hooks.

All of them are derived from the log. An entry is the receipt of its version: it is written when all other
work after the commit is done, so that recovery only needs to check versions without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from headgate.core.history.descriptor import descriptor
from headgate.errors import CorruptLakeError
from headgate.log.driver import Driver
from headgate.log.layout import (
    ENTRIES,
    OUTBOX,
    RECOVERED,
    entry_key,
    entry_version,
    outbox_key,
    outbox_version,
)
from headgate.log.lost_end import committed_twice
from headgate.model.control_entry import NONE_FAILED, ControlEntry, FailedCommits, HookRun
from headgate.model.identifiers import GENESIS, Version
from headgate.model.json_object import JsonObject, digest, encode
from headgate.model.record import Record

LONGEST_COPY_BYTES = 64 * 1024
"""How long a record may be that is kept in its control entry, too."""


@dataclass(frozen=True, slots=True)
class ControlEntries:
    """The control entries of one lake."""

    driver: Driver

    def read(self, version: Version) -> ControlEntry | None:
        """The entry of a version; None if it is missing or unreadable, because it can be rebuilt."""
        return _decoded(self.driver.get(entry_key(version)), version)

    def read_all(self, versions: Sequence[Version]) -> list[ControlEntry | None]:
        return self.driver.host.together([partial(self.read, version) for version in versions])

    def write(self, entry: ControlEntry, *, was_open: bool = False) -> None:
        """Writes an entry. `was_open`: an earlier entry of the version may have had open hooks.

        Idempotent. If the process dies in between, the version has no entry, or is in the outbox although its
        hooks are all done; recovery fixes both.
        """
        self._tell_outbox(entry)
        self.driver.put(entry_key(entry.version), entry.encode())
        if was_open and not entry.open_hooks:
            self.driver.delete(outbox_key(entry.version))

    def write_receipt(self, entry: ControlEntry) -> None:
        """Writes the entry of a version that this process has just committed.

        Raises `LostEndError` if the version has an entry of another transaction: the version was committed
        before, and its record was lost. Costs one request, as `write` does.
        """
        self._tell_outbox(entry)
        if self.driver.create(entry_key(entry.version), entry.encode()):
            return
        key = entry_key(entry.version)
        data = self.driver.get(key)
        there = _decoded(data, entry.version)
        if there is not None and there.txid != entry.txid:
            raise committed_twice(self.driver.store.describe(), entry.version, key, data)
        # Another process treated this writer as dead and backfilled the entry; this one contains more.
        self.write(entry, was_open=True)

    def _tell_outbox(self, entry: ControlEntry) -> None:
        # Before the entry: a version with an entry is checked again only if it is in the outbox.
        if entry.open_hooks:
            names = [hook.name for hook in entry.open_hooks]
            self.driver.put(outbox_key(entry.version), encode({"hooks": [*names]}))

    def list_above(self, version: Version) -> frozenset[Version]:
        """The versions above `version` that have an entry. Lists only these."""
        keys = self.driver.keys(ENTRIES, after=entry_key(version))
        found = (entry_version(key) for key in keys)
        return frozenset(known for known in found if known is not None)

    def outbox(self) -> tuple[Version, ...]:
        """The versions that may have open hooks, oldest first."""
        found = (outbox_version(key) for key in self.driver.keys(OUTBOX))
        return tuple(sorted(version for version in found if version is not None))

    def read_recovered(self) -> Version:
        """The version up to which every entry exists. Never too high; a low one costs a longer listing."""
        data = self.driver.get(RECOVERED)
        if data is None:
            return GENESIS
        try:
            return JsonObject.parse(data, RECOVERED).version("version")
        except CorruptLakeError:
            return GENESIS  # unreadable advice: check everything again

    def set_recovered(self, version: Version) -> None:
        self.driver.put(RECOVERED, encode({"version": version.number}))


def _decoded(data: bytes | None, version: Version) -> ControlEntry | None:
    try:
        return None if data is None else ControlEntry.decode(data, version, entry_key(version))
    except CorruptLakeError:
        return None


def control_entry(
    record: Record,
    own: str,
    hooks: tuple[HookRun, ...],
    timings: dict[str, float],
    failed: FailedCommits = NONE_FAILED,
) -> ControlEntry:
    """The entry of a version, from its record, whose digest is `own`."""
    return ControlEntry(
        record.version,
        record.txid,
        own,
        descriptor(record),
        hooks,
        timings,
        copy=_copy(record.encode(), own),
        failed=failed,
    )


def _copy(data: bytes, expected: str) -> str | None:
    # One that a later release wrote may be other bytes when it is written again: that would be no copy.
    return data.decode() if len(data) <= LONGEST_COPY_BYTES and digest(data) == expected else None


def recovered_entry(record: Record, own: str) -> ControlEntry:
    """The entry that the writer of a version did not write. Its hooks are as good as never run."""
    hooks = tuple(HookRun(name) for name in record.hooks)
    return replace(control_entry(record, own, hooks, {}), recovered=True)
