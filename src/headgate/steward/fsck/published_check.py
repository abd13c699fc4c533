"""Looking at what engines find that open a table by its path: the hint, and the metadata that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from headgate.commit.layout import PLAIN, TRACKER
from headgate.core.fsck.kinds import finding
from headgate.core.fsck.log import LogJudge, TableVersion
from headgate.core.fsck.sight import Trouble, trouble_with
from headgate.core.fsck.tables import Hint, hinted_version, judge_hint
from headgate.model.fsck import Finding
from headgate.model.identifiers import Version
from headgate.publishing import hint_key
from headgate.steward.fsck.sight import Sight, attempt
from headgate.steward.fsck.table_check import TableCheck


@dataclass(frozen=True, slots=True)
class PublishedCheck:
    """One look at the announcements of tables."""

    sight: Sight
    tables: TableCheck
    judge: LogJudge

    def run(self, newest: Sequence[TableVersion]) -> list[Finding]:
        at_place = self._by_place()
        return [one for table in newest for one in self._table(table, at_place.get(table.ref.location, {}))]

    def _by_place(self) -> Mapping[str, dict[int, TableVersion]]:
        """The versions of tables by directory: one that was dropped leaves its place to others."""
        found: dict[str, dict[int, TableVersion]] = {}
        for versions in self.judge.tables.values():
            for table in versions:
                if not table.dropped:
                    found.setdefault(table.ref.location, {})[table.version.number] = table
        return found

    def _table(self, table: TableVersion, versions: Mapping[int, TableVersion]) -> list[Finding]:
        key = hint_key(table.ref.location)
        data = self.sight.get(key)
        if isinstance(data, Trouble):
            return [trouble_with(key, data)]
        number = None if data is None else hinted_version(data)
        if number is not None and number > self.judge.head.number and self._is_decided(number):
            return []  # committed and published since the log was listed
        known = frozenset(versions)
        if not self.judge.complete and number is not None:
            known |= {number}  # the record may be the one that is lost
        found = judge_hint(Hint(key, table.version.number, known), data, self.judge.head.number)
        if number is None or number not in versions or any(one.is_damage for one in found):
            return found
        return [*found, *self._published(versions[number])]

    def _published(self, table: TableVersion) -> list[Finding]:
        key = f"{table.ref.location}/metadata/v{table.version}.metadata.json"
        data = self.sight.get(key)
        if isinstance(data, Trouble):
            return [trouble_with(key, data)]
        if data is None:
            return [finding("published-missing", key, "the hint names it, but it is not there")]
        original = self.tables.metadata_bytes(table.ref.metadata)
        if original is None or original == data or _same(original, data):
            return []
        return [finding("published-differs", key, f"it is not what {table.ref.metadata} says")]

    def _is_decided(self, number: int) -> bool:
        keys = [layout.record_key(Version(number)) for layout in (PLAIN, TRACKER)]
        return any(isinstance(data, bytes) for data in self.sight.get_all(keys))


def _same(one: bytes, other: bytes) -> bool:
    """Whether two files say the same, however it is written."""
    read = [attempt(partial(json.loads, data)) for data in (one, other)]
    return not any(isinstance(value, Trouble) for value in read) and read[0] == read[1]
