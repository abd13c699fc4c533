"""Every kind of damage is found, named by its kind, and left exactly as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.core.fsck.kinds import KINDS
from headgate.iceberg.format.avro import decode_manifest_list, encode_manifest_list
from headgate.iceberg.format.positions import Positions, decode_positions, encode_positions
from headgate.model.fsck import Severity
from headgate.model.identifiers import Version
from headgate.model.record import TagChange
from headgate.model.state import LakeState
from headgate.storage.local import LocalStore
from headgate.storage.requests import Get
from headgate.testing.faulty import Fault, faulty, refuse
from headgate.testing.intercept import without_atomic_operations
from tests.maintenance.aging import AgingHost, Clock
from tests.steward.shop import Scene, cut, edit, make

Breaking = Callable[[Scene], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Where the lake is, and a copy of it."""
    top = tmp_path_factory.mktemp("fsck")
    make(top / "lake", "conditional")
    Scene.restored(top / "backup", top / "lake")
    return top / "lake", top / "backup"


@pytest.fixture
def scene(whole: tuple[Path, Path]) -> Scene:
    return Scene.restored(*whole)


def test_the_lake_is_whole_before(scene: Scene) -> None:
    for deep in (False, True):
        report = scene.fsck(deep=deep)
        assert report.findings == ()
        assert report.ok and report.version == scene.head


# --- the log -----------------------------------------------------------------------------------------------


def edit_identity(scene: Scene) -> None:
    edit(scene.root / "headgate.json", lambda fields: fields.update(divisor=7))


def lose_identity(scene: Scene) -> None:
    lose_record_zero(scene)
    (scene.root / "headgate.json").unlink()


def lose_record_zero(scene: Scene) -> None:
    next((scene.root / "control/log/commit").glob("*/sub-hint/COMMIT-HINT.txt")).unlink()


def garble_identity(scene: Scene) -> None:
    lose_record_zero(scene)
    cut(scene.root / "headgate.json")


def edit_record(scene: Scene) -> None:
    edit(scene.record(6), lambda fields: fields.update(attempts=9))


def edit_base(scene: Scene) -> None:
    edit(scene.record(6), lambda fields: fields.update(base=6))


def repeat_record(scene: Scene) -> None:
    txid = json.loads(scene.record(5).read_bytes())["txid"]
    edit(scene.record(6), lambda fields: fields.update(txid=txid))


def repeat_batch(scene: Scene) -> None:
    edit(scene.record(9), lambda fields: fields.update(app={"id": "loader", "batch": 7}))


def newer_record(scene: Scene) -> None:
    edit(scene.record(6), lambda fields: fields.update(format=9, needs_release="9.0"))


def lose_end_of_log(scene: Scene) -> None:
    scene.record(scene.head).unlink()


def lose_two_windows(scene: Scene) -> None:
    for version in range(scene.head, scene.head - DIVISORS_LOST, -1):
        scene.record(version).unlink()


DIVISORS_LOST = 8


# --- what is derived ---------------------------------------------------------------------------------------


def foreign_checkpoint(scene: Scene) -> None:
    other = make(scene.root.parent / "other", "conditional")
    scene.checkpoint(8).write_bytes(Scene(Path(other.place)).checkpoint(8).read_bytes())


def forge_checkpoint(scene: Scene) -> None:
    path = scene.checkpoint(8)
    state = LakeState.decode(path.read_bytes(), Version(8), "")
    path.write_bytes(replace(state, tags={"forged": Version(1)}).encode())


def point_nowhere(scene: Scene) -> None:
    (scene.root / "control/checkpoint/last.json").write_text('{"version": 7}')


def entry_of_another(scene: Scene) -> None:
    scene.entry(6).write_bytes(scene.entry(5).read_bytes())


def edit_entry(scene: Scene) -> None:
    edit(scene.entry(6), lambda fields: fields["descriptor"].update(user="nobody"))


def mark(text: str) -> Breaking:
    return lambda scene: (scene.root / "control/txn/recovered.json").write_text(text)


def orphan_outbox(scene: Scene) -> None:
    (scene.root / f"control/outbox/{5:020d}.json").write_text('{"hooks": ["mail"]}')


def outbox_of_the_future(scene: Scene) -> None:
    (scene.root / f"control/outbox/{999:020d}.json").write_text('{"hooks": ["mail"]}')


