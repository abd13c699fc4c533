"""Expiring versions: the log says first what is kept, then the files of everything else are deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeAlias

from headgate.changes import TableChange
from headgate.commit.announcements import Announcements
from headgate.commit.moments import version_at
from headgate.core.boundaries import Coverage
from headgate.core.expire_policy import ExpirePolicy, Tier
from headgate.core.refresh_plan import REFRESHED_AT, VIEW_SQL
from headgate.core.retention import (
    KeptVersion,
    dropped,
    kept_files,
    kept_until,
    next_retention,
    still_needed,
)
from headgate.errors import NotFoundError
from headgate.iceberg.boundaries import coverage
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import without_expired
from headgate.model.expiry import ExpireReport
from headgate.model.retention import Retention
from headgate.model.row_counts import RowCounts
from headgate.model.state import LakeState
from headgate.model.table import TableRef
from headgate.refusals import TransactionConflictError
from headgate.result import CommitResult
from headgate.services.sweep import Doomed, OnProgress, Sweep
from headgate.services.undisturbed import undisturbed
from headgate.services.walk import Walk
from headgate.steward.steward import Steward
from headgate.transaction import Transaction

VERB = "expire"
TRIES = 5
"""How often expiring begins anew because a table was dropped or renamed under it."""

Run: TypeAlias = Callable[[Sequence[str], Callable[[Transaction], object], LakeState], CommitResult]
"""Runs a change in a transaction of its own that begins on a state, and again after a conflict."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be kept from now on, and why not less."""

    retention: Retention
    expired: tuple[int, ...]
    held_back: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expiring:
    """Through one handle of a lake."""

    steward: Steward
    announcements: Announcements
    run: Run

    def expire(self, policy: ExpirePolicy, progress: OnProgress, *, dry_run: bool) -> ExpireReport:
        """Lets go of the versions that the policy does not keep. Idempotent.

        Whoever dies before the record is decided has changed nothing; after it, the next expire deletes what
        is left. Costs requests for what is expired, and some for each table.
        """
        checkpoints = self.steward.checkpoints
        if dry_run:
            return undisturbed(checkpoints, lambda: self._dry_run(policy))
        done: list[Planned] = []
        result = undisturbed(checkpoints, lambda: self._commit(policy, done))
        planned = done[0]
        swept = undisturbed(checkpoints, lambda: Sweep(self.steward).run(progress))
        version = result.version if result.changed else None
        return self._report(policy, version, planned, swept)

    def _dry_run(self, policy: ExpirePolicy) -> ExpireReport:
        newest = self.steward.checkpoints.refresh()
        planned, sweep = self._plan(newest, policy), Sweep(self.steward)
        doomed = sweep.doomed(sweep.unfinished(newest), planned.retention, newest)
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
                # A table that was to be named anew is gone: on the new head it is not.
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
        )

    @property
    def _divisor(self) -> int:
        return self.steward.log.identity.divisor

    # --- deciding -------------------------------------------------------------------------------------------

    def _plan(self, state: LakeState, policy: ExpirePolicy) -> Planned:
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
        """The version that was the newest when the time of a tier began; 0 if there was no lake."""
        if tier.age is None:
            return 0
        try:
            moment = self.steward.log.driver.host.now() - max(tier.age, timedelta(0))
            return version_at(self.steward.log, state, moment).number
        except (NotFoundError, OverflowError):
            return 0

    def _needs(self, state: LakeState) -> Iterator[tuple[int, str]]:
        """Versions after which nothing may be let go, and for whom."""
        for txid, plan in state.plans.items():
            yield plan.version.number, f"the {plan.service} that version {plan.version} scheduled ({txid})"
        for one in self.announcements.running(is_over=state.cancelled.__contains__):
            told = f"transaction {one.txid} of {one.user} on {one.host}, which runs on version {one.base}"
            yield max(1, one.base.number), told
        loader = self.steward.loader()
        for name, ref in state.tables.items():
            properties = loader.metadata(ref.metadata).properties
            since = properties.get(REFRESHED_AT, "")
            if VIEW_SQL in properties and since.isdecimal():
                told = f"the materialized view {name}, which was refreshed at version {since}"
                yield max(1, int(since)), f"{told}: refresh it to let more expire"


def note(tx: Transaction, kept: Retention, steward: Steward) -> None:
    """Makes a transaction say what is kept, and name in the tables nothing that is not."""
    noted = tx._open()
    loader = steward.loader()
    for name, ref in tx.reached.tables.items():
        metadata = loader.metadata(ref.metadata)
        if without_expired(metadata, kept.until, kept.files.get(ref.uuid, ())) is not metadata:
            noted.note(TableChange(name, base=ref, expires=kept, verbs=frozenset({VERB})))
    noted.note_objects(replace(noted.changes(), expires=kept))


@dataclass
class _Files:
    """Which snapshots of each table keep their files, for a retention that does not say so yet."""

    steward: Steward
    state: LakeState
    kept: Retention

    def all(self) -> dict[str, tuple[int, ...]]:
        """By the uuid of the table, the versions of the snapshots, in order."""
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
        """The tables at the kept versions of the range that is expired now."""
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
    """The same of one table."""

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
        """For the kept versions of the new range (`points`), and for those `before` it."""
        until = self.files.kept.until
        highest = None if top is None else self._snapshot(top)
        told = [(version, self._snapshot(ref)) for version, ref in points]
        kept = [KeptVersion(version, snapshot) for version, snapshot in told if snapshot is not None]
        chosen = kept_files(highest, kept, self._covered)
        left = [number for number in self._told_before(old) if number not in chosen]
        older = still_needed(left, min(chosen, default=None), before, self._covered, self._exists)
        return tuple(number for number in sorted({*chosen, *older}) if number <= until)

    def _told_before(self, old: Retention) -> Sequence[int]:
        """The snapshots that told the versions up to `old.until` so far.

        The last of them may be the first that was above it.
        """
        files = old.files.get(self.uuid, ())
        ref = self.walk.tables_at(old.until + 1).get(self.uuid) if old.until else None
        first = None if ref is None else self._snapshot(ref)
        return (*files, first) if first is not None and first not in files else files

    def _snapshot(self, ref: TableRef) -> int | None:
        """The version of the snapshot that a metadata file has, if it has one."""
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
