"""A table at an earlier version, told from the files of later snapshots: the same rows, or no answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.arrow.data_files import read_rows
from headgate.core.compaction.windows import Coverage
from headgate.core.input.arguments import found_table
from headgate.iceberg.format.boundaries import coverage, plan_as_of, with_files_of
from headgate.iceberg.format.metadata import TableMetadata
from headgate.iceberg.format.snapshot import READABLE_SINCE, readable_since
from headgate.model.identifiers import Window
from headgate.storage.memory import MemoryStore
from headgate.testing.inspector import Inspector
from tests.examples import examples
from tests.maintenance.windows import compact_window

DIVISOR = 3
NAME = "t.t"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "part": [i % 2 for i in ids], "n": [0] * len(ids)})


@dataclass
class History:
    """A table and all that is done to it."""

    lake: hg.Lake
    next_id: int = 0
    done: Counter[str] = field(default_factory=Counter)

    @classmethod
    def begin(cls, partition_by: list[str] = []) -> History:  # noqa: B006
        lake = hg.Lake.init(MemoryStore(), divisor=DIVISOR)
        lake.create_table(NAME, "id BIGINT, part BIGINT, n BIGINT", partition_by=partition_by)
        return cls(lake)

    @property
    def table(self) -> hg.Table:
        return self.lake.table(NAME)

    def new(self, count: int) -> pa.Table:
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        return rows(*ids)

    def some(self, of: int, number: int) -> str:
        """Every so-manieth row that there ever was."""
        return f"id IN ({', '.join(str(one) for one in range(number % of, self.next_id + of, of))})"

    def do(self, act: str, number: int) -> None:
        before = self.lake.version
        match act:
            case "append":
                self.table.append(self.new(1 + number % 3))
            case "delete":
                self.table.delete(self.some(3, number))
            case "update":
                self.table.update({"n": "n + 1"}, where=self.some(4, number))
            case "copy-on-write":
                self.table.set_properties({"write.delete.mode": "copy-on-write"})
                self.table.delete(self.some(5, number))
                self.table.remove_properties("write.delete.mode")
            case "overwrite":
                where = f"id < {number} OR id >= {self.next_id}"
                self.table.overwrite(self.new(2), where=where)
            case "replace all":
                self.table.overwrite(self.new(2))
            case "compact":
                level = 1 + number % 2
                size = DIVISOR**level
                for last in range(size, self.lake.version + 1, size):
                    compact_window(self.lake, NAME, level, last)
            case "drop column":
                names = [column.name for column in self.table.schema.fields]
                if "extra" in names:
                    self.table.drop_column("extra")
                else:
                    self.table.add_column("extra", "BIGINT")
                    self.table.update({"extra": "id"}, where=self.some(2, 0))
        self.done[act] += self.lake.version > before

    def metadata(self, version: int) -> TableMetadata:
        ref = found_table(Inspector(self.lake).handle.state_at(version), NAME)
        return Inspector(self.lake).loader().metadata(ref.metadata)

    def at(self, version: int) -> list[tuple[object, ...]]:
        return content(self.table.read_arrow(version=version))

    def told_by(self, source: int, version: int) -> list[tuple[object, ...]]:
        """The rows at `version`, from the files of `source`."""
        loader = Inspector(self.lake).loader()
        own = self.metadata(version)
        found = plan_as_of(loader, with_files_of(own, self.metadata(source)), version, None)
        return content(read_rows(Inspector(self.lake).driver, loader, found.files, own.schema))

    def coverage(self, version: int) -> Coverage:
        return coverage(Inspector(self.lake).loader(), self.metadata(version))


def content(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted((tuple(sorted(row.items())) for row in table.to_pylist()), key=repr)


OFTEN = ("append", "append", "delete", "update", "compact", "compact")
ACTS = (*OFTEN, *OFTEN, "overwrite", "copy-on-write", "replace all", "drop column")


@pytest.mark.parametrize("partition_by", [[], ["part"]], ids=["whole", "partitioned"])
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_a_version_is_exact_from_later_files_or_they_do_not_tell(
    partition_by: list[str], data: st.DataObject
) -> None:
    history = History.begin(partition_by)
    acts = data.draw(st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 11)), min_size=6, max_size=16))
    for act, number in acts:
        history.do(act, number)
    newest = history.lake.version
    truth = {version: history.at(version) for version in range(1, newest + 1)}
    for source in range(1, newest + 1):
        told = history.coverage(source)
        for version in range(1, source + 1):
            if told.tells(version):
                assert history.told_by(source, version) == truth[version], (version, source)


@settings(max_examples=examples(15), deadline=None)
@given(
    acts=st.lists(
        st.tuples(st.sampled_from(("append", "append", "delete", "update")), st.integers(0, 11)),
        min_size=6,
        max_size=20,
    )
)
def test_boundaries_stay_readable_after_compaction(acts: list[tuple[str, int]]) -> None:
    """Without overwrites every boundary of a level stays readable when windows of that level are compacted.

    Unless a window lost all its rows: then what is left begins behind it.
    """
    history = History.begin()
    for act, number in acts:
        history.do(act, number)
    before = {version: history.at(version) for version in range(1, history.lake.version + 1)}
    history.do("compact", 0)
    history.do("compact", 1)
    newest = history.lake.version
    told = history.coverage(newest)
    size = DIVISOR**2
    for version in range(size, max(before) + 1, size):
        if told.since <= version:
            assert told.tells(version)
            assert history.told_by(newest, version) == before[version]
    if not any(act in ("delete", "update") for act, _ in acts):
        assert told.since == 0


def test_what_straddles_a_version_does_not_tell_it() -> None:
    told = Coverage(4, frozenset({Window(1, 9, 2), Window(12, 12)}))
    assert [version for version in range(1, 13) if told.tells(version)] == [9, 10, 11, 12]
    assert not Coverage(10, frozenset({Window(1, 9, 2)})).tells(9)


def since(history: History) -> int:
    snapshot = history.metadata(history.lake.version).snapshot
    assert snapshot is not None
    return int(snapshot["summary"][READABLE_SINCE])


CHANGES = (
    *(("append", 1, True), ("delete", 1, True), ("update", 1, True), ("compact", 0, True)),
    *(("overwrite", 3, False), ("replace all", 0, False), ("copy-on-write", 1, False)),
)


@pytest.mark.parametrize(("act", "number", "stays"), CHANGES, ids=lambda one: str(one))
def test_what_a_change_leaves_readable(act: str, number: int, stays: bool) -> None:
    history = History.begin()
    for _ in range(8):
        history.do("append", 2)
    assert since(history) == 0
    history.do(act, number)
    assert history.done[act]
    changed = history.lake.version - (act == "copy-on-write")
    assert since(history) == (0 if stays else changed)


def test_a_dropped_column_is_not_told_any_more() -> None:
    """A compaction would write the files without it."""
    history = History.begin()
    history.do("append", 2)
    history.do("drop column", 0)
    with_column = history.lake.version
    assert since(history) == 0
    history.do("drop column", 0)
    history.do("append", 2)
    assert since(history) == history.lake.version
    assert not history.coverage(history.lake.version).tells(with_column)


def test_a_compaction_of_everything_at_once_tells_of_itself_only() -> None:
    """Its files do not say which versions they are of."""
    history = History.begin()
    for _ in range(4):
        history.do("append", 2)
    metadata, loader = history.metadata(history.lake.version), Inspector(history.lake).loader()
    removed = [entry for group in loader.entries(loader.manifests(metadata)) for entry in group]
    places = {"L0": 7, "L2-1-6": 0}
    for place, expected in places.items():
        added = [replace(removed[0].file, path=f"{metadata.location}/data/{place}-{'0' * 32}/x.parquet")]
        assert readable_since(metadata, "replace", added, removed, 7, DIVISOR) == expected
        assert readable_since(metadata, "overwrite", added, removed, 7, DIVISOR) == 7
    assert readable_since(metadata, "replace", [], removed, 7, DIVISOR) == 7


def test_a_compaction_that_leaves_nothing_of_a_file_ends_what_is_told_within_its_window() -> None:
    history = History.begin()
    for _ in range(9):
        history.do("append", 2)
    metadata, loader = history.metadata(history.lake.version), Inspector(history.lake).loader()
    removed = [entry for group in loader.entries(loader.manifests(metadata)) for entry in group]
    # Only the last file has an output; those of versions 2 to 9 lie in the window up to 9.
    added = [replace(removed[0].file, path=f"{metadata.location}/data/L1-10-12-{'0' * 32}/x.parquet")]
    assert readable_since(metadata, "replace", added, removed, 13, DIVISOR) == 9


def test_a_window_that_lost_all_its_rows_ends_what_is_told() -> None:
    history = History.begin()
    history.table.append(rows(1, 2))
    history.table.append(rows(3, 4))
    assert history.lake.version == DIVISOR
    # At the same time: one after the other, the second would take the files away.
    with history.lake.transaction() as one, history.lake.transaction() as other:
        one.table(NAME).delete("id IN (1, 3)")
        other.table(NAME).delete("id IN (2, 4)")
    while history.lake.version < DIVISOR**2:
        history.lake.set_properties({"n": str(history.lake.version)})
    there = history.at(DIVISOR)
    assert len(there) == 4
    compact_window(history.lake, NAME, 1, DIVISOR)
    assert history.told_by(history.lake.version, DIVISOR) == there
    assert history.coverage(history.lake.version).tells(DIVISOR)
    compact_window(history.lake, NAME, 2, DIVISOR**2)
    # No file is left that would straddle it.
    assert history.table.files() == ()
    assert not history.coverage(history.lake.version).tells(DIVISOR)
