"""How commands print instants of the timeline."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.model.instant import Instant

INSTANT_COLUMNS = (
    "state",
    "transaction",
    "kind",
    "tables",
    "paths",
    "started (UTC)",
    "ended (UTC)",
    "by",
    "version",
)
SHOWN_PATHS = 3


def instant_row(instant: Instant) -> tuple[str, ...]:
    """An instant as a line of `headgate timeline`."""
    return (
        _state(instant),
        instant.txid,
        instant.kind,
        ", ".join(instant.tables),
        _paths(instant),
        "" if instant.started_at is None else f"{instant.started_at:%Y-%m-%d %H:%M:%S}",
        "" if instant.ended_at is None else f"{instant.ended_at:%Y-%m-%d %H:%M:%S}",
        "" if instant.user is None else f"{instant.user}@{instant.host}",
        _versions(instant),
    )


def _state(instant: Instant) -> str:
    age = instant.heartbeat_age_seconds
    return instant.state if age is None else f"{instant.state}, heard {max(0.0, age):.0f} s ago"


def _paths(instant: Instant) -> str:
    more = len(instant.paths) - SHOWN_PATHS
    shown = ", ".join(instant.paths[:SHOWN_PATHS])
    return f"{shown} and {more} more" if more > 0 else shown


def _versions(instant: Instant) -> str:
    base = "" if instant.base is None else f"on {instant.base}"
    return base if instant.version is None else f"{instant.version} {base}".strip()


def instant_json(instant: Instant) -> dict[str, Any]:
    """An instant for programs."""
    return asdict(instant)
