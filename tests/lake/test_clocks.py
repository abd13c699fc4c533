"""A writer whose clock is centuries ahead: expiry and travel by time go on, and it is reported."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

import headgate as hg
from headgate.core.history.commit_time import NO_LAKE_BEFORE
from headgate.log.layout import checkpoint_key
from headgate.storage.memory import MemoryStore
from headgate.system.host import SYSTEM
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import counted
from tests.cli.program import run, run_json
from tests.examples import examples
from tests.maintenance.aging import DAY, AgingHost, Clock, rows

YEARS = timedelta(days=500 * 365)


def handle(store: MemoryStore, ahead: timedelta = timedelta(0)) -> hg.Lake:
    return hg.Lake.open(store, host=AgingHost(Clock(ahead)))


def append(store: MemoryStore, ahead: timedelta = timedelta(0), *ids: int) -> hg.CommitResult:
    return handle(store, ahead).table("db.t").append(rows(*(ids or (0,))))


def new_lake(store: MemoryStore, ahead: timedelta = timedelta(0)) -> hg.Lake:
    lake = hg.Lake.init(store, divisor=2, host=AgingHost(Clock(ahead)))
    lake.create_table("db.t", "id BIGINT, n BIGINT")
    return lake


def times_of(store: MemoryStore) -> list[datetime]:
    """By version, from 1 on."""
    return [entry.committed_at for entry in reversed(handle(store).log())]


@pytest.fixture
def store() -> MemoryStore:
    """Version 1 makes the table; 2 is right, 3 is 500 years ahead, 4 and 5 are right again."""
    store = MemoryStore()
    new_lake(store)
    for number, ahead in enumerate((timedelta(0), YEARS, timedelta(0), timedelta(0)), 1):
        append(store, ahead, number)
    return store


def test_time_goes_on(store: MemoryStore) -> None:
    times = times_of(store)
    assert times[2] - times[1] > YEARS - DAY
    assert times[1] < times[3] < times[4] < times[2]
    lake = handle(store)
    found = [lake.at(timestamp=time).version for time in (times[1], times[3], times[4])]
    assert found == [2, 4, 5]
    later = handle(store, 3 * DAY)
    assert later.at(timestamp=times[4] + DAY).version == 5
    assert len(later.log(since=times[4])) == 1
    assert [entry.version for entry in later.log(since=times[3])] == [5, 4, 3]


def test_a_handle_that_begins_at_a_checkpoint_finds_the_same(store: MemoryStore) -> None:
    times = times_of(store)
    for _ in range(3):
        append(store)  # version 8 is a boundary, at which there is a checkpoint
    assert [handle(store).at(timestamp=time).version for time in (times[1], times[3], times[4])] == [2, 4, 5]


def test_expiry_goes_on(store: MemoryStore) -> None:
    append(store, 3 * DAY, 5)
    later = handle(store, 3 * DAY)
    assert later.expire(["all:1d"]).expired >= 4
    assert later.table("db.t").read_arrow()["id"].to_pylist() == [1, 2, 3, 4, 5]
    assert later.fsck(deep=True).ok


def test_two_writers_that_take_turns(store: MemoryStore) -> None:
    """One of them is never corrected; each version of the other is found by its time."""
    right = []
    for day in range(25):
        append(store, YEARS + day * DAY)
        right.append(append(store, day * DAY).version)
    times = times_of(store)
    lake = handle(store)
    assert [lake.at(timestamp=times[version - 1]).version for version in right[-8:]] == right[-8:]
    found = [lake.at(timestamp=times[version - 1]).version for version in right]
    assert found == sorted(found)


# --- lakes that were frozen before -------------------------------------------------------------------------


def test_a_lake_that_was_frozen_goes_on() -> None:
    """Earlier releases dated all versions like the one that was ahead; no checkpoint knows of the jump."""
    store = MemoryStore()
    new_lake(store)
    append(store)
    for _ in range(12):
        append(store, YEARS)
    assert handle(store).at(timestamp=SYSTEM.now()).version == 2
    done = append(store)
    assert done.clock_warning is not None and "set back" in done.clock_warning
    assert handle(store).at(timestamp=SYSTEM.now()).version == done.version
    append(store, 3 * DAY)
    assert handle(store, 3 * DAY).expire(["all:1d"]).expired >= 10
    assert handle(store, 3 * DAY).fsck().ok


def test_a_lake_that_was_made_by_such_a_clock() -> None:
    store = MemoryStore()
    new_lake(store, YEARS)
    said = [note.problem for note in handle(store).fsck().notes if note.kind == "clock-ahead"]
    assert any("the lake, created by " in problem and "is dated 182,499 days" in problem for problem in said)
    assert handle(store).doctor().clock_warning is not None
    done = append(store)
    assert handle(store).at(timestamp=SYSTEM.now()).version == done.version
    assert handle(store).doctor().clock_warning is None
    with pytest.raises(hg.NotFoundError, match="did not exist"):
        handle(store).at(timestamp=SYSTEM.now() - DAY)


def test_and_one_without_commits() -> None:
    store = MemoryStore()
    lake = hg.Lake.init(store, host=AgingHost(Clock(YEARS)))
    assert lake.version == 0
    handle(store).create_table("db.t", "id BIGINT, n BIGINT")
    assert handle(store).at(timestamp=SYSTEM.now()).version == 1


# --- clocks that are behind --------------------------------------------------------------------------------


@pytest.mark.parametrize("behind", [YEARS, 40 * DAY, DAY])
def test_a_clock_that_is_behind_sets_nothing_back(behind: timedelta) -> None:
    store = MemoryStore()
    new_lake(store)
    for week in range(20):
        append(store, 7 * DAY * week)
    times = times_of(store)
    done = append(store, 7 * DAY * 19 - behind)
    assert times_of(store) == [*times, times[-1]]
    assert (done.clock_warning is not None) == (behind > 30 * DAY)


def test_nor_does_one_from_before_there_were_lakes() -> None:
    store = MemoryStore()
    new_lake(store)
    (made,) = times_of(store)
    done = append(store, NO_LAKE_BEFORE - DAY - SYSTEM.now())
    assert times_of(store) == [made, made]
    assert done.clock_warning is not None and "behind the log" in done.clock_warning


def test_a_clock_that_set_the_time_back_wrongly_makes_nothing_expire() -> None:
    """A lake rests for a year; then a writer has the time of that year. What expires is as if it had not."""
    store = MemoryStore()
    new_lake(store)
    year = 365 * DAY
    for day in (0, 1, 2):
        append(store, year + day * DAY)
    assert append(store, year / 2).clock_warning is not None
    append(store, year + 3 * DAY)
    assert times_of(store)[4] < times_of(store)[3] < times_of(store)[5]
    planned = handle(store, year + 3 * DAY).expire(["all:30d"], dry_run=True)
    assert planned.until <= 1


def requests_of_an_append(behind: timedelta) -> dict[str, int]:
    store, tally = counted(MemoryStore())
    clock = Clock()
    lake = hg.Lake.init(store, divisor=100, strategy="conditional", host=AgingHost(clock))
    table = lake.create_table("db.t", "id BIGINT, n BIGINT")
    table.append(rows(1))
    clock.pass_time(-behind)
    tally.reset()
    table.append(rows(2))
    return tally.counts()


def test_a_clock_that_is_a_little_behind_costs_no_requests() -> None:
    assert requests_of_an_append(29 * DAY) == requests_of_an_append(timedelta(0))


# --- reports -----------------------------------------------------------------------------------------------


def test_it_is_reported() -> None:
    store = MemoryStore()
    right = hg.Lake.init(store)
    assert right.create_table("db.t", "id BIGINT, n BIGINT").append(rows(1)).clock_warning is None
    ahead = append(store, YEARS)
    assert ahead.clock_warning is not None and "182,500 days after" in ahead.clock_warning
    assert "ahead of the clock of this machine" in str(right.doctor().clock_warning)
    (found,) = [note for note in right.fsck().notes if note.kind == "clock-ahead"]
    assert "version 3 by" in found.problem and "182,499 days ahead" in found.problem and "@" in found.problem
    mended = right.table("db.t").append(rows(3))
    assert mended.clock_warning is not None and "set back" in mended.clock_warning
    assert right.doctor().clock_warning is None
    report = right.fsck()
    assert not report.damage and {"clock-ahead", "clock-set-back"} <= {note.kind for note in report.notes}
    assert right.table("db.t").append(rows(4)).clock_warning is None


def test_commands_report_it(tmp_path: Path) -> None:
    place, file = tmp_path / "lake", tmp_path / "rows.csv"
    file.write_text("id,n\n1,1\n")
    hg.Lake.init(place, host=AgingHost(Clock(-DAY)))
    lake = hg.Lake.open(place, host=AgingHost(Clock(YEARS)))
    lake.create_table("db.t", "id BIGINT, n BIGINT")
    assert "ahead" in run_json("doctor", place)["clock_warning"]
    assert "ahead of the clock" in run("doctor", place).output
    assert "clock-ahead" in run("fsck", place).output
    done = run("ingest", place, "db.t", file)
    assert done.exit_code == 0 and "its time was set back" in done.stderr
    assert "clock-set-back" in run("fsck", place).output
    assert json.loads(run("ingest", place, "db.t", file, "--json").stdout)["clock_warning"] is None


def test_a_checkpoint_of_an_earlier_release_is_no_damage(store: MemoryStore) -> None:
    """It does not say where the times go back."""
    for _ in range(3):
        append(store)
    state = Inspector(handle(store)).handle.state_at(8)
    assert state.set_backs
    store.put(checkpoint_key(state.version), replace(state, set_backs=()).encode())
    assert handle(store).fsck().ok


# --- other engines -----------------------------------------------------------------------------------------


def test_the_times_in_tables_stay_in_order(store: MemoryStore) -> None:
    """Iceberg in Java refuses a table with a log of snapshots that is not."""
    dice = Random(2026)
    for _ in range(examples(12)):
        append(store, timedelta(days=dice.choice((0, 0, 1, 60, 500 * 365, -1, -60))))
        lake = handle(store)
        ref = Inspector(lake).refresh().tables["db.t"]
        fields = Inspector(lake).loader().metadata(ref.metadata).fields
        for name in ("snapshots", "snapshot-log", "metadata-log"):
            times = [item["timestamp-ms"] for item in fields[name]]
            assert all(one <= other for one, other in pairwise([*times, fields["last-updated-ms"]])), name
