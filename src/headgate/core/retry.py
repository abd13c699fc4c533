"""How patient a transaction is, and how long it waits: a value and two functions of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from headgate.errors import InvalidInputError

MAX_WAIT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds of trying again.

    `attempts` bounds how often an operation is run again because of a conflict. Losing a version to a
    commit that does not conflict uses up none of them: the lake moved on, and only `total` bounds that.
    Waiting grows from `base` to `cap` and is drawn at random from the whole range below (full jitter), so
    that writers that collided once do not collide again in step. `total` can be as long as you like; `base`
    and `cap` are at most a day.
    """

    attempts: int = 8
    base: timedelta = timedelta(milliseconds=5)
    cap: timedelta = timedelta(seconds=2)
    total: timedelta = timedelta(minutes=2)

    def __post_init__(self) -> None:
        if not isinstance(self.attempts, int) or isinstance(self.attempts, bool) or self.attempts < 1:
            raise InvalidInputError(f"a retry policy needs a whole number of attempts, not {self.attempts!r}")
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


def delay_seconds(policy: RetryPolicy, losses: int, chance: float) -> float:
    """How long to wait after the `losses`-th loss in a row; `chance` is uniform in [0, 1).

    The first loss costs no wait: the record that won is known, so the next version can be tried at once.
    """
    assert losses >= 1 and 0.0 <= chance < 1.0
    if losses == 1:
        return 0.0
    exponent = min(losses - 2, 32)
    return chance * min(policy.cap.total_seconds(), policy.base.total_seconds() * float(2**exponent))


def read_ahead(losses: int, limit: int) -> int:
    """How many further records to ask for after the `losses`-th loss in a row.

    A writer that lost once probably lost to one commit; one that keeps losing is behind, and reads more
    at a time so that it catches up faster than the lake moves.
    """
    assert losses >= 1 and limit >= 1
    return 0 if losses == 1 else min(limit, 2 ** min(losses - 2, 16))
