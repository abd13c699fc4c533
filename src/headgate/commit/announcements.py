"""Announcements of running transactions on storage, and their heartbeats.

Advice, all of it: an announcement that is lost, late, damaged or left behind costs somebody work that is done
in vain, or a wait of a few heartbeats. Nothing that is committed depends on one.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from headgate.commit.driver import Driver
from headgate.commit.layout import TIMELINE, announced_txid, announcement_key
from headgate.errors import CorruptLakeError, StorageError, UnsupportedError
from headgate.forks import renew_after_fork
from headgate.model.announcement import Announcement
from headgate.model.identifiers import TxId

DEFAULT_HEARTBEAT = timedelta(seconds=10)
MIN_HEARTBEAT = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True)
class _Beating:
    """An announcement to be renewed while the transaction that made it is in use."""

    owner: weakref.ref[object]
    announcement: Announcement


class Announcements:
    """Those of one lake, seen from one handle, whose own ones it renews. Safe to share between threads."""

    def __init__(self, driver: Driver, interval: timedelta = DEFAULT_HEARTBEAT) -> None:
        self.interval = interval
        self._driver = driver
        self._lock = threading.Lock()
        self._beating: dict[TxId, _Beating] = {}
        self._has_heart = False
        renew_after_fork(self)

    def after_fork(self) -> None:
        # The parent goes on renewing its own. What the child commits of it, it still removes.
        self._lock = threading.Lock()
        self._beating = {}
        self._has_heart = False

    # --- our own ------------------------------------------------------------------------------------------

    def announce(self, owner: object, announcement: Announcement) -> None:
        """Writes an announcement and renews it until it is retired, or `owner` is no longer in use.

        One of the same transaction is replaced. Raises a `StorageError` if the storage fails; heartbeats try
        again. If the process dies, it is left behind, and ignored once heartbeats are missed.
        """
        with self._lock:
            self._beating[announcement.txid] = _Beating(weakref.ref(owner), announcement)
            begins = not self._has_heart
            self._has_heart = True
        if begins and not self._driver.host.background(self._beat, "heartbeat"):
            self._has_heart = False  # never renewed, hence soon ignored
        self._driver.put(announcement_key(announcement.txid), announcement.encode())

    def silence(self, txid: TxId) -> None:
        """Stops renewing an announcement. Asks nothing of the storage."""
        with self._lock:
            self._beating.pop(txid, None)

    def retire(self, txid: TxId) -> None:
        """Removes an announcement. Idempotent. Raises a `StorageError` if the storage fails."""
        self.silence(txid)
        self._driver.delete(announcement_key(txid))

    def _beat(self) -> None:
        """Renews what is announced, as long as there is anything."""
        host = self._driver.host
        while True:
            host.sleep(self.interval.total_seconds())
            due = self._due()
            if not due:
                return
            for beating in due:
                self._renew(beating.announcement.at(host.now()))

    def _due(self) -> list[_Beating]:
        with self._lock:
            self._beating = {
                txid: beating for txid, beating in self._beating.items() if beating.owner() is not None
            }
            self._has_heart = bool(self._beating)
            return list(self._beating.values())

    def _renew(self, announcement: Announcement) -> None:
        txid = announcement.txid
        try:
            if txid in self._beating:
                self._driver.put(announcement_key(txid), announcement.encode())
            if txid not in self._beating:
                # Retired while we wrote: it must not come back.
                self._driver.delete(announcement_key(txid))
        except StorageError:
            return  # a heartbeat that was missed; the next one may come through

    # --- everybody's --------------------------------------------------------------------------------------

    def txids(self) -> frozenset[TxId]:
        """The transactions that have an announcement, whether they are alive or not. One listing."""
        return frozenset(self._listed())

    def running(self, is_over: Callable[[TxId], bool]) -> tuple[Announcement, ...]:
        """The announcements of transactions that seem to be alive, those that began first before others.

        The ones of transactions that are over, or missed their heartbeats, are removed on the way.
        """
        listed = self._listed()
        found = self._driver.host.together([partial(self._load, txid) for txid in listed])
        now = self._driver.host.now()
        alive = [one for one in found if one is not None and not is_over(one.txid) and one.is_alive(now)]
        self._sweep({one.txid for one in found if one is not None} - {one.txid for one in alive})
        return tuple(sorted(alive, key=lambda one: (one.started_at, one.txid)))

    def _listed(self) -> list[TxId]:
        keys = self._driver.keys(TIMELINE)
        return [txid for key in keys if (txid := announced_txid(key)) is not None]

    def _load(self, txid: TxId) -> Announcement | None:
        key = announcement_key(txid)
        data = self._driver.get(key)
        try:
            return None if data is None else Announcement.decode(data, txid, key)
        except (CorruptLakeError, UnsupportedError):
            return None  # advice that cannot be read; who wrote it renews it, or it is of a later release

    def _sweep(self, txids: set[TxId]) -> None:
        for txid in sorted(txids):
            try:
                self._driver.delete(announcement_key(txid))
            except StorageError:
                return  # we may not have the right to; whoever lists them next tries again
