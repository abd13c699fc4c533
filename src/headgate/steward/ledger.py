"""Counting what a handle does around its commits."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from headgate.core.descriptor import totals
from headgate.forks import renew_after_fork
from headgate.model.control_entry import HookRun, HookState
from headgate.model.metrics import HookTotals, Metrics
from headgate.model.record import Record
from headgate.storage.meter import RequestCounts


class Ledger:
    """The counts of one handle. Safe to share between threads."""

    def __init__(self) -> None:
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        # What the parent did is the parent's.
        self._lock = threading.Lock()
        self._metrics = Metrics()
        self._conflicts: Counter[str] = Counter()
        self._hooks: dict[str, HookTotals] = {}

    def committed(self, record: Record, timings: Mapping[str, float], postponed: int) -> None:
        """Counts a version of this handle, once what follows from it is done."""
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

    def refused(self, rules: Iterable[str]) -> None:
        """Counts a commit that the rules refused, under each rule that did."""
        with self._lock:
            self._conflicts.update(set(rules))

    def ran(self, before: Iterable[HookRun], after: Iterable[HookRun]) -> None:
        """Counts what came of running hooks. Those that were not tried do not count."""
        with self._lock:
            for old, new in zip(before, after, strict=True):
                if new.attempts > old.attempts:
                    self._hooks[new.name] = _added(self._hooks.get(new.name, HookTotals()), old, new)

    def recovered(self, entries: int) -> None:
        """Counts a recovery, and the versions that it made up for."""
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
