"""`fsck`: checks every promise of a lake from its objects alone. Changes nothing.

Does not open the lake or use the memory of a handle, so that it also works on a lake that cannot be opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from headgate.core.fsck.control import joined, judge_plans
from headgate.core.fsck.log import LogJudge, TableVersion
from headgate.core.fsck.tables import judge_unreferenced, kept_tables
from headgate.iceberg.format.data_file import Content
from headgate.log.driver import Driver
from headgate.model.fsck import Finding, FsckReport
from headgate.model.retention import EVERYTHING
from headgate.steward.fsck.log_check import LogCheck, LoggedLake
from headgate.steward.fsck.row_check import RowCheck
from headgate.steward.fsck.sight import Sight
from headgate.steward.fsck.table_check import PublishedCheck, ReadTable, TableCheck

DATA = "data/"

OnProgress = Callable[[str, int, int], None]
"""Called with the kind of objects that are being checked, how many are done, and how many there are."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much to check: the newest version or all of them, and data files with or without their content."""

    all_versions: bool = False
    rows: bool = False


def check(driver: Driver, extent: Extent, progress: OnProgress) -> FsckReport:
    """Checks the lake of `driver`. Raises `NotFoundError` if there is none; any damage is a finding.

    Writers may keep running: what they commit meanwhile is not checked, and is not a finding.
    """
    sight = Sight(driver)
    logged = LogCheck(sight, partial(progress, "log")).run()
    judge = logged.judge
    # After the log: every file of a version exists before its record.
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
    """The tables of the newest state, each as of the commit that wrote its metadata."""
    found = []
    for name, ref in sorted(judge.state.tables.items()):
        known = [one for one in judge.tables.get(ref.uuid, []) if one.ref == ref and not one.dropped]
        # Without the record, the checkpoint still contains the path of its metadata.
        lost = TableVersion(judge.state.version, name, ref, None, certain=False)
        found.append(known[-1] if known else lost)
    return found


def _all_tables(logged: LoggedLake, newest: list[TableVersion], tables: TableCheck) -> list[TableVersion]:
    """The versions whose files must exist. For the others, checks the metadata that is kept."""
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
        return []  # a lost version may need any of them
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
