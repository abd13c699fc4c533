"""How commands print instants of the timeline, and which writers competed for a version."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from headgate.cli import output

if TYPE_CHECKING:
    from headgate.model.attempts import Claim, VersionAttempts
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
    """A line of `headgate timeline`."""
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
    return instant.state if age is None else f"{instant.state}, last seen {max(0.0, age):.0f} s ago"


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


COLUMNS = ("sub-version", "client", "transaction", "proposed", "outcome")


def print_attempts(found: VersionAttempts, *, json: bool) -> None:
    """Prints the claims of a version, and which sub-versions failed."""
    if json:
        output.print_json(found.to_json())
        return
    title = f"version {found.version} ({found.strategy}), won by {found.winner}"
    output.print_rows(title, COLUMNS, [_row(claim) for claim in found.claims])
    if found.failed:
        output.say(f"failed sub-versions: {', '.join(map(str, found.failed))}")
    if found.omitted:
        output.say(f"{output.count(found.omitted, 'claim')} of earlier sub-versions are not stored")


def _row(claim: Claim) -> tuple[str, ...]:
    fate = claim.fate.value
    if claim.committed_as is not None:
        fate += f", committed as version {claim.committed_as}"
    sub_version = None if claim.sub_version is None else str(claim.sub_version)
    return tuple(text or "-" for text in (sub_version, claim.client, claim.transaction, claim.proposed, fate))
