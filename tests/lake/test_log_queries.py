"""Asking the log who did what."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import headgate as hg
from headgate.errors import InvalidInputError
from headgate.storage.memory import MemoryStore
from headgate.system.host import SystemHost
from headgate.testing.intercept import counted


class Office(SystemHost):
    """Whoever sits at the desk, a minute later each time."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = "ann"
        self.clock = datetime(2026, 11, 15, tzinfo=UTC)

    def user(self) -> str:
        return self.desk

    def now(self) -> datetime:
        return self.clock


def busy_lake() -> tuple[hg.Lake, Office]:
    office = Office()
    lake = hg.Lake.init(MemoryStore(), host=office)
    for name in ("sales.orders", "sales.totals", "hr.people"):
        lake.create_table(name, "id BIGINT")  # versions 1 to 3
    office.desk, office.clock = "bob", office.clock + timedelta(hours=1)
    lake.table("sales.orders").append(pa.table({"id": [1, 2]}))
    lake.table("hr.people").append(pa.table({"id": [1]}))
    office.desk, office.clock = "ann", office.clock + timedelta(hours=1)
    lake.table("sales.orders").delete("id = 1")
    lake.set_properties({"owner": "ann"})
    return lake, office


def versions(lake: hg.Lake, **query: object) -> list[int]:
    return [entry.version for entry in lake.log(**query)]  # type: ignore[arg-type]


def test_by_table_user_moment_and_kind() -> None:
    lake, _ = busy_lake()
    assert versions(lake) == [7, 6, 5, 4, 3, 2, 1]
    assert versions(lake, table="sales.orders") == [6, 4, 1]
    assert versions(lake, table="sales.*") == [6, 4, 2, 1]
    assert versions(lake, user="bob") == [5, 4]
    assert versions(lake, since="2026-11-15T02:00:00Z") == [7, 6]
    assert versions(lake, since=datetime(2026, 11, 15, 1, tzinfo=UTC), kind="append") == [5, 4]
    assert versions(lake, kind="create", limit=2) == [3, 2]
    assert versions(lake, kind="delete", table="hr.*") == []
    assert versions(lake, kind="commit", user="ann", before=7) == [6, 3, 2, 1]
    assert versions(lake, user="nobody") == []


def test_an_entry_says_what_was_done_and_how_much() -> None:
    lake, _ = busy_lake()
    (entry,) = lake.log(kind="append", table="sales.orders")
    assert (entry.verbs, entry.table_names, entry.changed.rows_added) == (("append",), ("sales.orders",), 2)
    assert lake.log(kind="delete")[0].changed.rows_removed == 1


def test_a_moment_ends_the_reading() -> None:
    store, tally = counted(MemoryStore())
    office = Office()
    lake = hg.Lake.init(store, host=office, divisor=100)
    for number in range(200):
        office.clock += timedelta(minutes=1)
        lake.set_properties({"n": str(number)})
    opened = hg.Lake.open(store, host=office)
    tally.reset()
    assert len(opened.log(since=office.clock - timedelta(minutes=2))) == 3
    assert tally.counts()["get"] < 150


@pytest.mark.parametrize("query", [{"table": ""}, {"user": 5}, {"kind": ["append"]}, {"since": "soon"}])
def test_bad_questions_are_refused(query: dict[str, object]) -> None:
    lake = hg.Lake.init(MemoryStore())
    with pytest.raises(InvalidInputError):
        versions(lake, **query)
