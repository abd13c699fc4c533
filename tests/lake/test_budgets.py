"""What a commit and an open may cost, in requests. One request more fails the build."""

from __future__ import annotations

import pytest

import headgate as hg
from headgate.storage.counting import Tally, counted
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Create, ListPage, Put, Rename

COMMIT = {
    "conditional": {"create": 1},
    "rename": {"put": 1, "rename": 1},
    "filetracker": {"list": 2, "put": 4},
}


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
    assert kinds == [Put, ListPage, Put, ListPage, Put, Put]  # the last two at once


def test_passing_a_boundary_adds_a_checkpoint_and_its_announcement() -> None:
    for strategy in ("conditional", "rename"):
        lake, tally = counted_lake(strategy)
        for _ in range(9):
            commit(lake, tally)
        puts = COMMIT[strategy].get("put", 0) + 2
        assert commit(lake, tally) == {**COMMIT[strategy], "put": puts}


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
    assert totals[1] <= 10 * (6 + 7) + 5


def test_a_lost_race_adds_one_read_and_one_more_try() -> None:
    lake, tally = counted_lake("conditional")
    other = hg.Lake.open(lake._log.driver.store)
    other.set_properties({"other": "x"})
    assert commit(lake, tally) == {"create": 2, "get": 1}


def test_a_transaction_asks_once_whether_anything_is_new() -> None:
    lake, tally = counted_lake("conditional")
    tally.reset()
    with lake.transaction() as tx:
        tx.set_properties({"a": "1"})
    assert tally.counts() == {"get": 1, "create": 1}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", COMMIT)
def test_nothing_grows_with_the_number_of_versions(strategy: str) -> None:
    lake, tally = counted_lake(strategy)
    costs: dict[int, tuple[dict[str, int], int]] = {}
    for version in range(1, 10_001):
        counts = commit(lake, tally)
        costs[version] = (counts, tally.bytes_written)
    for early, late in ((9, 9_999), (20, 10_000)):
        (early_counts, early_bytes), (late_counts, late_bytes) = costs[early], costs[late]
        assert early_counts == late_counts
        # Only the digits of the version number itself may be added: a handful in each object.
        assert late_bytes - early_bytes <= 8 * sum(late_counts.get(kind, 0) for kind in ("put", "create"))
    # One identity, one announcement, one checkpoint, and the records of at most one window.
    tally.reset()
    opened = hg.Lake.open(lake._log.driver.store)
    counts = tally.counts()
    assert set(counts) == {"get"}
    assert counts["get"] <= 1 + lake.divisor + 2
    assert opened.version == 10_000


def test_opening_at_any_point_of_a_window_stays_within_the_budget() -> None:
    lake, tally = counted_lake("conditional")
    for version in range(31):
        if version:
            commit(lake, tally)
        tally.reset()
        opened = hg.Lake.open(lake._log.driver.store)
        counts = tally.counts()
        assert opened.version == version
        assert counts["get"] <= 1 + lake.divisor + 2
        assert counts.get("list", 0) <= (version < 10)


def test_counted_kinds_are_the_ones_that_change_the_log() -> None:
    """The budget above would not notice a request that the tally does not name."""
    lake, tally = counted_lake("rename")
    commit(lake, tally)
    assert [type(request) for request in tally.history] == [Put, Rename]
    assert not any(isinstance(request, Create) for request in tally.history)
