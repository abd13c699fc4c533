"""Instants: the entries of the timeline of a lake."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

InstantState: TypeAlias = Literal["requested", "inflight", "completed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Instant:
    """A transaction or a planned table service, and its state.

    | state | |
    |---|---|
    | `requested` | a plan that no known process is carrying out |
    | `inflight` | a transaction that is running, or a plan that a transaction is carrying out |
    | `completed` | a commit, or a plan whose work was committed |
    | `cancelled` | a transaction that can no longer commit, or a plan that was given up |

    `version` is the version that it became, and `base` the one that it began on. What is unknown is None, or
    empty: of a cancelled transaction, only the id is known. `heartbeat_age_seconds` is the time since the
    last heartbeat of a running one, as far as the clocks of two machines show.
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
