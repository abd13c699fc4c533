"""What a commit and an open may cost, in requests. One request more fails the build."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.iceberg.format.data_file import DataFile
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Create, Delete, Get, ListPage, Put, Rename
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Tally, counted
from headgate.transaction.changes import TableChange

DECISION = {
    "conditional": {"create": 1},
    "rename": {"put": 1, "rename": 1},
    "filetracker": {"list": 2, "put": 4},
}
COMMIT = {
    strategy: {**counts, "create": counts.get("create", 0) + 1} for strategy, counts in DECISION.items()
}
"""The decision of a version, and then its control entry, which refuses to replace that of a lost version."""


def counted_lake(strategy: str, divisor: int = 10) -> tuple[hg.Lake, Tally]:
    store, tally = counted(MemoryStore())
    return hg.Lake.init(store, strategy=strategy, divisor=divisor), tally


def commit(lake: hg.Lake, tally: Tally) -> dict[str, int]:
    tally.reset()
    lake.set_properties({"n": "x"})
    return tally.counts()


@pytest.mark.parametrize("strategy", COMMIT)
def test_an_uncontended_commit_by_a_warm_handle(strategy: str) -> None:
    lake, tally = counted_lake(strategy)
    for version in range(1, 10):
        assert commit(lake, tally) == COMMIT[strategy], version


def test_filetracker_decides_in_five_rounds() -> None:
    lake, tally = counted_lake("filetracker")
    tally.reset()
    lake.set_properties({"n": "x"})
    kinds = [type(request) for request in tally.history]
    # The fifth and sixth at once; the last one is the control entry, when all is decided.
    assert kinds == [Put, ListPage, Put, ListPage, Put, Put, Create]


@pytest.mark.parametrize("windows", [1, 2, 5])
def test_passing_a_boundary_adds_a_checkpoint_its_announcement_and_a_look_at_its_window(windows: int) -> None:
    for strategy in ("conditional", "rename"):
        lake, tally = counted_lake(strategy)
        for _ in range(10 * windows - 1):
            commit(lake, tally)
        # The mark, which it also moves, and the entries of the nine versions before it.
        besides = {"get": 1 + 9, "put": COMMIT[strategy].get("put", 0) + 2 + 1}
        assert commit(lake, tally) == {**COMMIT[strategy], **besides}


def test_filetracker_cleans_up_with_a_bounded_number_of_requests_per_version() -> None:
    lake, tally = counted_lake("filetracker")
    totals = []
    for _ in range(10):
        total = 0
        for _ in range(10):
            total += sum(commit(lake, tally).values())
        totals.append(total)
    # The first window has two versions less to clean: those that are kept.
    assert totals[1:] == [totals[1]] * 9
    assert totals[1] <= 10 * (7 + 7 + 1) + 7


def test_a_lost_race_adds_one_read_and_one_more_try() -> None:
    lake, tally = counted_lake("conditional")
    other = hg.Lake.open(Inspector(lake).store)
    other.set_properties({"other": "x"})
    assert commit(lake, tally) == {"create": 3, "get": 1}


def test_a_transaction_asks_once_whether_anything_is_new() -> None:
    lake, tally = counted_lake("conditional")
    tally.reset()
    with lake.transaction() as tx:
        tx.set_properties({"a": "1"})
    assert tally.counts() == {"get": 1, "create": 2}


@pytest.mark.parametrize(
    "versions", [pytest.param(1_000, marks=pytest.mark.slow), pytest.param(10_000, marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize("strategy", COMMIT)
def test_nothing_grows_with_the_number_of_versions(strategy: str, versions: int) -> None:
    lake, tally = counted_lake(strategy)
    costs: dict[int, tuple[dict[str, int], int]] = {}
    for version in range(1, versions + 1):
        counts = commit(lake, tally)
        costs[version] = (counts, tally.bytes_written)
    for early, late in ((9, versions - 1), (20, versions)):
        (early_counts, early_bytes), (late_counts, late_bytes) = costs[early], costs[late]
        assert early_counts == late_counts
        # Only the digits of the version number itself may be added: a handful in each object, and in the
        # control entry once more in its copy of the record.
        assert late_bytes - early_bytes <= 12 * sum(late_counts.get(kind, 0) for kind in ("put", "create"))
    # One identity, one announcement, one checkpoint, and the records of at most one window.
    tally.reset()
    opened = hg.Lake.open(Inspector(lake).store)
    counts = tally.counts()
    # They all read a control entry; FileTracker also lists its markers, which are few.
    assert counts.get("list", 0) == (strategy == "filetracker")
    assert counts["get"] <= 1 + lake.divisor + 2
    assert opened.version == versions


@pytest.mark.parametrize("strategy", COMMIT)
def test_opening_at_any_point_of_a_window_stays_within_the_budget(strategy: str) -> None:
    lake, tally = counted_lake(strategy)
    for version in range(31):
        if version:
            commit(lake, tally)
        tally.reset()
        opened = hg.Lake.open(Inspector(lake).store)
        counts = tally.counts()
        assert opened.version == version
        assert counts["get"] <= 1 + lake.divisor + 2
        # One of checkpoints, without a hint that names one; and FileTracker's of markers.
        assert counts.get("list", 0) <= (version < 10) + (strategy == "filetracker")


def calls(act: Callable[[], object]) -> int:
    """How many functions run in this thread: unlike the time they take, it does not depend on the machine."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


