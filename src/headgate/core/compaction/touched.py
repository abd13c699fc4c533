"""Where something may be ready to compact: the paths that the records of a window touched, with ancestors.

They are read from the log, so nothing is notified and nothing is lost. A path that no record of a window
touched has the same segments, in the same windows, as before the window was complete. So a process that
checked it then need not check it again.

A compaction leaves a mark, which also names what it could not do: from then on, the log says where to look.
The mark states a fact about one version, so it never becomes wrong: with an old one more records are read,
and without one all of them, or every table is checked. See docs/design/0026-intents-from-the-log.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from headgate.core.compaction.windows import complete_windows
from headgate.core.input.settings import OF_COMPACTION
from headgate.errors import CorruptLakeError
from headgate.model.identifiers import Window
from headgate.model.json_object import Json, JsonObject, digest, encode
from headgate.model.record import Record
from headgate.model.table import PathChange, TableCommit

CLUSTER = "cluster"
SERVICES = frozenset({"compact", CLUSTER})
"""The verbs of table services. They do not count as intents, so that compaction never triggers itself."""
MAX_PATHS_OF_TABLE = 100
"""How many paths of a table the intents of a window name; with more, they name the table."""
MAX_NAMED = 2000
"""How many paths and tables the intents of a window name in all; with more, they name everything."""
NO_PLANS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Intents:
    """What records touched: leaves by the uuid of their table, as paths below the table; "" is its root.

    Tables may be renamed meanwhile, so paths do not contain the name. `whole` are tables, by uuid, that must
    be checked completely: their rules for compaction changed, or their schema or partition spec, and with it
    the names of paths, or a plan for them was cancelled. `everything`: the rules of the lake changed, or too
    much was touched.
    """

    paths: frozenset[tuple[str, str]] = frozenset()
    whole: frozenset[str] = frozenset()
    everything: bool = False

    def __or__(self, other: Intents) -> Intents:
        return Intents(
            self.paths | other.paths, self.whole | other.whole, self.everything or other.everything
        )

    @property
    def tables(self) -> frozenset[str]:
        """The tables that were touched, by uuid."""
        return self.whole | {table for table, _ in self.paths}

    def concerns(self, table: str) -> bool:
        """Whether something may be ready to compact in a table."""
        return self.everything or table in self.tables

    def paths_of(self, table: str, name: str) -> frozenset[str] | None:
        """The virtual paths of a table, under its current name, where something may be ready; None: all of
        them.

        Includes the ancestors of each path, which contain the files from before a partition field was added.
        """
        if self.everything or table in self.whole:
            return None
        root = virtual_root(name)
        return with_ancestors(
            f"{root}/{path}" if path else root for uuid, path in self.paths if uuid == table
        )

    def within(self, tables: Collection[str]) -> Intents:
        """The part of the intents that concerns some tables."""
        if self.everything:
            return Intents(whole=frozenset(tables))
        paths = frozenset(one for one in self.paths if one[0] in tables)
        return Intents(paths, self.whole.intersection(tables))

    def without(self, paths: Collection[tuple[str, str]]) -> Intents:
        """The same intents without some paths, unless their table is checked completely."""
        return replace(self, paths=self.paths.difference(paths))

    def bounded(self) -> Intents:
        """The same intents, or more, in a size that does not grow with what was touched."""
        counts = Counter(table for table, _ in self.paths)
        crowded = {table for table, count in counts.items() if count > MAX_PATHS_OF_TABLE}
        paths = frozenset(one for one in self.paths if one[0] not in crowded | self.whole)
        whole = self.whole | crowded
        too_many = self.everything or len(paths) + len(whole) > MAX_NAMED
        return Intents(everything=True) if too_many else Intents(paths, whole)


def intents_of(records: Iterable[Record]) -> Intents:
    """What records touched, except by table services. The intents of windows are built from it."""
    found = Intents()
    for record in records:
        found |= _of_record(record)
    return found


def changes_of_rules(records: Sequence[Record]) -> Intents:
    """Where something may be ready for another reason than a complete window.

    A cancelled plan leaves its files as they are. They are ready if they were before; whether they were is
    not checked. A clustering may leave more small files than there were, and so make others ready.
    """
    found = replace(intents_of(records), paths=frozenset())
    ended = {txid for record in records for txid in record.cancels}
    plans = [record.plan for record in records if record.plan is not None and record.txid in ended]
    clustered = {
        commit.table.uuid for record in records for commit in record.tables if CLUSTER in commit.verbs
    }
    of_lake = any(record.lake_properties.names() & OF_COMPACTION for record in records)
    whole = found.whole | {plan.table for plan in plans} | clustered
    return replace(found, whole=whole, everything=of_lake)


def with_one_file(records: Iterable[Record]) -> frozenset[tuple[str, str]]:
    """The paths to which records added one file, without removing or deleting anything.

    If these are all records of a log, nothing is ready there, whatever the rules are.
    """
    changes: dict[tuple[str, str], PathChange] = {}
    for record in records:
        for commit in record.tables:
            for path, change in _below(record.paths, commit):
                place = (commit.table.uuid, path)
                changes[place] = changes.get(place, PathChange()) + change
    return frozenset(
        place
        for place, change in changes.items()
        if change.files_added <= 1 and not change.files_removed and not change.rows_removed
    )


def _of_record(record: Record) -> Intents:
    ingested = [commit for commit in record.tables if not (commit.verbs and commit.verbs <= SERVICES)]
    return Intents(
        paths=frozenset(
            (commit.table.uuid, path)
            for commit in ingested
            if not record.completes
            for path, _ in _below(record.paths, commit)
        ),
        whole=frozenset(
            commit.table.uuid
            for commit in record.tables
            if commit.structure or commit.property_names & OF_COMPACTION
        ),
    )


def _below(paths: Mapping[str, PathChange], commit: TableCommit) -> Iterable[tuple[str, PathChange]]:
    """The paths of a record that belong to a table, relative to it, with what changed there."""
    root = virtual_root(commit.name)
    for path, change in paths.items():
        if path == root or path.startswith(f"{root}/"):
            yield path.removeprefix(root).removeprefix("/"), change


def virtual_root(table: str) -> str:
    """The virtual path of a table."""
    return "/" + table.replace(".", "/")


def with_ancestors(paths: Iterable[str]) -> frozenset[str]:
    """The virtual paths and all their ancestors. The files of an ancestor may have rows of the path."""
    found = {"/"}
    for path in paths:
        parts = path.strip("/").split("/")
        found |= {"/" + "/".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return frozenset(found)


# --- the mark that a compaction leaves ----------------------------------------------------------------------

MARK_FORMAT = 2
"""Also to be changed when the rule of what is due finds more than before: then old marks count no more."""


@dataclass(frozen=True, slots=True)
class Mark:
    """At `version`, whose record has `digest`, nothing was due that no plan had, except in what is `left`.

    `plans` are those that were pending at the version, each with the uuid of its table: when one ends, its
    table has to be checked. `left` could not be done, or was not checked because of a later plan; it is
    checked each time. `windows` has the intents of complete windows at that version: the largest ones, as far
    as they were read.
    """

    version: int
    digest: str
    windows: Mapping[Window, Intents] = field(default_factory=dict)
    left: Intents = field(default_factory=Intents)
    plans: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def at(
        cls, version: int, digest: str, windows: Mapping[Window, Intents], plans: Mapping[str, str]
    ) -> Mark:
        """The mark of a compaction that leaves nothing but pending plans; of bounded size."""
        if len(plans) > MAX_NAMED:
            return cls(version, digest, windows, Intents(everything=True))
        return cls(version, digest, windows, plans=plans)

    def leaving(self, intents: Intents) -> Mark:
        """The mark of a compaction that could not do everything that these intents name."""
        return replace(self, left=(self.left | intents).bounded())

    def waits_like(self, other: Mark) -> bool:
        """Whether two marks leave the same to do."""
        return (self.left, self.plans) == (other.left, other.plans)

    def wanted(self, newest: int, divisor: int) -> tuple[int, ...]:
        """The versions whose records say what was touched until `newest`, in their order.

        All since the mark, and those before it that belong to a window which is complete only now.
        """
        since = range(self.version + 1, newest + 1)
        before = [
            version
            for window in _new_windows(self.version, newest, divisor)
            for version in _unknown(window, self.version, self.windows)
        ]
        return (*before, *since)

    def look(
        self,
        newest: int,
        newest_digest: str,
        divisor: int,
        records: Sequence[Record],
        plans: Mapping[str, str] = NO_PLANS,
    ) -> Look | None:
        """Where something can be due at `newest`, when `plans` are pending, each with the uuid of its table.

        `records` are those of the `wanted` versions. None if the mark is of another log than they are, or if
        one of them does not say all that is needed here.
        """
        since = [record for record in records if record.version.number > self.version]
        if self.digest != (since[0].previous if since else newest_digest):
            return None
        if any(record.reads is None for record in records):
            return None  # from before structure changes and verbs were recorded, or soon after
        found, windows = self._besides_windows(since, plans), {}
        for window in complete_windows(newest, divisor):
            if window.last <= self.version and window in self.windows:
                windows[window] = self.windows[window]
            elif window.last > self.version and window.level:
                touched = self._intents(window, records)
                windows[window] = touched.bounded()
                found |= touched
        if not self.version:
            found = found.without(with_one_file(records))
        return Look(found, Mark.at(newest, newest_digest, windows, plans))

    def _besides_windows(self, since: Sequence[Record], plans: Mapping[str, str]) -> Intents:
        """Where something can be due although no window was completed."""
        found = changes_of_rules(since) | self.left
        if not self.version:
            found = replace(found, everything=False)  # there was nothing yet that other rules could concern
        # A plan that has ended may have left its files as they were. A new one may also take files that were
        # not due, and the share of deleted rows among the others may then be larger.
        return found | Intents(whole=frozenset(table for _, table in self.plans.items() ^ plans.items()))

    def _intents(self, window: Window, records: Iterable[Record]) -> Intents:
        """The intents of a window that was not complete: of those inside of it, and of the other records."""
        known = [other for other in self.windows if window.holds(other)]
        read = [
            record
            for record in records
            if window.first <= (number := record.version.number) <= window.last
            and not any(other.first <= number <= other.last for other in known)
        ]
        found = intents_of(read)
        for other in known:
            found |= self.windows[other]
        return found

    # --- on storage -----------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        fields: dict[str, Json] = {
            "format": MARK_FORMAT,
            "version": self.version,
            "digest": self.digest,
            "windows": [_window_to_json(window, found) for window, found in sorted(self.windows.items())],
            "left": _intents_to_json(self.left),
            "plans": dict(self.plans),
        }
        return encode({**fields, "checksum": digest(encode(fields))})

    @classmethod
    def decode(cls, data: bytes, origin: str) -> Mark | None:
        """The mark; None if it is of another format. `CorruptLakeError` if it is damaged."""
        source = JsonObject.parse(data, origin)
        if source.number("format") != MARK_FORMAT:
            return None
        if source.text("checksum") != _checksum(source):
            raise CorruptLakeError(f"{origin} does not match its checksum")
        windows = dict(map(_window_from_json, source.objects("windows")))
        left, plans = _intents_from_json(source.object("left")), source.text_by_name("plans")
        return cls(source.number("version"), source.text("digest"), windows, left, plans)


@dataclass(frozen=True, slots=True)
class Look:
    """Where to look, and the mark to leave when nothing is due there that no pending plan has."""

    intents: Intents
    mark: Mark


def look_everywhere(newest: int, newest_digest: str, plans: Mapping[str, str] = NO_PLANS) -> Look:
    """The look of a process that knows nothing of earlier ones."""
    return Look(Intents(everything=True), Mark.at(newest, newest_digest, {}, plans))


def _new_windows(version: int, newest: int, divisor: int) -> list[Window]:
    """The largest complete windows at `newest` that were not complete at `version`."""
    return [window for window in complete_windows(newest, divisor) if window.level and window.last > version]


def _unknown(window: Window, version: int, known: Iterable[Window]) -> Iterable[int]:
    """The versions of a window up to `version` that no known window holds."""
    inside = sorted(other for other in known if window.holds(other))
    first = window.first
    for other in inside:
        yield from range(first, other.first)
        first = other.last + 1
    yield from range(first, min(window.last, version) + 1)


def _checksum(source: JsonObject) -> str:
    try:
        return digest(encode(source.unknown("checksum")))
    except (ValueError, RecursionError) as error:  # numbers that JSON has no text for
        raise CorruptLakeError(f"Headgate cannot have written {source.origin}: {error}") from error


def _window_to_json(window: Window, found: Intents) -> dict[str, Json]:
    return {
        "first": window.first,
        "last": window.last,
        "level": window.level,
        **_intents_to_json(found),
    }


def _window_from_json(source: JsonObject) -> tuple[Window, Intents]:
    first, last, level = (source.number(name) for name in ("first", "last", "level"))
    if not 0 < first <= last:
        raise CorruptLakeError(f"{source.origin}: {first} to {last} are not versions")
    return Window(first, last, level), _intents_from_json(source)


def _intents_to_json(found: Intents) -> dict[str, Json]:
    paths: dict[str, Json] = {}
    for table in sorted({table for table, _ in found.paths}):
        paths[table] = [*sorted(path for uuid, path in found.paths if uuid == table)]
    return {"paths": paths, "whole": [*sorted(found.whole)], "everything": found.everything}


def _intents_from_json(source: JsonObject) -> Intents:
    paths = source.object("paths")
    named = frozenset((table, path) for table in paths.fields for path in paths.texts(table))
    everything = source.fields.get("everything") is True
    return Intents(named, frozenset(source.texts("whole")), everything)
