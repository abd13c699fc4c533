"""Simulates whole writers on a storage that misbehaves, from a seed.

Writers race to create the lake. Then they commit, lose, retry, lose answers, crash, restart, resolve what
they left, change the strategy while others commit, announce what they overwrite, change rows, plan table
services, compact, expire versions, vacuum what dead writers left, and cancel each other. In the end the
storage works again and all writers finish. Then the log must agree with every answer that any writer got, and
the tables with the log.

Run it as `python -m headgate.testing.simulation --seeds 1000`.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import pyarrow as pa

from headgate.core.conflict.retry import RetryPolicy
from headgate.core.history.log_entry import LogEntry
from headgate.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from headgate.lake.lake import Lake
from headgate.log.checkpoints import list_checkpoints
from headgate.log.layout import checkpoint_key
from headgate.model.announcement import Intent
from headgate.model.identifiers import StrategyName, TxId, Version
from headgate.model.instant import Instant
from headgate.model.json_object import encode
from headgate.model.plan import Service
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore
from headgate.testing.intercept import without_atomic_operations
from headgate.testing.stage import BEGINNING, CALM, ROUGH, Actor, Stage, StageHost, Weather
from headgate.transaction.changes import TableChange
from headgate.transaction.transaction import Transaction

TABLES = ("sim.one", "sim.two")
WRITERS = 3
BATCHES = 4
ROUGH_STEPS = 400
MAX_STEPS = 40_000
HEARTBEAT = timedelta(milliseconds=200)
POLICIES = (("all:1s",), ("all:2s", "1:8s"), ("all:1s", "1:forever"))
"""What expires: seconds are long here, because a commit takes some tenths of one."""
PATIENCE = RetryPolicy(attempts=50, base=timedelta(milliseconds=20), total=timedelta(hours=1))


class BrokenPromiseError(AssertionError):
    """The log disagrees with an answer that a writer got."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenPromiseError(what)


@dataclass
class Ledger:
    """The answers that writers got. Filled while they run, compared with the log at the end."""

    made: list[str] = field(default_factory=list)
    committed: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    batches: dict[str, int] = field(default_factory=dict)

    def newest(self) -> int:
        return max(self.committed.values(), default=0)

    def tell_committed(self, txid: str, version: int) -> None:
        require(txid not in self.refused, f"{txid} was reported as rejected and as committed ({version})")
        known = self.committed.setdefault(txid, version)
        require(known == version, f"{txid} was reported as version {known} and as version {version}")

    def tell_refused(self, txid: str) -> None:
        require(txid not in self.committed, f"{txid} was reported as committed and as rejected")
        self.refused.add(txid)


@dataclass(frozen=True, slots=True)
class Habits:
    """How often writers do what: `services` instead of batches, and `upkeep` of these instead of plans."""

    services: float = 0.2
    upkeep: float = 0.6


USUAL = Habits()
PLANNERS = Habits(services=0.6, upkeep=0.1)
"""Writers that make, complete and cancel plans more than anything else, often the same ones."""


