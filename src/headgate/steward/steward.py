"""What is due after a commit, in its order: publishing, checkpoint and clean-up, hooks, the control entry.

The version is decided before any of it, and nothing here can change that. A step that fails is reported, its
version stays without an entry, and the next one who recovers does the work again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from headgate.commit.checkpoints import Checkpoints, state_at
from headgate.commit.log import CommitLog
from headgate.commit.strategy import clean_up, known_strategy
from headgate.core.descriptor import commit_event, descriptor
from headgate.core.windows import boundary_at_or_before
from headgate.errors import CorruptLakeError, HeadgateError
from headgate.model.commit_event import CommitEvent
from headgate.model.control_entry import ControlEntry, HookRun, HookState
from headgate.model.identifiers import Version
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.model.strategy import StrategyName
from headgate.model.table import TableAction, TableCommit, TableRef
from headgate.publishing import Announced, publish
from headgate.steward.control import ControlEntries
from headgate.steward.hooks.hook import Hook
from headgate.steward.hooks.nesting import is_running
from headgate.steward.hooks.runner import HookRunner
from headgate.steward.ledger import Ledger

if TYPE_CHECKING:
    from headgate.iceberg.loader import TableLoader


LOOK_BACK = 4
"""How many windows a writer at a boundary looks back at: more than come, so that a backlog shrinks."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What followed from a commit: work that had to be postponed, and hooks that are not done, with why."""

    postponed: tuple[str, ...] = ()
    hook_failures: tuple[str, ...] = ()