def test_opening_a_directory_takes_little_work(tmp_path: Path) -> None:
    """Seven records after a checkpoint. The requests are few; what is done around each of them adds up."""
    lake = hg.Lake.init(tmp_path / "lake", strategy="conditional")
    for number in range(17):
        lake.set_properties({"n": str(number)})
    hg.Lake.open(tmp_path / "lake")
    assert calls(lambda: hg.Lake.open(tmp_path / "lake")) <= 4400


def test_counted_kinds_are_the_ones_that_change_the_log() -> None:
    """The budget above would not notice a request that the tally does not name."""
    lake, tally = counted_lake("rename")
    commit(lake, tally)
    assert [type(request) for request in tally.history] == [Put, Rename, Create]


# --- tables -------------------------------------------------------------------------------------------------

APPEND = {
    "manifest": 1,
    "manifest list": 1,
    "metadata": 1,
    "record": 1,
    "published": 1,
    "hint": 1,
    "control entry": 1,
}
"""What an append writes besides its data file. The last three come after the decision: for engines that open
tables by path, and as the receipt that all was done."""
BOUNDARY = {"checkpoint": 2, "recovery mark": 1}
"""What the commit that ends a window writes besides."""


def kind_of(key: str) -> str:
    """What an object of a lake is, by its name."""
    name = key.rpartition("/")[2]
    if key.startswith("control/timeline/"):
        return "announcement"
    if key.startswith("control/txn/"):
        return "recovery mark" if name == "recovered.json" else "control entry"
    if key.startswith("control/"):
        return "checkpoint" if key.startswith("control/checkpoint/") else "record"
    if name.endswith(".avro"):
        return "manifest list" if name.startswith("snap-") else "manifest"
    if name.endswith(".metadata.json"):
        return "published" if name.startswith("v") else "metadata"
    return "hint" if name == "version-hint.text" else "data"


def written(tally: Tally) -> dict[str, int]:
    keys = [request.key for request in tally.history if isinstance(request, Put | Create)]
    return dict(Counter(map(kind_of, keys)))


def read(tally: Tally) -> dict[str, int]:
    return dict(Counter(kind_of(request.key) for request in tally.history if isinstance(request, Get)))


def rows(part: int) -> pa.Table:
    return pa.table({"part": pa.array([part], pa.int32()), "id": pa.array([part], pa.int64())})


def append_prepared(lake: hg.Lake, file: DataFile, number: int) -> None:
    """The commit of a file that is there already: all of an append but the writing of rows."""
    with lake.transaction() as tx:
        opened = tx._work
        named = replace(file, path=f"{file.path}-{number}")
        opened.note(TableChange("a.b", base=opened.base.tables["a.b"], added=(named,)))


def test_what_an_append_writes() -> None:
    lake, tally = counted_lake("conditional")
    table = lake.create_table("a.b", "part INT, id BIGINT", partition_by=["part"])
    for part in range(28):
        tally.reset()
        version = table.append(rows(part)).version
        besides = BOUNDARY if version in (10, 20) else {}
        assert written(tally) == {"data": 1, **APPEND, **besides}, version


def test_an_append_that_loses_writes_its_manifest_once() -> None:
    lake, tally = counted_lake("conditional")
    table = lake.create_table("a.b", "part INT, id BIGINT")
    table.append(rows(1))
    with lake.transaction() as tx:
        tx.table("a.b").append(rows(2))
        hg.Lake.open(Inspector(lake).store).table("a.b").append(rows(3))
        tally.reset()
    assert tx.result.attempts == 2
    # Only what depends on the version is made again. The data file was there before.
    again = {"manifest list": 2, "metadata": 2, "record": 2}
    assert written(tally) == {**APPEND, **again}


