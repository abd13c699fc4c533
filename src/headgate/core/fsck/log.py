"""Checks the log: whether it is complete, and which state its records make.

Reads the records in order. A broken record does not stop the check: the state continues without it, and is no
longer certain until a later checkpoint that matches its record makes it certain again.

Also finds clocks that were wrong when the lake was written: commits dated far ahead, or that set the time
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from headgate.core.fsck.kinds import COMPARE, Seen, Trouble, finding, trouble_with
from headgate.core.history.commit_time import is_far
from headgate.core.history.fold import apply, empty_state
from headgate.errors import CorruptLakeError, HeadgateError, UnsupportedError
from headgate.model.fsck import Finding
from headgate.model.identifiers import GENESIS, StrategyName, TxId, Version
from headgate.model.identity import LakeIdentity
from headgate.model.json_object import digest
from headgate.model.record import AppBatch, Record
from headgate.model.state import LakeState
from headgate.model.table import TableAction, TableCommit, TableRef

NOT_KNOWN = ""
"""In place of the digest of a record that was not read."""


# --- the identity -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SeenIdentity:
    """`headgate.json` and record 0, by their keys; `first` is the digest that record 1 names, if known."""

    copy_key: str
    copy: Seen
    record_key: str
    record: Seen
    first: str | None = None


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of the log: the empty state, and the identity if it can be read."""

    state: LakeState
    identity: LakeIdentity | None
    findings: tuple[Finding, ...]


def judge_identity(seen: SeenIdentity) -> Beginning:
    """The beginning of the log.

    If the two objects differ, the one that version 1 follows counts, else record 0.
    """
    found = [
        trouble_with(key, data)
        for key, data in ((seen.copy_key, seen.copy), (seen.record_key, seen.record))
        if isinstance(data, Trouble)
    ]
    there = {
        key: data
        for key, data in ((seen.record_key, seen.record), (seen.copy_key, seen.copy))
        if isinstance(data, bytes)
    }
    found += _copies(seen)
    fitting = [key for key, data in there.items() if digest(data) == seen.first]
    for key in dict.fromkeys((*fitting, *there)):
        try:
            identity = LakeIdentity.decode(there[key], key)
        except HeadgateError as error:
            found.append(finding("identity-unreadable", key, error.problem))
        else:
            return Beginning(empty_state(identity, there[key]), identity, tuple(found))
    unknown = seen.first or NOT_KNOWN
    return Beginning(LakeState(GENESIS, unknown, NOT_KNOWN, unknown), None, tuple(found))


def _copies(seen: SeenIdentity) -> list[Finding]:
    match seen.copy, seen.record:
        case None, None:
            return [finding("identity-missing", seen.copy_key, f"{seen.copy_key} and record 0 are gone")]
        case None, bytes():
            return [finding("identity-not-copied", seen.copy_key, f"{seen.copy_key} does not exist")]
        case _, None:
            return [finding("record-missing", seen.record_key, "the record of version 0 is gone")]
        case bytes() as copy, bytes() as record if copy != record:
            return [_differs(seen, copy, record)]
    return []


def _differs(seen: SeenIdentity, copy: bytes, record: bytes) -> Finding:
    changed = seen.record_key if seen.first == digest(copy) else seen.copy_key
    told = "; version 1 follows the other one" if seen.first in (digest(copy), digest(record)) else ""
    return finding("identity-differs", changed, f"{seen.copy_key} and {seen.record_key} differ{told}")


# --- records ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copy:
    """An object that is the record of its version, if the version was committed by one of `strategies`."""

    key: str
    data: bytes | Trouble
    strategies: frozenset[str]


@dataclass(frozen=True, slots=True)
class SeenVersion:
    """What was found of a version: its record (`key`: its expected location), and its checkpoint."""

    version: Version
    key: str
    copies: tuple[Copy, ...] = ()
    checkpoint_key: str = ""
    checkpoint: Seen = None


@dataclass(frozen=True, slots=True)
class Made:
    """A snapshot of a table, and the commit that made it."""

    snapshot_id: int
    version: Version
    txid: TxId


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table after a commit. `made` is its snapshot: None if it has none, or if that is not `certain`."""

    version: Version
    name: str
    ref: TableRef
    made: Made | None
    certain: bool
    dropped: bool = False
    operation: str | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of a record."""

    digest: str
    txid: TxId
    hooks: tuple[str, ...]
    app: AppBatch | None


