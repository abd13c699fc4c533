"""Everything that is derived from the log can be lost, and is made anew; recovery survives a damaged mark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import headgate as hg
from headgate.errors import CorruptLakeError
from headgate.log.layout import ENTRIES, RECOVERED, entry_key
from headgate.model.identifiers import Version
from headgate.storage.local import LocalStore
from headgate.storage.requests import Delete, Put
from headgate.testing.faulty import Fault, faulty, refuse
from tests.steward.shop import Scene, cut, edit, fill, make, orders

DERIVED = ("control/txn", "control/checkpoint", "control/outbox")


@pytest.fixture
def lake(tmp_path: Path) -> hg.Lake:
    return make(tmp_path / "lake", "conditional")


@pytest.fixture
def scene(lake: hg.Lake) -> Scene:
    return Scene(Path(lake.place))


def contents(scene: Scene) -> dict[str, bytes]:
    """All derived objects."""
    paths = [path for top in DERIVED for path in (scene.root / top).rglob("*.json")]
    return {str(path.relative_to(scene.root)): path.read_bytes() for path in paths}


def lose_all(scene: Scene) -> None:
    for key in contents(scene):
        (scene.root / key).unlink()


def cut_all(scene: Scene) -> None:
    for key in contents(scene):
        cut(scene.root / key)


def mix_up(scene: Scene) -> None:
    scene.entry(5).write_bytes(scene.entry(6).read_bytes())
    scene.checkpoint(8).write_bytes(scene.checkpoint(4).read_bytes())
    (scene.root / "control/checkpoint/last.json").write_text('{"version": 99}')
    (scene.root / RECOVERED).write_text('{"version": 99}')
    (scene.root / f"control/outbox/{3:020d}.json").write_text("{}")
    scene.hint().write_text("99")
    (scene.root / "control/txn/stray.json").write_text("{}")


@pytest.mark.parametrize("breaking", [lose_all, cut_all, mix_up])
def test_what_is_broken_is_whole_afterwards(breaking: Callable[[Scene], None], scene: Scene) -> None:
    breaking(scene)
    report = hg.Lake.open(scene.root).rebuild_control()
    assert (report.until, report.entries) == (scene.head, scene.head)
    assert report.checkpoints == scene.head // 4
    found = hg.fsck(scene.root, deep=True)
    assert found.damage == ()
    assert {one.kind for one in found.notes} <= {"outbox-done"}


def test_nothing_changes_where_nothing_is_broken(lake: hg.Lake, scene: Scene) -> None:
    before = contents(scene)
    report = lake.rebuild_control()
    assert contents(scene) == before
    assert report.removed == () and report.not_published == ()
    assert report.published == 3


def test_what_is_known_of_hooks_is_kept(lake: hg.Lake, scene: Scene) -> None:
    version = int(scene.outbox().stem)
    before = lake.control(version)
    assert before is not None and before.hooks[0].attempts == 1
    scene.outbox().unlink()
    lake.rebuild_control()
    after = lake.control(version)
    assert after is not None and after.hooks == before.hooks
    assert [hook.version for hook in lake.open_hooks()] == [version]


def test_hooks_of_an_entry_that_is_lost_are_due_again(lake: hg.Lake, scene: Scene) -> None:
    version = int(scene.outbox().stem)
    edit(scene.entry(version), lambda fields: fields["hooks"][0].update(state="done"))
    cut(scene.entry(version))
    lake.rebuild_control()
    after = lake.control(version)
    assert after is not None and [hook.name for hook in after.open_hooks] == ["mail"]
    assert after.recovered


def test_it_removes_what_belongs_to_nothing_and_says_so(lake: hg.Lake, scene: Scene) -> None:
    stray = scene.root / f"{ENTRIES}stray.json"
    stray.write_text("{}")
    orphan = scene.root / f"control/outbox/{3:020d}.json"
    orphan.write_text("{}")
    report = lake.rebuild_control()
    assert report.removed == (f"control/outbox/{3:020d}.json", f"{ENTRIES}stray.json")
    assert not stray.exists() and not orphan.exists()


def test_a_small_lake_needs_no_last_checkpoint(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    lake.set_properties({"a": "b"})
    last = tmp_path / "lake/control/checkpoint/last.json"
    assert lake.rebuild_control().removed == ()
    last.parent.mkdir(exist_ok=True)
    last.write_text('{"version": 10}')
    assert lake.rebuild_control().removed == ("control/checkpoint/last.json",)
    assert lake.fsck().findings == ()


@pytest.mark.parametrize("versions", [1, 12])
def test_a_replica_stays_one(versions: int, tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "lake")
    for number in range(versions):
        lake.set_properties({"number": str(number)})
    lake.replicate(tmp_path / "replica")
    (tmp_path / "replica/control/checkpoint/last.json").write_text("[")
    hg.Lake.open(tmp_path / "replica").rebuild_control()
    replica = hg.Lake.open(tmp_path / "replica")
    assert replica.fsck().findings == ()
    with pytest.raises(hg.HeadgateError, match="replica"):
        replica.set_properties({"a": "b"})


def test_a_lost_record_ends_it_and_nothing_is_removed(scene: Scene) -> None:
    scene.record(6).unlink()
    (scene.root / "control/txn/stray.json").write_text("{}")
    # The newest checkpoint lets the lake open, though a record below it is lost.
    lake = hg.Lake.open(scene.root)
    with pytest.raises(CorruptLakeError, match="version 6"):
        lake.rebuild_control()
    assert (scene.root / "control/txn/stray.json").exists()


def test_a_broken_table_does_not_keep_the_rest_from_being_made(scene: Scene) -> None:
    scene.metadata("shop.totals").unlink()
    lose_all(scene)
    report = hg.Lake.open(scene.root).rebuild_control()
    assert report.published == 2
    assert [problem.split(":")[0] for problem in report.not_published] == ["shop.totals"]
    assert {one.kind for one in scene.fsck().damage} == {"metadata-missing"}


def test_progress_is_told_up_to_the_newest_version(lake: hg.Lake) -> None:
    told: list[tuple[int, int]] = []
    lake.rebuild_control(progress=lambda done, of: told.append((done, of)))
    assert told == sorted(told) and told[-1] == (lake.version, lake.version)


def test_whoever_dies_inside_leaves_the_rest_to_the_next(tmp_path: Path) -> None:
    inside = LocalStore(tmp_path / "lake", fsync=False)
    fill(hg.Lake.init(inside, divisor=4, strategy="conditional"))
    scene = Scene(tmp_path / "lake")
    for skip in range(0, 40, 3):
        mix_up(scene)
        store, schedule = faulty(inside)
        lake = hg.Lake.open(store)
        schedule.add(Fault(lambda request: isinstance(request, Put | Delete), refuse, skip=skip, times=None))
        try:
            lake.rebuild_control()
        except hg.StorageError:
            hg.Lake.open(inside).rebuild_control()
        assert hg.fsck(inside).damage == ()


# --- the mark of recovery ----------------------------------------------------------------------------------

WRONG_MARKS = [
    b"",
    b"[",
    b"[1]",
    b"{}",
    b'{"version": -1}',
    b'{"version": true}',
    b'{"version": "5"}',
    b'{"version": 1e3}',
    b'{"version": 99999999999999999999999}',
    b'{"version": 999}',
    b"\xff\xfe",
]


@pytest.mark.parametrize("wrong", WRONG_MARKS)
def test_a_mark_that_cannot_be_right_is_not_believed(wrong: bytes, lake: hg.Lake, scene: Scene) -> None:
    (scene.root / RECOVERED).write_bytes(wrong)
    scene.entry(5).unlink()
    report = lake.recover()
    assert (report.looked_from, report.entries) == (0, (5,))
    assert lake.fsck().findings == ()
    assert lake.recover().looked_from == lake.version


def test_a_mark_that_is_gone_costs_a_listing(lake: hg.Lake, scene: Scene) -> None:
    (scene.root / RECOVERED).unlink()
    scene.entry(2).unlink()
    assert lake.recover().entries == (2,)
    assert lake.fsck().findings == ()


def test_a_mark_that_is_too_low_is_moved_on(lake: hg.Lake, scene: Scene) -> None:
    (scene.root / RECOVERED).write_bytes(b'{"version": 2}')
    report = lake.recover()
    assert (report.looked_from, report.entries) == (2, ())
    assert lake.recover().looked_from == lake.version


def test_a_mark_that_hides_a_missing_entry_is_found_and_mended(lake: hg.Lake, scene: Scene) -> None:
    scene.entry(5).unlink()
    assert lake.recover().entries == ()  # the mark says that all is well there
    assert [one.kind for one in lake.fsck().damage] == ["entry-missing"]
    lake.rebuild_control()
    assert lake.fsck().findings == ()


@pytest.mark.parametrize("wrong", [b"[1]", b'{"version": 999}'])
def test_writers_go_on_whatever_the_mark_says(wrong: bytes, lake: hg.Lake, scene: Scene) -> None:
    (scene.root / RECOVERED).write_bytes(wrong)
    table = lake.table("shop.orders")
    for number in range(12):
        assert table.append(orders(number)).postponed == ()
    lake.recover()
    assert lake.fsck().findings == ()


def test_a_recovery_that_dies_leaves_the_mark_where_it_was(tmp_path: Path) -> None:
    inside = LocalStore(tmp_path / "lake", fsync=False)
    lake = fill(hg.Lake.init(inside, divisor=4, strategy="conditional"))
    head = lake.version
    # Nothing that follows the decision is done: entry, checkpoint, hint.
    blind, schedule = faulty(inside)
    writer = hg.Lake.open(blind)
    schedule.add(Fault(_follows_a_decision, refuse, times=None))
    for number in range(6):
        assert writer.table("shop.orders").append(orders(number)).postponed
    missing = tuple(range(head + 1, head + 7))
    for skip in range(30):
        store, schedule = faulty(inside)
        recovering = hg.Lake.open(store)
        schedule.add(Fault(lambda request: isinstance(request, Put), refuse, skip=skip, times=None))
        try:
            recovering.recover()
        except hg.StorageError:
            marked = inside.get(RECOVERED)
            assert marked is not None and str(head).encode() in marked
        else:
            break
    assert lake.fsck().findings == ()
    assert all(inside.get(entry_key(Version(version))) for version in missing)


def _follows_a_decision(request: object) -> bool:
    key = request.key if isinstance(request, Put) else ""
    return key.startswith(("control/txn", "control/checkpoint")) or "version-hint" in key
