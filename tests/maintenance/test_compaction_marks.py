"""Fresh processes that compact: where they look, what that costs, and that they miss nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.core.compaction.touched import Intents, Look, Mark, look_everywhere
from headgate.core.input.arguments import found_table
from headgate.log.layout import COMPACTED
from headgate.log.log import CommitLog
from headgate.maintenance.compaction import (
    MAX_IN_VAIN,
    MAX_RECORDS,
    TAKE_OVER_AFTER,
    Compactor,
    Looks,
)
from headgate.model.footprint import file_mark
from headgate.model.plan import PendingPlan, Service
from headgate.model.state import LakeState
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Put, all_keys
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Tally, counted, intercepted
from tests.examples import examples
from tests.lake.older import older_lake
from tests.maintenance.concurrently import Beside
from tests.steward.crashes import Crash, Death, OneByOne, copied

DIVISOR = 4
TABLES = 1000
TOUCHED = ("s.t7", "s.t77", "s.t777")


def rows(*ids: int, part: int = 0) -> pa.Table:
    parts = pa.array([part] * len(ids), pa.int32())
    return pa.table({"id": pa.array(ids, pa.int64()), "p": parts, "q": pa.array(ids, pa.int64())})


def lake_of(names: list[str], store: MemoryStore) -> hg.Lake:
    lake = hg.Lake.init(store, divisor=DIVISOR)
    with lake.transaction() as tx:
        for name in names:
            tx.create_table(name, "id BIGINT, p INT, q BIGINT", partition_by=["p"])
    return lake


def compacted_afresh(store: MemoryStore) -> tuple[hg.CompactionReport, Tally]:
    """What a process without memory does, and the requests that it makes once the lake is open."""
    watched, tally = counted(store)
    lake = hg.Lake.open(watched)
    tally.reset()
    return lake.compact(), tally


def keys(tally: Tally) -> list[str]:
    return [str(getattr(request, "key", "")) for request in tally.history]


def tables_asked_for(tally: Tally) -> set[str]:
    return {".".join(key.split("/")[1:3]) for key in keys(tally) if key.startswith("data/")}


# --- what it costs ------------------------------------------------------------------------------------------


def test_a_fresh_process_looks_only_at_the_tables_that_were_touched() -> None:
    """A thousand tables, three of them touched: requests for three, and a few that depend on neither."""
    store = MemoryStore()
    lake = lake_of([f"s.t{number}" for number in range(TABLES)], store)
    _, tally = compacted_afresh(store)
    assert tables_asked_for(tally) == set()  # nobody has looked before, but the log is short
    _, tally = compacted_afresh(store)
    assert tables_asked_for(tally) == set()
    assert tally.counts() == {"get": 4}  # the mark, and at each step whether the log has grown
    touch(lake, 2 * DIVISOR - 1)
    _, tally = compacted_afresh(store)
    assert tables_asked_for(tally) == set(TOUCHED)
    of_tables = [key for key in keys(tally) if key.startswith("data/")]
    # Nothing is due yet, with three files in the window: metadata, a manifest list and manifests of each.
    assert len(of_tables) == len(TOUCHED) * (2 + DIVISOR)
    assert sum(tally.counts().values()) - len(of_tables) <= 5 + 1 + 2 * DIVISOR
    _, tally = compacted_afresh(store)
    assert tables_asked_for(tally) == set()


def touch(lake: hg.Lake, until: int) -> None:
    while lake.version < until:
        with lake.transaction() as tx:
            for name in TOUCHED:
                tx.table(name).append(rows(lake.version))


def test_only_the_paths_that_were_touched_are_looked_at() -> None:
    """Deletes of other partitions are not read."""
    store = MemoryStore()
    lake = lake_of(["s.t"], store)
    lake.set_properties({"compaction.min_inputs": "100"})
    table = lake.table("s.t")
    table.append(rows(1, 2, 3, 4, part=1))
    table.append(rows(5, 6, 7, 8, part=2))
    table.delete("id = 1")
    table.delete("id = 5")
    append_until(lake, 2 * DIVISOR)
    compacted_afresh(store)
    deletes = {path for path in all_keys(store, "data/") if "-positions-" in path}
    append_until(lake, 3 * DIVISOR)
    _, tally = compacted_afresh(store)
    read = deletes & set(keys(tally))
    assert {path.split("/p=")[1][0] for path in deletes} == {"1", "2"}
    assert {path.split("/p=")[1][0] for path in read} == {"2"}


def append_until(lake: hg.Lake, version: int, name: str = "s.t") -> None:
    while lake.version < version:
        lake.table(name).append(rows(lake.version, part=2))


def test_a_path_above_one_that_was_touched_is_looked_at() -> None:
    """Files from before a partition field was added lie above the new ones."""
    store = MemoryStore()
    lake = lake_of(["s.t"], store)
    table = lake.table("s.t")
    while lake.version < DIVISOR - 1:
        table.append(rows(lake.version, part=1))
    table.add_partition_field("bucket(2, q)")
    table.append(rows(9, part=1))
    compacted_afresh(store)
    lake = hg.Lake.open(store)
    table.append(rows(9, part=1))
    while lake.version < 2 * DIVISOR:
        lake.set_properties({"n": str(lake.version)})
    compactor = Compactor(Inspector(lake).handle)
    look = compactor.looks.look(Inspector(lake).refresh(), Inspector(lake).handle.log)
    paths = look.intents.paths_of(found_table(Inspector(lake).refresh(), "s.t").uuid, "s.t")
    assert paths is not None
    assert {path for path in paths if path.startswith("/s/t/")} == {"/s/t/p=1", *deeper(paths)}
    assert len(deeper(paths)) == 1


def deeper(paths: frozenset[str]) -> set[str]:
    return {path for path in paths if path.startswith("/s/t/p=1/q_bucket=")}


def test_a_handle_that_compacts_after_each_commit_stores_a_mark_for_each_window() -> None:
    store = MemoryStore()
    lake = lake_of(["s.t"], store)
    watched, tally = counted(store)
    watching = hg.Lake.open(watched)
    table = lake.table("s.t")
    stored = []
    while lake.version < 3 * DIVISOR - 1:
        table.append(rows(lake.version))
        tally.reset()
        watching.compact()
        stored += [lake.version] * sum(key == COMPACTED for key in written(tally))
    assert len(stored) == 3  # the first look, and the first after each window


def written(tally: Tally) -> list[str]:
    return [request.key for request in tally.history if isinstance(request, Put)]


def test_without_a_mark_a_short_log_says_where_to_look() -> None:
    """Three hundred tables, one of them touched, in a lake that was never compacted."""
    store = MemoryStore()
    lake = lake_of([f"s.t{number}" for number in range(300)], store)
    append_until(lake, 2 * DIVISOR + 1, "s.t7")
    report, tally = compacted_afresh(store)
    assert report.tables == ("s.t7",) and report.files_in == 2 * DIVISOR - 1
    assert tables_asked_for(tally) == {"s.t7"}
    # What opening the lake has read is not read again.
    records = [key for key in keys(tally) if key.startswith("control/log/0")]
    assert len([key for key in records if int(key[-25:-5]) <= 2 * DIVISOR]) == 2 * DIVISOR


def test_tables_that_were_loaded_once_cost_nothing() -> None:
    """One file in each, and nothing deleted: there is nothing to merge."""
    store = MemoryStore()
    lake = lake_of([f"s.t{number}" for number in range(3 * DIVISOR)], store)
    for name in lake.tables():
        lake.table(name).append(rows(1, 2))
    assert tables_asked_for(compacted_afresh(store)[1]) == set()
    lake.table("s.t0").delete("id = 1")
    lake.table("s.t1").append(rows(1))
    while lake.version % DIVISOR:
        lake.set_properties({"n": str(lake.version)})
    store.delete(COMPACTED)
    assert tables_asked_for(compacted_afresh(store)[1]) == {"s.t0", "s.t1"}


def test_a_log_that_costs_more_than_the_tables_is_not_read() -> None:
    store = MemoryStore()
    lake = lake_of(["s.t", "s.u"], store)
    append_until(lake, 5 * DIVISOR)
    _, tally = compacted_afresh(store)
    assert tables_asked_for(tally) == {"s.t", "s.u"}
    assert f"control/log/{5 * DIVISOR - 1:020}.json" not in keys(tally)


def test_a_lake_whose_records_say_less_is_looked_at_table_by_table() -> None:
    """Its records are from before structure changes were recorded."""
    store = older_lake()
    lake = hg.Lake.open(store)
    with lake.transaction() as tx:
        for number in range(30):
            tx.create_table(f"s.t{number}", "id BIGINT")
    _, tally = compacted_afresh(store)
    assert tables_asked_for(tally) == set(lake.tables())


def test_an_empty_lake_costs_a_mark() -> None:
    store = MemoryStore()
    hg.Lake.init(store)
    assert not compacted_afresh(store)[0].changed
    assert Mark.decode(store.get(COMPACTED) or b"", COMPACTED) is not None


def test_a_pending_plan_costs_one_look_at_its_table() -> None:
    """And another one when it has ended; not at the other tables, and not each time."""
    store = MemoryStore()
    lake = lake_of([f"s.t{number}" for number in range(100)], store)
    append_until(lake, 2 * DIVISOR, "s.t7")
    with pytest.raises(Crash):
        Dies(Inspector(lake).handle).run()
    report, tally = compacted_afresh(store)
    assert not report.changed and tables_asked_for(tally) == {"s.t7"}
    _, tally = compacted_afresh(store)
    assert tables_asked_for(tally) == set()
    # As before, and whether a process works on the plan.
    assert tally.counts() == {"get": 5, "list": 1}
    append_until(lake, 3 * DIVISOR - 1, "s.t7")
    _, tally = compacted_afresh(store)
    assert tables_asked_for(tally) == set()
    (plan,) = Inspector(lake).refresh().plans
    lake.cancel(plan.text)
    report, tally = compacted_afresh(store)
    assert report.files_in == 3 * DIVISOR - 3 and tables_asked_for(tally) == {"s.t7"}
    compacted_afresh(store)
    assert tables_asked_for(compacted_afresh(store)[1]) == set()


class Dies(Compactor):
    """Is killed before it carries out its first plan."""

    def _carry_out(self, plan: PendingPlan) -> bool:
        raise Crash


def test_what_a_compaction_could_not_do_is_looked_at_again() -> None:
    """Its plans are always cancelled by others, until it leaves the table to a later compaction."""
    store = with_a_mark()
    lake = hg.Lake.open(store)

    def cancels_all() -> None:
        for txid in Inspector(lake).refresh().plans:
            lake.cancel(txid.text)

    report = Compactor(Inspector(hg.Lake.open(store)).handle, rewriter=Beside(cancels_all)).run()
    assert len(report.planned) == MAX_IN_VAIN and not report.completed
    mark = Mark.decode(store.get(COMPACTED) or b"", COMPACTED)
    assert mark is not None
    assert mark.left.tables == {found_table(Inspector(lake).refresh(), "s.a").uuid}
    report, tally = compacted_afresh(store)
    assert report.files_in == 2 * DIVISOR - 1 and tables_asked_for(tally) == {"s.a"}
    mark = Mark.decode(store.get(COMPACTED) or b"", COMPACTED)
    assert mark is not None and mark.left == Intents()


def test_files_of_a_plan_that_was_taken_over_in_vain_are_compacted_in_the_same_run() -> None:
    """The plan does not say what it merges, so it is cancelled."""
    store = with_a_mark()
    lake = hg.Lake.open(store)
    with lake.transaction() as tx:
        tx.plan("compaction", "s.a", [file.path for file in lake.table("s.a").files()], set(), {})
    compacted_afresh(store)
    assert compacted_afresh(store)[0].versions == ()
    report = hg.Lake.open(store).compact(patience=timedelta(0))
    assert len(report.cancelled) == 1 and report.files_in == 2 * DIVISOR - 1


def test_a_plan_that_began_during_a_look_is_not_relied_on() -> None:
    """It ends without a trace in the mark, or in what the log says of touched paths."""
    store = with_a_mark()
    lake = hg.Lake.open(store)
    compactor = Compactor(Inspector(hg.Lake.open(store)).handle)
    look = compactor.looks.look

    def slow(newest: LakeState, log: CommitLog) -> Look:
        found = look(newest, log)
        with pytest.raises(Crash):
            Dies(Inspector(lake).handle).run()
        return found

    compactor.looks.look = slow  # type: ignore[method-assign]
    assert not compactor.run().changed
    mark = Mark.decode(store.get(COMPACTED) or b"", COMPACTED)
    assert mark is not None and not mark.plans
    assert mark.left.tables == {found_table(Inspector(lake).refresh(), "s.a").uuid}


# --- and that nothing is missed -----------------------------------------------------------------------------


def with_a_mark() -> MemoryStore:
    """A lake whose mark is of a version at which nothing was due, and with something due since then."""
    store = MemoryStore()
    lake = lake_of(["s.a", "s.b"], store)
    compacted_afresh(store)
    while lake.version < 2 * DIVISOR:
        lake.table("s.a").append(rows(lake.version))
    return store


def set_back(store: MemoryStore) -> None:
    other = hg.Lake.init(MemoryStore("other"), divisor=DIVISOR)
    for number in range(2 * DIVISOR):
        other.set_properties({"n": str(number)})
    other.compact()
    store.put(COMPACTED, Inspector(other).store.get(COMPACTED) or b"")


HARM: dict[str, Callable[[MemoryStore], None]] = {
    "nothing": lambda store: None,
    "lost": lambda store: store.delete(COMPACTED),
    "damaged": lambda store: store.put(COMPACTED, b"damaged"),
    "of another lake": set_back,
    "of a later release": lambda store: store.put(COMPACTED, b'{"format": 99}'),
}


@pytest.mark.parametrize("harm", HARM)
def test_what_becomes_of_a_mark_loses_nothing(harm: str) -> None:
    store = with_a_mark()
    HARM[harm](store)
    report, tally = compacted_afresh(store)
    assert report.tables == ("s.a",) and report.files_in == 2 * DIVISOR - 1
    assert tables_asked_for(tally) == ({"s.a"} if harm == "nothing" else {"s.a", "s.b"})
    idle, tally = compacted_afresh(store)
    assert not idle.changed and tables_asked_for(tally) <= {"s.a"}


def test_a_compaction_of_one_table_leaves_no_mark() -> None:
    """It says nothing of the other tables."""
    store = with_a_mark()
    before = store.get(COMPACTED)
    hg.Lake.open(store).compact(table="s.b")
    assert store.get(COMPACTED) == before
    assert compacted_afresh(store)[0].tables == ("s.a",)


def test_a_compaction_that_fails_leaves_no_mark() -> None:
    store = with_a_mark()
    before = store.get(COMPACTED)

    def fails(target: Any, spark: Any) -> Any:
        raise hg.StorageError("no room")

    with pytest.raises(hg.StorageError):
        Compactor(Inspector(hg.Lake.open(store)).handle, rewriter=fails).run()
    assert store.get(COMPACTED) == before
    assert compacted_afresh(store)[0].tables == ("s.a",)


def test_a_log_that_is_too_long_to_read_is_not_read() -> None:
    """Looking at two tables costs less."""
    store = with_a_mark()
    lake = hg.Lake.open(store)
    mark = Mark.decode(store.get(COMPACTED) or b"", COMPACTED)
    assert mark is not None
    while lake.version <= mark.version + MAX_RECORDS:
        lake.set_properties({"n": str(lake.version)})
    report, tally = compacted_afresh(store)
    assert report.tables == ("s.a",)
    assert sum(key.startswith("control/log/") for key in keys(tally)) < 50


def append(lake: hg.Lake, chance: random.Random) -> None:
    lake.table(chance.choice(lake.tables())).append(rows(lake.version, part=chance.randrange(3)))


def append_to_two(lake: hg.Lake, chance: random.Random) -> None:
    with lake.transaction() as tx:
        for name in chance.sample(lake.tables(), 2):
            tx.table(name).append(rows(lake.version, 1000 + lake.version, part=chance.randrange(3)))


def delete(lake: hg.Lake, chance: random.Random) -> None:
    first = chance.randrange(lake.version)
    lake.table(chance.choice(lake.tables())).delete(f"id >= {first} AND id < {first + 5}")


def overwrite(lake: hg.Lake, chance: random.Random) -> None:
    part = chance.randrange(3)
    lake.table(chance.choice(lake.tables())).overwrite(rows(lake.version, part=part), where=f"p = {part}")


def rename(lake: hg.Lake, chance: random.Random) -> None:
    lake.rename_table(chance.choice(lake.tables()), f"s.n{lake.version}")


def reshape(lake: hg.Lake, chance: random.Random) -> None:
    table = lake.table(chance.choice(lake.tables()))
    if len(table.partition_by) == 1:
        table.add_partition_field("bucket(2, q)")
    else:
        table.drop_partition_field("q_bucket")


def change_rules(lake: hg.Lake, chance: random.Random) -> None:
    rules = {"compaction.min_inputs": str(chance.choice([2, 3, 4]))}
    if chance.random() < 0.5:
        lake.set_properties(rules)
    else:
        lake.table(chance.choice(lake.tables())).set_properties(rules)


def replace_table(lake: hg.Lake, chance: random.Random) -> None:
    name = chance.choice(lake.tables())
    lake.drop_table(name)
    lake.create_table(name, "id BIGINT, p INT, q BIGINT", partition_by=["p"])


def give_up_a_plan(lake: hg.Lake, chance: random.Random) -> None:
    plan_some_files(lake, chance)
    cancel_a_plan(lake, chance)


def plan_some_files(lake: hg.Lake, chance: random.Random) -> None:
    """A plan that nobody carries out, and that cannot be carried out: it does not say what it merges."""
    state, name = Inspector(lake).refresh(), chance.choice(lake.tables())
    taken = {mark for plan in state.plans.values() for mark in plan.inputs or ()}
    files = [file.path for file in lake.table(name).files() if file_mark(file.path) not in taken]
    if files:
        with lake.transaction() as tx:
            service: Service = "compaction" if chance.random() < 0.5 else "clustering"
            tx.plan(service, name, files[: chance.randrange(len(files)) + 1], set(), {})


def cancel_a_plan(lake: hg.Lake, chance: random.Random) -> None:
    pending = sorted(txid.text for txid in Inspector(lake).refresh().plans)
    if pending:
        lake.cancel(chance.choice(pending))


def take_over(lake: hg.Lake, chance: random.Random) -> None:
    """The table of one plan at least; which other files are ready there is found at the same time."""
    lake.compact(table=chance.choice(lake.tables()), patience=timedelta(0))


def compact_a_table(lake: hg.Lake, chance: random.Random) -> None:
    lake.compact(table=chance.choice(lake.tables()))


def die_after_planning(lake: hg.Lake, chance: random.Random) -> None:
    with suppress(Crash):
        Dies(
            Inspector(lake).handle, patience=timedelta(0) if chance.random() < 0.5 else TAKE_OVER_AFTER
        ).run()


def die(lake: hg.Lake, chance: random.Random) -> None:
    """A compactor that is killed at one of its requests."""
    death = Death(chance.randrange(1, 60), chance.random() < 0.5)
    with suppress(Crash):
        hg.Lake.open(intercepted(Inspector(lake).store, death.intercept), host=OneByOne()).compact()


def lose_the_mark(lake: hg.Lake, chance: random.Random) -> None:
    Inspector(lake).store.delete(COMPACTED)


STEPS = (append,) * 8 + (append_to_two, append_to_two, delete, delete, overwrite, rename, reshape)
RARE = (change_rules, replace_table, give_up_a_plan, lose_the_mark)
SERVICES = (plan_some_files, cancel_a_plan, take_over, compact_a_table, die_after_planning, die, die)


class Everywhere(Looks):
    """Looks at every table, and leaves no mark."""

    def look(self, newest: LakeState, log: CommitLog) -> Look:
        return look_everywhere(newest.version.number, newest.digest)

    def remember(self, mark: Mark, log: CommitLog) -> None:
        pass


@pytest.mark.parametrize("seed", range(examples(10)))
def test_a_process_with_a_mark_does_what_a_look_at_every_table_does(seed: int) -> None:
    """Random histories. Now and then a process compacts, and another one does on a copy, without any mark.

    Every second history also has plans that nobody carries out, processes that are killed while they
    compact, and compactions of one table. Some processes are new, and one has been there all along. A mark
    that somebody stored earlier may come back.
    """
    chance = random.Random(seed)
    store = MemoryStore("lake")
    lake_of(["s.a", "s.b", "s.c"], store).set_properties({"compaction.min_inputs": "2"})
    passed_over, compactions = 0, 0
    warm, earlier = hg.Lake.open(counted(store)[0]), b""
    for number in range(80):
        lake = hg.Lake.open(counted(store)[0])
        rare = RARE if number % 12 == 11 else SERVICES if seed % 2 and number % 4 == 3 else STEPS
        with suppress(hg.ConflictError):  # with a pending plan
            chance.choice(rare)(lake, chance)
        if chance.random() < 0.4:
            continue
        patience = timedelta(0) if chance.random() < 0.3 else TAKE_OVER_AFTER
        blind, asked = counted(copied(store))
        expected = Compactor(Inspector(hg.Lake.open(blind)).handle, Everywhere(), patience=patience).run()
        watched, tally = counted(store)
        process = warm if chance.random() < 0.3 else hg.Lake.open(watched)
        report = process.compact(patience=patience)
        assert summary(report) == summary(expected), number
        assert pending(store) == pending(blind), number
        compactions += report.changed
        if process is not warm:
            passed_over += len(tables_asked_for(asked)) - len(tables_asked_for(tally))
        if chance.random() < 0.1:
            earlier = store.get(COMPACTED) or b""
        elif earlier and chance.random() < 0.1:
            store.put(COMPACTED, earlier)
    assert passed_over > 30 and compactions > 1


def summary(report: hg.CompactionReport) -> tuple[Any, ...]:
    ended = len(report.taken_over), len(report.cancelled), len(report.versions)
    return sorted(report.tables), report.groups, report.files_in, report.files_out, report.rows, *ended


def pending(store: Store) -> set[tuple[str, frozenset[str] | None]]:
    plans = Inspector(hg.Lake.open(store)).refresh().plans.values()
    return {(plan.table, plan.inputs) for plan in plans}