@dataclass
class LogJudge:
    """Checks the versions of a log in order, starting with 1.

    `state` is the state so far. `certain`: no record below it is lost or changed, or a later checkpoint
    replaces what is lost. `last_key` is the key of the last record, at first record 0. `now` is the time on
    the clock of this machine.
    """

    state: LakeState
    last_key: str
    now: datetime
    certain: bool = True
    findings: list[Finding] = field(default_factory=list)
    known: dict[Version, Known] = field(default_factory=dict)
    tables: dict[str, list[TableVersion]] = field(default_factory=dict)
    complete: bool = True
    """Whether every record was read: then every transaction and every version of a table is known."""
    leftovers: list[str] = field(default_factory=list)
    head: Version = GENESIS
    checkpoints: int = 0
    _txids: set[TxId] = field(default_factory=set)
    _cancelled: set[TxId] = field(default_factory=set)
    _misplaced: list[SeenVersion] = field(default_factory=list)

    def take(self, seen: SeenVersion) -> Record | None:
        """Checks the next version; returns its record if it can be read."""
        right = [copy for copy in seen.copies if self._is_expected(copy)]
        if not right and seen.copies:
            # Only later versions show whether it is a stray object, or is in the location of a lost record.
            self._misplaced.append(seen)
            return None
        self.leftovers += [copy.key for copy in seen.copies if copy not in right]
        self._settle_misplaced()
        self.head = seen.version
        record = self._record(seen, right[0] if right else None)
        self._checkpoint(seen)
        self.last_key = right[0].key if right else seen.key
        return record

    def end(self) -> None:
        """No further version follows."""
        self.leftovers += [copy.key for seen in self._misplaced for copy in seen.copies]
        self._misplaced = []

    def _is_expected(self, copy: Copy) -> bool:
        """Whether it is where the record before says; anywhere, if that record is unknown."""
        named = self.state.next_strategy
        return StrategyName.find(named) is None or named in copy.strategies

    def _settle_misplaced(self) -> None:
        for seen in self._misplaced:
            self._missing(seen)
            self._lose(seen, NOT_KNOWN)
            self.leftovers += [copy.key for copy in seen.copies]
        self._misplaced = []

    def _missing(self, seen: SeenVersion) -> None:
        problem = f"the record of version {seen.version} is gone, although later versions are there"
        self.findings.append(finding("record-missing", seen.key, problem))

    def _record(self, seen: SeenVersion, copy: Copy | None) -> Record | None:
        if copy is None:
            self._missing(seen)
            self._lose(seen, NOT_KNOWN)
            return None
        if isinstance(copy.data, Trouble):
            self.findings.append(trouble_with(copy.key, copy.data))
            self._lose(seen, NOT_KNOWN)
            return None
        try:
            record = Record.decode(copy.data, seen.version, copy.key)
        except HeadgateError as error:
            later = isinstance(error, UnsupportedError)
            kind = "record-later-release" if later else "record-unreadable"
            self.findings.append(finding(kind, copy.key, error.problem))
            self._lose(seen, digest(copy.data))
            return None
        self._link(record, copy.key)
        self._judge_rules(record, copy.key)
        self.findings += judge_time(record, copy.key, self.state.committed_at, self.now)
        self._keep(record, digest(copy.data))
        self.state = apply(self.state, record, copy.data)
        return record

    def _lose(self, seen: SeenVersion, own_digest: str) -> None:
        self.certain = self.complete = False
        # How the next version was claimed is unknown, too.
        self.state = replace(self.state, version=seen.version, digest=own_digest, next_strategy=NOT_KNOWN)

    def _link(self, record: Record, key: str) -> None:
        if self.state.digest in (NOT_KNOWN, record.previous):
            return
        self.certain = False
        before = record.version.number - 1
        self.findings.append(
            finding(
                "record-changed",
                self.last_key,
                f"version {record.version} ({key}) follows a record with digest {record.previous}, but "
                f"version {before} has the digest {self.state.digest}: one of the two was changed",
            )
        )

    def _judge_rules(self, record: Record, key: str) -> None:
        last = self.state.apps.get(record.app.app) if record.app is not None else None
        again = last is not None and record.app is not None and record.app.batch <= last.batch
        problems = (
            (record.txid in self._txids, f"transaction {record.txid} was committed before"),
            (record.txid in self._cancelled, f"transaction {record.txid} was cancelled before"),
            (
                _is_back(record.committed_at, self.state.committed_at),
                "its time is before that of the last version",
            ),
            (record.base >= record.version, f"it is based on version {record.base}"),
            (
                again,
                f"it repeats a batch of {record.app.app if record.app else ''} that was committed before",
            ),
        )
        self.findings += [
            finding("record-impossible", key, f"version {record.version}: {problem}")
            for is_so, problem in problems
            if is_so
        ]

    def _keep(self, record: Record, own_digest: str) -> None:
        self._txids.add(record.txid)
        self._cancelled.update(record.cancels)
        self.known[record.version] = Known(own_digest, record.txid, record.hooks, record.app)
        for commit in record.tables:
            self.tables.setdefault(commit.table.uuid, []).append(self._table(record, commit))

    def _table(self, record: Record, commit: TableCommit) -> TableVersion:
        before = self.tables.get(commit.table.uuid, [])
        made, certain = (before[-1].made, before[-1].certain) if before else (None, True)
        if not (self.certain and self.complete) or (not before and commit.action is not TableAction.CREATE):
            made, certain = None, False
        if commit.snapshot_id is not None:
            made, certain = Made(commit.snapshot_id, record.version, record.txid), True
        dropped = commit.action is TableAction.DROP
        return TableVersion(
            record.version, commit.name, commit.table, made, certain, dropped, commit.operation
        )

    @property
    def txids(self) -> frozenset[TxId]:
        return frozenset(self._txids)

    def _checkpoint(self, seen: SeenVersion) -> None:
        if seen.checkpoint is None:
            return
        self.checkpoints += 1
        state = judge_checkpoint(seen, self.state, self.certain, self.findings)
        if state is not None and not self.certain:
            self.state, self.certain = state, True


