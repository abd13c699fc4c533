"""Where something may be due: the virtual paths that the records of a window touched, and their ancestors.

Read from the log, so nothing is notified and nothing is lost. A path that no record of a window touched has
the same segments, in the same windows, as before the window was complete: so whoever has looked at it then
need not look again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headgate.core.settings import OF_COMPACTION
from headgate.core.windows import window_of
from headgate.model.record import Record
from headgate.model.table import TableCommit
from headgate.model.window import Window

SERVICES = frozenset({"compact", "cluster"})
"""The verbs of table services. What they do is no intent, so that compaction never triggers itself."""


@dataclass(frozen=True, slots=True)
class Intents:
    """What records touched: leaves by the uuid of their table, as paths below the table; "" is all of it.

    Tables may get other names meanwhile, so a name is no part of it. `settings` are tables, by uuid, whose
    rules for compaction changed; `everything`: those of the lake did, or a plan was given up.
    """

    paths: frozenset[tuple[str, str]] = frozenset()
    settings: frozenset[str] = frozenset()
    everything: bool = False

    def __or__(self, other: Intents) -> Intents:
        return Intents(
            self.paths | other.paths, self.settings | other.settings, self.everything or other.everything
        )

    @property
    def tables(self) -> frozenset[str]:
        """The tables that were touched, by uuid."""
        return self.settings | {table for table, _ in self.paths}

    def concerns(self, table: str) -> bool:
        """Whether something may be due in a table."""
        return self.everything or table in self.tables


def intents_of(records: Iterable[Record]) -> Intents:
    """What records touched, but for what table services did."""
    found = Intents()
    for record in records:
        found |= _of_record(record)
    return found


def _of_record(record: Record) -> Intents:
    ingested = [commit for commit in record.tables if not (commit.verbs and commit.verbs <= SERVICES)]
    return Intents(
        paths=frozenset(
            (commit.table.uuid, path)
            for commit in ingested
            if not record.completes
            for path in _below(record.paths, commit)
        ),
        settings=frozenset(c.table.uuid for c in record.tables if c.property_names & OF_COMPACTION),
        # The files of a plan that was given up are due again, whoever made it.
        everything=bool(record.cancels or record.lake_properties.names() & OF_COMPACTION),
    )


def _below(paths: Iterable[str], commit: TableCommit) -> Iterable[str]:
    """The paths of a record that lie in a table, as they are below it."""
    root = virtual_root(commit.name)
    for path in paths:
        if path == root or path.startswith(f"{root}/"):
            yield path.removeprefix(root).removeprefix("/")


def virtual_root(table: str) -> str:
    """The virtual path of a table."""
    return "/" + table.replace(".", "/")


def with_ancestors(paths: Iterable[str]) -> frozenset[str]:
    """The virtual paths with all that lie above them: who reads a path reads those first."""
    found = {"/"}
    for path in paths:
        parts = path.strip("/").split("/")
        found |= {"/" + "/".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return frozenset(found)


def intents_in(
    window: Window,
    divisor: int,
    known: Mapping[Window, Intents],
    records: Callable[[Window], Iterable[Record]],
) -> Intents:
    """The intents of a whole window, of any level: from those of the windows below it, where they are known.

    `records` gives those of a window that has to be read from the log.
    """
    if window in known:
        return known[window]
    if not any(window.holds(other) for other in known):
        return intents_of(records(window))
    found = Intents()
    for below in _below_window(window, divisor):
        found |= intents_in(below, divisor, known, records)
    return found


def _below_window(window: Window, divisor: int) -> list[Window]:
    """The windows of the level below, which make up a window."""
    assert window.level > 0, window
    size = divisor ** (window.level - 1)
    return [
        window_of(first, window.level - 1, divisor) for first in range(window.first, window.last + 1, size)
    ]