# --- tables ------------------------------------------------------------------------------------------------


def swap_metadata(scene: Scene) -> None:
    one, other = scene.metadata("shop.orders"), scene.metadata("shop.totals")
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def edit_metadata(**fields: object) -> Breaking:
    return lambda scene: edit(scene.metadata(), lambda known: known.update(fields))


def another_snapshot(scene: Scene) -> None:
    def change(fields: dict[str, object]) -> None:
        snapshots = fields["snapshots"]
        assert isinstance(snapshots, list)
        fields["current-snapshot-id"] = snapshots[0]["snapshot-id"]
        fields["refs"] = {}

    edit(scene.metadata(), change)


def edit_summary(scene: Scene) -> None:
    edit(scene.metadata(), lambda fields: fields["snapshots"][-1]["summary"].update({"total-records": "7"}))


def edit_list(change: Callable[[list[object]], list[object]]) -> Breaking:
    def breaking(scene: Scene) -> None:
        path = scene.manifest_list()
        manifests = list(decode_manifest_list(path.read_bytes(), ""))
        path.write_bytes(encode_manifest_list(change(manifests), 1, None, 1))  # type: ignore[arg-type]

    return breaking


def miscounted(manifests: list[object]) -> list[object]:
    first, *others = manifests
    return [replace(first, existing_rows=77), *others]  # type: ignore[type-var]


def rewrite_manifest(scene: Scene) -> None:
    """The same entries, in other bytes."""
    path = scene.path(scene.manifests()[0].path)
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, records = reader.writer_schema, list(reader)
    assert schema is not None
    with path.open("wb") as file:
        fastavro.writer(file, schema, records)


def wrong_checksum(scene: Scene) -> None:
    """A manifest whose header tells other checksums than its settled blocks have."""
    for manifest in scene.manifests():
        path = scene.path(manifest.path)
        data = path.read_bytes()
        at = data.find(b"headgate.settled-blocks") + len("headgate.settled-blocks") + 1
        if manifest.existing_files and data[at : at + 8].isalnum():
            path.write_bytes(data[:at] + b"00000000" + data[at + 8 :])
            return
    raise AssertionError("no manifest with settled entries")


def other_rows(scene: Scene) -> None:
    """A Parquet file of the same size, with fewer rows."""
    path = scene.data_file()
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1]}), sink, store_schema=False)
    small = sink.getvalue().to_pybytes()
    missing = path.stat().st_size - len(small)
    assert missing >= 0
    footer = len(small) - int.from_bytes(small[-8:-4], "little") - 8
    path.write_bytes(small[:footer] + b"\0" * missing + small[footer:])


def garble_pages(path: Path) -> None:
    """Other bytes in the first half of the file, which contains pages; its footer stays as it is."""
    data = path.read_bytes()
    half = len(data) // 2
    path.write_bytes(data[:4] + bytes(byte ^ 0xFF for byte in data[4:half]) + data[half:])


def garble_footer(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-20] + bytes(20))


def rewrite_deletes(scene: Scene, change: Callable[[str, int], list[tuple[str, int]]]) -> None:
    """Another delete file of the same size in place of one that tells of a single row."""
    path = scene.delete_file()
    listed = decode_positions(path.read_bytes(), "").by_file
    ((data_file, positions),) = listed.items()
    (position,) = positions
    for other, row in change(data_file, position):
        data = encode_positions(Positions.of({other: [row]}))
        if len(data) == path.stat().st_size:
            path.write_bytes(data)
            return
    raise AssertionError("no such file has the same size")


def delete_in_a_missing_file(scene: Scene) -> None:
    end = len(".parquet")

    def others(path: str, row: int) -> list[tuple[str, int]]:
        names = [f"{path[: -end - 2]}{number:02x}{path[-end:]}" for number in range(256)]
        return [(name, row) for name in names if name != path]

    rewrite_deletes(scene, others)


def delete_beyond_the_end(scene: Scene) -> None:
    rewrite_deletes(scene, lambda path, row: [(path, row + more) for more in range(1000, 2000)])


def delete_another_row(scene: Scene) -> None:
    """The row that the next delete file tells of as well: one more is live now."""
    rewrite_deletes(scene, lambda path, row: [(path, row + 1)])


def hint(text: str) -> Breaking:
    return lambda scene: scene.hint().write_text(text)


