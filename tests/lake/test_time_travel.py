"""Going back: to a version, to a moment, to a tag, with all tables together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.storage.memory import MemoryStore
from headgate.system.host import SystemHost
from headgate.testing.intercept import counted


class Clocks(SystemHost):
    """A host whose clock shows what the test says, one time after the other."""

    def __init__(self, times: Iterator[datetime]) -> None:
        super().__init__()
        self._times = times

    def now(self) -> datetime:
        return next(self._times)


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


@pytest.fixture
def lake(tmp_path: Path) -> hg.Lake:
    return hg.Lake.init(tmp_path / "lake")


def test_a_view_shows_all_tables_of_one_version(lake: hg.Lake) -> None:
    lake.create_table("a.one", "id BIGINT").append(ids(1))
    before = lake.at()
    with lake.transaction() as tx:
        tx.table("a.one").append(ids(2))
        tx.create_table("a.two", "id BIGINT").append(ids(3))
    lake.drop_table("a.one")
    lake.create_table("b.three", "id BIGINT")
    assert lake.namespaces() == ("a", "b")
    assert before.version == 2
    assert before.tables() == ("a.one",)
    assert before.table("a.one").read_arrow().column("id").to_pylist() == [1]
    there = lake.at(version=3)
    assert there.tables() == ("a.one", "a.two")
    assert sorted(there.table("a.one").read_arrow().column("id").to_pylist()) == [1, 2]
    with pytest.raises(hg.NotFoundError, match=r"no table a\.two at version 2") as caught:
        before.table("a.two")
    assert caught.value.next_step == "read it at version 3, where it exists"
    with pytest.raises(hg.InvalidInputError, match="needs at least one"):
        lake.create_table("a.none", pa.schema([]))


def test_tags_name_versions_and_move(lake: hg.Lake) -> None:
    lake.set_properties({"n": "1"})
    lake.set_properties({"n": "2"})
    lake.tag("start", version=1)
    lake.tag("eom")
    assert lake.tags == {"start": 1, "eom": 3}
    assert lake.at(tag="start").properties["n"] == "1"
    lake.tag("start", version=2)
    assert lake.at(tag="start").version == 2
    assert lake.log(limit=1)[0].tags == {"start": 2}
    assert hg.Lake.open(lake.place).tags == {"start": 2, "eom": 3}
    lake.untag("start")
    assert lake.tags == {"eom": 3}
    assert lake.at(version=3).tags == {"start": 1}
    for _ in range(12):
        lake.set_properties({"n": "3"})  # past a checkpoint
    assert hg.Lake.open(lake.place).tags == {"eom": 3}


def test_tags_that_are_not_there(lake: hg.Lake) -> None:
    with pytest.raises(hg.NotFoundError, match="version 7 does not exist"):
        lake.tag("x", version=7)
    lake.set_properties({"n": "1"})
    lake.tag("end-of-month")
    with pytest.raises(hg.NotFoundError) as caught:
        lake.at(tag="end-of-mnth")
    assert caught.value.next_step == "did you mean end-of-month?"
    with pytest.raises(hg.NotFoundError):
        lake.untag("never")
    for name in ("", " ", "a\nb", "x ", 5):
        with pytest.raises(hg.InvalidInputError):
            lake.tag(name)  # type: ignore[arg-type]
    with pytest.raises(hg.InvalidInputError, match="each name a version"):
        lake.at(1, tag="x")
    assert lake.version == 2


def test_two_writers_of_one_tag_conflict(lake: hg.Lake) -> None:
    lake.set_properties({"n": "1"})
    first, second = lake.transaction(), lake.transaction()
    first.set_tag("eom", 1)
    second.set_tag("eom", 0)
    other = lake.transaction()
    other.set_tag("bom", 1)
    first.commit()
    with pytest.raises(hg.ConflictError, match="both changed the tags eom"):
        second.commit()
    other.commit()


def test_a_tag_names_a_version_that_exists(lake: hg.Lake) -> None:
    lake.set_properties({"n": "1"})
    tx = lake.transaction()
    for wrong in (2, 999):
        with pytest.raises(hg.NotFoundError, match=f"version {wrong} does not exist; the newest is 1"):
            tx.set_tag("soon", wrong)
    for nonsense in (-1, "1", True, None, 10**30):
        with pytest.raises(hg.HeadgateError):
            tx.set_tag("soon", nonsense)  # type: ignore[arg-type]
    lake.set_properties({"n": "2"})
    tx.set_tag("theirs", 2)  # made by somebody else since the transaction began
    tx.set_tag("own", 1)
    tx.commit()
    assert dict(lake.tags) == {"own": 1, "theirs": 2}
    assert not lake.fsck().damage


def test_moments_find_the_version_before_them() -> None:
    start = datetime(2026, 11, 15, 10, tzinfo=UTC)
    # Clocks that go back and stand still: the times in the log do not go back with them.
    minutes = [0, 0, 0, 5, 5, 3, 3, 9, 9, 9, 9, 20, 20]
    times = iter([*(start + timedelta(minutes=m) for m in minutes), *[start + timedelta(minutes=30)] * 100])
    lake = hg.Lake.init(MemoryStore(), host=Clocks(times))
    for number in range(6):
        lake.set_properties({"n": str(number)})
    committed = [entry.committed_at for entry in reversed(lake.log())]
    assert committed == sorted(committed)
    for position, at in enumerate(committed):
        expected = max(number for number, time in enumerate(committed, 1) if time <= at)
        assert lake.at(timestamp=at).version == expected >= position + 1
        if at > lake.created_at:
            before = sum(time < at for time in committed)
            assert lake.at(timestamp=at - timedelta(microseconds=1)).version == before
    assert lake.at(timestamp="2099-01-01").version == 6
    assert lake.at(timestamp=date(2099, 1, 1)).version == 6
    assert lake.at(timestamp="2026-11-15T10:00:00").committed_at in (None, committed[0])
    with pytest.raises(hg.NotFoundError, match="did not exist"):
        lake.at(timestamp="2026-11-15T09:59:59Z")


@pytest.mark.parametrize("given", ["yesterday", "", 5, "0001-01-01T00:00:00+23:59"])
def test_what_is_no_moment(lake: hg.Lake, given: object) -> None:
    with pytest.raises(hg.HeadgateError) as caught:
        lake.at(timestamp=given)  # type: ignore[arg-type]
    assert isinstance(caught.value, hg.InvalidInputError | hg.NotFoundError)


def test_finding_a_moment_reads_few_records() -> None:
    store, tally = counted(MemoryStore())
    lake = hg.Lake.init(store)
    for number in range(300):
        lake.set_properties({"n": str(number)})
    reader = hg.Lake.open(store)
    middle = lake.at(version=150).committed_at
    assert middle is not None
    tally.reset()
    assert reader.at(timestamp=middle).version in (150, 151)
    assert tally.counts()["get"] <= 9 + 10 + 3  # halving, the records after a checkpoint, the hint
