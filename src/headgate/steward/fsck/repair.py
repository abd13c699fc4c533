"""Repairs a log that has lost records: `fsck --repair`.

A lost record is rebuilt, byte for byte, from the copy in its control entry. It is offered through the commit
strategy of its version, like any record. With FileTracker, a remaining proposal is as good as a copy: the
version is completed in the way in which the next writer would complete it.

A writer that did not know of the loss can have committed another transaction under a lost number. If the
lost records can be rebuilt, that one is *divergent*: `chain` says which records are right. A copy of it goes
to `control/aside/`, which nobody reads, and the right record takes its place.

If a record cannot be rebuilt, you can accept the loss of the end of a log, from this version on. All later
versions are then committed again as records that change nothing and say so; records and control entries of
the end that are still there go to `control/aside/`. A version number is never reused for other changes,
because sequence numbers in table metadata, tags and positions of consumers name versions. Metadata that was
published for other engines from a lost version is removed.

A record that exists is replaced by one PUT, so that its version is decided at every point in time: a client
of FileTracker that was suspended in the middle of a claim finds it, and loses. Its old attempts go after
that, as in a clean-up.

Each version is repaired by itself, in order. A repair that dies leaves a log that is still refused, or one
that is whole; the next repair goes on from there:

- what is set aside is copied before it is replaced;
- the checkpoint and the control entry of a version that is given up are written before its record, so that
  the version is still missing, but has a copy, if the process dies in between;
- hints change first and published files go last; these and checkpoints are compared with the log again in
  each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headgate.core.compaction.windows import boundary_at_or_before
from headgate.core.history.fold import empty_state, follow
from headgate.errors import CommitUnknownError, CorruptLakeError, UnsupportedError
from headgate.iceberg.format.loader import TableLoader
from headgate.log.attempts import transaction_in
from headgate.log.checkpoints import Checkpoints, list_checkpoints
from headgate.log.driver import Driver
from headgate.log.genesis import read_identity
from headgate.log.layout import (
    LOG,
    TRACKER,
    RecordLayout,
    TrackerLayout,
    aside_key,
    entry_key,
    record_version,
)
from headgate.log.log import CommitLog
from headgate.log.machine import Committed, Lost, Unknown
from headgate.log.strategy import layout_named, strategy_named
from headgate.model.control_entry import HookRun
from headgate.model.fsck import CutOut, RepairReport
from headgate.model.identifiers import GENESIS, Version
from headgate.model.json_object import digest
from headgate.model.record import Command, Record
from headgate.model.state import LakeState
from headgate.steward.control import ControlEntries, control_entry, recovered_entry
from headgate.steward.follow_up import Steward
from headgate.steward.fsck.chain import (
    Link,
    Remains,
    attempts_at,
    checkpoint_at,
    proposals,
    records_of,
    surviving_chain,
)
from headgate.steward.fsck.published import PublishedFiles
from headgate.steward.hooks.runner import HookRunner
from headgate.steward.replica.mark import read_mark

KIND = "lost"
"""The kind of a record that takes the place of a lost version."""
LOST_TRANSACTION = "headgate.lost-transaction"
CHECKPOINTS_COMPARED = 3
"""How many of the newest checkpoints are compared with the log."""
WINDOWS_RECOVERED = 2
"""How many windows before a damage recovery checks again."""
MAX_LOST = 10_000
"""The largest number of versions that can be given up."""


@dataclass
class Repair:
    """Repairs the log of the lake of `driver`. `command` is what the log says about the user and the call.

    Idempotent: if the process dies in between, the next run continues from there. Writers must be stopped: a
    writer that still knows the lost versions would commit on top of them.
    """

    driver: Driver
    command: Command
    accept_loss: bool = False
    rebuilt: list[Version] = field(default_factory=list)
    lost: list[Version] = field(default_factory=list)
    divergent: list[CutOut] = field(default_factory=list)
    given_up: list[CutOut] = field(default_factory=list)

    def run(self) -> RepairReport:
        steward = steward_without_opening(self.driver)
        remains = surviving_chain(self.driver, steward.checkpoints.genesis)
        published = PublishedFiles.read(self.driver)
        last = max(self._last_sign(), published.newest())
        if remains.links or last > remains.end.version:
            self._recover_again(steward, remains)
        for link in remains.links:
            self._restore(steward, link)
        self._mend_checkpoints(steward, remains)
        missing = self._missing(remains.end.version, last)
        if self.accept_loss:
            return self._accept(steward, remains, missing, published)
        self.given_up += [
            CutOut(version.number, self._transaction_at(version, published)) for version in missing
        ]
        return self._report(
            remains.end.version,
            (*remains.holes, *missing),
            stale=tuple(published.stale(remains.end, remains.recent)),
        )

    def _missing(self, end: Version, last: Version) -> list[Version]:
        if last.number - end.number > MAX_LOST:
            raise CorruptLakeError(
                f"the log ends at version {end}, but an object of the lake is named after version {last}; "
                f"repair gives up at most {MAX_LOST} versions",
                "look for objects below control/ and for published metadata below data/ with wrong names, or "
                "restore control/log/ from a backup",
            )
        return [Version(number) for number in range(end.number + 1, last.number + 1)]

    def _report(
        self,
        version: Version,
        missing: tuple[Version, ...],
        stale: tuple[str, ...] = (),
        unpublished: tuple[str, ...] = (),
    ) -> RepairReport:
        return RepairReport(
            place=self.driver.store.describe(),
            version=version.number,
            rebuilt=tuple(version.number for version in self.rebuilt),
            lost=tuple(version.number for version in self.lost),
            missing=tuple(version.number for version in missing),
            divergent=tuple(self.divergent),
            given_up=tuple(self.given_up),
            stale=stale,
            unpublished=unpublished,
        )

    # --- what existed -------------------------------------------------------------------------------------

    def _last_sign(self) -> Version:
        """The newest version with any trace: a record, a marker, a control entry, a checkpoint."""
        logged = max((*self._list_logged(), *list_checkpoints(self.driver)), default=GENESIS)
        return next(self._receipts(above=logged), logged)

    def _list_logged(self) -> Iterator[Version]:
        for key in self.driver.keys(LOG):
            version = record_version(key) or TRACKER.indexed_version(key)
            if version is not None:
                yield version

    def _receipts(self, above: Version) -> Iterator[Version]:
        """The versions with a readable control entry, newest first."""
        entries = ControlEntries(self.driver)
        yield from (one for one in sorted(entries.list_above(above), reverse=True) if entries.read(one))

    def _transaction_at(self, version: Version, published: PublishedFiles) -> str | None:
        """The transaction of a version that is missing, if anything that is left of it names one."""
        entry = ControlEntries(self.driver).read(version)
        if entry is not None:
            return entry.txid.text
        known = [transaction_in(data) for _, data in records_of(self.driver, version)]
        return next(filter(None, known), None) or published.transaction_of(version)

    # --- restoring records --------------------------------------------------------------------------------

    def _restore(self, steward: Steward, link: Link) -> None:
        """Makes the record of a link that of its version, if it is not. Accepted losses count as such."""
        version = link.after.version
        layout = layout_named(link.before.next_strategy)
        if self.driver.get(layout.record_key(version)) != link.data:
            self.divergent += self._decide(steward.log, link.before, link.data)
            if link.record.kind == KIND:
                # The process that accepted it died before it had offered the record.
                self.lost.append(version)
                lost = link.record.properties.get(LOST_TRANSACTION)
                self.given_up.append(CutOut(version.number, None if lost == "unknown" else lost))
            else:
                self.rebuilt.append(version)
        self._mend_entry(link)

    def _recover_again(self, steward: Steward, remains: Remains) -> None:
        """Makes recovery check the last windows again: a divergent version may lack its control entry."""
        first = remains.links[0].after.version if remains.links else remains.end.version
        floor = Version(max(0, first.number - WINDOWS_RECOVERED * steward.log.identity.divisor))
        if steward.entries.read_recovered() > floor:
            steward.entries.set_recovered(floor)

    def _mend_checkpoints(self, steward: Steward, remains: Remains) -> None:
        """Replaces checkpoints that were made from other records: opening would begin at the newest one."""
        divisor = steward.log.identity.divisor
        at_boundaries = [state for state in remains.recent if state.version.number % divisor == 0]
        for state in at_boundaries[-CHECKPOINTS_COMPARED:]:
            there = checkpoint_at(self.driver, state.version)
            if there is not None and there != state:
                steward.checkpoints.write(state)

    def _mend_entry(self, link: Link) -> None:
        """Replaces a control entry of another transaction, whose version others have gone on from."""
        entries, version = ControlEntries(self.driver), link.after.version
        entry = entries.read(version)
        if entry is None or entry.record == link.after.digest:
            return
        cut = CutOut(version.number, entry.txid.text)
        if self.accept_loss:
            cut = self._set_aside(version, entry_key(version)) or cut
            entries.write(recovered_entry(link.record, link.after.digest), was_open=True)
        self.given_up.append(cut)

    def _decide(self, log: CommitLog, before: LakeState, data: bytes) -> list[CutOut]:
        """Makes `data` the record of the version after `before`; returns other records that were there."""
        version, layout = before.version.next(), layout_named(before.next_strategy)
        key = layout.record_key(version)
        others = {other: found for other, found in records_of(self.driver, version) if found != data}
        cut = [one for other in others if (one := self._set_aside(version, other)) is not None]
        for other in others.keys() - {key}:
            # Where another strategy keeps its records: readers look there, too, if they find none here.
            self.driver.delete(other)
        if key in others or self._is_proposed_otherwise(layout, version, data):
            self._replace(layout, version, data)
        else:
            self._offer(log, before, data)
        return cut

    def _is_proposed_otherwise(self, layout: RecordLayout, version: Version, data: bytes) -> bool:
        """Whether a client of FileTracker has proposed another record, which an offer would complete."""
        return any(self.driver.get(key) != data for key in proposals(self.driver, layout, version))

    def _replace(self, layout: RecordLayout, version: Version, data: bytes) -> None:
        """Puts a record where another one is, or is proposed. Attempts go last, see the top."""
        self.driver.put(layout.record_key(version), data)
        if isinstance(layout, TrackerLayout):
            self.driver.put(layout.index_key(version), str(version).encode())
        for key in attempts_at(self.driver, layout, version):
            self.driver.delete(key)

    def _offer(self, log: CommitLog, before: LakeState, data: bytes) -> None:
        """Decides the version after `before`, as any writer does."""
        version = before.version.next()
        strategy = strategy_named(
            before.next_strategy, self.driver, ordered_listing=log.identity.ordered_listing
        )
        match strategy.publish(version, data, self.driver.host.new_txid()):
            case Committed():
                return
            case Lost():
                raise CorruptLakeError(
                    f"a writer committed version {version} while the log was being repaired",
                    "stop all writers, and run fsck --repair again",
                )
            case Unknown(_, claimant, error):
                raise CommitUnknownError(
                    f"cannot determine yet whether version {version} was repaired: {error.problem}",
                    "run fsck --repair again",
                    version.number,
                    claimant.text,
                ) from error

    def _set_aside(self, version: Version, key: str) -> CutOut | None:
        """Keeps a copy of a record or control entry that is about to be replaced."""
        data = self.driver.get(key)
        if data is None:
            return None
        kept = aside_key(version, digest(data))
        self.driver.put(kept, data)
        return CutOut(version.number, transaction_in(data), kept)

    # --- accepting the loss -------------------------------------------------------------------------------

    def _accept(
        self, steward: Steward, remains: Remains, missing: list[Version], published: PublishedFiles
    ) -> RepairReport:
        if missing:
            self._refuse_in_replica()
        published.announce(remains.end)
        state = remains.end
        for _ in missing:
            state = self._give_up_next(steward, state, published)
        if remains.holes:
            self._recover_above(steward, max(remains.holes))
        unpublished = published.clear(remains.end, remains.recent)
        return self._report(state.version, remains.holes, unpublished=tuple(unpublished))

    def _recover_above(self, steward: Steward, hole: Version) -> None:
        """Moves the mark of recovery above a version that is lost for good: recovery would stop there."""
        if steward.entries.read_recovered() < hole:
            steward.entries.set_recovered(hole)

    def _give_up_next(self, steward: Steward, state: LakeState, published: PublishedFiles) -> LakeState:
        """Decides the next version as one that changes nothing; returns the state after it."""
        lost = self._transaction_at(state.version.next(), published)
        record = self._stand_in(state, lost)
        data = record.encode()
        after = follow(state, data, entry_key(record.version))[1]
        entry = self._set_aside(record.version, entry_key(record.version))
        self._follow_up(steward, record, after)
        cut = self._decide(steward.log, state, data)
        self.lost.append(record.version)
        known = [*([entry] if entry else []), *cut] or [CutOut(record.version.number, lost)]
        self.given_up += {one.transaction: one for one in known}.values()
        return after

    def _follow_up(self, steward: Steward, record: Record, after: LakeState) -> None:
        """Writes the objects derived from a record over those derived from the lost one."""
        if after.version == boundary_at_or_before(after.version, steward.log.identity.divisor):
            # Before the entry: with the entry, the next run has a copy to continue from, and skips this step.
            steward.checkpoints.write(after)
        hooks = tuple(HookRun(name) for name in record.hooks)
        steward.entries.write(control_entry(record, after.digest, hooks, {}), was_open=True)

    def _refuse_in_replica(self) -> None:
        if read_mark(self.driver) is not None:
            raise UnsupportedError(
                f"cannot accept the loss at {self.driver.store.describe()}: it is a replica, and its log "
                "must equal that of its source",
                "replicate again; or promote the replica first, if its source no longer exists",
            )

    def _stand_in(self, state: LakeState, lost: str | None) -> Record:
        """A record that changes nothing and says that the earlier record of this version was lost."""
        now = self.driver.host.now()
        return Record(
            version=state.version.next(),
            txid=self.driver.host.new_txid(),
            previous=state.digest,
            kind=KIND,
            started_at=now,
            committed_at=now if state.committed_at is None else max(now, state.committed_at),
            command=self.command,
            base=state.version,
            attempts=1,
            next_strategy=state.next_strategy,
            properties={LOST_TRANSACTION: lost or "unknown"},
        )


def steward_without_opening(driver: Driver) -> Steward:
    """The steward of a lake without opening it, because it may not open."""
    identity, data = read_identity(driver)
    genesis = empty_state(identity, data)
    log = CommitLog(driver, identity, genesis)
    loader = TableLoader(driver)
    checkpoints = Checkpoints(log, genesis, replica=read_mark(driver) is not None)
    return Steward(log, checkpoints, lambda: loader, HookRunner(driver.host))