def lose_published(scene: Scene) -> None:
    version = scene.hint().read_text()
    (scene.hint().parent / f"v{version}.metadata.json").unlink()


def publish_the_future(scene: Scene) -> None:
    """As if `control/` had been restored from a backup that is one version old."""
    (scene.hint().parent / f"v{scene.head + 1}.metadata.json").write_bytes(scene.metadata().read_bytes())


def commit_wrong_tag(scene: Scene) -> None:
    with hg.Lake.open(scene.root).transaction() as tx:
        # As older releases did, which took any number.
        tx._work.noted = replace(tx._work.noted, tags=TagChange({"soon": Version(999)}))


def plan_for_nothing(scene: Scene) -> None:
    with hg.Lake.open(scene.root).transaction() as tx:
        tx.plan("clustering", "shop.orders", ["no such file"], ["/shop/orders"])


def leave_parts(scene: Scene, *parts: Path) -> None:
    for path in parts:
        path.unlink()


DAMAGE: list[tuple[str, Breaking, str]] = [
    ("headgate.json edited", edit_identity, "identity-differs"),
    ("headgate.json and record 0 gone", lose_identity, "identity-missing"),
    ("headgate.json garbled, record 0 gone", garble_identity, "identity-unreadable"),
    ("record 0 gone", lose_record_zero, "record-missing"),
    ("record gone", lambda s: s.record(6).unlink(), "record-missing"),
    ("two records gone", lambda s: leave_parts(s, s.record(6), s.record(7)), "record-missing"),
    ("record cut", lambda s: cut(s.record(6)), "record-unreadable"),
    ("record edited", edit_record, "record-changed"),
    ("record 1 edited", lambda s: edit(s.record(1), lambda f: f.update(previous="x")), "record-changed"),
    ("record on itself", edit_base, "record-impossible"),
    ("transaction twice", repeat_record, "record-impossible"),
    ("batch twice", repeat_batch, "record-impossible"),
    ("record of a later release", newer_record, "record-later-release"),
    ("newest record gone", lose_end_of_log, "entry-beyond-head"),
    ("two windows gone", lose_two_windows, "checkpoint-beyond-head"),
    ("checkpoint cut", lambda s: cut(s.checkpoint(8)), "checkpoint-unreadable"),
    ("checkpoint forged", forge_checkpoint, "checkpoint-differs"),
    ("checkpoint of another lake", foreign_checkpoint, "checkpoint-of-another-lake"),
    ("last.json points nowhere", point_nowhere, "last-checkpoint-wrong"),
    ("last.json cut", lambda s: cut(s.root / "control/checkpoint/last.json"), "last-checkpoint-wrong"),
    ("mark beyond the head", mark('{"version": 999}'), "mark-wrong"),
    ("mark garbled", mark("[1]"), "mark-wrong"),
    ("entry gone", lambda s: s.entry(6).unlink(), "entry-missing"),
    ("entry cut", lambda s: cut(s.entry(6)), "entry-unreadable"),
    ("entry of another version", entry_of_another, "entry-differs"),
    ("entry edited", edit_entry, "entry-differs"),
    ("orphan in the outbox", orphan_outbox, "outbox-orphan"),
    ("outbox of the future", outbox_of_the_future, "outbox-orphan"),
    ("outbox gone", lambda s: s.outbox().unlink(), "outbox-missing"),
    ("metadata gone", lambda s: s.metadata().unlink(), "metadata-missing"),
    ("metadata cut", lambda s: cut(s.metadata()), "metadata-unreadable"),
    ("metadata without schemas", edit_metadata(schemas=[]), "metadata-unreadable"),
    ("metadata swapped", swap_metadata, "metadata-of-another-table"),
    ("metadata elsewhere", edit_metadata(location="file:///elsewhere"), "metadata-of-another-place"),
    ("metadata at another snapshot", another_snapshot, "snapshot-differs"),
    ("metadata with a later number", edit_metadata(**{"last-sequence-number": 30}), "metadata-unreadable"),
    ("metadata with an older number", edit_metadata(**{"last-sequence-number": 3}), "metadata-unreadable"),
    ("metadata with other properties", edit_metadata(properties={"a": "b"}), "published-differs"),
    ("totals edited", edit_summary, "summary-differs"),
    ("manifest list gone", lambda s: s.manifest_list().unlink(), "manifest-list-missing"),
    ("manifest list cut", lambda s: cut(s.manifest_list()), "manifest-list-unreadable"),
    ("manifest list miscounts", edit_list(miscounted), "manifest-differs"),
    ("manifest list twice", edit_list(lambda known: [*known, known[0]]), "file-twice"),
    ("manifest gone", lambda s: s.path(s.manifests()[0].path).unlink(), "manifest-missing"),
    ("manifest cut", lambda s: cut(s.path(s.manifests()[0].path)), "manifest-unreadable"),
    ("manifest checksum", wrong_checksum, "manifest-unreadable"),
    ("manifest in other bytes", rewrite_manifest, "manifest-size"),
    ("data file gone", lambda s: s.data_file().unlink(), "file-missing"),
    ("data file cut", lambda s: cut(s.data_file()), "file-size"),
    ("delete file gone", lambda s: s.delete_file().unlink(), "file-missing"),
    ("hint of the future", hint("999"), "hint-beyond-head"),
    ("hint garbled", hint("soon"), "hint-unreadable"),
    ("hint of another table", hint("2"), "hint-wrong"),
    ("published file gone", lose_published, "published-missing"),
    ("published file of the future", publish_the_future, "published-beyond"),
    ("tag of the future", commit_wrong_tag, "tag-wrong"),
    ("plan for no file", plan_for_nothing, "plan-without-inputs"),
]

