"""Operations on a handle that has not looked for long: each begins on the newest version, or is blind."""

from __future__ import annotations

import pyarrow as pa
import pytest

import headgate as hg
from headgate.errors import NotFoundError
from headgate.lake.table import Table
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Get
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import counted
from tests.isolation.beginnings import (
    BESIDE_THE_LOG,
    BLIND,
    COMMITS,
    LOOK_ON,
    TABLE,
    WITH_SPARK,
    a_lake,
    public_methods,
    rows,
)


def test_every_public_method_is_known() -> None:
    """A new one must say here whether it commits, and then begins on the newest version or is blind."""
    known = [set(COMMITS), set(WITH_SPARK), LOOK_ON, BESIDE_THE_LOG]
    assert public_methods() == set().union(*known)
    assert sum(map(len, known)) == len(public_methods()), "each of them once"
    assert set(COMMITS) >= BLIND


def records_after(lake: hg.Lake, version: int) -> list[Record]:
    newest: LakeState = Inspector(lake).refresh()
    return list(Inspector(lake).handle.log.records_down(newest, newest.version.number - version))


@pytest.mark.parametrize("name", COMMITS)
def test_what_commits_begins_on_the_newest_version(name: str) -> None:
    store = a_lake()
    stale = hg.Lake.open(store)
    other = hg.Lake.open(store)
    seen = other.table(TABLE).append(rows(7)).version
    COMMITS[name](stale)
    records = records_after(other, seen)
    assert records, "the call committed something"
    if name in BLIND:
        assert all(record.appends_blindly for record in records)
    else:
        assert min(record.base.number for record in records) >= seen


def ids(lake: hg.Lake, name: str = TABLE) -> list[int]:
    return sorted(lake.table(name).read_arrow()["id"].to_pylist())


@pytest.mark.parametrize(
    ("overwrite", "left"),
    [
        (lambda table: table.overwrite(rows(9)), [9]),
        (lambda table: table.overwrite(rows(9), where="id >= 2"), [1, 9]),
        (lambda table: table.overwrite_partitions(rows(9)), [9]),
        (lambda table: table.overwrite(rows(), where="id = 2"), [1]),
    ],
)
@pytest.mark.parametrize("isolation", ["snapshot", "write-serializable", "serializable"])
@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_an_overwrite_replaces_rows_that_were_committed_before_the_call(
    overwrite: object, left: list[int], isolation: str, partition_by: list[str]
) -> None:
    store = MemoryStore("stale")
    stale = hg.Lake.init(store)
    table = stale.create_table(
        TABLE, "id BIGINT, n INT, p STRING", partition_by=partition_by, properties={"isolation": isolation}
    )
    table.append(rows(1))
    hg.Lake.open(store).table(TABLE).append(rows(2))
    assert callable(overwrite)
    overwrite(table)
    assert ids(stale) == left


def test_a_blind_append_asks_for_nothing_before_it_offers_its_record() -> None:
    store, tally = counted(MemoryStore("asked"))
    lake = hg.Lake.init(store, strategy="conditional")
    table = lake.create_table(TABLE, "id BIGINT, n INT, p STRING")
    tally.reset()
    table.append(rows(1))
    offered = next(i for i, request in enumerate(tally.history) if "/log/" in getattr(request, "key", ""))
    assert not [request for request in tally.history[:offered] if isinstance(request, Get)]


# --- names that were used again -----------------------------------------------------------------------------


def with_another(store: MemoryStore) -> hg.Lake:
    """Somebody gives the name to another table, with other columns."""
    other = hg.Lake.open(store)
    other.drop_table(TABLE)
    other.create_table(TABLE, "id BIGINT").append(pa.table({"id": [5]}))
    return other


def test_a_stale_handle_appends_to_the_table_that_has_the_name_now() -> None:
    store = a_lake()
    stale = hg.Lake.open(store)
    other = with_another(store)
    Table(stale, TABLE).append(pa.table({"id": [6]}))
    assert ids(other) == [5, 6]


def test_rows_that_only_fitted_the_former_table_are_refused() -> None:
    store = a_lake()
    stale = hg.Lake.open(store)
    other = with_another(store)
    with pytest.raises(hg.InvalidInputError):
        Table(stale, TABLE).append(rows(6))
    assert ids(other) == [5]


def test_a_stale_handle_does_not_find_a_table_that_was_dropped() -> None:
    store = a_lake()
    stale = hg.Lake.open(store)
    hg.Lake.open(store).drop_table(TABLE)
    table = Table(stale, TABLE)
    with pytest.raises(NotFoundError):
        table.append(rows(6))
    with pytest.raises(NotFoundError):
        table.overwrite(rows(6))


def test_a_stale_handle_appends_to_the_columns_that_have_the_names_now() -> None:
    store = a_lake()
    stale = Table(hg.Lake.open(store), TABLE)
    other = hg.Lake.open(store)
    table = other.table(TABLE)
    table.add_column("m", "INT")
    table.rename_column("n", "k")
    table.rename_column("m", "n")
    stale.append(rows(6).select(["id", "n", "p"]))
    assert table.read_arrow(where="id = 6", columns=["n", "k"]).to_pylist() == [{"n": 6, "k": None}]
