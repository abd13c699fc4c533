"""`fsck --repair`: lost records are rebuilt from their control entries, or their loss is accepted."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.log.filetracker import FileTrackerPublish
from headgate.log.layout import ASIDE, LAST_CHECKPOINT, TRACKER, checkpoint_key, entry_key
from headgate.log.machine import Ask, Finish, Lost
from headgate.log.strategy import layout_named
from headgate.model.identifiers import TxId, Version
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import perform
from tests.steward.crashes import OneByOne, copied, deaths

STRATEGIES = ("conditional", "rename", "filetracker")


def rows(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64())})


def a_lake(strategy: str, versions: int) -> MemoryStore:
    """A lake whose table `a.b` has one row of each version from 2 on."""
    store = MemoryStore()
    lake = hg.Lake.init(store, strategy=strategy)
    table = lake.create_table("a.b", "id BIGINT")
    for number in range(2, versions + 1):
        table.append(rows(number))
    return store


def ids(store: MemoryStore) -> list[int]:
    column = hg.Lake.open(store).table("a.b").read_arrow().column("id")
    return sorted(column.to_pylist())


def lose(store: MemoryStore, strategy: str, *versions: int) -> None:
    for number in versions:
        store.delete(layout_named(strategy).record_key(Version(number)))
        for key in store.list_page(TRACKER.attempts(Version(number))).keys:
            store.delete(key)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("lost", [(14,), (12, 13, 14), (5, 6), (9, 10, 11), (3, 8, 14), (1,)])
def test_lost_records_are_rebuilt_byte_for_byte(strategy: str, lost: tuple[int, ...]) -> None:
    store = a_lake(strategy, 14)
    keys = [layout_named(strategy).record_key(Version(number)) for number in lost]
    before = [store.get(key) for key in keys]
    lose(store, strategy, *lost)

    report = hg.repair(store)

    assert (report.rebuilt, report.lost, report.missing, report.version) == (lost, (), (), 14)
    assert [store.get(key) for key in keys] == before
    assert ids(store) == [*range(2, 15)]
    assert hg.fsck(store).ok
    assert hg.repair(store).rebuilt == ()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_loss_is_accepted_only_if_asked_for(strategy: str) -> None:
    store = a_lake(strategy, 14)
    lose(store, strategy, 12, 13, 14)
    store.delete(entry_key(Version(12)))  # its writer died before the entry

    report = hg.repair(store)

    assert (report.rebuilt, report.lost, report.missing) == ((), (), (12, 13, 14))
    assert not report.ok
    with pytest.raises(CorruptLakeError, match=r"lost|gone"):
        hg.Lake.open(store)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("head", [14, 21])
def test_an_accepted_loss_uses_no_version_twice(strategy: str, head: int) -> None:
    store = a_lake(strategy, head)
    lost = (head - 2, head - 1, head)
    lose(store, strategy, *lost)
    store.delete(entry_key(Version(lost[0])))

    report = hg.repair(store, accept_loss=True)

    assert (report.rebuilt, report.lost, report.missing, report.version) == ((), lost, (), head)
    lake = hg.Lake.open(store)
    assert lake.version == head
    assert ids(store) == [*range(2, head - 2)]
    assert [entry.kind for entry in lake.log(limit=4)] == ["lost", "lost", "lost", "commit"]
    assert lake.table("a.b").append(rows(99)).version == head + 1
    assert ids(store) == [*range(2, head - 2), 99]
    lake.recover()
    looked = hg.fsck(store)
    assert looked.ok, looked.damage


def test_other_engines_no_longer_see_what_was_given_up() -> None:
    store = a_lake("conditional", 14)
    lose(store, "conditional", 12, 13, 14)
    store.delete(entry_key(Version(12)))
    hg.repair(store, accept_loss=True)
    published = {
        key.rpartition("/")[2]: store.get(key)
        for key in store.list_page("data/a/b/metadata/").keys
        if key.rpartition("/")[2].startswith("v")
    }
    assert published["version-hint.text"] == b"11"
    assert not {"v12.metadata.json", "v13.metadata.json", "v14.metadata.json"} & published.keys()


def test_a_hole_below_a_checkpoint_stays_and_the_lake_opens() -> None:
    """Later records contain the digest of the lost one; opening begins at the checkpoint of version 10."""
    store = a_lake("conditional", 14)
    lose(store, "conditional", 5)
    store.delete(entry_key(Version(5)))
    report = hg.repair(store, accept_loss=True)
    assert (report.missing, report.lost, report.version) == ((5,), (), 14)
    assert ids(store) == [*range(2, 15)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_records_above_a_hole_are_given_up_with_it(strategy: str) -> None:
    """No checkpoint is above it: nothing but the records below it can be read."""
    store = a_lake(strategy, 14)
    kept = [store.get(layout_named(strategy).record_key(Version(number))) for number in (13, 14)]
    lose(store, strategy, 12)
    store.delete(entry_key(Version(12)))
    with pytest.raises(CorruptLakeError):
        hg.Lake.open(store)
    said = hg.repair(store)
    assert (said.missing, [cut.version for cut in said.given_up]) == ((12, 13, 14), [12, 13, 14])

    report = hg.repair(store, accept_loss=True)

    assert (report.lost, report.missing, report.version) == ((12, 13, 14), (), 14)
    assert {cut.transaction for cut in report.given_up} == {cut.transaction for cut in said.given_up}
    assert {store.get(key) for key in store.list_page(ASIDE).keys} >= set(kept)
    assert ids(store) == [*range(2, 12)]
    assert hg.Lake.open(store).table("a.b").append(rows(99)).version == 15
    assert hg.fsck(store).ok


@pytest.mark.parametrize("number", [5, 14])
def test_a_changed_record_is_set_aside_for_its_copy(number: int) -> None:
    store = a_lake("conditional", 14)
    key = layout_named("conditional").record_key(Version(number))
    before = store.get(key)
    store.put(key, b"{}")
    report = hg.repair(store)
    assert (report.rebuilt, [cut.version for cut in report.divergent]) == ((number,), [number])
    assert store.get(key) == before
    assert store.get(report.divergent[0].kept_as or "") == b"{}"
    assert hg.fsck(store).ok


def test_a_replica_gives_nothing_up() -> None:
    source = a_lake("conditional", 12)
    target = MemoryStore("replica")
    hg.Lake.open(source).replicate(target)
    lose(target, "conditional", 12)
    entry = target.get(entry_key(Version(12)))
    assert entry is not None
    target.put(entry_key(Version(12)), entry.replace(b'"copy"', b'"other"'))
    with pytest.raises(UnsupportedError, match="replica"):
        hg.repair(target, accept_loss=True)


def test_a_whole_lake_is_left_alone() -> None:
    store = a_lake("conditional", 14)
    before = {key: store.get(key) for key in store.list_page("").keys}
    assert hg.repair(store, accept_loss=True).version == 14
    assert {key: store.get(key) for key in store.list_page("").keys} == before


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("head", [20, 21])
def test_a_repair_that_dies_anywhere_is_repaired(strategy: str, head: int) -> None:
    """Whatever it leaves behind opens as it should, or is refused until the next repair."""
    before, lost = a_lake(strategy, head), (head - 2, head - 1, head)
    lose(before, strategy, *lost)
    before.delete(entry_key(Version(lost[0])))
    for store, death in deaths(
        partial(copied, before), lambda dying: hg.repair(dying, accept_loss=True, host=OneByOne())
    ):
        try:
            hg.Lake.open(store)
        except CorruptLakeError:
            assert hg.repair(store, accept_loss=True).ok, death
        lake = hg.Lake.open(store)
        assert lake.version == head
        assert ids(store) == [*range(2, head - 2)]
        lake.recover()
        assert lake.table("a.b").append(rows(99)).version == head + 1
        looked = hg.fsck(store)
        assert looked.ok, (death, looked.damage)


def test_a_version_that_is_only_proposed_is_completed_and_not_given_up() -> None:
    """Its writer died between the marker and the record: nothing is lost."""
    store = a_lake("filetracker", 14)
    key = TRACKER.record_key(Version(14))
    record = store.get(key)
    store.delete(key)
    store.delete(entry_key(Version(14)))

    report = hg.repair(store, accept_loss=True)

    assert (report.rebuilt, report.lost, report.missing) == ((14,), (), ())
    assert store.get(key) == record
    lake = hg.Lake.open(store)
    lake.recover()
    assert hg.fsck(store).ok


def test_proposals_that_follow_what_is_lost_are_given_up_with_it() -> None:
    """They would be completed in place of what is offered, on top of a record that is not there."""
    store = a_lake("filetracker", 14)
    for number in (12, 13, 14):
        store.delete(TRACKER.record_key(Version(number)))
    for key in (*store.list_page(TRACKER.attempts(Version(12))).keys, entry_key(Version(12))):
        store.delete(key)

    report = hg.repair(store, accept_loss=True)

    assert (report.rebuilt, report.lost, report.version) == ((), (12, 13, 14), 14)
    assert ids(store) == [*range(2, 12)]
    assert hg.Lake.open(store).table("a.b").append(rows(99)).version == 15
    assert hg.fsck(store).ok


def test_an_object_that_is_no_control_entry_is_no_sign_of_versions() -> None:
    store = a_lake("conditional", 14)
    store.put(entry_key(Version(77)), b"of no version")
    report = hg.repair(store, accept_loss=True)
    assert (report.version, report.lost, report.missing) == (14, (), ())
    assert hg.Lake.open(store).version == 14


def test_a_name_beyond_all_versions_gives_up_nothing() -> None:
    store = a_lake("filetracker", 14)
    store.put(TRACKER.index_key(Version(10**18)), b"")
    with pytest.raises(CorruptLakeError, match="gives up at most"):
        hg.repair(store, accept_loss=True)
    store.delete(TRACKER.index_key(Version(10**18)))
    assert hg.Lake.open(store).version == 14


# --- two histories ------------------------------------------------------------------------------------------


def forked(strategy: str, head: int = 14) -> tuple[MemoryStore, dict[int, bytes | None]]:
    """The last three versions were lost while two handles were busy. Also returns the lost records.

    One did not know them, and committed another transaction as the first of them (row 100 + its number). The
    other one did, and committed on top of the last.
    """
    store, layout = a_lake(strategy, head - 3), layout_named(strategy)
    late, ahead = hg.Lake.open(store).table("a.b"), hg.Lake.open(store).table("a.b")
    lost = range(head - 2, head + 1)
    for number in lost:
        ahead.append(rows(number))
    records = {number: store.get(layout.record_key(Version(number))) for number in lost}
    lose(store, strategy, *lost)
    with pytest.raises(CorruptLakeError, match=f"committed as version {head - 2}"):
        late.append(rows(100 + head - 2))
    ahead.append(rows(head + 1))
    return store, records


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("head", [14, 22])
def test_a_divergent_record_makes_way_for_the_one_that_others_went_on_from(strategy: str, head: int) -> None:
    store, before = forked(strategy, head)
    layout = layout_named(strategy)
    other = store.get(layout.record_key(Version(head - 2)))
    with pytest.raises(CorruptLakeError):
        hg.Lake.open(store)

    report = hg.repair(store)

    assert (report.rebuilt, report.missing, report.version) == (tuple(before), (), head + 1)
    assert {number: store.get(layout.record_key(Version(number))) for number in before} == before
    (cut,) = report.divergent
    assert cut.version == head - 2 and cut.transaction is not None
    assert store.get(cut.kept_as or "") == other
    assert ids(store) == [*range(2, head + 2)]
    lake = hg.Lake.open(store)
    lake.recover()
    assert lake.table("a.b").append(rows(99)).version == head + 2
    looked = hg.fsck(store)
    assert looked.ok, looked.damage


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_divergent_record_makes_way_if_nobody_went_on(strategy: str) -> None:
    """Its writer got an error; those of the lost versions, whose entries are there, did not."""
    store, before = forked(strategy)
    lose(store, strategy, 15)
    store.delete(entry_key(Version(15)))
    store.delete(TRACKER.index_key(Version(15)))
    store.delete("data/a/b/metadata/v15.metadata.json")
    assert hg.repair(store).rebuilt == tuple(before)
    assert ids(store) == [*range(2, 15)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_longer_history_on_top_of_a_divergent_record_stays(strategy: str) -> None:
    """One version was lost, and others went on from what took its number: their commits were successful."""
    store = a_lake(strategy, 11)
    late = hg.Lake.open(store).table("a.b")
    hg.Lake.open(store).table("a.b").append(rows(12))
    lose(store, strategy, 12)
    with pytest.raises(CorruptLakeError):
        late.append(rows(112))
    hg.Lake.open(store).table("a.b").append(rows(13))

    assert hg.repair(store).rebuilt == ()

    assert ids(store) == [*range(2, 12), 13, 112]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_histories_without_copies_are_cut_where_the_log_is_whole(strategy: str) -> None:
    store, _ = forked(strategy)
    for number in (12, 13, 14):
        store.delete(entry_key(Version(number)))
    orphan = store.get(layout_named(strategy).record_key(Version(15)))
    assert hg.repair(store).missing == (13, 14, 15)

    report = hg.repair(store, accept_loss=True)

    assert (report.lost, report.missing, report.version) == ((13, 14, 15), (), 15)
    assert orphan in {store.get(key) for key in store.list_page(ASIDE).keys}
    assert ids(store) == [*range(2, 12), 112]
    lake = hg.Lake.open(store)
    lake.recover()
    assert lake.table("a.b").append(rows(99)).version == 16
    looked = hg.fsck(store)
    assert looked.ok, looked.damage


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("copies", [True, False])
def test_a_repair_of_two_histories_that_dies_anywhere_is_repaired(strategy: str, copies: bool) -> None:
    before, _ = forked(strategy, 22)
    expected = [*range(2, 24)] if copies else [*range(2, 20), 120]
    for number in (20, 21, 22):
        if not copies:
            before.delete(entry_key(Version(number)))
    for store, death in deaths(
        partial(copied, before), lambda dying: hg.repair(dying, accept_loss=True, host=OneByOne())
    ):
        hg.repair(store, accept_loss=True)
        assert ids(store) == expected, death
        lake = hg.Lake.open(store)
        lake.recover()
        assert lake.table("a.b").append(rows(99)).version == 24
        looked = hg.fsck(store)
        assert looked.ok, (death, looked.damage)


def test_a_client_that_was_suspended_in_its_claim_finds_the_restored_record() -> None:
    """It proposed another record before the repair, and goes on after it."""
    store = a_lake("filetracker", 14)
    right = store.get(TRACKER.record_key(Version(14))) or b""
    lose(store, "filetracker", 14)
    claim = FileTrackerPublish(Version(14), b"another", TxId("f" * 32))
    step = claim.begin()
    for _ in range(3):  # PRE_COMMIT, the first scan, the proposal: the second scan would decide
        assert isinstance(step, Ask)
        step = claim.resume(step.state, tuple(perform(store, request) for request in step.requests))

    assert hg.repair(store).rebuilt == (14,)

    while not isinstance(step, Finish):
        step = claim.resume(step.state, tuple(perform(store, request) for request in step.requests))
    assert step.result == Lost(right)
    assert store.get(TRACKER.record_key(Version(14))) == right


# --- published metadata of a lost future --------------------------------------------------------------------


def set_back(strategy: str) -> MemoryStore:
    """A lake whose `control/` was restored from a backup of version 11, although it was at version 14."""
    store = a_lake(strategy, 11)
    backup = copied(store)
    table = hg.Lake.open(store).table("a.b")
    for number in (12, 13, 14):
        table.append(rows(number))
    for key in store.list_page("control/").keys:
        store.delete(key)
    for key in backup.list_page("control/").keys:
        store.put(key, backup.get(key) or b"")
    return store


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("commits", [0, 1, 2])
def test_published_metadata_of_a_lost_future_is_found_and_removed(strategy: str, commits: int) -> None:
    store = set_back(strategy)
    for number in range(commits):  # each by a process that does not know of the others
        with pytest.raises(CorruptLakeError, match="do not run it again"):
            hg.Lake.open(store).table("a.b").append(rows(100 + number))
    found = {one.kind: one for one in hg.fsck(store).damage}
    assert "--repair" in found["published-beyond"].next_step
    assert "--repair" in found["hint-beyond-head"].next_step
    missing = tuple(range(12 + commits, 15))
    said = hg.repair(store)
    assert not said.ok and said.missing == missing and said.stale

    report = hg.repair(store, accept_loss=True)

    assert (report.lost, report.version, report.ok) == (missing, 14, True)
    assert all(cut.transaction for cut in report.given_up)
    lake = hg.Lake.open(store)
    for number in (15, 16, 17):
        assert lake.table("a.b").append(rows(number)).version == number
    assert ids(store) == [*range(2, 12), 15, 16, 17, *range(100, 100 + commits)]
    lake.recover()
    looked = hg.fsck(store)
    assert looked.ok, looked.damage
    assert hg.repair(store, accept_loss=True).unpublished == ()


def test_a_handle_that_met_published_metadata_goes_on_after_the_repair() -> None:
    store = set_back("conditional")
    table = hg.Lake.open(store).table("a.b")
    with pytest.raises(CorruptLakeError, match="committed as version 12"):
        table.append(rows(112))
    with pytest.raises(CorruptLakeError, match="not committed"):
        table.append(rows(113))
    hg.repair(store, accept_loss=True)
    assert table.append(rows(15)).version == 15
    assert ids(store) == [*range(2, 12), 15, 112]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_repair_of_published_metadata_that_dies_anywhere_is_repaired(strategy: str) -> None:
    before = set_back(strategy)
    for store, death in deaths(
        partial(copied, before), lambda dying: hg.repair(dying, accept_loss=True, host=OneByOne())
    ):
        hg.repair(store, accept_loss=True)
        lake = hg.Lake.open(store)
        assert lake.table("a.b").append(rows(99)).version == 15, death
        assert ids(store) == [*range(2, 12), 99]
        assert store.get("data/a/b/metadata/version-hint.text") == b"15"
        lake.recover()
        looked = hg.fsck(store)
        assert looked.ok, (death, looked.damage)


# --- whatever is lost ---------------------------------------------------------------------------------------

BASE = 6
LOST = ("record", "attempts", "marker", "entry", "checkpoint")


@pytest.fixture(scope="module")
def begun() -> dict[str, MemoryStore]:
    """A lake of each strategy, with windows of four versions."""
    stores = {}
    for strategy in STRATEGIES:
        stores[strategy] = store = MemoryStore()
        table = hg.Lake.init(store, strategy=strategy, divisor=4).create_table("a.b", "id BIGINT")
        for number in range(2, BASE + 1):
            table.append(rows(number))
    return stores


def keys_of(store: MemoryStore, strategy: str, kind: str, number: int) -> list[str]:
    version, layout = Version(number), layout_named(strategy)
    match kind:
        case "record":
            return [layout.record_key(version)]
        case "attempts":
            return [key for key in store.list_page(TRACKER.attempts(version)).keys if "sub-hint" not in key]
        case "marker":
            return [TRACKER.index_key(version)]
        case "entry":
            return [entry_key(version)]
        case _:
            return [checkpoint_key(version)]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    strategy=st.sampled_from(STRATEGIES),
    lost=st.lists(st.sets(st.sampled_from(LOST)), min_size=1, max_size=4),
    hints=st.sets(st.sampled_from(("data/a/b/metadata/version-hint.text", LAST_CHECKPOINT))),
    busy=st.sampled_from(("nobody", "late", "ahead", "both")),
)
def test_whatever_is_lost_accepting_it_leads_to_a_lake_that_can_be_used(
    begun: dict[str, MemoryStore], strategy: str, lost: list[set[str]], hints: set[str], busy: str
) -> None:
    """Rows are named after their versions; that of the handle that knows only `BASE` is 100."""
    store, head = copied(begun[strategy]), BASE + len(lost)
    late, ahead = hg.Lake.open(store).table("a.b"), hg.Lake.open(store).table("a.b")
    for number in range(BASE + 1, head + 1):
        ahead.append(rows(number))
    for number, kinds in enumerate(lost, start=BASE + 1):
        for key in [key for kind in kinds for key in keys_of(store, strategy, kind, number)]:
            store.delete(key)
    for key in hints:
        store.delete(key)
    for name, table, row in (("late", late, 100), ("ahead", ahead, head + 1)):
        if busy in (name, "both"):
            with suppress(CorruptLakeError):
                table.append(rows(row))

    hg.repair(store)
    report = hg.repair(store, accept_loss=True)

    lake = hg.Lake.open(store)
    assert lake.version == report.version >= head
    read = ids(store)
    before = [row for row in read if row < 100]
    assert before == [*range(2, len(before) + 2)], read
    assert read[len(before) :] in ([], [100])
    assert lake.table("a.b").append(rows(200)).version == report.version + 1
    assert ids(store) == [*read, 200]
    assert hg.repair(store, accept_loss=True).lost == ()
    lake.recover()
    if not report.missing:
        lake.rebuild_control()
        looked = hg.fsck(store)
        assert looked.ok, looked.damage
