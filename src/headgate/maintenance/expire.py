"""Expires versions: first the log records what is kept, then the files of all other versions are deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeAlias

from headgate.core.compaction.windows import Coverage
from headgate.core.history.commit_time import idle_warning
from headgate.core.plans.refresh import REFRESHED_AT, VIEW_SQL
from headgate.core.retention.expire_policy import ExpirePolicy, Tier
from headgate.core.retention.kept_versions import (
    KeptVersion,
    dropped,
    kept_files,
    kept_until,
    next_retention,
    still_needed,
)
from headgate.errors import HeadgateError, NotFoundError
from headgate.iceberg.format.boundaries import coverage
from headgate.iceberg.format.loader import TableLoader
from headgate.iceberg.format.metadata import without_expired
from headgate.log.announcements import Announcements
from headgate.log.log import time_of_newest, version_at
from headgate.maintenance.expired_files import Doomed, OnProgress, Sweep
from headgate.maintenance.version_walk import Walk
from headgate.model.identifiers import number_in
from headgate.model.reports import ExpireReport, RowCounts
from headgate.model.retention import Retention
from headgate.model.state import LakeState
from headgate.model.table import TableRef
from headgate.steward.follow_up import Steward
from headgate.transaction.changes import Alteration, TableChange
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.result import CommitResult
from headgate.transaction.transaction import Transaction

VERB = "expire"
TRIES = 5
"""How often expire starts again because a table was dropped or renamed meanwhile."""

Run: TypeAlias = Callable[[Sequence[str], Callable[[Transaction], object], LakeState], CommitResult]
"""Runs a change in its own transaction on top of a state, and retries it after a conflict."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What to keep from now on, and the reasons why not less."""

    retention: Retention
    expired: tuple[int, ...]
    held_back: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expiring:
    """Expires versions through one handle of a lake."""

    steward: Steward
    announcements: Announcements
    run: Run

    def expire(self, policy: ExpirePolicy, progress: OnProgress, *, dry_run: bool) -> ExpireReport:
        """Expires the versions that the policy does not keep. Idempotent.

        If the process dies before the record is decided, nothing has changed; if it dies later, the next
        expire deletes the remaining files. The number of requests grows with what is expired, plus some for
        each table.
        """
        checkpoints = self.steward.checkpoints
        if dry_run:
            return checkpoints.read_undisturbed(lambda: self._dry_run(policy))
        done: list[Planned] = []
        result = checkpoints.read_undisturbed(lambda: self._commit(policy, done))
        planned = done[0]
        version = result.version if result.changed else None
        try:
            swept = checkpoints.read_undisturbed(lambda: Sweep(self.steward).run(progress))
        except HeadgateError as error:
            raise error.after(_expired(version, planned)) from error
        return self._report(policy, version, planned, swept)

    def _dry_run(self, policy: ExpirePolicy) -> ExpireReport:
        newest = self.steward.checkpoints.refresh()
        planned, sweep = self._plan(newest, policy), Sweep(self.steward)
        doomed = sweep.find_doomed(sweep.read_unfinished(newest), planned.retention, newest)
        return replace(self._report(policy, None, planned, doomed), dry_run=True)

    def _commit(self, policy: ExpirePolicy, done: list[Planned]) -> CommitResult:
        def change(tx: Transaction) -> None:
            planned = self._plan(tx.reached, policy)
            done[:] = [planned]
            if planned.expired:
                note(tx, planned.retention, self.steward)
            else:
                tx.count_rows(RowCounts())

        for tried in range(1, TRIES + 1):
            try:
                return self.run((VERB, str(policy)), change, self.steward.checkpoints.refresh())
            except TransactionConflictError:
                # A table whose metadata had to be rewritten was dropped or renamed: plan again on the new
                # head.
                if tried == TRIES:
                    raise
        raise AssertionError("the last try returns or raises")

    def _report(
        self, policy: ExpirePolicy, version: int | None, planned: Planned, doomed: Doomed
    ) -> ExpireReport:
        kept = planned.retention
        return ExpireReport(
            policy=str(policy),
            version=version,
            until=kept.until,
            expired=len(planned.expired),
            kept=tuple(kept_until(kept, kept.until, self._divisor)),
            data_files=len(doomed.files),
            objects=doomed.objects,
            bytes=doomed.bytes,
            held_back=planned.held_back,
            left_alone=tuple(sorted(doomed.left_alone)),
        )

    @property
    def _divisor(self) -> int:
        return self.steward.log.identity.divisor

    # --- deciding -------------------------------------------------------------------------------------------

    def _plan(self, state: LakeState, policy: ExpirePolicy) -> Planned:
        now = self.steward.log.driver.host.now()
        idle = idle_warning(time_of_newest(self.steward.log, state), now)
        if idle is not None:
            return Planned(state.retention, (), (idle,))
        everything, *boundaries = policy.tiers
        wanted = max(0, self._first_kept(everything, state) - 1)
        needs = sorted(self._needs(state)) if wanted else []
        until = min([wanted, *(version - 1 for version, _ in needs)])
        rules = [(tier.level, self._first_kept(tier, state)) for tier in boundaries]
        old = state.retention
        tagged = [v.number for v in state.tags.values() if old.keeps(v.number, self._divisor)]
        kept = next_retention(old, max(0, until), rules, tagged)
        gone = tuple(dropped(old, kept, self._divisor))
        if gone:
            kept = replace(kept, files=_Files(self.steward, state, kept).all())
        return Planned(
            kept if gone else old,
            gone,
            tuple(reason for version, reason in needs if version <= wanted),
        )

    def _first_kept(self, tier: Tier, state: LakeState) -> int:
        """The version that was the newest when the period of a tier began; 0 if there was no lake."""
        if tier.age is None:
            return 0
        try:
            now = self.steward.log.driver.host.now()
            return version_at(self.steward.log, state, now - max(tier.age, timedelta(0)), now).number
        except (NotFoundError, OverflowError):
            return 0

    def _needs(self, state: LakeState) -> Iterator[tuple[int, str]]:
        """Versions from which on nothing may expire, with the reasons."""
        for txid, plan in state.plans.items():
            yield plan.version.number, f"the {plan.service} plan {txid}, scheduled by version {plan.version}"
        for one in self.announcements.running(is_over=state.cancelled.__contains__):
            told = (
                f"the running transaction {one.txid} of {one.user} on {one.host}, based on version {one.base}"
            )
            yield max(1, one.base.number), told
        loader = self.steward.loader()
        for name, ref in state.tables.items():
            properties = loader.metadata(ref.metadata).properties
            since = number_in(properties.get(REFRESHED_AT, ""))
            if VIEW_SQL in properties and since is not None:
                told = f"the materialized view {name}, last refreshed at version {since}"
                yield max(1, since), f"{told}: refresh it to expire more versions"