DEEP_DAMAGE: list[tuple[str, Breaking, str]] = [
    ("footer garbled", lambda s: garble_footer(s.data_file()), "file-unreadable"),
    ("footer of a delete file", lambda s: garble_footer(s.delete_file()), "file-unreadable"),
    ("pages garbled", lambda s: garble_pages(s.data_file()), "file-unreadable"),
    ("other rows", other_rows, "file-rows"),
    ("delete in a missing file", delete_in_a_missing_file, "delete-differs"),
    ("delete beyond the end", delete_beyond_the_end, "delete-differs"),
    ("another row deleted", delete_another_row, "live-rows-differ"),
    ("old metadata gone", lambda s: old_metadata(s).unlink(), "metadata-missing"),
    (
        "old metadata swapped",
        lambda s: old_metadata(s).write_bytes(first_metadata(s, "totals").read_bytes()),
        "",
    ),
]


def old_metadata(scene: Scene) -> Path:
    return next(scene.root.glob(f"data/shop/orders/attempts/{4:020d}-*.metadata.json"))


def first_metadata(scene: Scene, table: str) -> Path:
    """Of a version so early that its numbers are possible in place of any other table's metadata."""
    return min(scene.root.glob(f"data/shop/{table}/attempts/*.metadata.json"))


def names(cases: list[tuple[str, Breaking, str]]) -> list[str]:
    return [name for name, _, _ in cases]


@pytest.mark.parametrize(("name", "breaking", "kind"), DAMAGE, ids=names(DAMAGE))
def test_damage_is_found(name: str, breaking: Breaking, kind: str, scene: Scene) -> None:
    breaking(scene)
    report = scene.fsck()
    assert kind in {one.kind for one in report.damage}, report.findings
    assert not report.ok
    told = next(one for one in report.damage if one.kind == kind)
    assert told.problem and told.next_step and told.where
    assert kind in {one.kind for one in scene.fsck(deep=True).damage}


@pytest.mark.parametrize(("name", "breaking", "kind"), DEEP_DAMAGE, ids=names(DEEP_DAMAGE))
def test_damage_inside_of_files_is_found_by_a_deep_look(
    name: str, breaking: Breaking, kind: str, scene: Scene
) -> None:
    breaking(scene)
    assert scene.fsck().ok
    assert (kind or "metadata-of-another-table") in {one.kind for one in scene.fsck(deep=True).damage}


def test_damage_names_the_object(scene: Scene) -> None:
    path = scene.data_file()
    path.unlink()
    (found,) = scene.fsck().damage
    assert found.where == str(path.relative_to(scene.root))


def test_an_edited_newest_record_is_told_by_what_was_noted_of_it(scene: Scene) -> None:
    """No later record names its digest, but its control entry does; rebuilding would forget that."""
    edit(scene.record(scene.head), lambda fields: fields.update(attempts=9))
    (found,) = scene.fsck().damage
    assert found.kind == "entry-differs" and "digest of the record" in found.problem
    assert "compare the record with a backup" in found.next_step


