"""The announcements of a running transaction, and of the others that are running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from headgate.core.conflict.pending import PendingConflict, early_conflicts
from headgate.errors import HeadgateError
from headgate.log.announcements import Announcements
from headgate.model.announcement import Announcement, Intent
from headgate.model.footprint import Upserted, file_mark
from headgate.model.identifiers import TxId
from headgate.model.record import Command
from headgate.model.state import LakeState

if TYPE_CHECKING:
    from headgate.iceberg.format.data_file import DataFile
    from headgate.iceberg.format.metadata import TableMetadata
    from headgate.transaction.changes import TableChange


@dataclass
class Presence:
    """The announcement of one transaction. It exists only if the transaction declares an intent."""

    announcements: Announcements
    txid: TxId
    base: LakeState
    started_at: datetime
    command: Command
    intents: dict[str, Intent] = field(default_factory=dict)
    postponed: tuple[str, ...] = ()

    def announce(self, owner: object, intent: Intent, plan: TxId | None, now: datetime) -> None:
        """Announces what `owner`, the transaction, is about to do to a table.

        If the storage fails, the work continues without an announcement, and the failure is noted.
        """
        self.intents[intent.table] = intent.after(self.intents.get(intent.table))
        announcement = Announcement(
            txid=self.txid,
            base=self.base.version,
            started_at=self.started_at,
            heartbeat_at=now,
            interval=self.announcements.interval,
            user=self.command.user,
            host=self.command.host,
            intents=tuple(self.intents.values()),
            plan=plan,
        )
        self._attempt("announcing the transaction", lambda: self.announcements.announce(owner, announcement))

    def leave(self) -> None:
        """Removes the announcement, if there is one, because the transaction is over."""
        if self.intents:
            self.intents = {}
            self._attempt("removing the announcement", lambda: self.announcements.retire(self.txid))

    def fall_silent(self) -> None:
        """Stops the heartbeat without a request to the storage. The announcement then expires."""
        self.announcements.silence(self.txid)

    def _attempt(self, what: str, step: Callable[[], None]) -> None:
        try:
            step()
        except HeadgateError as error:
            self.postponed = (*self.postponed, f"{what}: {error.problem}")

    # --- the others ---------------------------------------------------------------------------------------

    def early(self, intent: Intent, state: LakeState) -> tuple[PendingConflict, ...]:
        """Announced transactions that `intent` is likely to conflict with."""
        return early_conflicts(intent, self.others(state))

    def others(self, state: LakeState) -> list[Announcement]:
        """All announced transactions except this one."""
        running = self.announcements.running(is_over=state.cancelled.__contains__)
        return [one for one in running if one.txid != self.txid]


Announce: TypeAlias = "Callable[[Intent, TableChange], None]"
"""Announces a change before it is made. May raise the conflict that the commit would raise."""


def announce_change(
    announce: Announce,
    verb: str,
    change: TableChange,
    metadata: TableMetadata,
    files: Sequence[DataFile] | None,
    *,
    by_position: bool = False,
    upserted: Upserted | None = None,
) -> None:
    """Announces the files that an operation may change (None: not known yet). Skips new tables."""
    if change.base is None:
        return
    from headgate.transaction.table_metadata import virtual_path  # loads pyiceberg, which only tables need

    paths = {virtual_path(change.name, file, metadata) for file in files or ()}
    marks = None if files is None else [file_mark(file.path) for file in files]
    intent = Intent.of(
        verb, change.name, change.base.uuid, paths, marks, by_position=by_position, upserted=upserted
    )
    announce(intent, change)
