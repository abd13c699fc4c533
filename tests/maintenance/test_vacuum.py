"""Vacuum: what nobody can need any more goes, and nothing else."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.core.fsck.tables import owner_of
from headgate.core.retention.unreferenced import Found, Needed, Owners, find_unreferenced
from headgate.model.identifiers import TxId
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import Create, all_keys
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import intercepted
from tests.examples import examples
from tests.maintenance.aging import AgingHost, AgingLake, content, rows
from tests.maintenance.windows import compact_window
from tests.steward.crashes import Crash, Death, OneByOne

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def aging_lake() -> AgingLake:
    """A lake whose storage has the same clock."""
    aging = AgingLake()
    aging.store._now = lambda: datetime.now(UTC) + aging.clock.ahead  # type: ignore[attr-defined]
    aging.lake.create_table("t.t", "id BIGINT, n BIGINT")
    aging.lake.table("t.t").append(rows(1, 2, 3))
    aging.note()
    return aging


def objects(aging: AgingLake) -> set[str]:
    return set(all_keys(aging.store, "data/"))


def abandoned(aging: AgingLake) -> hg.Transaction:
    """A transaction that has written files and is then forgotten."""
    tx = aging.opened().transaction()
    tx.table("t.t").append(rows(100))
    tx.table("t.t").delete("id = 2")
    tx._others.presence.fall_silent()
    return tx


def test_files_of_a_transaction_that_never_committed() -> None:
    aging = aging_lake()
    before = objects(aging)
    tx = abandoned(aging)
    assert objects(aging) > before
    # It may be at work.
    early = aging.opened().vacuum()
    assert (early.objects, early.cancelled, early.versions) == (0, (), ())
    assert early.spared == len(objects(aging) - before)
    aging.clock.pass_time(2 * DAY)
    told = aging.opened().vacuum(dry_run=True)
    assert told.dry_run and told.cancelled == (tx.txid,)
    assert objects(aging) > before
    report = aging.opened().vacuum()
    assert report.cancelled == (tx.txid,)
    assert (report.objects, report.bytes) == (told.objects, told.bytes)
    assert report.objects and report.bytes
    assert objects(aging) == before
    record = aging.lake.log(limit=1)[0]
    assert (record.kind, record.cancels) == ("cancel", (tx.txid,))
    assert aging.opened().vacuum().versions == ()
    aging.require_sound()


def test_a_writer_that_slept_is_refused_and_corrupts_nothing() -> None:
    aging = aging_lake()
    tx = abandoned(aging)
    aging.clock.pass_time(2 * DAY)
    aging.opened().vacuum()
    with pytest.raises(hg.ConflictError, match="rule 36"):
        tx.commit()
    aging.note()
    aging.require_sound()
    assert content(aging.lake.table("t.t").read_arrow()) == aging.truth[2]["t.t"]


def test_a_writer_that_wakes_between_the_look_and_the_record_is_not_harmed() -> None:
    """It commits first: then nothing of it is deleted, and the vacuum looks again."""
    aging = aging_lake()
    awake = aging.opened().transaction()
    awake.table("t.t").append(rows(100))
    dead = abandoned(aging)
    aging.clock.pass_time(2 * DAY)
    woken: list[int] = []

    def between(request: object, proceed: Callable[[object], object]) -> object:
        if isinstance(request, Create) and not woken:
            woken.append(awake.commit().version)
        return proceed(request)

    slow = hg.Lake.open(
        intercepted(aging.store, between),  # type: ignore[arg-type]
        host=AgingHost(aging.clock),
    )
    report = slow.vacuum()
    assert woken
    assert report.cancelled == (dead.txid,)
    aging.note()
    aging.require_sound()
    assert {row["id"] for row in aging.lake.table("t.t").read_arrow().to_pylist()} == {1, 2, 3, 100}


@pytest.mark.parametrize("moment", range(2, 30))
def test_a_writer_that_commits_at_any_request_of_a_vacuum_is_not_harmed(moment: int) -> None:
    """Also after the log was read, and before the transaction that cancels it has begun."""
    aging = aging_lake()
    awake = aging.opened().transaction()
    awake.table("t.t").append(rows(100))
    asked = 0
    ended: list[int | None] = []

    def between(request: object, proceed: Callable[[object], object]) -> object:
        nonlocal asked
        asked += 1
        if asked == moment:
            try:
                ended.append(awake.commit().version)
            except hg.ConflictError:
                ended.append(None)
        return proceed(request)

    slow = hg.Lake.open(
        intercepted(aging.store, between),  # type: ignore[arg-type]
        host=AgingHost(aging.clock),
    )
    asked = 0
    report = slow.vacuum(older_than=timedelta(0))
    kept = {1, 2, 3, 100} if ended and ended[0] else {1, 2, 3}
    assert (awake.txid in report.cancelled) == (100 not in kept)
    aging.note()
    aging.require_sound()
    assert {row["id"] for row in aging.lake.table("t.t").read_arrow().to_pylist()} == kept


@pytest.mark.parametrize("moment", range(1, 12))
def test_a_writer_that_sleeps_at_any_request_of_its_commit(moment: int) -> None:
    """Meanwhile all that it wrote is vacuumed. It ends with a conflict, or it had committed before."""
    aging = aging_lake()
    asked = 0
    cleared: list[hg.VacuumReport] = []

    def between(request: object, proceed: Callable[[object], object]) -> object:
        nonlocal asked
        asked += 1
        if asked == moment:
            aging.clock.pass_time(2 * DAY)
            cleared.append(aging.opened().vacuum())
        return proceed(request)

    lake = hg.Lake.open(aging.store, host=AgingHost(aging.clock))
    tx = lake.transaction()
    tx.table("t.t").append(rows(100))
    sleepy = intercepted(aging.store, between)  # type: ignore[arg-type]
    object.__setattr__(tx._log.driver, "store", sleepy)
    committed, told = True, "rule 36"
    try:
        tx.commit()
    except hg.ConflictError as error:
        committed, told = False, str(error)
    assert "rule 36" in told
    if cleared and cleared[0].cancelled:
        assert not committed
    found = {row["id"] for row in aging.opened().table("t.t").read_arrow().to_pylist()}
    assert found == ({1, 2, 3, 100} if committed else {1, 2, 3})
    aging.note()
    aging.require_sound()


def test_litter_of_lost_attempts() -> None:
    """A transaction that lost a version has committed another one; what it wrote for the first is left."""
    aging = aging_lake()
    one, other = aging.opened().transaction(), aging.opened().transaction()
    one.table("t.t").append(rows(100))
    other.table("t.t").append(rows(200))
    other.commit()
    one.commit()
    aging.note()
    unreferenced = [key for key in objects(aging) if owner_of(key) == TxId(one.txid)]
    report = aging.opened().vacuum(older_than="0s")
    assert report.cancelled == ()
    assert report.objects
    assert any(key not in objects(aging) for key in unreferenced)
    aging.require_sound()
    assert aging.unreferenced() == []


def test_a_table_that_was_never_made() -> None:
    aging = aging_lake()
    tx = aging.opened().transaction()
    tx.create_table("t.new", "id BIGINT, n BIGINT").append(rows(5))
    assert all_keys(aging.store, "data/t/new/")
    report = aging.opened().vacuum(older_than=timedelta(0))
    assert report.cancelled == (tx.txid,)
    assert all_keys(aging.store, "data/t/new/") == []


def test_running_transactions_are_spared_however_old_their_files() -> None:
    aging = aging_lake()
    tx = aging.opened().transaction()
    tx.table("t.t").delete("id = 2")  # announces itself
    report = aging.opened().vacuum(older_than="0s")
    assert report.cancelled == ()
    assert report.spared
    tx.commit()
    aging.note()
    aging.require_sound()


def test_nothing_else_is_touched() -> None:
    aging = aging_lake()
    theirs = (
        "data/notes.txt",
        "data/t/notes.txt",
        "data/t/t/notes.txt",
        "data/t/t/data/theirs.parquet",
        "data/t/t/metadata/theirs.avro",
        "data/t/t/metadata/v12345678901234567890.metadata.json",
        "elsewhere/data/t/t/data/L0-" + "0" * 32 + "/x.parquet",
        "control/log/leftover",
        "control/timeline/x",
    )
    for key in theirs:
        aging.store.put(key, b"theirs")
    dead = f"data/t/t/data/L0-{'0' * 32}/x.parquet"
    aging.store.put(dead, b"nobody's")
    aging.store.put(f"data/t/t/data/L1-1-4-{'1' * 32}/x.parquet", b"nobody's")
    report = aging.opened().vacuum(older_than="0s")
    assert sorted(report.cancelled) == ["0" * 32, "1" * 32]
    for key in theirs:
        assert aging.store.get(key) == b"theirs", key
    assert aging.store.get(dead) is None


def test_what_a_dead_expire_has_left() -> None:
    aging = aging_lake()
    for number in range(12):
        aging.clock.pass_time(12 * HOUR)
        aging.lake.table("t.t").overwrite(rows(number))
        aging.note()
    death = Death(60, late=False)
    lake = hg.Lake.open(intercepted(aging.store, death.intercept), host=Dying(aging.clock))
    with pytest.raises(Crash):
        lake.expire(["all:1d", "1:forever"])
    assert Inspector(aging.opened()).refresh().retention.until
    assert aging.unreferenced()
    aging.clock.pass_time(2 * DAY)
    assert aging.opened().vacuum().objects
    aging.note()
    aging.require_sound()
    assert aging.unreferenced() == []


def test_damage_stops_it_before_anything_is_deleted() -> None:
    aging = aging_lake()
    abandoned(aging)
    (ref,) = Inspector(aging.lake).refresh().tables.values()
    (manifest,) = (
        Inspector(aging.lake).loader().manifests(Inspector(aging.lake).loader().metadata(ref.metadata))
    )
    aging.store.delete(Inspector(aging.lake).loader().key(manifest.path))
    before = objects(aging)
    with pytest.raises(hg.CorruptLakeError, match="nothing was deleted"):
        aging.opened().vacuum(older_than="0s")
    assert objects(aging) == before
    assert aging.lake.version == 2


@pytest.mark.parametrize("given", ["-1d", "soon", -DAY, 5])
def test_times_that_are_none(given: object) -> None:
    with pytest.raises(hg.InvalidInputError):
        aging_lake().lake.vacuum(older_than=given)  # type: ignore[arg-type]


# --- the decision ------------------------------------------------------------------------------------------

DEAD, ALIVE, DONE, GONE = (TxId(letter * 32) for letter in "abcd")
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_who_may_be_at_work_is_spared() -> None:
    def data(txid: TxId, name: str, hours: int | None = 48) -> Found:
        at = None if hours is None else NOON - hours * HOUR
        return Found(f"data/t/t/data/L0-{txid}/{name}", 1, at)

    found = [
        data(DEAD, "old"),
        data(ALIVE, "old"),
        data(ALIVE, "young", 1),
        data(DONE, "unused"),
        data(DONE, ".unused.crc"),
        data(DONE, "young", 1),
        data(DONE, "used"),
        data(DONE, ".used.crc"),
        data(GONE, "old"),
        data(DONE, "unknown", None),
        data(DONE, "_temporary/0/x"),
        Found("data/t/t/metadata/v3.metadata.json", 1, NOON - 48 * HOUR),
        Found("data/t/t/metadata/v7.metadata.json", 1, NOON - 48 * HOUR),
        Found("data/t/t/metadata/v9.metadata.json", 1, NOON - 48 * HOUR),
        Found("data/t/t/metadata/.v3.metadata.json.crc", 1, NOON - 48 * HOUR),
        Found("data/t/old/metadata/version-hint.text", 1, NOON - 48 * HOUR),
        Found("data/t/t/metadata/version-hint.text", 1, NOON - 48 * HOUR),
    ]
    needed = Needed({found[6].key}, {"data/t/t": frozenset({7})}, published_above=8)
    unreferenced = find_unreferenced(found, needed, Owners({DONE}, {GONE}, ()), NOON - DAY)
    assert sorted(unreferenced.objects) == sorted(
        [found[i].key for i in (3, 4, 8, 10, 11, 14, 15)],
    )
    assert unreferenced.of_dead == {DEAD: {found[0].key: 1}}
    assert unreferenced.spared == 2 + 1 + 1
    running = find_unreferenced(found, needed, Owners({DONE}, {GONE}, {DEAD}), NOON - DAY)
    assert running.of_dead == {}
    assert set(find_unreferenced(found, needed, Owners({DONE}, {GONE}, ()), None).of_dead) == {DEAD, ALIVE}


# --- on disks ----------------------------------------------------------------------------------------------


def test_half_written_files_on_a_disk(tmp_path: Path) -> None:
    lake = hg.Lake.init(LocalStore(tmp_path / "lake", fsync=False))
    lake.create_table("t.t", "id BIGINT, n BIGINT").append(rows(1))
    table = tmp_path / "lake/data/t/t"
    partial = table / "metadata/.headgate-0123.partial"
    partial.write_bytes(b"half")
    elsewhere = tmp_path / "lake/control/.headgate-0123.partial"
    elsewhere.write_bytes(b"half")
    crc = table / "data" / f"L0-{'0' * 32}" / "_temporary/0/.x.parquet.crc"
    crc.parent.mkdir(parents=True)
    crc.write_bytes(b"sum")
    assert lake.vacuum().objects == 0
    for path in (partial, elsewhere, crc):
        os.utime(path, (0, 0))
    report = lake.vacuum()
    assert report.objects == 2
    assert not partial.exists()
    assert not crc.parent.parent.parent.exists()
    assert elsewhere.exists()
    assert lake.fsck(deep=True).ok


def test_a_process_that_was_stopped_and_goes_on(tmp_path: Path) -> None:
    """SIGSTOP in the middle of a transaction, a vacuum, SIGCONT."""
    place = tmp_path / "lake"
    lake = hg.Lake.init(LocalStore(place, fsync=False))
    lake.create_table("t.t", "id BIGINT, n BIGINT").append(rows(1))
    program = (
        "import sys, headgate as hg, pyarrow as pa\n"
        "lake = hg.Lake.open(sys.argv[1])\n"
        "tx = lake.transaction()\n"
        "tx.table('t.t').append(pa.table({'id': [100], 'n': [0]}))\n"
        "print('written', flush=True)\n"
        "sys.stdin.readline()\n"
        "try:\n    print('committed', tx.commit().version)\n"
        "except hg.ConflictError as error:\n    print('conflict', error)\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdin is not None and writer.stdout is not None
    assert writer.stdout.readline() == "written\n"
    writer.send_signal(signal.SIGSTOP)
    try:
        report = lake.vacuum(older_than=timedelta(0))
        assert len(report.cancelled) == 1
    finally:
        writer.send_signal(signal.SIGCONT)
    told, _ = writer.communicate("go\n", timeout=60)
    assert told.startswith("conflict"), told
    assert "rule 36" in told
    assert lake.table("t.t").read_arrow().num_rows == 1
    assert lake.fsck(deep=True).ok


# --- all of it -------------------------------------------------------------------------------------------


class Dying(AgingHost, OneByOne):
    """One request after the other, at another time."""


def disturbed(aging: AgingLake, dice: random.Random, number: int) -> None:
    """Somebody does something, and dies at one of its requests."""
    death = Death(dice.randrange(3, 25), late=dice.random() < 0.5)
    try:
        lake = hg.Lake.open(intercepted(aging.store, death.intercept), host=Dying(aging.clock))
        match dice.randrange(6):
            case 0:
                lake.table("t.t").append(rows(number, number + 1))
            case 1:
                lake.table("t.t").delete(f"id IN (2, {number - 4}, {number - 8})")
            case 2:
                lake.create_table(f"t.n{number}", "id BIGINT, n BIGINT").append(rows(number))
            case 3:
                lake.table("t.t").overwrite(rows(number))
            case 4:
                lake.vacuum(older_than=dice.choice([timedelta(0), DAY]))
            case _:
                lake.expire(["all:6h", "1:2d"])
    except Crash:
        pass


def catch_up(aging: AgingLake, since: int) -> None:
    """Notes what versions hold that somebody else made."""
    lake = aging.opened()
    for version in range(since + 1, lake.version + 1):
        there = lake.at(version)
        aging.truth[version] = {name: content(there.table(name).read_arrow()) for name in there.tables()}
    _ = aging.lake.version


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(0, 10_000))
def test_crashes_expire_and_vacuum_leave_every_kept_version_and_nothing_else(seed: int) -> None:
    dice = random.Random(seed)
    aging = aging_lake()
    for step in range(25):
        aging.clock.pass_time(dice.choice([1, 3, 10]) * HOUR)
        number, before = 10 + 3 * step, aging.lake.version
        match dice.randrange(10):
            case 0 | 1 | 2:
                aging.lake.table("t.t").append(rows(number, number + 1, number + 2))
            case 3:
                aging.lake.table("t.t").update({"n": "n + 1"}, where=f"id IN ({number - 3}, {number - 9})")
            case 4:
                compact_window(aging.lake, "t.t", 1, max(4, aging.lake.version // 4 * 4))
            case 5:
                aging.expire("all:6h", "1:3d", "2:forever")
                aging.require_sound()
            case 6:
                aging.opened().vacuum()
                aging.require_sound()
            case _:
                disturbed(aging, dice, number)
        catch_up(aging, before)
    aging.require_sound()
    before = aging.lake.version
    aging.expire("all:6h", "1:3d", "2:forever")
    aging.clock.pass_time(2 * DAY)
    aging.opened().vacuum()
    catch_up(aging, before)
    aging.require_sound()
    assert aging.unreferenced() == []
    assert aging.opened().vacuum(older_than=timedelta(0)).objects == 0


def test_ages_are_those_of_the_storage() -> None:
    store = MemoryStore(now=lambda: NOON)
    store.put("data/x", b"12")
    (found,) = store.list_times("data/").objects
    assert (found.key, found.size_bytes, found.written_at) == ("data/x", 2, NOON)


# --- a transaction whose files went -------------------------------------------------------------------------

LOOKS: dict[str, Callable[[hg.Transaction], object]] = {
    "read": lambda tx: tx.table("t.t").read_arrow(),
    "delete": lambda tx: tx.table("t.t").delete("id = 100"),
    "update": lambda tx: tx.table("t.t").update({"n": "1"}, where="id = 100"),
    "upsert": lambda tx: tx.table("t.t").upsert(rows(100), ["id"]),
    "overwrite": lambda tx: tx.table("t.t").overwrite(rows(100), where="id = 100"),
    "commit": lambda tx: tx.commit(),
}


@pytest.mark.parametrize("how", LOOKS)
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_cancelled_transaction_that_misses_its_files_is_told_so(how: str, mode: str) -> None:
    """Nothing is wrong with the lake: the transaction is to be run again."""
    aging = aging_lake()
    aging.lake.table("t.t").set_properties({f"write.{kind}.mode": mode for kind in ("delete", "update")})
    tx = aging.opened().transaction()
    tx.table("t.t").append(rows(100, 101))
    assert aging.opened().vacuum(older_than=timedelta(0)).cancelled == (tx.txid,)
    aging.opened().set_properties({"more": "versions"})
    for _ in range(2):  # the same answer as often as it is asked
        with pytest.raises(hg.ConflictError, match=r"it cancels this transaction") as caught:
            LOOKS[how](tx)
        assert caught.value.next_step
        if how == "commit":
            return
    with pytest.raises(hg.ConflictError, match="it cancels this transaction"):
        tx.commit()


def test_a_file_that_somebody_else_deleted_is_damage_still() -> None:
    aging = aging_lake()
    tx = aging.opened().transaction()
    tx.table("t.t").append(rows(100))
    for key in objects(aging):
        if owner_of(key) == TxId(tx.txid):
            aging.store.delete(key)
    with pytest.raises(hg.CorruptLakeError, match="is missing, but the lake refers to it"):
        tx.table("t.t").read_arrow()
