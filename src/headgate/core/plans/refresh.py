"""How to bring a materialized view up to date: not at all, with the added rows, or with a full refresh.

Decided from the log alone. Adding rows is correct only if the query produces its result row by row, from one
table to which rows were only added since the last refresh. Whenever that is unknown, the refresh is full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from headgate.core.sql.view_rules import Sources
from headgate.model.record import Record
from headgate.model.table import StructurePart, TableAction, TableCommit

VIEW_SQL = "headgate.view.sql"
"""The table property that makes a table a materialized view: its query."""
REFRESHED_AT = "headgate.view.refreshed-at"
"""The table property with the version of the lake at which the view was last refreshed."""


class Mode(Enum):
    UNCHANGED = "unchanged"
    INCREMENTAL = "incremental"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Refresh:
    """How to refresh, and why."""

    mode: Mode
    reason: str


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known about a query. `varies`: why two runs on the same rows may differ; None if they cannot.

    `more_than_rows`: what it does apart from selecting and computing row by row; None if nothing.
    """

    varies: str | None = None
    more_than_rows: str | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """What a query reads at a version: its sources, and the uuid of each table by name."""

    sources: Sources
    uuids: Mapping[str, str]


def plan_refresh(own: str, traits: Traits, before: Sight, after: Sight, records: Sequence[Record]) -> Refresh:
    """How to refresh a materialized view with the uuid `own`.

    `before` is what its query read at the version of the last refresh, `after` what it reads now, and
    `records` are all commits in between.
    """
    always = _always_full(traits, after.sources) or _other_sources(before, after)
    written = next(_written_by_others(own, records), None)
    if written is not None or always is not None:
        return Refresh(Mode.FULL, written or always or "")
    changes = list(_changes(frozenset(after.uuids.values()), records))
    if not changes:
        return Refresh(Mode.UNCHANGED, "nothing that the view reads has changed")
    obstacle = _obstacle(traits, after.sources, changes)
    if obstacle is not None:
        return Refresh(Mode.FULL, obstacle)
    name = next(iter(after.sources.tables))
    return Refresh(Mode.INCREMENTAL, f"rows were only added to {name}, in {_versions(len(changes))}")


def _always_full(traits: Traits, sources: Sources) -> str | None:
    if sources.mounts:
        return f"the view reads {min(sources.mounts)}, a mount, whose files can change at any time"
    if sources.elsewhen:
        return "the view reads a table as of a tag or a timestamp"
    return traits.varies


def _other_sources(before: Sight, after: Sight) -> str | None:
    was, now = before.sources.views, after.sources.views
    views = sorted(name for name in {*was, *now} if was.get(name) != now.get(name))
    if views:
        return f"the view {views[0]} was changed"
    names = {*before.uuids, *after.uuids}
    tables = sorted(name for name in names if before.uuids.get(name) != after.uuids.get(name))
    return f"{tables[0]} was replaced by another table" if tables else None


def _written_by_others(own: str, records: Iterable[Record]) -> Iterator[str]:
    for record, commit in _changes(frozenset({own}), records):
        made = commit.action is TableAction.CREATE or REFRESHED_AT in commit.property_names
        if made:
            continue
        if commit.snapshot_id is not None:
            yield f"version {record.version} ({_did(commit)}) wrote to the view directly"
        elif StructurePart.SCHEMA.value in commit.structure:
            # A column that was dropped and added again is null in every existing row.
            yield f"version {record.version} changed the columns of the view"


def _changes(tables: frozenset[str], records: Iterable[Record]) -> Iterator[tuple[Record, TableCommit]]:
    """The commits that changed rows or the schema of tables; a compaction changes neither."""
    for record in records:
        for commit in record.tables:
            changed = commit.structure or (commit.snapshot_id is not None and commit.operation != "replace")
            if commit.table.uuid in tables and changed:
                yield record, commit


def _obstacle(traits: Traits, sources: Sources, changes: Iterable[tuple[Record, TableCommit]]) -> str | None:
    """Why the added rows are not enough."""
    if len(sources.direct) != 1 or sources.views or sources.direct[0].table not in sources.tables:
        return "the view does not read exactly one table"
    if traits.more_than_rows is not None:
        return traits.more_than_rows
    for record, commit in changes:
        if commit.structure:
            return f"version {record.version} changed the columns of {commit.name}"
        if commit.operation != "append":
            return f"version {record.version} ({_did(commit)}) changed rows of {commit.name}"
    return None


def _did(commit: TableCommit) -> str:
    return " and ".join(sorted(commit.verbs)) or commit.operation or commit.action.value


def _versions(count: int) -> str:
    return "1 version" if count == 1 else f"{count:,} versions"