@dataclass
class Writer:
    """One application: it commits its batches in order, each once, whatever happens to its processes."""

    name: str
    ledger: Ledger
    atomic_storage: bool
    tables: tuple[str, ...]
    habits: Habits = USUAL
    pending: list[str] = field(default_factory=list)

    def play(self, actor: Actor) -> None:
        """The life of one process: open the lake, resolve what an earlier process left, continue."""
        host = StageHost(actor)
        lake = self._lake(actor, host)
        while self.pending:
            self._resolve(lake)
        while self.ledger.batches.get(self.name, 0) < BATCHES:
            self._step(lake, host)

    def _lake(self, actor: Actor, host: StageHost) -> Lake:
        store = actor.stage.store_for(actor)
        while True:
            try:
                return Lake.open(store, retry=PATIENCE, heartbeat=HEARTBEAT, host=host)
            except StorageError as error:
                actor.stage.note(actor, f"open failed: {error.problem}")

    def _step(self, lake: Lake, host: StageHost) -> None:
        seen_before = self.ledger.newest()
        kind = host.chance()
        try:
            version = lake.version
            require(
                version >= seen_before, f"{self.name} read {version} after {seen_before} was acknowledged"
            )
            if kind < 0.12:
                self._switch(lake, host)
            elif kind < 0.3:
                self._shared_property(lake)
            elif kind < 0.3 + self.habits.services and self.tables:
                self._serve(lake, host)
            else:
                self._batch(lake, host)
        except StorageError as error:
            host.actor.stage.note(host.actor, f"gave up a step: {error.problem}")

    def _batch(self, lake: Lake, host: StageHost) -> None:
        batch = self.ledger.batches.get(self.name, 0) + 1
        tx = lake.transaction(["batch", str(batch)], app=(self.name, batch))
        tx.set_properties({f"{self.name}.{batch}": tx.txid})
        try:
            for table in self.tables:
                self._write(tx, table, batch, host.chance())
        except ConflictError:  # an early check: the commit would fail
            self.ledger.tell_refused(tx.txid)
            tx.abort()
            return
        self._commit(tx, host, batch)

    def _write(self, tx: Transaction, name: str, batch: int, chance: float) -> None:
        """Adds the row of the batch; or replaces the rows of this writer by themselves and the new one."""
        table, before = tx.table(name), range(1, batch)
        own = pa.table({"writer": [self.name] * batch, "batch": [*before, batch]})
        if chance < 0.5:
            table.append(own.slice(batch - 1))
        elif chance < 0.6:
            table.overwrite(own, where=f"writer = '{self.name}'")
        elif chance < 0.7:
            table.overwrite_partitions(own)
        elif chance < 0.85:
            table.upsert(own, ["writer", "batch"])
        else:
            table.delete(f"writer = '{self.name}' AND batch > {batch // 2}")
            table.append(own.slice(batch // 2))

    def _serve(self, lake: Lake, host: StageHost) -> None:
        """Schedules a table service, ends one, cancels whatever is running, or maintains the lake."""
        if host.chance() < self.habits.upkeep:
            self._look_after(lake, host)
            return
        pending = lake.timeline(pending=True)
        chosen = pending[int(host.chance() * len(pending))] if pending else None
        if chosen is None or host.chance() < 0.4:
            self._plan(lake, host)
        elif host.chance() < 0.5 and chosen.kind.endswith("plan"):
            self._complete(lake, host, chosen)
        else:
            self._cancel(lake, chosen.txid)

    def _plan(self, lake: Lake, host: StageHost) -> None:
        table = self.tables[int(host.chance() * len(self.tables))]
        files = lake.table(table).files()
        service: Service = "clustering" if host.chance() < 0.5 else "compaction"
        tx = lake.transaction(["plan", service])
        tx.plan(service, table, [file.path for file in files if host.chance() < 0.5], [])
        self._commit(tx, None, None)

    def _complete(self, lake: Lake, host: StageHost, plan: Instant) -> None:
        """Carries a plan out, which takes a while; others may do the same, or cancel it."""
        tx = lake.transaction(["complete"])
        tx.complete(TxId(plan.txid))
        (name,) = plan.tables
        table = tx.reached.tables[name]
        intent = Intent(plan.kind.removesuffix(" plan"), name, table.uuid)
        try:
            tx.announce(intent, TableChange(name, base=table))
        except ConflictError:  # an early check: another writer ended it
            tx.abort()
            return
        host.sleep(2 * host.chance())
        self._commit(tx, None, None)

    def _look_after(self, lake: Lake, host: StageHost) -> None:
        """Regardless of the result, no row may be lost, doubled or restored, and kept versions stay."""
        kind = host.chance()
        try:
            if kind < 0.5:
                lake.compact(patience=HEARTBEAT)
            elif kind < 0.75:
                lake.expire(POLICIES[int(host.chance() * len(POLICIES))])
            else:
                # Without waiting: a running writer that has not announced itself is cancelled, and must
                # notice.
                lake.vacuum(older_than=timedelta(seconds=int(2 * host.chance())))
        except (ConflictError, CommitUnknownError):
            return  # the log will show it

    def _cancel(self, lake: Lake, txid: str) -> None:
        try:
            lake.cancel(txid)
        except (ConflictError, InvalidInputError, CommitUnknownError):
            return  # it ended in another way, or the outcome is unknown; the log will show it
        self.ledger.cancelled.add(txid)

    def _shared_property(self, lake: Lake) -> None:
        tx = lake.transaction(["shared"])
        tx.set_properties({"shared": tx.txid})
        self._commit(tx, None, None)

    def _switch(self, lake: Lake, host: StageHost) -> None:
        # Without the probe of `change_strategy`: with many faults it would find every promise broken.
        wanted = list(StrategyName)[int(host.chance() * len(StrategyName))]
        needs_atomic = wanted is not StrategyName.FILETRACKER
        if lake.strategy == wanted.value or (needs_atomic and not self.atomic_storage):
            return
        tx = lake.transaction(["switch", wanted.value])
        tx.choose_strategy(wanted)
        self._commit(tx, None, None)

    def _commit(self, tx: Transaction, host: StageHost | None, batch: int | None) -> None:
        # A crash inside leaves this entry for the next process of the writer.
        self.pending.append(tx.txid)
        try:
            result = tx.commit()
        except (ConflictError, StorageError):
            self.ledger.tell_refused(tx.txid)
            self.pending.remove(tx.txid)
            return
        except CommitUnknownError:
            if host is not None and host.chance() < 0.5:
                return  # another handle resolves it
            self.pending.remove(tx.txid)
            self._commit(tx, host, batch)
            return
        self.pending.remove(tx.txid)
        if result.already_committed:
            require(batch is not None, "only a batch can be committed already")
        else:
            self.ledger.tell_committed(tx.txid, result.version)
        if batch is not None:
            self.ledger.batches[self.name] = batch

    def _resolve(self, lake: Lake) -> None:
        for txid in list(self.pending):
            try:
                resolution = lake.resolve(txid)
            except (StorageError, CommitUnknownError):
                continue  # still too many faults: the next round tries again
            if resolution.version is None:
                self.ledger.tell_refused(txid)
            else:
                self.ledger.tell_committed(txid, resolution.version)
            self.pending.remove(txid)


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: its trace and the log it left."""

    seed: int
    trace: tuple[str, ...]
    entries: tuple[LogEntry, ...]
    crashes: int


def simulate(seed: int, habits: Habits = USUAL) -> Run:
    """Runs one seed. Raises `BrokenPromiseError` (or whatever broke) with the trace attached as notes."""
    inner = MemoryStore(now=lambda: BEGINNING + timedelta(seconds=stage.time))
    atomic = seed % 3 != 0
    tables = TABLES if seed % 4 == 0 else ()  # most seeds leave them out: rows take more time than the log
    stage = Stage(seed, inner if atomic else without_atomic_operations(inner))
    ledger = Ledger()
    try:
        _make_lake(stage, ledger, tables)
        names = [f"writer-{number}" for number in range(WRITERS)]
        writers = [Writer(name, ledger, atomic, tables, habits) for name in names]
        crashes = _run_writers(stage, writers)
        entries = check(inner, ledger, tables)
    except BaseException as error:
        error.add_note(f"seed {seed}; the last steps:\n" + "\n".join(stage.trace[-200:]))
        raise
    return Run(seed, tuple(stage.trace), entries, crashes)


def settings(seed: int) -> dict[str, str]:
    """How the lake of a seed treats pending instants, and what follows a commit."""
    return {
        "conflict.candidates": "start" if seed & 8 else "end",
        "conflict.early": "true" if seed & 16 else "false",
        "clustering.allow_updates": "true" if seed & 32 else "false",
        "conflict.compaction": "strict" if seed & 64 else "carry",
        "commit.follow-up": "background" if seed // 12 % 2 else "inline",
    }


def _make_lake(stage: Stage, ledger: Ledger, tables: tuple[str, ...]) -> None:
    """Several processes race to create the lake, with different strategies."""

    def play(actor: Actor, strategy: str | None) -> None:
        host = StageHost(actor)
        try:
            lake = Lake.init(stage.store_for(actor), strategy=strategy, divisor=4, host=host)
        except AlreadyExistsError:
            return
        ledger.made.append(lake.id)
        for table in tables:
            lake.create_table(table, "writer STRING, batch BIGINT", partition_by=["writer"])
        lake.set_properties(settings(stage.seed))

    for number, strategy in enumerate((None, "filetracker", None)):
        stage.add(f"init-{number}", partial(play, strategy=strategy))
    stage.run(MAX_STEPS, lambda _: CALM)
    require(len(ledger.made) == 1, f"{len(ledger.made)} processes created the lake")


def _run_writers(stage: Stage, writers: list[Writer]) -> int:
    crashes = 0

    def weather(step: int) -> Weather:
        nonlocal crashes
        # A crashed process is followed by another one of the same application.
        for actor in [actor for actor in stage.actors if actor.dead and actor.finished]:
            stage.actors.remove(actor)
            if not actor.is_process:
                continue
            crashes += 1
            writer = next(writer for writer in writers if actor.name.startswith(writer.name))
            stage.add(f"{writer.name}.{crashes}", writer.play)
        return ROUGH if step < ROUGH_STEPS else CALM

    for writer in writers:
        stage.add(writer.name, writer.play)
    stage.run(MAX_STEPS, weather)
    return crashes


def check(store: Store, ledger: Ledger, tables: tuple[str, ...]) -> tuple[LogEntry, ...]:
    """Compares the log with every answer that writers got; raises `BrokenPromiseError`."""
    lake = Lake.open(store)
    entries = lake.log()  # also checks the chain of digests
    versions = [entry.version for entry in reversed(entries)]
    require(versions == list(range(1, lake.version + 1)), f"versions are not contiguous: {versions}")
    by_txid = {entry.txid: entry.version for entry in entries}
    require(len(by_txid) == len(entries), "a transaction is in the log twice")
    require(lake.id == ledger.made[0], "the lake is not the one whose id its creator got")
    for txid, version in ledger.committed.items():
        require(by_txid.get(txid) == version, f"{txid} was reported as {version}, but is {by_txid.get(txid)}")
    for txid in ledger.refused:
        require(txid not in by_txid, f"{txid} was reported as failed, but is version {by_txid.get(txid)}")
    _check_batches(entries, ledger)
    _check_plans(entries, ledger)
    _check_rows(lake, entries, tables)
    _check_checkpoints(store, lake)
    return entries


def _check_batches(entries: tuple[LogEntry, ...], ledger: Ledger) -> None:
    counts = Counter(entry.app for entry in entries if entry.app is not None)
    for app, count in counts.items():
        require(count == 1, f"{app} was committed {count} times")
    for name, batch in ledger.batches.items():
        for number in range(1, batch + 1):
            require((name, number) in counts, f"batch {number} of {name} was acknowledged, but is missing")


def _check_plans(entries: tuple[LogEntry, ...], ledger: Ledger) -> None:
    """No file is in two pending plans; a plan ends once; what is cancelled is never committed."""
    pending: dict[str, set[str]] = {}
    cancelled: set[str] = set()
    for entry in reversed(entries):
        require(entry.txid not in cancelled, f"{entry.txid} was committed after it was cancelled")
        record = Record.decode(encode(dict(entry.record)), Version(entry.version), "the log")
        for ended in (txid.text for txid in record.completes):
            require(ended in pending, f"version {entry.version} completes {ended}, which is not pending")
            del pending[ended]
        for txid in (txid.text for txid in record.cancels):
            pending.pop(txid, None)
            cancelled.add(txid)
        if record.plan is not None:
            inputs = {f"{record.plan.table} {mark}" for mark in record.plan.inputs or ()}
            taken = {one for others in pending.values() for one in others}
            require(not inputs & taken, f"version {entry.version} plans files of another pending plan")
            pending[entry.txid] = inputs
    require(ledger.cancelled <= cancelled, f"not in the log: {ledger.cancelled - cancelled}")


def _check_rows(lake: Lake, entries: tuple[LogEntry, ...], tables: tuple[str, ...]) -> None:
    """Every table holds the rows of every committed batch, once, at every version that is kept.

    Versions that have expired say so, and no file that a kept one needs is missing.
    """
    made = {name: entry.version for entry in entries for name in entry.tables}
    retention, divisor = lake._handle.refresh().retention, lake.divisor
    for version in range(max(made.values(), default=lake.version), lake.version + 1):
        expected = sorted(
            entry.app for entry in entries if entry.app is not None and entry.version <= version
        )
        for table in tables:
            found = _rows_at(lake, table, version)
            kept = retention.keeps(version, divisor)
            require((found is not None) == kept, f"{table} at version {version}: kept is {kept}")
            require(found in (None, expected), f"{table} at version {version}: {found}, not {expected}")
    damage = lake.fsck(deep=True).damage if tables else ()
    require(not damage, f"fsck: {damage}")


def _rows_at(lake: Lake, table: str, version: int) -> list[tuple[str, int]] | None:
    """The rows of a table, in order; None if the version has expired."""
    try:
        rows = lake.table(table, version=version).read_arrow().to_pylist()
    except NotFoundError as error:
        require("expired" in error.problem, f"{table} at version {version}: {error}")
        return None
    return sorted((row["writer"], row["batch"]) for row in rows)


def _check_checkpoints(store: Store, lake: Lake) -> None:
    for version in list_checkpoints(store):
        data = store.get(checkpoint_key(version))
        require(data is not None, f"the checkpoint of {version} was listed, but is gone")
        state = LakeState.decode(data or b"", version, checkpoint_key(version))
        properties: dict[str, str] = {}
        for entry in reversed(lake.log(before=version.number + 1)):
            for name, value in entry.lake_properties.items():
                if value is None:
                    properties.pop(name, None)
                else:
                    properties[name] = value
        require(
            dict(state.properties) == properties, f"the checkpoint of {version} is not the fold of the log"
        )


def failure_of(seed: int, habits: Habits = USUAL) -> str | None:
    """None if the seed passes, otherwise what went wrong, with the trace."""
    try:
        simulate(seed, habits)
    except Exception:  # noqa: BLE001 — reported with its seed
        return traceback.format_exc()
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate writers on a faulty storage, from seeds.")
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--trace", action="store_true", help="print the trace of the first seed and stop")
    given = parser.parse_args()
    if given.trace:
        sys.stdout.write("\n".join(simulate(given.first).trace) + "\n")
        return 0
    seeds = range(given.first, given.first + given.seeds)
    failed = 0
    with ProcessPoolExecutor() as pool:
        for seed, failure in zip(seeds, pool.map(failure_of, seeds, chunksize=10), strict=True):
            if failure is not None:
                failed += 1
                sys.stdout.write(f"seed {seed} failed:\n{failure}\n")
    sys.stdout.write(f"{len(seeds) - failed} passed, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
