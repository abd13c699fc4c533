"""Counts what a handle does around its commits."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from headgate.core.history.descriptor import totals
from headgate.errors import CommitUnknownError, HeadgateError
from headgate.model.control_entry import NONE_FAILED, FailedCommits, HookRun, HookState
from headgate.model.metrics import HookTotals, Metrics
from headgate.model.record import Record
from headgate.storage.requests import RequestCounts
from headgate.system.host import renew_after_fork


class Ledger:
    """The counters of one handle. Safe to share between threads."""

    def __init__(self) -> None:
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        # The parent process keeps its own counts.
        self._lock = threading.Lock()
        self._metrics = Metrics()
        self._conflicts: Counter[str] = Counter()
        self._failed = self._not_written = NONE_FAILED
        self._hooks: dict[str, HookTotals] = {}

    def count_commit(self, record: Record, timings: Mapping[str, float], postponed: int) -> None:
        """Counts a version of this handle, after the work that follows it is done."""
        changed = totals(record)
        with self._lock:
            now = self._metrics
            self._metrics = replace(
                now,
                commits=now.commits + 1,
                attempts=now.attempts + record.attempts,
                commit_seconds=now.commit_seconds + timings.get("commit", 0.0),
                waited_seconds=now.waited_seconds + timings.get("waited", 0.0),
                postponed=now.postponed + postponed,
                rows_added=now.rows_added + changed.rows_added,
                rows_removed=now.rows_removed + changed.rows_removed,
                data_bytes_added=now.data_bytes_added + changed.bytes_added,
            )

    def count_rejection(self, rules: Iterable[str]) -> None:
        """Counts a commit that the rules rejected, under each rule that rejected it."""
        with self._lock:
            self._conflicts.update(set(rules))

    def count_failure(self, error: Exception) -> None:
        """Counts a commit that ended with an error, or whose outcome is unknown."""
        if isinstance(error, CommitUnknownError):
            one = FailedCommits(unknown_outcomes=1)
        else:
            one = FailedCommits({error.kind if isinstance(error, HeadgateError) else type(error).__name__: 1})
        with self._lock:
            self._failed += one
            self._not_written += one

    def take_failed(self) -> FailedCommits:
        """The failed commits that are in no control entry yet. The caller writes them into one."""
        with self._lock:
            taken, self._not_written = self._not_written, NONE_FAILED
            return taken

    def give_back(self, failed: FailedCommits) -> None:
        """Keeps failed commits that could not be written for the next control entry."""
        with self._lock:
            self._not_written += failed

    def count_hooks(self, before: Iterable[HookRun], after: Iterable[HookRun]) -> None:
        """Counts the results of running hooks. Hooks that were not tried do not count."""
        with self._lock:
            for old, new in zip(before, after, strict=True):
                if new.attempts > old.attempts:
                    self._hooks[new.name] = _added(self._hooks.get(new.name, HookTotals()), old, new)

    def count_recovery(self, entries: int) -> None:
        """Counts a recovery, and the control entries that it backfilled."""
        with self._lock:
            now = self._metrics
            self._metrics = replace(
                now, recoveries=now.recoveries + 1, recovered_entries=now.recovered_entries + entries
            )

    def metrics(self, requests: RequestCounts) -> Metrics:
        with self._lock:
            return replace(
                self._metrics,
                conflicts=dict(self._conflicts),
                failures=dict(self._failed.failures),
                unknown_outcomes=self._failed.unknown_outcomes,
                hooks=dict(self._hooks),
                requests=dict(requests.by_kind),
                bytes_read=requests.bytes_read,
                bytes_written=requests.bytes_written,
            )


def _added(sum_so_far: HookTotals, old: HookRun, new: HookRun) -> HookTotals:
    return HookTotals(
        done=sum_so_far.done + (new.state is HookState.DONE),
        failed=sum_so_far.failed + (new.state is HookState.FAILED),
        attempts=sum_so_far.attempts + new.attempts - old.attempts,
        seconds=sum_so_far.seconds + new.seconds - old.seconds,
    )
