"""Which commit time a version has, although no clock is trusted. See docs/design/0023.

Contains the rules for reading the times in a log, and the warnings about them. `log.log` decides how a writer
dates its own commit, because that requires reading the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from headgate.model.state import SetBack

MAX_STEP = timedelta(days=30)
"""A commit that is dated this much later than the previous one may come from a clock that is ahead."""
MAX_SET_BACKS = 16
"""The most set-backs that a state remembers, so that checkpoints stay small.

Beyond that, the oldest are merged.
"""
NO_LAKE_BEFORE = datetime(2026, 1, 1, tzinfo=UTC)
"""The time before the first release. A clock that shows an earlier time is wrong."""


def is_far(later: datetime, earlier: datetime) -> bool:
    """Whether two times are so far apart that one of them may come from a wrong clock."""
    return later - earlier > MAX_STEP


def set_backs_after(
    known: tuple[SetBack, ...], last: datetime | None, version: int, time: datetime
) -> tuple[SetBack, ...]:
    """Where the times of a log go back: at a commit dated `time` that follows one dated `last`."""
    if last is None or time >= last:
        return known
    after = (*known, SetBack(version, version, time, last))
    return after if len(after) <= MAX_SET_BACKS else (_together(after[0], after[1]), *after[2:])


def _together(first: SetBack, second: SetBack) -> SetBack:
    return SetBack(first.since, second.version, second.at, max(first.was, second.was))


def time_of(
    set_backs: Sequence[SetBack], version: int, committed_at: datetime, now: datetime | None = None
) -> datetime:
    """The latest time at which a version can have been committed. Never decreases from one version to the
    next.

    Versions before one that set the time back are not later than that version. But once the time that they
    are dated has come (`now`), the clock that set it back may also have been slow. A caller that is about to
    delete something passes `now`, and gets the later of the two times.
    """
    doubtful = [each for each in set_backs if now is not None and each.was <= now]
    certain = [each for each in set_backs if each not in doubtful]
    not_before = [each.was for each in doubtful if each.since <= version]
    not_before += [each.at for each in certain if each.since <= version < each.version]
    not_after = [each.at for each in certain if version < each.version]
    return min([max([committed_at, *not_before]), *not_after])


def has_passed(time: datetime, patience: timedelta, now: datetime) -> bool:
    """Whether an entry of the log is old enough. One that is dated far ahead is: it would never become so."""
    return now - time >= patience or is_far(time, now)


# --- reports ----------------------------------------------------------------------------------------------


def clock_warning(last: datetime, committed_at: datetime, now: datetime) -> str | None:
    """A warning for a writer about the time that its commit got, or None.

    The warning means a clock may be wrong.
    """
    if committed_at < last:
        return f"the log was {_days(last - committed_at)} ahead of this clock, and its time was set back"
    if is_far(committed_at, now):
        return f"the clock of this machine is {_days(committed_at - now)} behind the log"
    if is_far(committed_at, last):
        return f"the commit is dated {_days(committed_at - last)} after the previous one: check the clock"
    return None


def ahead_warning(committed_at: datetime, now: datetime) -> str | None:
    """A warning if the newest commit is dated far in the future of this machine's clock, else None."""
    if not is_far(committed_at, now):
        return None
    return f"the newest version is dated {_days(committed_at - now)} ahead of the clock of this machine"


def idle_warning(committed_at: datetime, now: datetime) -> str | None:
    """Why nothing is old enough to be deleted, if the newest commit is far in the past of this clock.

    The lake was idle, or the clock is ahead: this cannot be distinguished, so nothing must depend on it.
    """
    if not is_far(now, committed_at):
        return None
    return (
        f"the clock of this machine is {_days(now - committed_at)} ahead of the newest version: check the "
        "clock; if it is right, commit something first, for example a tag"
    )


def _days(time: timedelta) -> str:
    return f"{time.days:,} days"
