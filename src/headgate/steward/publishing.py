"""Publishes tables for engines that open them by path: `v<N>.metadata.json` and `version-hint.text`.

This happens after the commit is decided, so nothing depends on it; the next commit to the table does it
again. Engines that open the exact metadata file need neither.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from headgate.errors import CorruptLakeError
from headgate.log.driver import Driver
from headgate.log.lost_end import committed_twice
from headgate.model.identifiers import DIGITS, Version, named_version, unpadded
from headgate.model.table import TableRef
from headgate.storage.capabilities import Tail
from headgate.system.host import renew_after_fork

MAX_ROUNDS = 8
"""How often a writer checks whether the hint must name a newer version of another writer."""
LONGEST_TURN_SECONDS = 10.0
"""How long a thread waits for another thread of this process that is publishing the same table."""


def publish(
    driver: Driver,
    table: TableRef,
    newest: Callable[[], TableRef | None],
    metadata: Callable[[TableRef], bytes],
    *,
    just_committed: bool = False,
) -> None:
    """Publishes `table`. The hint ends up at the newest published version.

    `newest` returns the table that is now at the same location. It may have another name, or be another
    table.

    Two writers may publish at the same time, and the older one may write its hint last. So each writer checks
    again after writing, and puts the newer version into the hint. If the metadata of the newer version does
    not exist yet, its writer will write the hint later.

    `just_committed`: this writer has just committed the version of `table`. Raises `LostEndError` if that
    version was published before with other content; the hint does not change then.
    """
    if just_committed:
        _publish_first(driver, table, metadata(table))
    else:
        driver.put(_metadata_key(table), metadata(table))
    for _ in range(MAX_ROUNDS):
        driver.put(hint_key(table.location), str(version_of(table)).encode())
        now = newest()
        if now is None or now == table:
            return
        if driver.tail(_metadata_key(now), 1) is None:
            return
        table = now


def _publish_first(driver: Driver, table: TableRef, metadata: bytes) -> None:
    key = _metadata_key(table)
    if driver.create(key, metadata):
        return
    there = driver.get(key)
    if there != metadata:
        raise committed_twice(driver.store.describe(), version_of(table), key, there)


def published_after(driver: Driver, locations: Sequence[str], version: Version) -> tuple[Version, str] | None:
    """The newest version above `version` in which a table at one of the locations was published, and the
    object that shows it. None if there is none, or if only requests can tell.

    A hint alone shows nothing: other programs can write it.
    """
    hints = driver.peek([hint_key(location) for location in locations])
    if not hints:
        return None
    newest, location = max((_number_in(hints[hint_key(each)]), each) for each in locations)
    if newest <= version.number:
        return None
    key = published_key(location, Version(newest))
    shown = driver.peek([key])
    return (Version(newest), key) if shown and shown[key] is not None else None


def _number_in(hint: Tail | None) -> int:
    text = "" if hint is None else hint.data.decode("ascii", "replace").strip()
    return unpadded(text.zfill(DIGITS)) or 0


def hint_key(location: str) -> str:
    """Where engines look for the newest published version of the table at a location."""
    return f"{location}/metadata/version-hint.text"


def published_key(location: str, version: Version) -> str:
    """The published metadata of a table at a version."""
    return f"{location}/metadata/v{version}.metadata.json"


def _metadata_key(table: TableRef) -> str:
    return published_key(table.location, version_of(table))


class Announced:
    """The newest version of one table that the writers of this process have to publish."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._due: TableRef | None = None
        self._done: Version | None = None
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._turn = threading.RLock()

    def announce(self, table: TableRef, announce: Callable[[TableRef], None]) -> None:
        """Calls `announce` for `table`, or waits until another thread has done so for a newer version.

        One thread at a time, unless another one takes very long.
        """
        if self._due is None or version_of(self._due) < version_of(table):
            self._due = table
        try:
            self._turn.acquire(timeout=LONGEST_TURN_SECONDS)
            self._announce_newest(table, announce)
        finally:
            # The lock itself knows whether it was acquired: a Ctrl-C can arrive before a variable could be
            # set.
            try:  # noqa: SIM105 — any other call before this one could be interrupted
                self._turn.release()
            except RuntimeError:
                pass

    def _announce_newest(self, table: TableRef, announce: Callable[[TableRef], None]) -> None:
        if self._done is not None and self._done >= version_of(table):
            return
        newest = table if self._due is None else max(self._due, table, key=version_of)
        announce(newest)
        self._done = version_of(newest)


def version_of(table: TableRef) -> Version:
    """The version whose commit wrote the metadata of a table; the file name begins with it."""
    number = named_version(table.metadata)
    if number is None:
        raise CorruptLakeError(f"{table.metadata} is not a name of a metadata file of Headgate")
    return Version(number)