# --- notes -------------------------------------------------------------------------------------------------


def stray_record(scene: Scene) -> None:
    """What no writer leaves: a record where the strategy of the version does not put it."""
    (scene.root / f"control/log/commit/{scene.head + 1:020d}/sub-hint").mkdir(parents=True)
    (scene.root / f"control/log/commit/{scene.head + 1:020d}/sub-hint/COMMIT-HINT.txt").write_text("{}")


def unmark(scene: Scene) -> None:
    (scene.root / "control/txn/recovered.json").unlink()
    scene.entry(6).unlink()


def overtake_plan(scene: Scene) -> None:
    hg.Lake.open(scene.root).table("shop.totals").overwrite(pa.table({"total": [0.0]}))


def finish_hooks_but_not_the_outbox(scene: Scene) -> None:
    version = int(scene.outbox().stem)
    edit(scene.entry(version), lambda fields: fields["hooks"][0].update(state="done"))


def announce(scene: Scene) -> None:
    lake = hg.Lake.open(scene.root)
    tx = lake.transaction()
    tx.table("shop.totals").overwrite(pa.table({"total": [0.0]}))
    (path,) = (scene.root / "control/timeline").iterdir()
    dead = path.read_bytes()
    tx.abort()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(dead)
    edit(path, lambda fields: fields.update(heartbeat_at="2026-01-01T00:00:00.000000Z"))


def leave(key: str, data: bytes = b"left") -> Breaking:
    def breaking(scene: Scene) -> None:
        path = scene.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return breaking


TXID = "0" * 32


def commit_ahead(scene: Scene) -> None:
    ahead = AgingHost(Clock(timedelta(days=500 * 365)))
    hg.Lake.open(scene.root, host=ahead).set_properties({"clock": "ahead"})


def commit_ahead_and_after(scene: Scene) -> None:
    commit_ahead(scene)
    hg.Lake.open(scene.root).set_properties({"clock": "right"})


NOTES: list[tuple[str, Breaking, str]] = [
    ("headgate.json gone", lambda s: (s.root / "headgate.json").unlink(), "identity-not-copied"),
    ("temporary object", leave(f"control/log/.{TXID}-{9:020d}.tmp"), "log-leftovers"),
    ("attempt at no version", leave(f"control/log/commit/{99:020d}/{1:020d}/{TXID}.txt"), "log-leftovers"),
    ("record in the wrong place", stray_record, "log-leftovers"),
    ("foreign object in the log", leave("control/log/README"), "log-leftovers"),
    ("foreign object beside entries", leave("control/txn/README"), "control-stray"),
    ("foreign object in the timeline", leave("control/timeline/README"), "control-stray"),
    ("clock ahead", commit_ahead, "clock-ahead"),
    ("time set back", commit_ahead_and_after, "clock-set-back"),
    ("checkpoint gone", lambda s: s.checkpoint(8).unlink(), "checkpoint-missing"),
    ("entry above the mark", unmark, "entry-due"),
    ("outbox that is done", finish_hooks_but_not_the_outbox, "outbox-done"),
    ("announcement of the dead", announce, "announcement-dead"),
    ("garbled announcement", leave(f"control/timeline/{TXID}.json"), "announcement-unreadable"),
    ("plan overtaken", overtake_plan, "plan-overtaken"),
    ("hint gone", lambda s: s.hint().unlink(), "hint-missing"),
    ("hint of an older version", hint("3"), "hint-old"),
    ("file of nobody", leave(f"data/shop/orders/data/L0-{TXID}/x.parquet"), "files-unreferenced"),
]


@pytest.mark.parametrize(("name", "breaking", "kind"), NOTES, ids=names(NOTES))
def test_notes_are_no_damage(name: str, breaking: Breaking, kind: str, scene: Scene) -> None:
    breaking(scene)
    for deep in (False, True):
        report = scene.fsck(deep=deep)
        assert report.ok, report.damage
        assert kind in {one.kind for one in report.notes}, report.findings


def test_unreferenced_files_are_counted_with_their_bytes(scene: Scene) -> None:
    leave(f"data/shop/orders/data/L0-{TXID}/x.parquet", b"12345")(scene)
    leave(f"data/shop/orders/metadata/{9:020d}-{TXID}.metadata.json", b"123")(scene)
    (note,) = scene.fsck().notes
    assert note.problem.startswith("no version needs 2 files with 8 bytes")