@dataclass
class Steward:
    """Does for one handle of a lake what is due after its commits."""

    log: CommitLog
    checkpoints: Checkpoints
    loader: Callable[[], TableLoader]
    runner: HookRunner
    entries: ControlEntries = field(init=False)
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self.entries = ControlEntries(self.log.driver)

    def register(self, hook: Hook) -> None:
        """Runs `hook` after commits of this handle from now on."""
        self.runner = self.runner.with_hook(hook)

    def with_hooks(self, record: Record) -> Record:
        """A record that is about to be offered, with the names of the hooks that it asks for.

        So whoever finds the version without its entry knows what was to be run, though not how. A hook is not
        asked for by commits that it makes itself.
        """
        lake_id = self.log.identity.lake_id
        names = tuple(name for name in self.runner.due(record) if not is_running(lake_id, name))
        return replace(record, hooks=names) if names else record

    def after_commit(self, state: LakeState, record: Record, timings: dict[str, float]) -> Aftermath:
        """What is due once `record` is decided and `state` is the lake after it. Raises for no failure."""
        announcing = [(f"publishing {t.name}", partial(self._announce, t.table)) for t in published(record)]
        postponed = [
            *self._attempted(announcing),
            *self._attempted([("checkpoint and clean-up", partial(self._checkpoint, state))]),
        ]
        host = self.log.driver.host
        started = host.elapsed()
        hooks = self.run_hooks(record, [HookRun(name) for name in record.hooks])
        if hooks:
            timings = {**timings, "hooks": host.elapsed() - started}
        if not postponed:
            entry = control_entry(record, state.digest, hooks, timings)
            postponed += self._attempted([("the control entry", partial(self.entries.write, entry))])
        if not postponed:
            postponed += self._attempted([("recovery", partial(self._look_back, state.version))])
        self.ledger.committed(record, timings, len(postponed))
        return Aftermath(
            tuple(postponed), tuple(f"{h.name}: {h.error}" for h in hooks if h.error is not None)
        )

    def after_copy(self, state: LakeState, record: Record) -> None:
        """What is due in a replica once a version was copied there. Idempotent; raises what fails.

        Its hooks are the business of the lake that it came from, and count as done.
        """
        loader = self.loader()
        there = [t for t in published(record) if loader.find_metadata(t.table.metadata) is not None]
        self.log.driver.host.together([partial(self.publish, t.table) for t in there])
        self._checkpoint(state)
        self._look_back(state.version)
        hooks = tuple(HookRun(name, HookState.DONE) for name in record.hooks)
        self.entries.write(control_entry(record, state.digest, hooks, {}))

    def run_hooks(
        self, record: Record, runs: Sequence[HookRun], *, retry: bool = False
    ) -> tuple[HookRun, ...]:
        """Runs the hooks of a version that are pending and registered here; with `retry` failed ones too."""
        after = self.runner.run(self._event(record), runs, retry=retry)
        self.ledger.ran(runs, after)
        return after

    def _event(self, record: Record) -> CommitEvent:
        store = self.log.driver.store
        return commit_event(record, self.log.identity.lake_id, store.describe(), store.uri())

    def _announce(self, table: TableRef) -> None:
        """Publishes a table after a commit: once for all threads of this process that have just committed."""
        announced = self.log.companion(f"announced {table.location}", Announced)
        announced.announce(table, self.publish)

    def publish(self, table: TableRef) -> None:
        """Announces a table, as it was or as it is by now, to engines that open it by path."""
        loader = self.loader()

        def newest() -> TableRef | None:
            # By its place: it may have another name by now, or another one may have taken its place.
            tables = self.checkpoints.refresh().tables.values()
            return next((ref for ref in tables if ref.location == table.location), None)

        publish(
            self.log.driver,
            table,
            newest=newest,
            metadata=lambda ref: loader.metadata(ref.metadata).data,
        )

    def _attempted(self, steps: Sequence[tuple[str, Callable[[], None]]]) -> list[str]:
        """Does all steps, at once where there are several; returns which failed, and why."""
        told = self.log.driver.host.together([partial(_problem, name, step) for name, step in steps])
        return [problem for problem in told if problem is not None]

    def _checkpoint(self, state: LakeState) -> None:
        passed_boundary = self.checkpoints.write_due(state.version)
        if passed_boundary and known_strategy(state.next_strategy) is StrategyName.FILETRACKER:
            cleaned = clean_up(self.log.driver)
            if cleaned.error is not None:
                raise cleaned.error

    def _look_back(self, version: Version) -> None:
        """At a boundary, makes up for entries of the window before the one that ends here.

        Not of this one: its writers may be alive, and about to write their own. Runs no hooks.
        """
        divisor = self.log.identity.divisor
        if version != boundary_at_or_before(version, divisor) or version.number <= divisor:
            return
        since = self.entries.recovered()
        # Bounded, and from the oldest on: what was missed for long is caught up with, window by window.
        until = Version(min(version.number - divisor, since.number + LOOK_BACK * divisor))
        if since >= until:
            return
        window = [Version(number) for number in range(since.number + 1, until.number + 1)]
        # Not by a listing: on a disk it would read the names of all entries that there ever were.
        for version_before, entry in zip(window, self.entries.read_all(window), strict=True):
            if entry is None:
                self.make_up_for(version_before)
        self.entries.set_recovered(until)

    def make_up_for(self, version: Version) -> None:
        """Does what the writer of a version had still to do, but for its hooks; its entry goes last."""
        record, digest = self.log.decided(version)
        newest = self.checkpoints.refresh()
        for table in published(record):
            if table.table in newest.tables.values():
                self.publish_unless_broken(table.name, table.table)
        if version == boundary_at_or_before(version, self.log.identity.divisor):
            # Nobody looks for it again once the entry is there.
            self.checkpoints.write(state_at(self.checkpoints, newest, version))
        self.entries.write(recovered_entry(record, digest))

    def publish_unless_broken(self, name: str, table: TableRef) -> str | None:
        """Announces a table; why not, if its metadata cannot be read.

        That is damage, which `fsck` tells of, and no reason to leave other tables and hooks as they are.
        """
        try:
            self.publish(table)
        except CorruptLakeError as error:
            return f"{name}: {error.problem}"
        return None


def control_entry(
    record: Record, digest: str, hooks: tuple[HookRun, ...], timings: dict[str, float]
) -> ControlEntry:
    """The entry of a version, from its record."""
    return ControlEntry(record.version, record.txid, digest, descriptor(record), hooks, timings)


def recovered_entry(record: Record, digest: str) -> ControlEntry:
    """The entry that the writer of a version did not write. Its hooks are as good as never run."""
    hooks = tuple(HookRun(name) for name in record.hooks)
    return replace(control_entry(record, digest, hooks, {}), recovered=True)


def published(record: Record) -> list[TableCommit]:
    """The tables that a commit leaves behind for other engines."""
    return [table for table in record.tables if table.action is not TableAction.DROP]


def _problem(name: str, step: Callable[[], None]) -> str | None:
    try:
        step()
    except HeadgateError as error:
        return f"{name}: {error.problem}"
    return None
