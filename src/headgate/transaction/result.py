"""The results of commits, of storage tests and of resolved transactions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headgate.core.plans.strategy import Verdict
from headgate.model.probe import ProbeReport
from headgate.model.reports import RowCounts
from headgate.steward.backlog import Awaited


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The result of a commit.

    `attempts` counts the versions that were tried, over all runs of the operation. `waited_seconds` is the
    time spent waiting for other writers. `postponed` lists work after the commit that failed; the next writer
    does it. The commit itself is not affected. `hook_failures` lists hooks that are not done, with reasons.

    `already_committed` is True if the application had already committed this batch or a later one. Nothing
    was written then, and the `txid` of this transaction is not in the log. The lake stores only the newest
    batch of each application: `version` is the version that committed it, and `newest_batch` is its number.
    If that is the number of your batch, `version` committed your batch. If it is higher, you know only that
    your batch is contained in `version`.

    `rows` counts the rows that deletes, updates, merges and upserts changed; it is None if there were no such
    operations. `changed` is False if they found no row to change and the transaction did nothing else. No
    version was created then, and `version` is the one that they read. There is one exception: for a batch of
    an application, a version was created that contains only the batch, so that the batch never runs again.

    `clock_warning` reports that the clock of this machine, or of the previous writer, seems to be wrong by
    weeks.

    If the lake was opened with `follow_up="background"`, the commit returns before the work that follows it.
    `postponed` is empty then; `wait` returns the result with what has failed.
    """

    version: int
    txid: str
    attempts: int
    waited_seconds: float = 0.0
    already_committed: bool = False
    newest_batch: int | None = None
    rows: RowCounts | None = None
    postponed: tuple[str, ...] = ()
    hook_failures: tuple[str, ...] = ()
    changed: bool = True
    clock_warning: str | None = None
    _follow_up: Awaited | None = field(default=None, repr=False, compare=False)

    def wait(self) -> CommitResult:
        """Waits until the work after the commit is done, and returns the result with its outcome.

        Then other engines find the new version by the path of the table, and the version has its control
        entry. Returns at once if the work was done before the commit returned.
        """
        if self._follow_up is None:
            return self
        done = self._follow_up.wait()
        postponed = (*self.postponed, *done.postponed)
        return replace(self, postponed=postponed, hook_failures=done.hook_failures, _follow_up=None)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings of `Lake.doctor`: which promises the storage keeps, and which strategies are safe on it.

    `clock_warning` reports that the newest version is dated weeks ahead of the clock of this machine.
    """

    place: str
    strategy: str
    report: ProbeReport
    verdicts: tuple[Verdict, ...]
    clock_warning: str | None = None

    @property
    def safe(self) -> bool:
        """Whether the strategy that the lake uses now is safe on its storage."""
        return any(verdict.safe for verdict in self.verdicts if verdict.strategy.value == self.strategy)


@dataclass(frozen=True, slots=True)
class Resolution:
    """The outcome of a transaction: committed as `version`, or never committed (`version` is None).

    `cancelled_by` is the version that `resolve` committed to cancel it, if that was necessary, and
    `hook_failures` lists the hooks of that version that are not done.
    """

    txid: str
    version: int | None
    cancelled_by: int | None = None
    hook_failures: tuple[str, ...] = ()

    @property
    def committed(self) -> bool:
        return self.version is not None
