"""What is not a replica of this lake is not written to, and a storage that fails costs nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import headgate as hg
from headgate.errors import (
    AlreadyExistsError,
    CorruptLakeError,
    InvalidInputError,
    StorageError,
    StorageRefusedError,
    UnsupportedError,
)
from headgate.log.layout import LAST_CHECKPOINT, REPLICA
from headgate.storage.capabilities import Store
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Answer, Create, Put, Rename, Request, all_keys
from headgate.testing.faulty import Fault, faulty, refuse
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import Proceed, intercepted, without_atomic_operations
from tests.replica.shop import ORDERS, assert_complete, assert_same, rows


def small(place: str | Path | Store | None = None, versions: int = 3) -> hg.Lake:
    lake = hg.Lake.init(MemoryStore("source") if place is None else place, divisor=4)
    table = lake.create_table(ORDERS, "id BIGINT, day INT, name STRING")
    for number in range(versions - 1):
        table.append(rows(number))
    return lake


def snapshot(store: Store) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in all_keys(store, "")}


def refused(source: hg.Lake, store: Store, kind: type[hg.HeadgateError], words: str) -> None:
    before, ours = snapshot(store), snapshot(Inspector(source).store)
    with pytest.raises(kind, match=words) as raised:
        source.replicate(store)
    assert raised.value.next_step
    assert snapshot(store) == before
    assert snapshot(Inspector(source).store) == ours


def test_another_lake() -> None:
    store = MemoryStore("other")
    small(store)
    refused(small(), store, AlreadyExistsError, "another lake")


def test_the_log_of_a_lake_without_its_identity() -> None:
    store = MemoryStore("other")
    store.put("control/log/00000000000000000007.json", b"{}")
    refused(small(), store, CorruptLakeError, "objects of a log")


def test_the_same_lake_without_a_mark() -> None:
    source, copy = small(), MemoryStore("copy")
    for key, data in snapshot(Inspector(source).store).items():
        assert data is not None
        copy.put(key, data)
    refused(source, copy, AlreadyExistsError, "not marked as its replica")
    with pytest.raises(AlreadyExistsError, match="copied by other means"):
        source.replicate(copy, adopt=True)
    assert copy.get(REPLICA) is None


def test_the_source_is_no_replica_of_its_replica() -> None:
    source, store = small(), MemoryStore("replica")
    source.replicate(store)
    refused(hg.Lake.open(store), Inspector(source).store, AlreadyExistsError, "not marked as its replica")


def test_places_inside_of_each_other(tmp_path: Path) -> None:
    source = small(tmp_path / "lake")
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    for target in ("lake", "lake/replica", ".", "link/replica", "link"):
        with pytest.raises(InvalidInputError, match="overlap"):
            source.replicate(tmp_path / target)
    assert source.replicate(tmp_path / "lake-2").created  # beside it, for all that the names say


def test_a_place_where_a_replica_of_another_lake_is_being_made() -> None:
    store = MemoryStore("replica")
    small(MemoryStore("b")).replicate(store)
    for key in all_keys(store, ""):
        if key != REPLICA:
            store.delete(key)
    refused(small(), store, AlreadyExistsError, "replica of another lake")


def test_a_damaged_mark_is_named() -> None:
    source, store = small(), MemoryStore("replica")
    source.replicate(store)
    store.put(REPLICA, b"{")
    refused(source, store, CorruptLakeError, REPLICA)
    store.put(REPLICA, b'{"format":2}')
    refused(source, store, UnsupportedError, "format 2")


@pytest.mark.parametrize("own", [1, 5, 9])
def test_a_replica_with_versions_of_its_own_is_refused_and_the_first_one_is_named(own: int) -> None:
    source, store = small(), MemoryStore("replica")
    source.replicate(store)
    forked = source.version + 1
    store.delete(LAST_CHECKPOINT)  # the advice was lost, so the commits are not noticed
    replica = hg.Lake.open(store)
    for number in range(own):
        replica.set_properties({"mine": str(number)})
    refused(source, store, AlreadyExistsError, f"of its own from version {forked} on")
    for number in range(4):
        source.set_properties({"yours": str(number)})
    refused(source, store, AlreadyExistsError, f"of its own from version {forked} on")


def test_a_commit_to_the_replica_while_it_is_copied_to_is_kept() -> None:
    source, store = small(), MemoryStore("replica")
    source.replicate(store)
    source.set_properties({"a": "1"})
    data = Inspector(source).data(source.version)
    version = source.version

    def racing(request: Request, proceed: Proceed) -> Answer:
        """Somebody takes the version just before we do."""
        if isinstance(request, Create) and request.data == data:
            store.delete(LAST_CHECKPOINT)
            hg.Lake.open(store).set_properties({"b": "1"})
        return proceed(request)

    with pytest.raises(AlreadyExistsError, match=f"from version {version} on"):
        source.replicate(intercepted(store, racing))
    assert hg.Lake.open(store).properties == {"b": "1"}


@pytest.mark.parametrize("advice", ["there", "lost"])
def test_a_promoted_replica_takes_commits_and_is_not_written_to(advice: str) -> None:
    source, store = small(), MemoryStore("replica")
    source.replicate(store)
    replica = hg.Lake.open(store)
    with pytest.raises(UnsupportedError, match="is a replica of memory://source"):
        replica.set_properties({"a": "1"})
    with pytest.raises(UnsupportedError):
        replica.table(ORDERS).append(rows(7))
    if advice == "there":
        store.delete(REPLICA)  # by other means than ours
    else:
        assert replica.promote().source == "memory://source"
    assert replica.replica_of is None
    with pytest.raises(AlreadyExistsError):
        source.replicate(store)
    assert replica.table(ORDERS).append(rows(7)).version == source.version + 1
    assert hg.Lake.open(store).set_properties({"a": "1"}).version == source.version + 2
    with pytest.raises(InvalidInputError, match="is not a replica"):
        replica.promote()


def test_a_promoted_replica_can_be_adopted_while_it_has_no_versions_of_its_own() -> None:
    source, store = small(), MemoryStore("replica")
    source.replicate(store)
    hg.Lake.open(store).promote()
    source.set_properties({"a": "1"})
    assert source.replicate(store, adopt=True).versions == 2  # with the fence
    assert_same(source, hg.Lake.open(store))
    promoted = hg.Lake.open(store)
    promoted.promote()
    promoted.set_properties({"b": "1"})
    with pytest.raises(AlreadyExistsError, match="of its own"):
        source.replicate(store, adopt=True)
    assert store.get(REPLICA) is None


def test_a_commit_to_a_lake_that_is_no_replica_never_asks_for_the_mark() -> None:
    asked: list[str] = []

    class Watched(MemoryStore):
        def get(self, key: str) -> bytes | None:
            asked.append(key)
            return super().get(key)

    source = small(Watched("source"), versions=12)
    hg.Lake.open(Inspector(source).store).set_properties({"a": "1"})
    assert REPLICA not in asked


def test_a_storage_that_cannot_carry_the_strategy() -> None:
    store = without_atomic_operations(MemoryStore("replica"))
    with pytest.raises(UnsupportedError, match="is unsafe at") as raised:
        small().replicate(store)
    assert "--switch-to filetracker" in raised.value.next_step
    assert store.list_page("").keys == ()


def test_filetracker_goes_anywhere() -> None:
    source = hg.Lake.init(MemoryStore("source"), strategy="filetracker", divisor=4)
    for number in range(9):
        source.set_properties({"n": str(number)})
    inner = MemoryStore("replica")
    source.replicate(without_atomic_operations(inner))
    assert_same(source, hg.Lake.open(inner))


# --- storage that fails -------------------------------------------------------------------------------------


def is_write(request: object) -> bool:
    return isinstance(request, Put | Create | Rename)


@pytest.mark.parametrize("after", range(0, 60, 4))
def test_a_target_that_is_full(after: int) -> None:
    source, inner = small(versions=6), MemoryStore("replica")
    ours = snapshot(Inspector(source).store)
    store, schedule = faulty(inner, Fault(is_write, refuse, skip=after, times=None))
    with pytest.raises(StorageError, match="replica at memory://replica"):
        source.replicate(store)
    assert snapshot(Inspector(source).store) == ours
    schedule.clear()
    source.replicate(store)
    assert_same(source, hg.Lake.open(inner))
    assert_complete(hg.Lake.open(inner))


def test_a_read_only_directory(tmp_path: Path) -> None:
    source, target = small(tmp_path / "lake"), tmp_path / "replica"
    source.replicate(target)
    version = source.version
    source.set_properties({"a": "1"})
    for directory in (*[path for path in target.rglob("*") if path.is_dir()], target):
        directory.chmod(0o555)
    try:
        if _may_write(target):
            pytest.skip("this user may write everywhere")
        with pytest.raises(StorageRefusedError, match=f"stays complete at version {version}") as raised:
            source.replicate(target)
        assert "right to read and write" in raised.value.next_step
        assert hg.Lake.open(target).version == version
    finally:
        for directory in (target, *[path for path in target.rglob("*") if path.is_dir()]):
            directory.chmod(0o755)
    assert source.replicate(target).versions == 1


def _may_write(directory: Path) -> bool:
    try:
        (directory / "try").touch()
    except OSError:
        return False
    (directory / "try").unlink()
    return True


def test_a_target_below_a_file(tmp_path: Path) -> None:
    source = small(tmp_path / "lake")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError):
        source.replicate(tmp_path / "file" / "replica")


def test_a_target_that_is_gone_is_made_anew_and_never_written_to_by_halves(tmp_path: Path) -> None:
    source, target = small(tmp_path / "lake"), tmp_path / "replica"
    source.replicate(target)
    shutil.rmtree(target)
    assert source.replicate(target).created
    assert_same(source, hg.Lake.open(target))


def test_arguments_that_are_none() -> None:
    with pytest.raises(InvalidInputError):
        small().replicate(7)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError):
        small().replicate("ftp://host/lake")
