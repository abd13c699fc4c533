"""The work after a commit, in order: publishing, checkpoint and clean-up, hooks, the control entry.

The version is decided before all of this, and nothing here can change that. If a step fails, it is reported,
the version stays without a control entry, and the next recovery does the work again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from headgate.core.compaction.windows import boundary_at_or_before
from headgate.core.history.commit_time import has_passed
from headgate.core.input.settings import FOLLOW_UP
from headgate.errors import CorruptLakeError, HeadgateError
from headgate.log.checkpoints import Checkpoints, state_at
from headgate.log.log import CommitLog
from headgate.log.lost_end import LostEndError
from headgate.log.strategy import clean_up, known_strategy
from headgate.model.control_entry import ControlEntry, HookRun, HookState
from headgate.model.identifiers import StrategyName, Version
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.model.table import TableAction, TableCommit, TableRef
from headgate.steward.backlog import Aftermath, Awaited, Backlog, Decided
from headgate.steward.control import ControlEntries, control_entry, recovered_entry
from headgate.steward.hooks.hook import Hook
from headgate.steward.hooks.runner import HookRunner
from headgate.steward.hooks.runs import ABANDONED_AFTER, HookRuns
from headgate.steward.ledger import Ledger
from headgate.steward.publishing import Announced, publish

if TYPE_CHECKING:
    from headgate.iceberg.format.loader import TableLoader


LOOK_BACK = 4
"""How many windows a writer at a boundary checks: more than one, so that a backlog shrinks."""


@dataclass
class Steward:
    """Does the work after the commits of one handle of a lake."""

    log: CommitLog
    checkpoints: Checkpoints
    loader: Callable[[], TableLoader]
    runner: InitVar[HookRunner]
    follow_up: str | None = None
    """Whether the work after a commit is done `inline` or in the `background`; None: as the lake says."""
    entries: ControlEntries = field(init=False)
    hooks: HookRuns = field(init=False)
    ledger: Ledger = field(default_factory=Ledger)
    _has_followers: bool = False

    def __post_init__(self, runner: HookRunner) -> None:
        self.entries = ControlEntries(self.log.driver)
        self.hooks = HookRuns(self.log, self.entries, self.ledger, runner)

    def register(self, hook: Hook) -> None:
        """Runs `hook` after commits of this handle from now on."""
        self.hooks.runner = self.hooks.runner.with_hook(hook)

    def with_hooks(self, record: Record) -> Record:
        """A record that is about to be offered, with the names of the hooks that it triggers.

        A process that finds the version without its entry then knows which hooks to run, though not their
        actions.
        """
        if not self.hooks.runner.hooks:
            return record
        names = self.hooks.wanted_by(record)
        return replace(record, hooks=names) if names else record

    @property
    def backlog(self) -> Backlog:
        """What waits in this process, of all handles on the lake."""
        return self.log.companion("follow-ups", partial(Backlog, self.log.driver.host))

    def raise_lost(self) -> None:
        """Raises an error of earlier work behind the caller that must stop the next commit."""
        if self._has_followers:
            self.backlog.raise_lost()

    def follow(self, decided: Decided) -> Aftermath | Awaited:
        """Does the work after a commit, or lets a thread of this process do it while the caller goes on.

        With hooks the caller waits: it may depend on what they do.
        """
        aside = (self.follow_up or FOLLOW_UP.of(decided.state.properties)) == "background"
        awaited: Awaited | None = None
        if aside and not decided.record.hooks and not self.hooks.runner.hooks:
            self._has_followers = True
            awaited = self.backlog.add(decided, self._after_commits)
        return awaited or self.after_commit(decided.state, decided.record, decided.timings)

    def _after_commits(self, several: Sequence[Decided]) -> list[Aftermath]:
        """Does the work after several commits, in ascending order, and publishes each table only once."""
        newest = {table.table.location: table for one in several for table in published(one.record)}
        # Before the versions one by one, each of which then finds its tables published. What fails here is
        # tried again there, and reported.
        self._attempt_all([(t.name, partial(self._announce, t.table)) for t in newest.values()])
        each = [partial(self.after_commit, one.state, one.record, one.timings) for one in several]
        return self.log.driver.host.together(each)

    def after_commit(self, state: LakeState, record: Record, timings: dict[str, float]) -> Aftermath:
        """Does the work after `record` was committed; `state` is the lake after it.

        Does not raise if a step fails. Raises `LostEndError` if the version turns out to have been committed
        before; the next commit of this process checks the log first then.
        """
        try:
            return self._after_commit(state, record, timings)
        except LostEndError as error:
            self.log.doubt_end(error)
            raise

    def _after_commit(self, state: LakeState, record: Record, timings: dict[str, float]) -> Aftermath:
        hooks = tuple(HookRun(name) for name in record.hooks)
        turn = self.hooks.enter(record) if hooks else None
        failed = self.ledger.take_failed()
        try:
            postponed = self._before_hooks(state, record)
            started = self.log.driver.host.elapsed()

            def keep(runs: tuple[HookRun, ...]) -> None:
                # No entry if work was postponed: recovery then runs and undoes all hooks again.
                if not postponed:
                    receipt = control_entry(record, state.digest, runs, timings, failed)
                    postponed.extend(self._write_entry(receipt))

            if turn is not None:
                hooks = self.hooks.run_new(record, turn, keep)
                timings = {**timings, "hooks": self.log.driver.host.elapsed() - started}
            if not postponed:
                postponed += self._write_entry(control_entry(record, state.digest, hooks, timings, failed))
        finally:
            if turn is not None:
                self.hooks.leave(turn, hooks)
        if postponed:
            self.ledger.give_back(failed)
        elif hooks:
            hooks, problems = self._pass_on(record, hooks)
            postponed += problems
        if not postponed:
            postponed += self._attempt_all([("recovery", partial(self._look_back, state.version))])
        self.ledger.count_commit(record, timings, len(postponed))
        return Aftermath(
            tuple(postponed), tuple(f"{h.name}: {h.problem}" for h in hooks if h.problem is not None)
        )

    def _before_hooks(self, state: LakeState, record: Record) -> list[str]:
        """Publishes the tables, and writes a checkpoint if one is needed; returns what failed."""
        announcing = [(f"publishing {t.name}", partial(self._announce, t.table)) for t in published(record)]
        return [
            *self._attempt_all(announcing),
            *self._attempt_all([("checkpoint and clean-up", partial(self._checkpoint, state))]),
        ]

    def _write_entry(self, entry: ControlEntry) -> list[str]:
        """Writes an entry; returns what failed."""
        return self._attempt_all([("the control entry", partial(self.entries.write_receipt, entry))])

    def _pass_on(self, record: Record, hooks: tuple[HookRun, ...]) -> tuple[tuple[HookRun, ...], list[str]]:
        try:
            return self.hooks.pass_on(record, hooks), []
        except HeadgateError as error:
            return hooks, [f"hooks of other versions: {error.problem}"]

    def after_copy(self, state: LakeState, record: Record) -> None:
        """Does the work in a replica after a version was copied there. Idempotent; raises if a step fails.

        The source lake runs the hooks, so they count as done here.
        """
        loader = self.loader()
        there = [t for t in published(record) if loader.find_metadata(t.table.metadata) is not None]
        self.log.driver.host.together([partial(self.publish, t.table) for t in there])
        self._checkpoint(state)
        hooks = tuple(HookRun(name, HookState.DONE) for name in record.hooks)
        self.entries.write(control_entry(record, state.digest, hooks, {}))
        self._look_back(state.version)

    def _announce(self, table: TableRef) -> None:
        """Publishes a table after a commit, once for all threads of this process that have just committed."""
        announced = self.log.companion(f"announced {table.location}", Announced)
        announced.announce(table, partial(self.publish, just_committed=True))

    def publish(self, table: TableRef, *, just_committed: bool = False) -> None:
        """Publishes a table, in this or a newer version, for engines that open it by path."""
        loader = self.loader()

        def newest() -> TableRef | None:
            # By its location: the table may have been renamed, or another table may use the location now.
            tables = self.checkpoints.refresh().tables.values()
            return next((ref for ref in tables if ref.location == table.location), None)

        publish(
            self.log.driver,
            table,
            newest=newest,
            metadata=lambda ref: loader.metadata(ref.metadata).data,
            just_committed=just_committed,
        )

    def _attempt_all(self, steps: Sequence[tuple[str, Callable[[], None]]]) -> list[str]:
        """Runs all steps concurrently; returns which failed, and why."""
        told = self.log.driver.host.together([partial(_problem, name, step) for name, step in steps])
        return [problem for problem in told if problem is not None]

    def _checkpoint(self, state: LakeState) -> None:
        passed_boundary = self.checkpoints.write_due(state.version)
        if passed_boundary and known_strategy(state.next_strategy) is StrategyName.FILETRACKER:
            cleaned = clean_up(self.log.driver)
            if cleaned.error is not None:
                raise cleaned.error

    def _look_back(self, version: Version) -> None:
        """At a boundary that has its entry, backfills missing entries before it.

        In the window that ends here, only old ones: younger writers may be alive, and about to write their
        own. Then runs abandoned hooks that are registered here.
        """
        divisor = self.log.identity.divisor
        if version != boundary_at_or_before(version, divisor):
            return
        since = self.entries.read_recovered()
        # Bounded, from the oldest version on: a long backlog is worked off window by window.
        last = min(version.number - 1, since.number + LOOK_BACK * divisor)
        window = [Version(number) for number in range(since.number + 1, last + 1)]
        # Reads instead of listing: on a disk, a listing would read the names of all entries ever written.
        found = zip(window, self.entries.read_all(window), strict=True)
        missing = [one for one, entry in found if entry is None]
        begun = version.number - divisor
        # The first young one decides for the rest: commit times go back only if a clock was far ahead.
        young = next((one for one in missing if one.number > begun and not self._is_old(one)), None)
        for one in missing:
            if young is None or one < young:
                self.make_up_for(one)
        whole = last if young is None else young.number - 1
        if whole == version.number - 1:
            whole = version.number
        if whole > since.number:
            self.entries.set_recovered(Version(whole))
        # Especially hooks that waited for a dead writer: its version has an entry now.
        self.hooks.run_abandoned()

    def _is_old(self, version: Version) -> bool:
        """Whether a version was committed so long ago that its writer has certainly ended.

        Clocks are not needed for correctness: an entry that is written twice has the same content.
        """
        now, decided = self.log.driver.host.now(), self.log.record(version)
        return has_passed(decided.committed_at, ABANDONED_AFTER, now)

    def make_up_for(self, version: Version) -> None:
        """Finishes the work of the writer of a version, except its hooks; writes the control entry last."""
        record, own = self.log.read_decided(version)
        newest = self.checkpoints.refresh()
        for table in published(record):
            if table.table in newest.tables.values():
                self.publish_unless_broken(table.name, table.table)
        if version == boundary_at_or_before(version, self.log.identity.divisor):
            # Before the entry: no process checks for the checkpoint once the entry exists.
            self.checkpoints.write(state_at(self.checkpoints, newest, version))
        self.entries.write(recovered_entry(record, own))

    def publish_unless_broken(self, name: str, table: TableRef) -> str | None:
        """Publishes a table; returns why not, if its metadata cannot be read.

        Unreadable metadata is damage that `fsck` reports, and no reason to skip other tables and hooks.
        """
        try:
            self.publish(table)
        except CorruptLakeError as error:
            return f"{name}: {error.problem}"
        return None


def published(record: Record) -> list[TableCommit]:
    """The tables of a commit that are published for other engines."""
    return [table for table in record.tables if table.action is not TableAction.DROP]


def _problem(name: str, step: Callable[[], None]) -> str | None:
    try:
        step()
    except LostEndError:
        raise  # recovery cannot fix this, so the caller must get the error
    except HeadgateError as error:
        return f"{name}: {error.problem}"
    return None
