"""Publishing tables for engines that open them by path: `v<N>.metadata.json` and `version-hint.text`.

Done after the decision, so nothing depends on it; whoever commits next to the table does it again. Engines
that are given the exact metadata file need neither.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from headgate.commit.driver import Driver
from headgate.errors import CorruptLakeError
from headgate.forks import renew_after_fork
from headgate.model.identifiers import Version, unpadded
from headgate.model.table import TableRef

MAX_ROUNDS = 8
"""How often we look whether the hint must name somebody else's newer version in place of ours."""
LONGEST_TURN_SECONDS = 10.0
"""How long a thread waits for another one of its process that is announcing the same table."""


def publish(
    driver: Driver,
    table: TableRef,
    newest: Callable[[], TableRef | None],
    metadata: Callable[[TableRef], bytes],
) -> None:
    """Announces `table`; the hint ends at the newest version that anybody has announced.

    `newest` tells the table that is at the same place by now, whatever its name: it may be another one.

    Two writers may announce at the same time, and the older one may write its hint last; each therefore looks
    again after writing, and puts the newer one into the hint. If the metadata of that one is not there yet,
    its writer will write the hint later than we did.
    """
    driver.put(_metadata_key(table), metadata(table))
    for _ in range(MAX_ROUNDS):
        driver.put(hint_key(table.location), str(version_of(table)).encode())
        now = newest()
        if now is None or now == table:
            return
        if driver.tail(_metadata_key(now), 1) is None:
            return
        table = now


def hint_key(location: str) -> str:
    """Where engines look for the newest announced version of the table at a place."""
    return f"{location}/metadata/version-hint.text"


def _metadata_key(table: TableRef) -> str:
    return f"{table.location}/metadata/v{version_of(table)}.metadata.json"


class Announced:
    """What the writers of a process have to announce of one table: the newest version, for all of them."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._due: TableRef | None = None
        self._done: Version | None = None
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._turn = threading.RLock()

    def announce(self, table: TableRef, announce: Callable[[TableRef], None]) -> None:
        """Has `announce` called for `table`, or for a newer one of another thread; returns when it was.

        One thread at a time, unless another one takes very long.
        """
        if self._due is None or version_of(self._due) < version_of(table):
            self._due = table
        try:
            self._turn.acquire(timeout=LONGEST_TURN_SECONDS)
            self._announce_newest(table, announce)
        finally:
            # Asked of the lock itself: a Ctrl-C can come between having taken it and knowing it.
            try:  # noqa: SIM105 — a call of anything else before this one could be interrupted
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
    """The version whose commit wrote the metadata of a table: its name begins with it."""
    number = unpadded(table.metadata.rpartition("/")[2][:20])
    if number is None:
        raise CorruptLakeError(f"{table.metadata} is not a name that Headgate gives to metadata")
    return Version(number)
