"""Vacuum: deletes files of transactions that never committed, and leftovers of failed commits and expires.

First a record cancels each transaction that is not in the log. A transaction that was only suspended must
read that record before it can commit, so vacuum is safe at any age limit; the limit only avoids cancelling
running transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from headgate.core.retention.expire_policy import earlier
from headgate.core.retention.kept_versions import held
from headgate.core.retention.unreferenced import Found, Needed, Owners, Unreferenced, find_unreferenced
from headgate.errors import CorruptLakeError, HeadgateError
from headgate.iceberg.format.directories import Role, role_of
from headgate.iceberg.format.table_objects import ContentsReader
from headgate.log.announcements import Announcements
from headgate.maintenance.expire import Run
from headgate.maintenance.expired_files import OnProgress, announce_again, delete_all
from headgate.model.footprint import below_table
from headgate.model.identifiers import TABLES, TxId, number_in
from headgate.model.record import Record
from headgate.model.reports import VacuumReport
from headgate.model.state import LakeState
from headgate.model.table import TableAction, TableCommit, TableRef
from headgate.steward.follow_up import Steward
from headgate.steward.publishing import hint_key, version_of
from headgate.storage.capabilities import ShowLeftovers, Stored
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.transaction import Transaction

CANCELLED_AT_ONCE = 500
"""How many transactions one record cancels."""
TRIES = 5
"""How often a vacuum starts again because a transaction that it treated as dead committed."""
_POSITIONS = (Role.POSITIONS_DELETED, Role.POSITIONS_UPDATED)


@dataclass
class _Log:
    """The content of the whole log: which transactions have committed, and every version of every table."""

    committed: dict[TxId, int] = field(default_factory=dict)
    tables: dict[str, list[tuple[int, TableCommit]]] = field(default_factory=dict)
    positions: set[str] = field(default_factory=set)
    listed_positions: set[TxId] = field(default_factory=set)

    def take(self, record: Record, until: int) -> None:
        """Adds a record; call it with the newest record first."""
        self.committed[record.txid] = record.version.number
        for commit in record.tables:
            self.tables.setdefault(commit.table.uuid, []).append((record.version.number, commit))
            if commit.footprint is None or record.version.number <= until:
                continue  # only changes of later versions matter
            if commit.footprint.positions is None:
                self.listed_positions.add(record.txid)
            else:
                location = commit.table.location
                self.positions.update(f"{location}/{below_table(p)}" for p in commit.footprint.positions)


@dataclass(frozen=True, slots=True)
class Vacuum:
    """Runs vacuum through one handle of a lake."""

    steward: Steward
    announcements: Announcements
    run: Run

    def vacuum(self, older_than: timedelta, progress: OnProgress, *, dry_run: bool) -> VacuumReport:
        """Deletes unreferenced objects that were written longer ago than `older_than`. Idempotent.

        If the process dies, a later vacuum deletes the rest. Lists all tables, and reads the whole log and
        the files of every kept version.
        """
        limit = earlier(self.steward.log.driver.host.now(), older_than) if older_than else None
        for tried in range(1, TRIES + 1):
            seen, unreferenced = self.steward.checkpoints.read_undisturbed(
                lambda: self._look(limit, progress)
            )
            leftovers = self._leftovers(limit)
            if dry_run:
                return _report(unreferenced, leftovers, (), dry_run=True)
            try:
                versions = self._cancel(sorted(unreferenced.of_dead), seen)
            except TransactionConflictError:
                # One of them was alive and has committed, so its files are needed now.
                if tried == TRIES:
                    raise
                continue
            try:
                self._delete(unreferenced, leftovers, progress)
            except HeadgateError as error:
                raise error.after(_cancelled(unreferenced, versions)) from error
            return _report(unreferenced, leftovers, versions)
        raise AssertionError("the last try returns or raises")

    # --- reading ------------------------------------------------------------------------------------------

    def _look(self, limit: datetime | None, progress: OnProgress) -> tuple[LakeState, Unreferenced]:
        """The objects that can be deleted according to the log, up to the returned state."""
        # In this order: a file of a later commit was not listed, or is too new, or belongs to a transaction
        # that is not in the log read here, and whose commit makes the cancellation fail.
        found = self._list_files()
        newest = self.steward.checkpoints.refresh()
        log = _Log()
        for record in self.steward.log.records_down(newest, newest.version.number):
            log.take(record, newest.retention.until)
        running = self.announcements.running(is_over=newest.cancelled.__contains__)
        owners = Owners(log.committed, newest.cancelled, {one.txid for one in running})
        return newest, find_unreferenced(
            found, self._find_needed(newest, log, found, progress), owners, limit
        )

    def _list_files(self) -> list[Found]:
        driver = self.steward.log.driver
        timed = driver.times(TABLES)
        if timed is not None:
            return [Found(one.key, one.size_bytes, one.written_at) for one in timed]
        return [Found(key, size or 0, None) for key, size in driver.sizes(TABLES).items()]

    def _find_needed(self, newest: LakeState, log: _Log, found: list[Found], progress: OnProgress) -> Needed:
        keys = set(log.positions)
        directories = tuple(f"L0-{txid}" for txid in log.listed_positions)
        keys.update(one.key for one in found if _is_listed_position(one.key, directories))
        published: dict[str, frozenset[int]] = {}
        for done, (uuid, commits) in enumerate(sorted(log.tables.items()), start=1):
            kept = set(self._kept_keys(uuid, commits[::-1], newest))
            keys.update(kept)
            if kept:
                published[commits[0][1].table.location] = frozenset()
            progress("tables", done, len(log.tables))
        for ref in newest.tables.values():
            published[ref.location] = frozenset({version_of(ref).number})
        return Needed(keys, self._with_hints(published), newest.retention.until)

    def _with_hints(self, published: dict[str, frozenset[int]]) -> dict[str, frozenset[int]]:
        """Adds the versions that hints name and that were not updated yet."""
        driver = self.steward.log.driver
        after = {}
        for location, versions in published.items():
            hint = number_in((driver.get(hint_key(location)) or b"").decode("ascii", "replace"))
            after[location] = versions if hint is None else versions | {hint}
        return after

    def _kept_keys(
        self, uuid: str, commits: list[tuple[int, TableCommit]], newest: LakeState
    ) -> Iterator[str]:
        """The objects of the kept versions of a table."""
        changes = [(number, commit.action is TableAction.DROP) for number, commit in commits]
        loader = self.steward.loader()
        reader = ContentsReader(loader, commits[0][1].table.location)
        divisor = self.steward.log.identity.divisor
        for one in held(changes, uuid, newest.retention, divisor, newest.version.number):
            ref = commits[one.place][1].table
            yield ref.metadata
            if one.files:
                contents = reader.contents(loader.metadata(ref.metadata))
                if not contents.whole:
                    raise _damaged(ref)
                yield from contents.every_key()

    def _leftovers(self, limit: datetime | None) -> tuple[Stored, ...]:
        """Half-written files that the storage itself hides."""
        store = self.steward.log.driver.store
        if not isinstance(store, ShowLeftovers):
            return ()
        found = store.leftovers(TABLES)
        return tuple(one for one in found if limit is None or one.written_at < limit)

    # --- acting ---------------------------------------------------------------------------------------------

    def _cancel(self, dead: list[TxId], seen: LakeState) -> tuple[int, ...]:
        # Every record is based on the state up to which the log was read, and on no newer one: a transaction
        # that committed since then conflicts with the record, which is then rejected.
        versions = []
        for start in range(0, len(dead), CANCELLED_AT_ONCE):
            batch = dead[start : start + CANCELLED_AT_ONCE]

            def change(tx: Transaction, batch: list[TxId] = batch) -> None:
                for txid in batch:
                    tx.cancel(txid)

            versions.append(self.run(("vacuum",), change, seen).version)
        return tuple(versions)

    def _delete(
        self, unreferenced: Unreferenced, leftovers: tuple[Stored, ...], progress: OnProgress
    ) -> None:
        keys = [*unreferenced.objects, *(key for objects in unreferenced.of_dead.values() for key in objects)]
        delete_all(self.steward, keys, lambda gone: progress("objects", gone, len(keys)))
        announce_again(self.steward, keys)
        store = self.steward.log.driver.store
        for one in leftovers:
            assert isinstance(store, ShowLeftovers)
            store.remove_leftover(one.key)


def _is_listed_position(key: str, directories: tuple[str, ...]) -> bool:
    return (
        bool(directories) and role_of(f"/{key}") in _POSITIONS and any(f"/{d}/" in key for d in directories)
    )


def _cancelled(unreferenced: Unreferenced, versions: tuple[int, ...]) -> str:
    """The text about what a vacuum did before it failed."""
    by = f" by {'version' if len(versions) == 1 else 'versions'} {', '.join(map(str, versions))}"
    return (
        f"{len(unreferenced.of_dead)} transactions were cancelled{by if versions else ''}; run vacuum again"
    )


def _damaged(ref: TableRef) -> CorruptLakeError:
    return CorruptLakeError(
        f"{ref.metadata} names files that do not exist or do not belong to {ref.location}; "
        "nothing was deleted",
        "run headgate fsck",
    )


def _report(
    unreferenced: Unreferenced,
    leftovers: tuple[Stored, ...],
    versions: tuple[int, ...],
    *,
    dry_run: bool = False,
) -> VacuumReport:
    sizes = [
        *unreferenced.objects.values(),
        *(size for one in unreferenced.of_dead.values() for size in one.values()),
    ]
    return VacuumReport(
        cancelled=tuple(txid.text for txid in sorted(unreferenced.of_dead)),
        versions=versions,
        objects=len(sizes) + len(leftovers),
        bytes=sum(sizes) + sum(one.size_bytes for one in leftovers),
        spared=unreferenced.spared,
        dry_run=dry_run,
    )
