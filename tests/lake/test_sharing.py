"""Several handles of one process on one lake: they take turns, and what one has learnt the others know."""

from __future__ import annotations

import gc
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as hg
from headgate.core.conflict.retry import RetryPolicy, contended_delay
from headgate.log.layout import entry_key
from headgate.model.identifiers import Version
from headgate.storage.memory import MemoryStore
from headgate.system.host import SystemHost
from headgate.testing.inspector import Inspector

ROWS = pa.table({"id": pa.array([1], pa.int64())})


def other_process(place: Path) -> hg.Lake:
    """A handle that shares nothing, as one of another process."""
    return hg.Lake.open(place, host=SystemHost())


def turn_of(lake: hg.Lake) -> object:
    """What handles that share anything have in common."""
    return Inspector(lake).handle.log.turn


def test_a_handle_knows_what_another_one_committed(tmp_path: Path) -> None:
    one = hg.Lake.init(tmp_path)
    two = hg.Lake.open(tmp_path)
    assert turn_of(one) is turn_of(two)
    tx = two.transaction()
    tx.set_properties({"b": "2"})
    one.set_properties({"a": "1"})
    assert (tx.commit().version, tx.result.attempts) == (2, 1)
    tx = two.transaction()
    tx.set_properties({"b": "3"})
    other_process(tmp_path).set_properties({"a": "4"})
    assert (tx.commit().version, tx.result.attempts) == (4, 2)


def test_other_hosts_other_options_and_stores_in_memory_share_nothing(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path)
    assert turn_of(other_process(tmp_path)) is not turn_of(lake)
    assert turn_of(hg.Lake.open(tmp_path, options={"fsync": "false"})) is not turn_of(lake)
    store = MemoryStore()
    assert turn_of(hg.Lake.init(store)) is not turn_of(hg.Lake.open(store))


def test_nothing_is_kept_when_all_handles_are_gone(tmp_path: Path) -> None:
    host = SystemHost()
    lake = hg.Lake.init(tmp_path, host=host)
    assert len(host.common()) == 1
    del lake
    gc.collect()  # a handle and its steward hold each other
    assert len(host.common()) == 0


def test_whoever_opens_a_lake_that_was_set_back_does_not_believe_the_others(tmp_path: Path) -> None:
    """Restored in place from a backup, so that its identity is the very same file."""
    log = tmp_path / "control" / "log"
    old = hg.Lake.init(tmp_path)
    old.set_properties({"a": "1"})
    before = {path.name for path in log.iterdir()}
    old.set_properties({"a": "2"})
    for path in log.iterdir():
        if path.name not in before:
            path.unlink()
    (tmp_path / entry_key(Version(2))).unlink()
    new = hg.Lake.open(tmp_path)
    assert turn_of(new) is not turn_of(old)
    assert (new.version, dict(new.properties)) == (1, {"a": "1"})
    assert new.set_properties({"a": "3"}).version == 2
    assert turn_of(hg.Lake.open(tmp_path)) is turn_of(new)


def test_another_history_of_the_same_length_is_not_taken_for_the_known_one(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    lake.set_properties({"a": "1"})
    shutil.copytree(tmp_path / "lake", tmp_path / "backup")
    lake.set_properties({"a": "2"})
    branch = hg.Lake.open(tmp_path / "backup")
    branch.set_properties({"b": "2"})
    branch.set_properties({"b": "3"})
    shutil.copytree(tmp_path / "backup", tmp_path / "lake", dirs_exist_ok=True)
    new = hg.Lake.open(tmp_path / "lake")
    assert turn_of(new) is not turn_of(lake)
    assert (new.version, dict(new.properties)) == (3, {"a": "1", "b": "3"})
    assert [entry.version for entry in new.log()] == [3, 2, 1]


def test_a_handle_joins_others_that_are_behind(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path)
    stranger = other_process(tmp_path)
    for number in range(30):
        stranger.set_properties({"n": str(number)})
    late = hg.Lake.open(tmp_path)
    assert turn_of(late) is turn_of(lake)
    assert Inspector(lake).newest.version == Version(30)


def test_threads_with_handles_of_their_own_do_not_race(tmp_path: Path) -> None:
    hg.Lake.init(tmp_path).create_table("a.b", "id BIGINT")
    lakes = [hg.Lake.open(tmp_path) for _ in range(4)]

    def append(lake: hg.Lake) -> list[int]:
        return [lake.table("a.b").append(ROWS).attempts for _ in range(3)]

    with ThreadPoolExecutor(len(lakes)) as threads:
        attempts = [one for some in threads.map(append, lakes) for one in some]
    assert attempts == [1] * 12
    lake = hg.Lake.open(tmp_path)
    assert lake.table("a.b").read_arrow().num_rows == 12
    assert (tmp_path / "data/a/b/metadata/version-hint.text").read_text() == str(lake.version)


def test_an_append_that_lost_has_the_number_of_the_version_it_got(tmp_path: Path) -> None:
    """Its manifest was made for an earlier version; a warm handle must not remember that one's number."""
    lake = hg.Lake.init(tmp_path, divisor=4)
    lake.create_table("a.b", "id BIGINT")
    stranger = other_process(tmp_path)
    for _ in range(9):  # some of them are lost at a boundary, and some are merged there
        with lake.transaction() as tx:
            tx.table("a.b").append(ROWS)
            stranger.table("a.b").append(ROWS)
        assert tx.result.attempts == 2
    cold = other_process(tmp_path)
    assert numbers(lake) == numbers(cold) == sorted(range(2, 20))
    assert lake.fsck(all_versions=True, deep=True).damage == ()


def numbers(lake: hg.Lake) -> list[int]:
    loader = Inspector(lake).loader()
    metadata = loader.metadata(Inspector(lake).refresh().tables["a.b"].metadata)
    entries = loader.entries(loader.manifests(metadata))
    return sorted(entry.sequence_number or 0 for some in entries for entry in some)


@pytest.mark.parametrize("losses", [1, 2, 6, 50])
def test_waits_are_measured_in_attempts_within_the_cap(losses: int) -> None:
    policy = RetryPolicy()
    waits = [contended_delay(policy, losses, 0.5, seconds) for seconds in (0.0, 0.01, 10.0)]
    assert waits == sorted(waits)
    assert waits[-1] <= policy.cap.total_seconds()
    assert (waits[-1] == 0) == (losses == 1)
