"""Instants: the entries of the timeline of a lake."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

InstantState: TypeAlias = Literal["requested", "inflight", "completed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Instant:
    """A transaction or a planned table service, with what became of it so far.

    | state | |
    |---|---|
    | `requested` | a plan that nobody is known to be carrying out |
    | `inflight` | a transaction that is running, or a plan that one is carrying out |
    | `completed` | a commit; a plan whose work was committed |
    | `cancelled` | a transaction that cannot commit any more; a plan that was given up |

    `version` is the one that it became, and `base` the one that it began on. What is not known is None, or
    empty: nothing but its id is known of a transaction that was cancelled. `heartbeat_age_seconds` is how
    long ago a running one was heard of, as far as the clocks of two machines can tell.
    """

    txid: str
    kind: str
    state: InstantState
    tables: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    version: int | None = None
    base: int | None = None
    user: str | None = None
    host: str | None = None
    heartbeat_age_seconds: float | None = None

    @property
    def is_pending(self) -> bool:
        return self.state in ("requested", "inflight")
