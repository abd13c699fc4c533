"""A log that has lost its end is not taken for a shorter one."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pytest

import headgate as hg
from headgate.errors import CorruptLakeError
from headgate.log.head import Chain, FollowLog, LostEnd, Reached
from headgate.log.layout import PLAIN, TRACKER, Ballot, RecordLayout, entry_key
from headgate.log.strategy import layout_named, versions_in
from headgate.model.identifiers import GENESIS, TxId, Version
from headgate.storage.capabilities import Store
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Get
from headgate.system.host import SystemHost
from headgate.testing.intercept import counted
from tests.lake.test_budgets import COMMIT

ROWS = pa.table({"id": pa.array([1], pa.int64())})
STRATEGIES = ("conditional", "rename", "filetracker")


def lake_of(store: MemoryStore, strategy: str, versions: int) -> hg.Lake:
    lake = hg.Lake.init(store, strategy=strategy)
    for number in range(versions):
        lake.set_properties({"n": str(number)})
    return lake


def lose(store: Store, strategy: str, first: int, last: int) -> None:
    """Deletes the records of versions, with the attempts at them, and nothing else."""
    layout = layout_named(strategy)
    for number in range(first, last + 1):
        store.delete(layout.record_key(Version(number)))
        for key in store.list_page(TRACKER.attempts(Version(number))).keys:
            store.delete(key)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("lost", [1, 2, 3, 9])
def test_opening_refuses_a_log_without_its_end(strategy: str, lost: int) -> None:
    for head in (*range(lost, 10), 14, 19, 20, 21, 29):
        store = MemoryStore()
        lake_of(store, strategy, head)
        hg.Lake.open(store)

        lose(store, strategy, head - lost + 1, head)

        with pytest.raises(CorruptLakeError, match=r"lost|gone"):
            hg.Lake.open(store)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("head", [4, 14, 18])
def test_opening_refuses_a_log_that_lost_its_end_and_its_markers(strategy: str, head: int) -> None:
    """All of `control/log/` was set back; only the control entries know the lost versions."""
    store = MemoryStore()
    lake_of(store, strategy, head)
    lose(store, strategy, head - 2, head)
    for number in range(head - 2, head + 1):
        store.delete(TRACKER.index_key(Version(number)))

    with pytest.raises(CorruptLakeError, match=r"lost|gone"):
        hg.Lake.open(store)

    assert hg.repair(store).rebuilt == (head - 2, head - 1, head)
    assert hg.Lake.open(store).version == head


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_error_names_what_is_lost_and_what_shows_it(strategy: str) -> None:
    store = MemoryStore()
    lake_of(store, strategy, 14)
    lose(store, strategy, 12, 14)
    with pytest.raises(CorruptLakeError) as caught:
        hg.Lake.open(store)
    assert "ends at version 11" in caught.value.problem
    assert "versions 12 to 1" in caught.value.problem
    assert "fsck" in caught.value.next_step


def test_a_version_whose_writer_died_before_its_receipt_is_no_loss() -> None:
    for strategy in STRATEGIES:
        store = MemoryStore()
        lake_of(store, strategy, 14)
        for number in (12, 13, 14):
            store.delete(entry_key(Version(number)))
        assert hg.Lake.open(store).version == 14


def test_a_marker_without_its_record_is_no_loss_while_the_proposal_is_there() -> None:
    """The winner died after the marker and before the record: the next writer completes it."""
    store = MemoryStore()
    lake_of(store, "filetracker", 14)
    store.delete(TRACKER.record_key(Version(14)))
    store.delete(entry_key(Version(14)))
    opened = hg.Lake.open(store)
    assert opened.version == 13
    opened.set_properties({"n": "next"})
    assert hg.Lake.open(store).version == 15  # version 14 is the one that was decided


def test_a_version_with_a_receipt_was_decided_even_if_its_proposal_is_there() -> None:
    """Readers would go back to version 13, although the commit of version 14 was acknowledged."""
    store = MemoryStore()
    lake_of(store, "filetracker", 14)
    store.delete(TRACKER.record_key(Version(14)))
    with pytest.raises(CorruptLakeError, match="version 14 is gone"):
        hg.Lake.open(store)
    assert hg.repair(store).rebuilt == (14,)
    assert hg.Lake.open(store).version == 14


def test_a_version_that_is_decided_while_we_doubt_it_is_no_loss() -> None:
    """Its marker is there, its record and its receipt come between our requests."""
    chain: Chain[Version] = versions_in(TRACKER)
    record, entry = TRACKER.record_key(Version(1)), entry_key(Version(1))
    proposal = TRACKER.accept_key(Version(1), Ballot(1, TxId("1" * 32)))
    for decided_after in range(1, 8):
        for receipt_after in range(decided_after, 8):
            later = {decided_after: [record], receipt_after: [entry]}
            later = {decided_after: [record, entry]} if decided_after == receipt_after else later
            objects = {TRACKER.index_key(Version(1)): b"", proposal: b""}
            result = run(FollowLog(GENESIS, chain, window=10), objects, later)
            assert isinstance(result, Reached), (decided_after, receipt_after, result)


@pytest.mark.parametrize(("layout", "marked"), [(PLAIN, False), (TRACKER, True), (TRACKER, False)])
def test_whatever_end_is_lost_a_sign_shows_it(layout: RecordLayout, marked: bool) -> None:
    """Every head, every length of the loss, every batch: as long as the first lost version left a sign."""
    chain: Chain[Version] = versions_in(layout)
    for head in range(1, 25):
        for kept in range(head):
            objects = {layout.record_key(Version(number)): b"" for number in range(1, kept + 1)}
            signs = [*range(1, head + 1)]
            objects |= {entry_key(Version(number)): b"" for number in signs}
            objects |= {TRACKER.index_key(Version(number)): b"" for number in signs if marked}
            for at_once in (1, 3, 8):
                result = run(FollowLog(GENESIS, chain, at_once, window=10), objects)
                if (kept + 1) % 10 == 0:
                    assert result == Reached(Version(kept), ended=True)  # its checkpoint is the sign
                else:
                    assert isinstance(result, LostEnd), (head, kept, at_once)
                    assert result.head == Version(kept)


def run(
    machine: FollowLog[Version],
    objects: dict[str, bytes],
    later: Mapping[int, Sequence[str]] = MappingProxyType({}),
) -> object:
    """The result of following the log in `objects`. `later`: what somebody writes after so many steps."""
    from headgate.log.machine import Finish
    from tests.exploration.explorer import perform_on

    step, steps = machine.begin(), 0
    while not isinstance(step, Finish):
        objects |= dict.fromkeys(later.get(steps, ()), b"")
        steps += 1
        answers = tuple(perform_on(objects, request)[1] for request in step.requests)
        step = machine.resume(step.state, answers)
    return step.result


def test_a_handle_that_has_not_looked_learns_of_the_loss_and_moves_no_hint_back() -> None:
    """It knows version 11. Others committed 12 to 14, and those are lost: its commit is a second 12."""
    store = MemoryStore()
    lake = hg.Lake.init(store)
    table = lake.create_table("a.b", "id BIGINT")
    for _ in range(10):
        table.append(ROWS)
    late = hg.Lake.open(store)
    other = hg.Lake.open(store)
    for _ in range(3):
        other.table("a.b").append(ROWS)
    hint = next(key for key in store.list_page("data/").keys if key.endswith("version-hint.text"))
    assert store.get(hint) == b"14"
    lose(store, "conditional", 12, 14)

    with pytest.raises(CorruptLakeError, match=r"committed as version 12, and .* do not run it again"):
        late.table("a.b").append(ROWS)

    assert store.get(hint) == b"14"


class Idle(SystemHost):
    """A process whose clock can be moved on."""

    seconds = 0.0

    def elapsed(self) -> float:
        return super().elapsed() + self.seconds


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_handle_that_knows_the_lost_end_does_not_commit_on_top_of_it(strategy: str) -> None:
    """It knows version 14. Versions 12 to 14 were lost while it was idle: a version 15 would be a fork."""
    store, host = MemoryStore(), Idle()
    lake = hg.Lake.init(store, strategy=strategy, host=host)
    table = lake.create_table("a.b", "id BIGINT")
    for _ in range(13):
        table.append(ROWS)
    lose(store, strategy, 12, 14)
    host.seconds += 61

    with pytest.raises(CorruptLakeError, match=r"version 14, .* is gone: .*nothing was changed"):
        table.append(ROWS)

    assert store.get(layout_named(strategy).record_key(Version(15))) is None
    assert hg.repair(store).rebuilt == (12, 13, 14)
    assert table.append(ROWS).version == 15


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_handle_that_is_behind_does_not_commit_the_lost_versions_again(strategy: str) -> None:
    """It knows version 11. Others committed 12 to 14, which were lost: it must not commit another 12."""
    store, host = MemoryStore(), Idle()
    lake = hg.Lake.init(store, strategy=strategy, host=host)
    table = lake.create_table("a.b", "id BIGINT")
    for _ in range(10):
        table.append(ROWS)
    others = hg.Lake.open(store).table("a.b")
    for _ in range(3):
        others.append(ROWS)
    lose(store, strategy, 12, 14)
    host.seconds += 61

    with pytest.raises(CorruptLakeError, match="lost"):
        table.append(ROWS)

    assert store.get(layout_named(strategy).record_key(Version(12))) is None
    assert hg.repair(store).rebuilt == (12, 13, 14)
    assert table.append(ROWS).version == 15


@pytest.mark.parametrize("to", STRATEGIES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_idle_handle_on_a_whole_log_commits(strategy: str, to: str) -> None:
    """Also where its newest version is the one that changed the strategy, or is of another writer."""
    store, host = MemoryStore(), Idle()
    lake = hg.Lake.init(store, strategy=strategy, host=host)
    table = lake.create_table("a.b", "id BIGINT")
    if to != strategy:
        lake.change_strategy(to)
    host.seconds += 61
    table.append(ROWS)
    hg.Lake.open(store).table("a.b").append(ROWS)
    host.seconds += 61
    table.append(ROWS)
    assert hg.Lake.open(store).table("a.b").read_arrow().num_rows == 3


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_idle_handle_looks_once(strategy: str) -> None:
    store, host = MemoryStore(), Idle()
    counting, tally = counted(store)
    lake = hg.Lake.init(counting, strategy=strategy, host=host)
    table = lake.create_table("a.b", "id BIGINT")
    gets = []
    for seconds in (0, 61, 0, 59, 61):
        host.seconds += seconds
        tally.history.clear()
        table.append(ROWS)
        gets.append(sum(isinstance(request, Get) for request in tally.history))
    assert gets == [1, 1 + 3, 1, 1, 1 + 3]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_idle_handle_on_an_empty_lake_does_not_commit_the_lost_versions_again(strategy: str) -> None:
    store, host = MemoryStore(), Idle()
    lake = hg.Lake.init(store, strategy=strategy, host=host)
    other = hg.Lake.open(store)
    for number in range(3):
        other.set_properties({"n": str(number)})
    lose(store, strategy, 1, 3)
    host.seconds += 61

    with pytest.raises(CorruptLakeError, match="lost"):
        lake.set_properties({"n": "late"})

    assert store.get(layout_named(strategy).record_key(Version(1))) is None


def as_another_process(directory: Path) -> hg.Lake:
    """A handle that shares nothing of what it knows: one that syncs does not trust one that does not."""
    return hg.Lake.open(LocalStore(directory, fsync=False))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("known", [0, 11, 14])
def test_on_a_disk_no_handle_commits_after_a_loss(tmp_path: Path, strategy: str, known: int) -> None:
    """Not even one that has just committed: to look costs no request there."""
    store = LocalStore(tmp_path / "lake")
    lake = hg.Lake.init(store, strategy=strategy)
    other = as_another_process(tmp_path / "lake")
    for number in range(14):
        (lake if number < known else other).set_properties({"n": str(number)})
    lose(store, strategy, min(known + 1, 12), 14)

    for _ in range(2):
        with pytest.raises(CorruptLakeError, match=r"gone|lost"):
            lake.set_properties({"n": "late"})

    layout = layout_named(strategy)
    assert [store.get(layout.record_key(Version(number))) for number in (12, 15)] == [None, None]
    assert hg.repair(store).version == 14
    assert lake.set_properties({"n": "again"}).version == 15


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_on_a_disk_no_handle_commits_on_top_of_another_record(tmp_path: Path, strategy: str) -> None:
    """A backup was brought back, and other transactions were committed under the same numbers."""
    lake = hg.Lake.init(tmp_path / "lake", strategy=strategy)
    lake.set_properties({"n": "first"})
    shutil.copytree(tmp_path / "lake" / "control", tmp_path / "backup")
    lake.set_properties({"n": "second"})
    shutil.rmtree(tmp_path / "lake" / "control")
    shutil.copytree(tmp_path / "backup", tmp_path / "lake" / "control")
    as_another_process(tmp_path / "lake").set_properties({"n": "another"})

    with pytest.raises(CorruptLakeError, match=r"version 2, .* is a different one now"):
        lake.set_properties({"n": "third"})

    assert as_another_process(tmp_path / "lake").version == 2


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("changed", [(12, 13, 14), (14,)])
def test_on_a_disk_published_tables_show_what_control_has_lost(
    tmp_path: Path, strategy: str, changed: tuple[int, ...]
) -> None:
    """All of `control/` was set back. A new writer must not commit another 12, nor move the hint back."""
    lake = hg.Lake.init(tmp_path / "lake", strategy=strategy)
    table = lake.create_table("a.b", "id BIGINT")
    for _ in range(10):
        table.append(ROWS)
    shutil.copytree(tmp_path / "lake" / "control", tmp_path / "backup")
    for version in (12, 13, 14):
        table.append(ROWS) if version in changed else lake.set_properties({"n": str(version)})
    shutil.rmtree(tmp_path / "lake" / "control")
    shutil.copytree(tmp_path / "backup", tmp_path / "lake" / "control")

    for _ in range(2):
        late = as_another_process(tmp_path / "lake")
        assert late.version == 11
        with pytest.raises(CorruptLakeError, match="shows that version 14 was committed"):
            late.table("a.b").append(ROWS)

    assert late.version == 11
    (hint,) = (tmp_path / "lake").glob("data/*/*/metadata/version-hint.text")
    assert hint.read_text() == "14"
    assert hg.repair(tmp_path / "lake", accept_loss=True).lost == (12, 13, 14)
    again = as_another_process(tmp_path / "lake").table("a.b")
    assert (again.append(ROWS).version, again.read_arrow().num_rows) == (15, 11)
    assert hint.read_text() == "15"


@pytest.mark.parametrize("hint", ["12", "9" * 19, "9" * 5_000, "-1", "v12", "\xff", ""])
def test_a_wrong_hint_alone_stops_nobody(tmp_path: Path, hint: str) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    table = lake.create_table("a.b", "id BIGINT")
    (file,) = (tmp_path / "lake").glob("data/*/*/metadata/version-hint.text")
    file.write_text(hint)
    assert table.append(ROWS).version == 2
    assert file.read_text() == "2"


@pytest.mark.parametrize("to", STRATEGIES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_on_a_disk_a_look_before_a_commit_sends_no_request(tmp_path: Path, strategy: str, to: str) -> None:
    """Nor is the commit of another process, or a change of the strategy, an alarm."""
    lake = hg.Lake.init(tmp_path / "lake", strategy=strategy)
    lake.set_properties({"n": "first"})
    if to != strategy:
        lake.change_strategy(to)
    as_another_process(tmp_path / "lake").set_properties({"n": "other"})
    assert lake.version == 2 + (to != strategy)
    for number in range(3):
        before = lake.metrics().requests
        lake.set_properties({"n": str(number)})
        sent = Counter(lake.metrics().requests)
        sent.subtract(before)
        assert {kind: count for kind, count in sent.items() if count} == COMMIT[to]


def busy_handles(strategy: str, lost: int = 3) -> tuple[MemoryStore, hg.Table]:
    """A lake that has lost its last versions, and a busy handle that knows only version 11."""
    store = MemoryStore()
    lake = hg.Lake.init(store, strategy=strategy)
    table = lake.create_table("a.b", "id BIGINT")
    for _ in range(10):
        table.append(ROWS)
    others = hg.Lake.open(store).table("a.b")
    for _ in range(lost):
        others.append(ROWS)
    lose(store, strategy, 12, 11 + lost)
    return store, table


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("lost", [1, 3])
def test_a_handle_that_was_told_of_the_loss_decides_nothing_more(strategy: str, lost: int) -> None:
    store, table = busy_handles(strategy, lost)
    with pytest.raises(CorruptLakeError, match="committed as version 12") as told:
        table.append(ROWS)
    assert "do not retry" in told.value.next_step

    for _ in range(2):
        with pytest.raises(CorruptLakeError, match=r"not committed|gone"):
            table.append(ROWS)

    assert store.get(layout_named(strategy).record_key(Version(13))) is None


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_handle_whose_version_a_repair_set_aside_must_be_opened_again(strategy: str) -> None:
    store, table = busy_handles(strategy)
    with pytest.raises(CorruptLakeError):
        table.append(ROWS)
    assert hg.repair(store).rebuilt == (12, 13, 14)

    with pytest.raises(CorruptLakeError):
        table.append(ROWS)

    assert store.get(layout_named(strategy).record_key(Version(15))) is None
    assert hg.Lake.open(store).table("a.b").append(ROWS).version == 15


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_read_on_the_way_to_a_loss_does_not_calm_a_handle(strategy: str) -> None:
    """It is idle at version 1; 3 and 4 are lost. It reads 2, is refused, and is refused again."""
    store, host = MemoryStore(), Idle()
    lake = hg.Lake.init(store, strategy=strategy, host=host)
    lake.set_properties({"n": "first"})
    other = hg.Lake.open(store)
    for number in range(3):
        other.set_properties({"n": str(number)})
    lose(store, strategy, 3, 4)
    host.seconds += 61
    for _ in range(2):
        with pytest.raises(CorruptLakeError, match="the log ends at version 2"):
            lake.set_properties({"n": "late"})
    assert store.get(layout_named(strategy).record_key(Version(3))) is None


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_idle_handle_before_a_boundary_looks_beyond_it(strategy: str) -> None:
    """Opening would find the checkpoint of version 10. A handle at version 9 reads no checkpoints."""
    store, host = MemoryStore(), Idle()
    lake = hg.Lake.init(store, strategy=strategy, host=host)
    for number in range(9):
        lake.set_properties({"n": str(number)})
    other = hg.Lake.open(store)
    for number in range(3):
        other.set_properties({"m": str(number)})
    lose(store, strategy, 10, 12)
    host.seconds += 61
    with pytest.raises(CorruptLakeError, match="lost"):
        lake.set_properties({"n": "late"})
    assert store.get(layout_named(strategy).record_key(Version(10))) is None