def _expired(version: int | None, planned: Planned) -> str:
    """What an expire did before deleting files failed."""
    if version is None:
        return "no version was expired; the next expire deletes the files of earlier ones"
    return (
        f"version {version} expired {len(planned.expired)} versions, and some of their files may remain: the "
        "next expire deletes them"
    )


def note(tx: Transaction, kept: Retention, steward: Steward) -> None:
    """Records in a transaction what is kept, and removes everything else from the metadata of the tables."""
    work = tx._work
    loader = steward.loader()
    for name, ref in tx.reached.tables.items():
        metadata = loader.metadata(ref.metadata)
        if without_expired(metadata, kept.until, kept.files.get(ref.uuid, ())) is not metadata:
            work.note(TableChange(name, base=ref, alters=Alteration(expires=kept), verbs=frozenset({VERB})))
    work.note_changes(replace(work.changes(), expires=kept))


@dataclass
class _Files:
    """Computes which snapshots of each table keep their files, for a retention that does not say so."""

    steward: Steward
    state: LakeState
    kept: Retention

    def all(self) -> dict[str, tuple[int, ...]]:
        """The versions of the snapshots, in order, by the uuid of the table."""
        old, walk = self.state.retention, Walk(self.steward.checkpoints, self.state)
        points = self._points(walk, old)
        top = walk.tables_at(self.kept.until + 1)
        older = kept_until(old, old.until, self._divisor)
        before = [version for version in older if self.kept.keeps(version, self._divisor)]
        found = {}
        told = walk.tables_at(old.until + 1)
        for uuid in sorted({*old.files, *told, *top, *points}):
            table = _TableFiles(self, walk, uuid)
            numbers = table.needed(points.get(uuid, []), top.get(uuid), before, old)
            if numbers:
                found[uuid] = numbers
        return found

    def _points(self, walk: Walk, old: Retention) -> dict[str, list[tuple[int, TableRef]]]:
        """The tables at the kept versions within the range that expires now."""
        found: dict[str, list[tuple[int, TableRef]]] = {}
        if self.kept.until <= old.until:
            return found
        for record, tables in walk.between(old.until, self.kept.until):
            if self.kept.keeps(record.version.number, self._divisor):
                for uuid, ref in tables.items():
                    found.setdefault(uuid, []).append((record.version.number, ref))
        return found

    @property
    def _divisor(self) -> int:
        return self.steward.log.identity.divisor


@dataclass
class _TableFiles:
    """The same for one table."""

    files: _Files
    walk: Walk
    uuid: str
    _refs: dict[int, TableRef] = field(default_factory=dict)
    _coverage: dict[int, Coverage] = field(default_factory=dict)

    def needed(
        self,
        points: Iterable[tuple[int, TableRef]],
        top: TableRef | None,
        before: Sequence[int],
        old: Retention,
    ) -> tuple[int, ...]:
        """The snapshots for the kept versions of the new range (`points`), and for those `before` it."""
        until = self.files.kept.until
        highest = None if top is None else self._snapshot(top)
        told = [(version, self._snapshot(ref)) for version, ref in points]
        kept = [KeptVersion(version, snapshot) for version, snapshot in told if snapshot is not None]
        chosen = kept_files(highest, kept, self._covered)
        left = [number for number in self._files_so_far(old) if number not in chosen]
        older = still_needed(left, min(chosen, default=None), before, self._covered, self._exists)
        return tuple(number for number in sorted({*chosen, *older}) if number <= until)

    def _files_so_far(self, old: Retention) -> Sequence[int]:
        """The snapshots that have represented the versions up to `old.until` so far.

        The last of them may be the first snapshot above `old.until`.
        """
        files = old.files.get(self.uuid, ())
        ref = self.walk.tables_at(old.until + 1).get(self.uuid) if old.until else None
        first = None if ref is None else self._snapshot(ref)
        return (*files, first) if first is not None and first not in files else files

    def _snapshot(self, ref: TableRef) -> int | None:
        """The version of the snapshot in a metadata file, if it has one."""
        current = self._loader.metadata(ref.metadata).snapshot
        if current is None:
            return None
        number = int(current["sequence-number"])
        self._refs[number] = ref
        return number

    def _covered(self, snapshot: int) -> Coverage:
        if snapshot not in self._coverage:
            ref = self._refs.get(snapshot) or self.walk.tables_at(snapshot)[self.uuid]
            self._coverage[snapshot] = coverage(self._loader, self._loader.metadata(ref.metadata))
        return self._coverage[snapshot]

    def _exists(self, version: int) -> bool:
        return self.uuid in self.walk.tables_at(version)

    @property
    def _loader(self) -> TableLoader:
        return self.files.steward.loader()
