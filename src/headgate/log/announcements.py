"""Announcements of running transactions on storage, and their heartbeats.

1. PUT `control/timeline/<txid>.json` before the expensive part of a transaction.
2. PUT it again at an interval, with the time of the heartbeat. One thread does this for a whole handle.
3. DELETE it when the transaction is over.

Advice, all of it: an announcement that is lost, late, damaged or left behind costs another transaction work
that is done in vain, or a wait of a few heartbeats. Nothing that is committed depends on one.

A crash leaves the announcement. Others ignore it once six heartbeats are missed, and the next process that
lists the announcements deletes it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from headgate.core.conflict.retry import MAX_WAIT
from headgate.errors import CorruptLakeError, InvalidInputError, StorageError, UnsupportedError, shown
from headgate.log.driver import Driver
from headgate.log.layout import TIMELINE, announced_txid, announcement_key
from headgate.model.announcement import Announcement
from headgate.model.identifiers import TxId
from headgate.system.host import renew_after_fork

DEFAULT_HEARTBEAT = timedelta(seconds=10)
MIN_HEARTBEAT = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class _Beating:
    """An announcement to renew while the transaction that made it is in use."""

    owner: weakref.ref[object]
    announcement: Announcement


class Announcements:
    """The announcements of one lake. The handle renews its own ones. Safe to share between threads."""

    def __init__(self, driver: Driver, interval: timedelta = DEFAULT_HEARTBEAT) -> None:
        self.interval = interval
        self._driver = driver
        self._lock = threading.Lock()
        self._beating: dict[TxId, _Beating] = {}
        self._has_heart = False
        renew_after_fork(self)

    def after_fork(self) -> None:
        # The parent goes on renewing its own. If the child commits one of these, it still deletes the
        # announcement.
        self._lock = threading.Lock()
        self._beating = {}
        self._has_heart = False

    # --- our own ------------------------------------------------------------------------------------------

    def announce(self, owner: object, announcement: Announcement) -> None:
        """Writes an announcement and renews it until it is retired, or `owner` is no longer in use.

        Replaces one of the same transaction. Raises a `StorageError` if the storage fails; heartbeats try
        again. If the process dies, the announcement is left behind, and ignored once heartbeats are missed.
        """
        # Noted before the first PUT: if that fails, the next heartbeat writes the announcement. A weak
        # reference, so that a transaction that is dropped without an end falls silent.
        with self._lock:
            self._beating[announcement.txid] = _Beating(weakref.ref(owner), announcement)
            begins = not self._has_heart
            self._has_heart = True
        if begins and not self._driver.host.background(self._beat, "heartbeat"):
            self._has_heart = False  # never renewed, hence soon ignored
        self._driver.put(announcement_key(announcement.txid), announcement.encode())

    def silence(self, txid: TxId) -> None:
        """Stops renewing an announcement. Sends no request."""
        with self._lock:
            self._beating.pop(txid, None)

    def retire(self, txid: TxId) -> None:
        """Removes an announcement. Idempotent. Raises a `StorageError` if the storage fails."""
        # Silence first: a heartbeat that begins later writes nothing, and one that is under way deletes what
        # it wrote (see `_renew`). A crash in between leaves an announcement that is soon ignored.
        self.silence(txid)
        self._driver.delete(announcement_key(txid))

    def _beat(self) -> None:
        """Renews the announcements, as long as there are any."""
        host = self._driver.host
        while True:
            host.sleep(self.interval.total_seconds())
            due = self._due()
            if not due:
                return  # `_due` has noted that the thread ends: the next announcement starts another one
            for beating in due:
                self._renew(beating.announcement.at(host.now()))

    def _due(self) -> list[_Beating]:
        with self._lock:
            self._beating = {
                txid: beating for txid, beating in self._beating.items() if beating.owner() is not None
            }
            # Under the same lock: an announcement either is seen here, or finds that no thread runs.
            self._has_heart = bool(self._beating)
            return list(self._beating.values())

    def _renew(self, announcement: Announcement) -> None:
        txid = announcement.txid
        try:
            # Without the lock: a storage that hangs must not stop transactions that begin or end. So a
            # transaction can be retired between the check and the write.
            if txid in self._beating:
                self._driver.put(announcement_key(txid), announcement.encode())
            if txid not in self._beating:
                # Retired while we wrote: our write may have come after its DELETE, and brought it back.
                self._driver.delete(announcement_key(txid))
        except StorageError:
            return  # a heartbeat that was missed; the next one may come through

    # --- everybody's --------------------------------------------------------------------------------------

    def txids(self) -> frozenset[TxId]:
        """The transactions that have an announcement, whether they are alive or not. One listing."""
        return frozenset(self._list())

    def running(self, is_over: Callable[[TxId], bool]) -> tuple[Announcement, ...]:
        """The announcements of transactions that seem to be alive, the oldest first.

        Removes those of transactions that have ended, or missed their heartbeats.
        """
        listed = self._list()
        found = self._driver.host.together([partial(self._load, txid) for txid in listed])
        now = self._driver.host.now()
        alive = [one for one in found if one is not None and not is_over(one.txid) and one.is_alive(now)]
        # One of these may be alive after all, if two clocks disagree: its next heartbeat writes it again.
        # What could not be read stays, since a later release may have written it.
        self._sweep({one.txid for one in found if one is not None} - {one.txid for one in alive})
        return tuple(sorted(alive, key=lambda one: (one.started_at, one.txid)))

    def _list(self) -> list[TxId]:
        keys = self._driver.keys(TIMELINE)
        return [txid for key in keys if (txid := announced_txid(key)) is not None]

    def _load(self, txid: TxId) -> Announcement | None:
        key = announcement_key(txid)
        data = self._driver.get(key)
        try:
            return None if data is None else Announcement.decode(data, txid, key)
        except (CorruptLakeError, UnsupportedError):
            return None  # advice that cannot be read: its writer renews it, or it is of a later release

    def _sweep(self, txids: set[TxId]) -> None:
        for txid in sorted(txids):
            try:
                self._driver.delete(announcement_key(txid))
            except StorageError:
                return  # we may lack the permission; the next process that lists them tries again


def check_heartbeat(interval: timedelta) -> None:
    if not isinstance(interval, timedelta) or not MIN_HEARTBEAT <= interval <= MAX_WAIT:
        raise InvalidInputError(
            f"the heartbeat must be a timedelta from {MIN_HEARTBEAT.total_seconds():g} s to a day, "
            f"but is {shown(interval)}",
            "write heartbeat=timedelta(seconds=10)",
        )
