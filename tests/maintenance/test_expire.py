"""Versions that expire: what is kept reads as before, what is not is refused, and its files are gone."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

import headgate as hg
from headgate.arrow.data_files import read_rows
from headgate.iceberg.format.snapshot import READABLE_SINCE
from headgate.model.identifiers import TxId
from headgate.storage.memory import MemoryStore
from headgate.storage.requests import all_keys
from headgate.testing.inspector import Inspector
from headgate.testing.intercept import counted
from tests.maintenance.aging import AgingHost, AgingLake, Clock, content, refused, rows
from tests.maintenance.windows import compact_window

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def made(appends: int = 20, divisor: int = 4, hours: int = 12) -> AgingLake:
    """A table with an append every few hours."""
    aging = AgingLake(divisor=divisor)
    aging.lake.create_table("t.t", "id BIGINT, n BIGINT")
    aging.note()
    for number in range(appends):
        aging.clock.pass_time(hours * HOUR)
        aging.lake.table("t.t").append(rows(3 * number, 3 * number + 1, 3 * number + 2))
        aging.note()
    return aging


def test_tiers() -> None:
    aging = made(40, hours=6)
    report = aging.expire("all:1d", "1:4d", "2:forever")
    # 40 appends, six hours each: versions 2 to 41; the newest is four hours and a bit old at most.
    assert report.version == 42
    assert report.until == 36
    assert report.kept == (16, 28, 32, 36)
    assert report.expired == 36 - len(report.kept)
    aging.require_sound()
    assert aging.unreferenced() == []
    # Nothing more is due, so no version is made.
    again = aging.expire("all:1d", "1:4d", "2:forever")
    assert (again.version, again.expired, again.objects) == (None, 0, 0)
    assert aging.lake.version == 42


def test_an_expired_version_says_so_and_names_the_nearest() -> None:
    aging = made(20)
    report = aging.expire("all:2d", "1:5d")
    table = aging.opened().table("t.t", version=13)
    error = refused(table)
    assert error.problem == f"t.t: version 13 has expired: version {report.version} released it"
    assert error.next_step == (
        f"the nearest that can be read: 12 and 16; every version from {report.until + 1} on can be read"
    )
    with pytest.raises(hg.NotFoundError, match="version 3 has expired"):
        aging.opened().table("t.t").files(version=3)
    with pytest.raises(hg.NotFoundError, match="version 13 has expired"):
        _ = table.schema
    # What the log knows is not expired.
    assert aging.opened().at(13).tables() == ("t.t",)
    assert len(aging.opened().log()) == aging.lake.version


def test_a_handle_that_does_not_know_of_it_finds_out() -> None:
    aging = made(20)
    held = aging.opened()
    table = held.table("t.t", version=5)
    assert table.read_arrow().num_rows == 12
    aging.expire("all:2d", "1:5d")
    assert "version 5 has expired" in refused(table).problem


def test_a_reader_that_was_reading_finds_out() -> None:
    aging = made(20)
    view = aging.opened().table("t.t", version=5)._view()
    files = view.files()
    aging.lake.table("t.t").overwrite(rows(1))
    aging.clock.pass_time(3 * DAY)
    aging.lake.table("t.t").append(rows(2))
    aging.expire("all:2d", "1:3d")
    with pytest.raises(hg.NotFoundError, match="version 5 was expired while it was read"):
        read_rows(Inspector(aging.lake).driver, view.loader, files, view.schema)


def test_boundaries_are_told_by_later_files() -> None:
    """After compaction the small files of an earlier boundary need not be kept."""
    aging = made(30, hours=6)
    for last in (16,):
        compact_window(aging.lake, "t.t", 2, last)
        aging.note()
    for last in range(20, 32, 4):
        compact_window(aging.lake, "t.t", 1, last)
        aging.note()
    aging.clock.pass_time(DAY)
    aging.lake.table("t.t").append(rows(1000))
    aging.note()
    report = aging.expire("all:1h", "1:forever")
    kept = Inspector(aging.opened()).refresh().retention
    (files,) = kept.files.values()
    # The boundaries inside of the large window are not told by it: the last of them keeps its files, which
    # tell the others.
    assert 12 in files
    assert not {4, 8, 16, 20, 24, 28} & set(files)
    assert {4, 8, 12, 16, 20, 24, 28} <= set(report.kept)
    aging.require_sound()
    assert aging.unreferenced() == []


def test_tagged_versions_stay_until_they_are_not() -> None:
    aging = made(20)
    aging.lake.tag("release", 7)
    aging.note()
    assert 7 in aging.expire("all:1d").kept
    aging.require_sound()
    assert content(aging.opened().at(tag="release").table("t.t").read_arrow()) == aging.truth[7]["t.t"]
    aging.lake.untag("release")
    aging.note()
    assert 7 not in aging.expire("all:1d").kept
    aging.require_sound()
    assert aging.unreferenced() == []


def test_an_expired_version_gets_no_tag() -> None:
    aging = made(20)
    early = aging.opened().transaction()
    early.set_tag("mine", 5)
    aging.expire("all:1d", "1:forever")
    with pytest.raises(hg.NotFoundError, match="version 5 has expired"):
        aging.opened().tag("mine", 5)
    with pytest.raises(hg.ConflictError, match="rule 44"):
        early.commit()
    assert aging.opened().tag("fine", 8).version == aging.lake.version


def test_a_tag_that_comes_first_is_kept() -> None:
    """Somebody names a version while others expire it: whoever commits first is right."""
    aging = made(20)
    store, other = aging.store, aging.opened()
    from headgate.storage.requests import Create
    from headgate.testing.intercept import intercepted

    tagged: list[int] = []

    def between(request: object, proceed: object) -> object:
        if isinstance(request, Create) and not tagged:
            tagged.append(1)
            other.tag("mine", 5)
        return proceed(request)  # type: ignore[operator]

    slow = hg.Lake.open(intercepted(store, between), host=AgingHost(aging.clock))  # type: ignore[arg-type]
    report = slow.expire(["all:1d", "1:forever"])
    assert 5 in report.kept
    aging.note()
    aging.require_sound()


def test_two_that_expire_at_once_agree() -> None:
    aging = made(20)
    one, other = aging.opened(), aging.opened()
    for lake in (one, other):
        _ = lake.version
    first = one.expire(["all:2d", "1:forever"])
    second = other.expire(["all:1d", "1:forever"])
    assert (first.version, second.version) == (22, 23)
    aging.note()
    aging.require_sound()
    assert aging.unreferenced() == []


def test_a_dry_run_changes_nothing_and_says_the_same() -> None:
    aging = made(20)
    before = {key: aging.store.get(key) for key in all_keys(aging.store, "")}
    told = aging.opened().expire(["all:1d", "1:forever"], dry_run=True)
    assert {key: aging.store.get(key) for key in all_keys(aging.store, "")} == before
    done = aging.expire("all:1d", "1:forever")
    assert told.dry_run
    assert (told.until, told.expired, told.kept) == (done.until, done.expired, done.kept)
    assert told.data_files == done.data_files


def test_nothing_is_expired_that_is_too_young() -> None:
    aging = made(5, hours=1)
    assert aging.expire("all:1d").version is None
    assert aging.expire("all:forever").version is None
    assert aging.opened().expire().version is None
    assert aging.lake.version == 6


def test_the_newest_version_stays_whatever_its_age() -> None:
    aging = made(8)
    aging.clock.pass_time(29 * DAY)
    report = aging.expire("all:1s")
    assert report.until == 8
    aging.require_sound()
    assert aging.lake.table("t.t").read_arrow().num_rows == 24


@pytest.mark.parametrize("policy", [("all:30d",), ("all:1s",), ("all:1d", "1:10d")])
def test_nothing_expires_by_a_clock_that_is_far_ahead(policy: tuple[str, ...]) -> None:
    """Or in a lake that was idle for so long: this looks the same."""
    aging = made(8)
    newest = aging.lake.version
    aging.clock.pass_time(1000 * DAY)
    for _ in range(2):
        report = aging.expire(*policy)
        assert (report.version, report.expired, report.until) == (None, 0, 0)
        (why,) = report.held_back
        assert "ahead of the newest version: check the clock" in why
    assert aging.lake.version == newest
    aging.lake.tag("idle-until-now")
    assert aging.expire(*policy).expired > 4
    aging.require_sound()


def test_a_policy_that_is_looser_brings_nothing_back() -> None:
    aging = made(30)
    aging.expire("all:1d")
    report = aging.expire("all:30d", "1:forever")
    assert (report.expired, report.kept) == (0, ())
    aging.require_sound()


# --- what holds it back ------------------------------------------------------------------------------------


def test_a_pending_plan_keeps_what_came_after_it() -> None:
    aging = made(10)
    with aging.lake.transaction() as tx:
        tx.plan("compaction", "t.t", [f.path for f in aging.lake.table("t.t").files()], ["/t/t"])
    aging.note()
    planned = aging.lake.version
    for number in range(10):
        aging.clock.pass_time(12 * HOUR)
        aging.lake.table("t.t").append(rows(500 + number))
        aging.note()
    report = aging.expire("all:1d")
    assert report.until == planned - 1
    assert len(report.held_back) == 1
    assert f", scheduled by version {planned}" in report.held_back[0]
    aging.lake.cancel(tx.txid)
    aging.note()
    assert aging.expire("all:1d").held_back == ()
    aging.require_sound()


def test_a_running_transaction_keeps_its_base() -> None:
    aging = made(10)
    running = aging.opened().transaction()
    running.table("t.t").delete("id = 4")  # announces itself
    for number in range(6):
        aging.clock.pass_time(12 * HOUR)
        aging.lake.table("t.t").append(rows(500 + number))
        aging.note()
    running.announce(next(iter(running._others.presence.intents.values())), running._work.noted.tables["t.t"])
    report = aging.expire("all:1d")
    assert report.until == 10
    assert running.txid in report.held_back[0]
    running.commit()
    aging.note()
    assert (4, 0) not in {(row["id"], row["n"]) for row in aging.lake.table("t.t").read_arrow().to_pylist()}
    aging.require_sound()


def test_a_materialized_view_keeps_what_its_refresh_needs() -> None:
    aging = made(10)
    aging.lake.create_table(
        "t.v",
        "id BIGINT, n BIGINT",
        properties={
            "headgate.view.sql": "SELECT * FROM t.t",
            "headgate.view.refreshed-at": "6",
        },
    )
    aging.clock.pass_time(9 * DAY)
    aging.lake.table("t.t").append(rows(1000))
    aging.note()
    report = aging.expire("all:1d")
    assert report.until == 5
    assert "t.v, last refreshed at version 6: refresh it" in report.held_back[0]
    assert aging.lake.table("t.t").changes_arrow(6).num_rows == 5 * 3 + 1


# --- changes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_changes_since_kept_versions_are_told_and_others_refused(mode: str) -> None:
    aging = made(6)
    table = aging.lake.table("t.t")
    table.set_properties({"write.delete.mode": mode, "write.update.mode": mode})
    aging.note()
    for number in range(8):
        aging.clock.pass_time(12 * HOUR)
        table.delete(f"id = {number}")
        aging.note()
        table.update({"n": "n + 1"}, where="id = 12")
        aging.note()
    told = {since: content(table.changes_arrow(since)) for since in range(1, aging.lake.version)}
    newest = aging.lake.version
    report = aging.expire("all:2d", "1:forever")
    fresh = aging.opened().table("t.t")
    for since, rows_changed in told.items():
        if since > report.until:
            assert content(fresh.changes_arrow(since, newest)) == rows_changed, since
        else:
            with pytest.raises(
                hg.NotFoundError, match=f"the changes since version {since} are no longer available"
            ):
                fresh.changes_arrow(since)
    aging.require_sound()
    assert aging.unreferenced() == []


# --- writers ---------------------------------------------------------------------------------------------


def test_a_writer_whose_base_is_expired() -> None:
    """One that needs nothing of it commits; one that does is refused, and changes nothing."""
    aging = made(10)
    appends, deletes, late = (aging.opened().transaction() for _ in range(3))
    appends.table("t.t").append(rows(900))
    deletes.table("t.t").delete("id = 4")
    deletes._others.presence.leave()  # as one whose heartbeats nobody hears
    aging.clock.pass_time(12 * HOUR)
    compact_window(aging.lake, "t.t", 1, 4)
    for number in range(6):
        aging.clock.pass_time(12 * HOUR)
        aging.lake.table("t.t").append(rows(500 + number))
    aging.note()
    aging.expire("all:1d")
    before = content(aging.lake.table("t.t").read_arrow())
    with pytest.raises(
        hg.ConflictError, match="began on version 11, but version 19 has expired all versions up"
    ):
        deletes.commit()
    with pytest.raises(hg.ConflictError, match="run it again"):
        late.table("t.t").delete("id = 5")
    assert content(aging.opened().table("t.t").read_arrow()) == before
    added = appends.commit().version
    assert aging.opened().version == added
    aging.note()
    aging.require_sound()
    aging.opened().table("t.t").delete("id = 4")


def test_writers_go_on_while_versions_expire() -> None:
    aging = made(20)
    tx = aging.opened().transaction()
    tx.table("t.t").append(rows(900))
    aging.expire("all:1d")
    tx.commit()
    aging.note()
    aging.require_sound()


# --- tables that come and go -----------------------------------------------------------------------------


def test_nothing_is_left_of_a_table_that_was_dropped() -> None:
    aging = made(6)
    aging.lake.create_table("t.gone", "id BIGINT, n BIGINT").append(rows(1, 2))
    aging.lake.drop_table("t.gone")
    aging.note()
    aging.clock.pass_time(3 * DAY)
    aging.lake.table("t.t").append(rows(800))
    aging.note()
    assert all_keys(aging.store, "data/t/gone/")
    aging.expire("all:1d")
    assert all_keys(aging.store, "data/t/gone/") == []
    aging.require_sound()


def test_a_table_that_never_changes_is_not_written_again_and_again() -> None:
    aging = made(6)
    aging.lake.create_table("t.still", "id BIGINT, n BIGINT").append(rows(1, 2))
    aging.note()
    for _ in range(3):
        aging.clock.pass_time(3 * DAY)
        aging.lake.table("t.t").append(rows(aging.lake.version + 800))
        aging.note()
        aging.expire("all:1d", "1:forever")
        aging.require_sound()
    changed = [e for e in aging.lake.log() if "change t.still" in e.tables and e.kind == "expire"]
    assert len(changed) <= 1
    assert aging.unreferenced() == []


def test_metadata_names_nothing_that_is_gone() -> None:
    """For other engines: snapshots, the log of snapshots, and the log of metadata files."""
    aging = made(20)
    aging.expire("all:2d", "1:forever")
    (ref,) = Inspector(aging.lake).refresh().tables.values()
    fields = json.loads(aging.store.get(ref.metadata) or b"")
    root = aging.store.uri()
    assert fields["snapshots"] and len(fields["snapshots"]) < 20
    named = [one["manifest-list"] for one in fields["snapshots"]]
    named += [one["metadata-file"] for one in fields["metadata-log"]]
    for uri in named:
        assert aging.store.get(uri.removeprefix(f"{root}/")) is not None, uri
    ids = {one["snapshot-id"] for one in fields["snapshots"]}
    assert {one["snapshot-id"] for one in fields["snapshot-log"]} <= ids
    hint = (aging.store.get("data/t/t/metadata/version-hint.text") or b"").decode()
    assert aging.store.get(f"data/t/t/metadata/v{hint}.metadata.json") == aging.store.get(ref.metadata)
    assert fields["snapshots"][-1]["summary"][READABLE_SINCE] == "0"


# --- costs -----------------------------------------------------------------------------------------------


def test_it_costs_what_is_expired_and_not_what_was_or_stays() -> None:
    def cost(old: int, fresh: int) -> int:
        aging = made(old, divisor=10, hours=12)
        aging.expire("all:1d", "1:forever")
        for number in range(6):
            aging.clock.pass_time(12 * HOUR)
            aging.lake.table("t.t").append(rows(10_000 + number))
        for number in range(fresh):
            aging.lake.table("t.t").append(rows(20_000 + number))
        store, tally = counted(aging.store)
        lake = hg.Lake.open(store, host=AgingHost(aging.clock))
        tally.reset()
        report = lake.expire(["all:1d", "1:forever"])
        assert report.expired
        return sum(tally.counts().values())

    small = cost(20, 2)
    assert cost(120, 2) <= small + 12
    assert cost(20, 60) <= small + 24


# --- replicas and control ---------------------------------------------------------------------------------


def test_a_replica_of_an_expired_lake() -> None:
    aging = made(20)
    aging.lake.tag("seven", 7)
    before, after = MemoryStore("before"), MemoryStore("after")
    aging.opened().replicate(before)
    aging.note()
    aging.expire("all:2d", "1:forever")
    for target in (before, after):
        aging.opened().replicate(target)
        replica = hg.Lake.open(target, host=AgingHost(Clock()))
        kept = Inspector(replica).refresh().retention
        for version, tables in aging.truth.items():
            table = replica.table("t.t", version=version)
            if kept.keeps(version, 4):
                assert content(table.read_arrow()) == tables["t.t"], version
            else:
                assert "has expired" in refused(table).problem
        assert replica.fsck(all_versions=True).ok
        with pytest.raises(hg.UnsupportedError, match="is a replica"):
            replica.expire()
    # Once promoted it lets go of what its source had.
    promoted = hg.Lake.open(before, host=AgingHost(aging.clock))
    promoted.promote()
    assert promoted.expire(["all:2d", "1:forever"]).objects > 20
    assert promoted.fsck(deep=True).ok


def test_control_can_be_rebuilt_and_recovered_after_an_expire() -> None:
    aging = made(20)
    aging.expire("all:2d", "1:forever")
    aging.opened().rebuild_control()
    aging.opened().recover()
    aging.require_sound()
    aging.store.delete("control/swept.json")
    report = aging.expire("all:2d", "1:forever")
    # It looks at everything once more, and finds nothing to delete but what is not there.
    assert report.data_files == 0
    aging.require_sound()
    assert TxId(aging.lake.log(limit=1)[0].txid)


def test_metadata_of_a_kept_version_outlives_the_files_of_its_snapshot() -> None:
    """The table is the same at 5 and 6: the files of 5 go, and 6 is read from those of 8, by its metadata."""
    aging = AgingLake(divisor=2)
    lake = aging.lake
    table = lake.create_table("t.t", "id BIGINT, n BIGINT")

    def hour(work: Callable[[], object]) -> None:
        aging.clock.pass_time(HOUR)
        work()
        aging.note()

    hour(lambda: table.append(rows(1)))
    hour(lambda: table.append(rows(2)))
    hour(lambda: lake.set_properties({"k": "1"}))
    hour(lambda: table.append(rows(3)))
    hour(lambda: lake.set_properties({"k": "2"}))
    hour(lambda: lake.compact(progress=lambda _: aging.clock.pass_time(HOUR)))
    hour(lambda: table.append(rows(4)))

    def expire(*, all_from: int, boundaries_from: int | None) -> None:
        now = AgingHost(aging.clock).now()
        committed = {entry.version: entry.committed_at for entry in lake.log()}
        ages = {v: int((now - at).total_seconds() // 60) + 55 for v, at in committed.items()}
        aging.clock.pass_time(HOUR)
        older = "forever" if boundaries_from is None else f"{ages[boundaries_from]}m"
        aging.expire(f"all:{ages[all_from]}m", f"1:{older}")

    expire(all_from=5, boundaries_from=None)
    expire(all_from=8, boundaries_from=None)
    assert [*Inspector(lake).refresh().retention.files.values()] == [(5, 8)]
    expire(all_from=8, boundaries_from=4)
    assert [*Inspector(lake).refresh().retention.files.values()] == [(8,)]
    aging.require_sound()
    assert lake.fsck(deep=True, all_versions=True).ok


@pytest.mark.parametrize("policy", [None, 5, "all:1d"])
def test_what_is_no_policy_is_refused(policy: object) -> None:
    with pytest.raises(hg.InvalidInputError, match="a policy must be a list of tiers"):
        AgingLake().lake.expire(policy)  # type: ignore[arg-type]