def _is_back(at: datetime, before: datetime | None) -> bool:
    # A commit that is far back set the time back on purpose, and gets a note about that.
    return before is not None and at < before and not is_far(before, at)


def judge_checkpoint(
    seen: SeenVersion, state: LakeState, certain: bool, findings: list[Finding]
) -> LakeState | None:
    """The state in a checkpoint, if it matches its record. `state` is the result of the records."""
    key, data = seen.checkpoint_key, seen.checkpoint
    if isinstance(data, Trouble):
        findings.append(trouble_with(key, data))
        return None
    assert data is not None
    try:
        held = LakeState.decode(data, seen.version, key)
    except UnsupportedError:
        return None  # written by a later release, which can read it
    except CorruptLakeError as error:
        findings.append(finding("checkpoint-unreadable", key, error.problem))
        return None
    kind = _wrong_checkpoint(held, state, certain)
    if kind is None:
        return held
    problem = (
        f"the checkpoint of version {seen.version} differs from the state that the records up to it make"
    )
    if kind == "checkpoint-of-another-lake":
        problem = f"the checkpoint of version {seen.version} names another identity: {held.identity}"
    step = COMPARE if kind == "checkpoint-differs" and held.digest != state.digest else None
    findings.append(finding(kind, key, problem, step))
    return None


def _wrong_checkpoint(held: LakeState, state: LakeState, certain: bool) -> str | None:
    if state.identity not in (NOT_KNOWN, held.identity):
        return "checkpoint-of-another-lake"
    if certain:
        # An earlier release does not store where the times go back.
        return None if replace(held, set_backs=state.set_backs) == state else "checkpoint-differs"
    # If earlier records are lost, the checkpoint must match the record of its own version.
    return None if held.digest == state.digest else "checkpoint-differs"


# --- what is left in the log --------------------------------------------------------------------------------


def judge_leftovers(keys: Iterable[str]) -> list[Finding]:
    """One note for all objects in the log that belong to no version."""
    left = sorted(keys)
    if not left:
        return []
    count = f"{len(left)} object{'' if len(left) == 1 else 's'} of the log"
    return [finding("log-leftovers", left[0], f"{count} belong to no version, such as this one")]


def judge_creation(identity: LakeIdentity | None, key: str, now: datetime) -> Iterator[Finding]:
    """What the time of version 0 shows about the clock of the machine that created the lake."""
    if identity is not None and is_far(identity.created_at, now):
        by = (
            ""
            if identity.command is None
            else f", created by {identity.command.user}@{identity.command.host},"
        )
        yield _ahead(f"the lake{by}", key, identity.created_at, now)


def judge_time(record: Record, key: str, last: datetime | None, now: datetime) -> Iterator[Finding]:
    """What the time of a version that follows one dated `last` shows about the clocks of both."""
    time = record.committed_at
    who = f"version {record.version} by {record.command.user}@{record.command.host}"
    if last is not None and is_far(last, time):
        days = (last - time).days
        yield finding("clock-set-back", key, f"{who} sets the time of the log back by {days:,} days")
    if is_far(time, now) and (last is None or is_far(time, last)):
        yield _ahead(who, key, time, now)


def _ahead(what: str, key: str, time: datetime, now: datetime) -> Finding:
    days = (time - now).days
    return finding("clock-ahead", key, f"{what} is dated {days:,} days ahead of the clock of this machine")
