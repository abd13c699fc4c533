"""Batches of an application: each takes effect once, also one that found nothing to change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Create, Put, Rename, Request
from headgate.testing.faulty import Fault, faulty, lose_answer, lose_request
from headgate.transaction.table_writer import TableWriter

Operation = Callable[[TableWriter], object]
COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return pa.table({"id": [key for key, _ in pairs], "v": [value for _, value in pairs]}, COLUMNS)


def content(lake: hg.Lake) -> list[tuple[int, int]]:
    return sorted((row["id"], row["v"]) for row in lake.table("a.b").read_arrow().to_pylist())


def run(lake: hg.Lake, batch: int, operation: Operation) -> hg.CommitResult:
    with lake.transaction(app=("loader", batch)) as tx:
        operation(tx.table("a.b"))
    return tx.result


@pytest.fixture(params=["conditional", "filetracker"])
def lake(request: pytest.FixtureRequest) -> hg.Lake:
    return made(MemoryStore(), request.param)


def made(store: MemoryStore, strategy: str = "conditional") -> hg.Lake:
    lake = hg.Lake.init(store, strategy=strategy, divisor=4)
    lake.create_table("a.b", "id BIGINT NOT NULL, v BIGINT")
    return lake


FINDS_NOTHING: dict[str, Operation] = {
    "delete": lambda table: table.delete("id = 7"),
    "update": lambda table: table.update({"v": "v + 1"}, where="id = 7"),
    "upsert": lambda table: table.upsert(rows(), ["id"]),
    "read": lambda table: table.read_arrow(where="id = 7"),
    "overwrite": lambda table: table.overwrite(rows(), where="id = 7"),
    "overwrite all": lambda table: table.overwrite(rows()),
    "overwrite partitions": lambda table: table.overwrite_partitions(rows()),
    "append": lambda table: table.append(rows()),
}


@pytest.mark.parametrize("name", FINDS_NOTHING)
def test_a_batch_that_changed_nothing_does_nothing_later_either(lake: hg.Lake, name: str) -> None:
    first = run(lake, 1, FINDS_NOTHING[name])
    assert first.version == lake.version == 2
    lake.table("a.b").append(rows((7, 70)))
    again = run(lake, 1, lambda table: table.delete("id = 7"))
    assert again.already_committed and (again.newest_batch, again.version) == (1, 2)
    assert content(lake) == [(7, 70)] and lake.version == 3
    assert not lake.fsck().damage


def test_the_record_carries_the_batch_and_nothing_else(lake: hg.Lake) -> None:
    result = run(lake, 5, FINDS_NOTHING["delete"])
    assert not result.changed and result.rows is not None and not result.rows
    entry = lake.log(limit=1)[0]
    assert (entry.kind, entry.app, entry.tables, entry.objects) == ("commit", ("loader", 5), (), ())
    assert not entry.lake_properties and entry.args == ()


def test_a_batch_that_only_read_a_mount_is_recorded(lake: hg.Lake, tmp_path: Path) -> None:
    """It found nothing to load. Files that come later are the matter of later batches."""
    (tmp_path / "a.csv").write_text("id,v\n1,1\n")
    lake.mount_csv("raw.files", tmp_path)
    first = run_on_mount(lake)
    assert (first.version, first.changed) == (3, False)
    (tmp_path / "b.csv").write_text("id,v\n7,70\n")
    assert run_on_mount(lake).already_committed and content(lake) == []


def run_on_mount(lake: hg.Lake) -> hg.CommitResult:
    with lake.transaction(app=("loader", 1)) as tx:
        found = tx.table("raw.files").read_arrow(where="id = 7")
        if found.num_rows:
            tx.table("a.b").append(found)
    return tx.result


def test_without_an_application_nothing_is_committed(lake: hg.Lake) -> None:
    with lake.transaction() as tx:
        tx.table("a.b").delete("id = 7")
    assert (tx.result.version, tx.result.changed, lake.version) == (1, False, 1)
    assert (lake.table("a.b").delete("id = 7").changed, lake.version) == (False, 1)


def test_a_batch_without_any_operation_is_refused(lake: hg.Lake) -> None:
    """Nobody looked at anything, so nobody can have found that there is nothing to do."""
    with pytest.raises(hg.InvalidInputError, match="nothing to commit"), lake.transaction(app=("loader", 1)):
        pass
    assert lake.version == 1


def test_another_runner_of_the_same_batch_meets_the_first_one(lake: hg.Lake) -> None:
    slow = lake.transaction(app=("loader", 1))
    slow.table("a.b").delete("id = 7")
    first = run(lake, 1, FINDS_NOTHING["delete"])
    assert slow.commit().already_committed and slow.result.version == first.version == lake.version


def test_serializable_batches_do_not_miss_a_row_that_came_meanwhile(lake: hg.Lake) -> None:
    """The batch would be recorded above the row, as if it had not found it there."""
    tx = lake.transaction(app=("loader", 1), isolation="serializable")
    tx.table("a.b").delete("id = 7")
    lake.table("a.b").append(rows((7, 70)))
    with pytest.raises(hg.ConflictError):
        tx.commit()
    assert run(lake, 1, FINDS_NOTHING["delete"]).changed and content(lake) == []


@pytest.mark.parametrize("strategy", ["conditional", "filetracker"])
@pytest.mark.parametrize("action", [lose_answer, lose_request])
@pytest.mark.parametrize("position", range(10))
def test_whatever_request_is_lost_the_batch_is_recorded_once(
    strategy: str, action: object, position: int
) -> None:
    """The writer asks again if it was told that the outcome is unknown; another runs the batch anew."""
    store = MemoryStore()
    healthy = made(store, strategy)
    bad, schedule = faulty(store)
    tx = hg.Lake.open(bad).transaction(app=("loader", 1))
    tx.table("a.b").delete("id = 7")
    schedule.add(Fault(_writes_the_log, action, skip=position, times=3))  # type: ignore[arg-type]
    with suppress(hg.StorageError):
        try:
            tx.commit()
        except hg.CommitUnknownError:
            schedule.clear()
            assert not tx.commit().changed
    run(healthy, 1, FINDS_NOTHING["delete"])
    healthy.table("a.b").append(rows((7, 70)))
    assert run(hg.Lake.open(store), 1, FINDS_NOTHING["delete"]).already_committed
    assert [entry.app for entry in healthy.log()].count(("loader", 1)) == 1
    assert content(healthy) == [(7, 70)]


def _writes_the_log(request: Request) -> bool:
    match request:
        case Rename(target=key) | Put(key) | Create(key):
            return key.startswith("control/log/")
    return False


def test_dying_at_any_request_leaves_the_batch_recorded_or_to_be_run() -> None:
    """The writer never comes back; whoever runs the batch again runs it, or finds it done, never both."""
    outcomes = set()
    for position in range(40):
        store = MemoryStore()
        lake = made(store)
        bad, schedule = faulty(store)
        tx = hg.Lake.open(bad).transaction(app=("loader", 1))
        tx.table("a.b").delete("id = 7")
        schedule.add(Fault(lambda _: True, lose_request, skip=position, times=None))
        with suppress(hg.CommitUnknownError, hg.StorageError):
            tx.commit()
        lake.table("a.b").append(rows((7, 70)))
        recorded = any(entry.app == ("loader", 1) for entry in lake.log())
        outcomes.add(recorded)
        again = run(hg.Lake.open(store), 1, FINDS_NOTHING["delete"])
        assert again.already_committed == recorded
        assert content(lake) == ([(7, 70)] if recorded else [])
    assert outcomes == {True, False}


# --- any history of batches, against a plain dictionary ---------------------------------------------------

KEYS = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("update"), KEYS),
    st.tuples(st.just("upsert"), KEYS),
    st.tuples(st.just("nothing"), KEYS),
)


def _on_table(kind: str, key: int) -> Operation:
    match kind:
        case "delete":
            return lambda table: table.delete(f"id = {key}")
        case "update":
            return lambda table: table.update({"v": "v + 1"}, where=f"id = {key}")
        case "upsert":
            return lambda table: table.upsert(rows((key, 10 * key)), ["id"])
    return lambda table: table.upsert(rows(), ["id"])


def _on_model(kind: str, key: int, model: dict[int, int]) -> None:
    match kind:
        case "delete":
            model.pop(key, None)
        case "update" if key in model:
            model[key] += 1
        case "upsert":
            model[key] = 10 * key


@settings(deadline=None)
@given(st.lists(st.tuples(STEPS, st.integers(0, 3), st.none() | KEYS), max_size=8))
def test_batches_that_are_repeated_at_any_time_take_effect_once(
    history: list[tuple[tuple[str, int], int, int | None]],
) -> None:
    """After each batch one of the latest is run again, and other writers upsert rows in between."""
    lake, model = made(MemoryStore()), dict[int, int]()
    done: list[tuple[str, int]] = []
    for step, back, between in history:
        done.append(step)
        run(lake, len(done), _on_table(*step))
        _on_model(*step, model)
        if between is not None:
            lake.table("a.b").upsert(rows((between, 10 * between)), ["id"])
            _on_model("upsert", between, model)
        batch = max(1, len(done) - back)
        repeated = run(lake, batch, _on_table(*done[batch - 1]))
        assert repeated.already_committed and repeated.newest_batch == len(done)
        assert content(lake) == sorted(model.items())
