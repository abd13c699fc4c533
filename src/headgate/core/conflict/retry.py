"""The retry budget of a transaction, how long it waits, and what it has spent: values and functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from headgate.errors import InvalidInputError, shown

MAX_WAIT = timedelta(days=1)
SHORTEST_SILENCE_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds of retries.

    `attempts` bounds how often an operation runs because of conflicts. Losing a version to a commit that does
    not conflict does not count: the lake moved on, and only `total` bounds that. Waits grow from `base` to
    `cap` and are drawn at random from the whole range below (full jitter), so that writers that collided once
    do not collide again in step. `base` and `cap` are at most a day.

    `total` bounds the time from the start of a commit to its last wait, over all versions it tries, all
    rounds of FileTracker, and all runs of an operation (what a run does before it commits is not counted). No
    wait exceeds it, and no request begins after it is spent; a running request is finished. The first attempt
    is always made, even with a `total` of zero. `total` has no upper limit.
    """

    attempts: int = 8
    base: timedelta = timedelta(milliseconds=5)
    cap: timedelta = timedelta(seconds=2)
    total: timedelta = timedelta(minutes=2)

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or isinstance(self.attempts, bool) or self.attempts < 1:
            raise InvalidInputError(
                f"attempts of a retry policy must be a positive integer, not {shown(self.attempts)}"
            )
        for name, time in (("base", self.base), ("cap", self.cap), ("total", self.total)):
            if not isinstance(time, timedelta):
                raise InvalidInputError(
                    f"{name} of a retry policy must be a timedelta, not a {type(time).__name__}",
                    f"write {name}=timedelta(seconds=…)",
                )
            if time < timedelta(0):
                raise InvalidInputError(f"{name} of a retry policy must not be negative, but is {time}")
            if time > MAX_WAIT and name != "total":
                raise InvalidInputError(f"{name} of a retry policy must be at most a day, but is {time}")


MAX_LOST = 20
"""How many of the versions that an operation lost are named in its record."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What an operation has cost so far, over all its runs.

    `attempts` are the versions that were tried; `waited_seconds` was spent waiting for other writers;
    `spent_seconds` counts against the `total` of the policy. `lost` are the last versions that were tried and
    that other writers won.
    """

    attempts: int = 0
    waited_seconds: float = 0.0
    spent_seconds: float = 0.0
    lost: tuple[int, ...] = ()

    def tried(self) -> Effort:
        return replace(self, attempts=self.attempts + 1)

    def lost_to(self, version: int) -> Effort:
        """Counts a version once, although each process that resolves the same attempt reports it."""
        if version in self.lost:
            return self
        return replace(self, lost=(*self.lost, version)[-MAX_LOST:])

    def waited(self, seconds: float) -> Effort:
        return replace(self, waited_seconds=self.waited_seconds + seconds)

    def spent(self, seconds: float) -> Effort:
        return replace(self, spent_seconds=self.spent_seconds + seconds)

    def left_seconds(self, policy: RetryPolicy) -> float:
        """How long the operation may still wait; 0 if the budget is spent."""
        return max(0.0, policy.total.total_seconds() - self.spent_seconds)


def delay_seconds(policy: RetryPolicy, losses: int, chance: float) -> float:
    """How long to wait after the `losses`-th loss in a row; `chance` is uniform in [0, 1).

    The first loss costs no wait: the record that won is known, so the next version can be tried at once.
    """
    assert losses >= 1 and 0.0 <= chance < 1.0
    if losses == 1:
        return 0.0
    exponent = min(losses - 2, 32)
    return chance * min(policy.cap.total_seconds(), policy.base.total_seconds() * float(2**exponent))


def contended_delay(policy: RetryPolicy, losses: int, chance: float, attempt_seconds: float) -> float:
    """The same for a writer that competes with others whose attempts take about as long as its own.

    A wait that is shorter than an attempt only meets the next attempt of those who won. So the waits are also
    measured in attempts, within the `cap` of the policy.
    """
    if losses == 1:
        return 0.0
    in_attempts = chance * attempt_seconds * float(2 ** min(losses - 1, 32))
    return max(delay_seconds(policy, losses, chance), min(policy.cap.total_seconds(), in_attempts))


def silence_seconds(policy: RetryPolicy, losses: int, chance: float, attempt_seconds: float) -> float:
    """How long there must be no commit before a waiting writer may assume that the others are gone.

    Longer than an attempt takes, plus a random part that grows with the number of losses: writers that wait
    in several processes observe the same silence, and would otherwise all begin at once.
    """
    shortest = max(attempt_seconds, policy.base.total_seconds(), SHORTEST_SILENCE_SECONDS)
    return shortest * (1.0 + chance * max(1, losses))


def read_ahead(losses: int, limit: int) -> int:
    """How many further records to read after the `losses`-th loss in a row.

    A writer that lost once probably lost to one commit. One that keeps losing is behind, and reads more
    records at a time, so that it catches up faster than the lake grows.
    """
    assert losses >= 1 and limit >= 1
    return 0 if losses == 1 else min(limit, 2 ** min(losses - 2, 16))


def checked_policy(retry: RetryPolicy | None, default: RetryPolicy) -> RetryPolicy:
    if retry is None:
        return default
    if not isinstance(retry, RetryPolicy):
        raise InvalidInputError(
            f"retry must be a RetryPolicy, not a {type(retry).__name__}",
            "write retry=RetryPolicy(attempts=3)",
        )
    return retry