# --- going on ----------------------------------------------------------------------------------------------


def test_what_lies_above_a_lost_record_is_still_looked_at(scene: Scene) -> None:
    scene.record(6).unlink()
    lost = scene.data_file()
    lost.unlink()
    kinds = {one.kind for one in scene.fsck().damage}
    assert kinds == {"record-missing", "file-missing"}


def test_a_checkpoint_above_a_lost_record_makes_the_state_certain_again(scene: Scene) -> None:
    scene.record(6).unlink()
    assert {one.kind for one in scene.fsck().damage} == {"record-missing"}
    # A table that only the lost record tells of is found through the checkpoint, and so is its tag.
    assert scene.fsck().checked["tables"] == 3


def test_without_a_checkpoint_the_rest_of_the_log_is_still_read(scene: Scene) -> None:
    last = scene.head - scene.head % 4
    for version in range(4, scene.head + 1, 4):
        scene.checkpoint(version).unlink()
    (scene.root / "control/checkpoint/last.json").unlink()
    scene.record(6).unlink()
    scene.entry(last).write_bytes(b"{}")
    report = scene.fsck()
    assert {one.kind for one in report.damage} == {"record-missing", "entry-unreadable"}
    assert report.checked["records"] == scene.head - 1


@pytest.mark.parametrize("wanted", ["record", "metadata", "manifest_list", "data_file"])
def test_what_the_storage_does_not_give_is_told(wanted: str, scene: Scene) -> None:
    path = scene.record(6) if wanted == "record" else getattr(scene, wanted)()
    key = str(path.relative_to(scene.root))
    # Without sizes in listings, so that data files are asked for one by one.
    plain = without_atomic_operations(LocalStore(scene.root))
    store, _ = faulty(plain, Fault(lambda request: request == Get(key), refuse, times=None))
    found = {one.where for one in hg.fsck(store).damage if one.kind == "object-unreadable"}
    assert found == {key}


def test_a_failing_storage_does_not_make_a_data_file_look_damaged(scene: Scene) -> None:
    key = str(scene.data_file().relative_to(scene.root))
    store, _ = faulty(LocalStore(scene.root), Fault(lambda request: request == Get(key), refuse, times=None))
    (found,) = hg.fsck(store, deep=True).damage
    assert (found.kind, found.where) == ("object-unreadable", key)


def test_many_things_at_once(scene: Scene) -> None:
    cut(scene.record(7))
    edit_record(scene)
    swap_metadata(scene)
    hint("999")(scene)
    orphan_outbox(scene)
    kinds = {one.kind for one in scene.fsck(deep=True).damage}
    assert {"record-unreadable", "metadata-of-another-table", "outbox-orphan"} <= kinds


def test_a_lake_that_does_not_open_is_looked_at(scene: Scene) -> None:
    cut(scene.record(scene.head))
    with pytest.raises(hg.CorruptLakeError):
        hg.Lake.open(scene.root)
    assert "record-unreadable" in {one.kind for one in scene.fsck().damage}


def test_every_kind_but_those_of_the_storage_is_tested() -> None:
    tested = {kind for _, _, kind in (*DAMAGE, *DEEP_DAMAGE, *NOTES)}
    # Those that no file on a disk can be brought to: see tests/core/test_fsck.py.
    assert set(KINDS) - tested == {"app-wrong", "plan-without-table", "delete-dangling", "object-unreadable"}
    assert all(kind.severity is Severity.NOTE for kind in map(KINDS.__getitem__, (n for _, _, n in NOTES)))


@pytest.mark.slow
@pytest.mark.parametrize("breaking", [cut, Path.unlink, lambda path: path.write_bytes(b"\x00\xff{")])
def test_no_object_makes_it_fail(breaking: Callable[[Path], object], whole: tuple[Path, Path]) -> None:
    """Whatever object is broken, a report comes of it; and if anything needs the object, it is told."""
    scene = Scene.restored(*whole)
    current = {str(scene.metadata(name)) for name in ("shop.orders", "shop.totals", "shop.new")}
    for path in sorted(path for path in scene.root.rglob("*") if path.is_file()):
        before = path.read_bytes()
        breaking(path)
        report = hg.fsck(scene.root, deep=True)
        if str(path) in current:
            assert not report.ok
        path.write_bytes(before)
    assert hg.fsck(scene.root, deep=True).findings == ()
