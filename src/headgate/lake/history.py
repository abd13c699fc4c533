"""The history of a lake: its commits, its timeline, who competed, and which version a caller means."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from itertools import chain, islice

from headgate.core.history.instants import timeline
from headgate.core.history.log_entry import INIT, LogEntry, LogQuery, init_entry, log_entry
from headgate.core.input.arguments import (
    checked_limit,
    found_tag,
    require_commit,
    version_number,
    whole_number,
)
from headgate.errors import InvalidInputError
from headgate.lake.lake_view import moment
from headgate.log.checkpoints import state_at
from headgate.log.competition import attempts_at
from headgate.log.log import version_at
from headgate.model.attempts import VersionAttempts
from headgate.model.instant import Instant
from headgate.transaction.handle import LakeHandle


@dataclass(frozen=True, slots=True)
class History:
    """Reads the log of a lake. The methods are those of `Lake` with the same names."""

    lake: LakeHandle

    def log(
        self,
        *,
        limit: int | None,
        before: int | None,
        table: str | None,
        user: str | None,
        since: str | date | datetime | None,
        kind: str | None,
        init: bool,
    ) -> tuple[LogEntry, ...]:
        only_init = kind == INIT
        query = LogQuery.of(
            table, None if only_init else kind, user, None if since is None else moment(since)
        )
        checked_limit(limit)
        below = None if before is None else whole_number("before", before)
        newest = self.lake.refresh()
        if below is not None:
            last = version_number(max(0, min(below - 1, newest.version.number)))
            newest = state_at(self.lake.checkpoints, newest, last)
        every = newest.version.number
        most = every + 1 if limit is None else min(limit, every + 1)
        count = 0 if only_init else most if query == LogQuery() else every
        records = self.lake.log.records_down(newest, count)
        made = init_entry(self.lake.log.identity)
        is_chosen = (init or only_init) and (below is None or below > 0)
        first = (made,) if is_chosen and query.chooses_init(made.committed_at, made.user) else ()
        return tuple(islice(chain(map(log_entry, query.chosen(records)), first), most))

    def timeline(self, limit: int | None, *, pending: bool) -> tuple[Instant, ...]:
        checked_limit(limit)
        lake, newest = self.lake, self.lake.refresh()
        every = newest.version.number
        count = 0 if pending else every if limit is None else min(limit, every)
        records = tuple(lake.log.records_down(newest, count))
        plans = lake.driver.host.together(
            [partial(lake.log.record, plan.version) for plan in newest.plans.values()]
        )
        running = lake.announcements.running(is_over=newest.cancelled.__contains__)
        return timeline(records, plans, running, newest, lake.driver.host.now())

    def attempts(self, version: int) -> VersionAttempts:
        wanted = version_number(version)
        newest = self.lake.refresh()
        require_commit(newest, wanted)
        return attempts_at(self.lake.log, self.lake.checkpoints, newest, wanted)

    def version_at(
        self, version: int | None, timestamp: str | date | datetime | None, tag: str | None
    ) -> int | None:
        """The version that the caller gave in one of three ways; None if the caller gave none."""
        if sum(given is not None for given in (version, timestamp, tag)) > 1:
            given = {"version": version, "timestamp": timestamp, "tag": tag}
            names = " and ".join(name for name, value in given.items() if value is not None)
            raise InvalidInputError(
                f"{names} each name a version", "give only one of version, timestamp and tag"
            )
        if timestamp is not None:
            return version_at(self.lake.log, self.lake.refresh(), moment(timestamp)).number
        if tag is not None:
            return found_tag(self.lake.refresh(), tag).number
        return version