def test_an_overwrite_announces_itself_once_and_takes_it_back() -> None:
    lake, tally = counted_lake("conditional")
    table = lake.create_table("a.b", "part INT, id BIGINT", partition_by=["part"])
    table.append(rows(1))
    for where in (None, "part = 2"):
        tally.reset()
        table.overwrite(rows(2), where=where)
        assert written(tally) == {"data": 1, **APPEND, "announcement": 1}
        deleted = [request.key for request in tally.history if isinstance(request, Delete)]
        assert [kind_of(key) for key in deleted] == ["announcement"]
        assert not [request for request in tally.history if isinstance(request, ListPage)]


def test_candidates_by_start_cost_a_listing_at_the_beginning() -> None:
    lake, tally = counted_lake("conditional")
    lake.set_properties({"conflict.candidates": "start"})
    tally.reset()
    lake.set_properties({"n": "x"})
    assert tally.counts() == {"create": 2, "list": 1}


def test_plans_of_other_tables_cost_nothing() -> None:
    lake, tally = counted_lake("conditional")
    for name in ("a.b", "a.c"):
        lake.create_table(name, "part INT, id BIGINT")
    table = lake.table("a.b")
    with lake.transaction() as tx:
        tx.plan("clustering", "a.c", ["f"], ["/a/c"])
    tally.reset()
    table.append(rows(1))
    assert written(tally) == {"data": 1, **APPEND}
    assert read(tally) == {"record": 1}


def test_what_a_transaction_over_two_tables_writes() -> None:
    lake, tally = counted_lake("conditional")
    for name in ("a.b", "a.c"):
        lake.create_table(name, "part INT, id BIGINT")
    tally.reset()
    with lake.transaction() as tx:
        for name in ("a.b", "a.c"):
            tx.table(name).append(rows(1))
    assert written(tally) == {"data": 2, **dict.fromkeys(APPEND, 2), "record": 1, "control entry": 1}


def test_a_warm_writer_reads_no_metadata_between_boundaries() -> None:
    lake, tally = counted_lake("conditional")
    table = lake.create_table("a.b", "part INT, id BIGINT")
    for part in range(8):
        tally.reset()
        table.append(rows(part))
        # After the commit, for the announcement: has anybody gone on?
        assert read(tally) == {"record": 1}, part


@pytest.mark.slow
def test_an_append_costs_the_same_at_version_10_and_at_version_1000() -> None:
    lake, tally = counted_lake("conditional")
    table = lake.create_table("a.b", "part INT, id BIGINT", partition_by=["part"])
    table.append(rows(7))
    (file,) = (planned.file for planned in table.plan().files)
    costs: dict[int, tuple[dict[str, int], dict[str, int]]] = {}
    sizes: dict[int, int] = {}
    for version in range(3, 1001):
        tally.reset()
        append_prepared(lake, file, version)
        costs[version] = written(tally), read(tally)
        objects = [request for request in tally.history if isinstance(request, Put)]
        sizes[version] = next(len(put.data) for put in objects if kind_of(put.key) == "metadata")
    assert costs[9] == costs[999] == (APPEND, {"record": 2})
    assert costs[10][0] == costs[20][0] == costs[1000][0] == {**APPEND, **BOUNDARY}
    # The manifests of at most (divisor − 1) windows of each level are put together.
    assert costs[1000][1]["manifest"] <= 9 * 3
    # The metadata has its full length once 100 snapshots are in it; only digits are added then.
    assert sizes[999] <= 1.01 * sizes[150] <= 100_000
    tally.reset()
    hg.Lake.open(Inspector(lake).store).table("a.b").plan()
    manifests = read(tally)["manifest"]
    assert manifests <= 9 * 3


def test_a_read_of_one_partition_fetches_what_it_needs() -> None:
    lake, tally = counted_lake("conditional")
    table = lake.create_table("a.b", "part INT, id BIGINT", partition_by=["part"])
    for part in range(25):  # versions 2 to 26
        table.append(rows(part))
    cold = hg.Lake.open(Inspector(lake).store).table("a.b")
    tally.reset()
    assert cold.read_arrow(where="part = 22").num_rows == 1
    # Of two merged manifests and six single ones, the summaries leave one.
    assert read(tally) == {"record": 1, "metadata": 1, "manifest list": 1, "manifest": 1, "data": 1}
    tally.reset()
    assert cold.read_arrow(where="part = 22 and id = 5").num_rows == 0
    # All is known by now but whether there is a newer version.
    assert read(tally).keys() <= {"record", "manifest"}
