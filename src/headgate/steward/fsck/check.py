"""`fsck`: everything that a lake promises, looked at from its objects alone. Changes nothing.

Nothing that a handle remembers is used, and no lake is opened: one that cannot be opened is looked at too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from headgate.commit.driver import Driver
from headgate.core.fsck.control import joined, judge_plans
from headgate.core.fsck.kept import kept_tables
from headgate.core.fsck.log import LogJudge, TableVersion
from headgate.core.fsck.tables import judge_unreferenced
from headgate.iceberg.data_file import Content
from headgate.model.fsck import Finding, FsckReport
from headgate.model.retention import EVERYTHING
from headgate.steward.fsck.log_check import LogCheck, LoggedLake
from headgate.steward.fsck.published_check import PublishedCheck
from headgate.steward.fsck.row_check import RowCheck
from headgate.steward.fsck.sight import Sight
from headgate.steward.fsck.table_check import ReadTable, TableCheck

DATA = "data/"

OnProgress = Callable[[str, int, int], None]
"""Told what is being looked at, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much to look at: the newest version, or every one; and into data files, or only at them."""

    all_versions: bool = False
    rows: bool = False


def check(driver: Driver, extent: Extent, progress: OnProgress) -> FsckReport:
    """Looks at the lake of `driver`. `NotFoundError` if there is none; whatever is broken is a finding.

    Writers may go on: what they commit meanwhile is not looked at, and is no finding either.
    """
    sight = Sight(driver)
    logged = LogCheck(sight, partial(progress, "log")).run()
    judge = logged.judge
    # After the log: every file of a version is there before its record.
    tables = TableCheck(sight, sight.sizes(DATA))
    newest = newest_tables(judge)
    wanted = _all_tables(logged, newest, tables) if extent.all_versions else newest
    read = tables.run(wanted, partial(progress, "tables"))
    current = [table for table in read if table.version in newest]
    found = [*tables.findings, *PublishedCheck(sight, tables, judge).run(newest)]
    rows = RowCheck(tables, partial(progress, "files"))
    if extent.rows:
        rows.run(current)
    found += [*logged.findings, *rows.findings, *_plans(judge, current)]
    found += _unreferenced(judge, tables, extent)
    return FsckReport(
        driver.store.describe(), judge.head.number, joined(found), _checked(logged, tables, extent)
    )


def newest_tables(judge: LogJudge) -> list[TableVersion]:
    """The tables of the newest state, each as the commit left it that wrote its metadata."""
    found = []
    for name, ref in sorted(judge.state.tables.items()):
        known = [one for one in judge.tables.get(ref.uuid, []) if one.ref == ref and not one.dropped]
        # Without the record, the checkpoint still tells where its metadata is.
        lost = TableVersion(judge.state.version, name, ref, None, certain=False)
        found.append(known[-1] if known else lost)
    return found


def _all_tables(logged: LoggedLake, newest: list[TableVersion], tables: TableCheck) -> list[TableVersion]:
    """The versions that must be there with their files. Of others, what is kept is looked at here."""
    judge, identity = logged.judge, logged.beginning.identity
    every = [one for versions in judge.tables.values() for one in versions if not one.dropped]
    if identity is not None and judge.state.retention != EVERYTHING:
        kept = [
            one
            for versions in judge.tables.values()
            for one in kept_tables(versions, judge.state.retention, identity.divisor, judge.head.number)
        ]
        tables.look_at_metadata(one.table for one in kept if not one.files)
        every = [one.table for one in kept if one.files]
    return [*newest, *(one for one in every if one not in newest)]


def _plans(judge: LogJudge, tables: list[ReadTable]) -> list[Finding]:
    if not judge.certain:
        return []
    live = {
        table.version.ref.uuid: [e.file.path for e in table.live if e.file.content is Content.DATA]
        for table in tables
        if table.whole
    }
    return judge_plans(judge, live)


def _unreferenced(judge: LogJudge, tables: TableCheck, extent: Extent) -> list[Finding]:
    if not judge.complete or not judge.certain:
        return []  # a version that is lost may need any of them
    exact = tables.referenced if extent.all_versions else None
    return judge_unreferenced(tables.sizes, judge.txids, exact)


def _checked(logged: LoggedLake, tables: TableCheck, extent: Extent) -> Mapping[str, int]:
    judge = logged.judge
    return {
        "records": len(judge.known),
        "checkpoints": judge.checkpoints,
        "control entries": logged.entries,
        "tables": len(judge.state.tables),
        **tables.counted,
        "files read": len(tables.files) if extent.rows else 0,
    }
