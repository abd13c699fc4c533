"""Names in manifests and metadata files that lead out of the lake, or to what is no part of the table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.errors import CorruptLakeError
from headgate.model.identifiers import DATA, METADATA, is_key, is_of_table, key_of
from headgate.storage.capabilities import Store
from headgate.storage.local import LocalStore
from headgate.storage.requests import Delete
from headgate.testing.faulty import Fault, faulty, refuse
from tests.hostile import crafting
from tests.hostile.crafting import everything, make_lake, rename_files, rename_lists, rename_manifests
from tests.maintenance.aging import AgingHost, Clock

ROOT = "file:///lake"
OUTSIDE = (
    "file:///lake/data/../../outside/x.parquet",
    "file:///lake/data/t/./x.parquet",
    "file:///lake/data//x.parquet",
    "file:///lake/data/x.parquet/",
    "file:///lake//etc/passwd",
    "file:///lake/data/a\\..\\x.parquet",
    "file:///lake/data/a\x00b",
    "file:///lake/data/a\x1bb",
    "file:///lake-evil/data/x.parquet",
    "file:///lake",
    "file:///lake/",
    "file://host/lake/data/x.parquet",
    "file:/lake/data/x.parquet",
    "/lake/data/x.parquet",
    "FILE:///lake/data/x.parquet",
    "s3://lake/data/x.parquet",
    "http://127.0.0.1/data/x.parquet",
    "data/x.parquet",
    "",
)


@pytest.mark.parametrize("uri", OUTSIDE)
def test_a_name_outside_is_no_key(uri: str) -> None:
    assert key_of(uri, ROOT) is None


def test_a_percent_sign_is_a_character_like_any_other() -> None:
    assert key_of("file:///lake/data/%2e%2e/x", ROOT) == "data/%2e%2e/x"
    assert key_of("file:///lake/data/p=a%2Fb?#/x", ROOT) == "data/p=a%2Fb?#/x"


@given(st.text(st.sampled_from("ab./%\\\0"), max_size=12))
def test_a_key_never_leaves_the_root(rest: str) -> None:
    key = key_of(f"{ROOT}/{rest}", ROOT)
    assert (key == rest) if is_key(rest) else (key is None)
    if key is not None:
        assert not Path(key).is_absolute() and ".." not in Path(key).parts


def test_what_can_be_a_file_of_a_table() -> None:
    assert is_of_table("data/t/t/data/x", "data/t/t", DATA)
    for key in (
        "headgate.json",
        "control/log/1",
        "data/t/t2/data/x",
        "data/t/t/data",
        "data/t/t/../t/data/x",
    ):
        assert not is_of_table(key, "data/t/t", DATA)
    assert not is_of_table("data/t/t/metadata/x", "data/t/t", DATA)
    for location in ("", "control/log", "data", "data/t", "data/t/t/data", "data/../control", "data/./x"):
        assert not is_of_table(f"{location}/metadata/x", location, METADATA)


# --- every way to read ------------------------------------------------------------------------------------


def traversed(root: Path) -> Callable[[str], str]:
    """From a name in the lake to one that leads to the same file through the directory above the lake."""

    def new(uri: str) -> str:
        return uri.replace(f"file://{root}/data/", f"file://{root}/data/../../{root.name}/data/")

    return new


WAYS: dict[str, Callable[[hg.Lake, Path], object]] = {
    "read": lambda lake, _: lake.table("t.t").read_arrow(),
    "changes": lambda lake, _: lake.table("t.t").changes_arrow(since=1),
    "delete": lambda lake, _: lake.table("t.t").delete("id = 3"),
    "compact": lambda lake, _: lake.compact(),
    "replicate": lambda lake, there: lake.replicate(there / "replica"),
    "vacuum": lambda lake, _: lake.vacuum(older_than=timedelta(0)),
}


@pytest.mark.parametrize("rename", [rename_files, rename_manifests, rename_lists])
@pytest.mark.parametrize("way", WAYS)
def test_names_that_lead_out_are_refused_on_every_way(
    tmp_path: Path, way: str, rename: Callable[[Path, Callable[[str], str]], None]
) -> None:
    make_lake(tmp_path / "lake", divisor=2)
    rename(tmp_path / "lake", traversed(tmp_path / "lake"))
    before = dict(everything(tmp_path / "lake"))
    lake = hg.Lake.open(tmp_path / "lake")
    with pytest.raises(CorruptLakeError):
        WAYS[way](lake, tmp_path)
    data = {name: content for name, content in before.items() if name.startswith("data/")}
    assert data.items() <= dict(everything(tmp_path / "lake")).items()


@pytest.mark.parametrize("rename", [rename_files, rename_manifests, rename_lists])
def test_fsck_reports_names_that_lead_out(
    tmp_path: Path, rename: Callable[[Path, Callable[[str], str]], None]
) -> None:
    make_lake(tmp_path / "lake")
    rename(tmp_path / "lake", traversed(tmp_path / "lake"))
    report = hg.Lake.open(tmp_path / "lake").fsck(deep=True)
    assert any(one.kind == "metadata-of-another-place" for one in report.damage)


@pytest.mark.parametrize("location", ["control", "data/../../outside", "data/t"])
def test_nothing_is_written_where_a_metadata_file_says(tmp_path: Path, location: str) -> None:
    make_lake(tmp_path / "lake")

    def change(fields: dict[str, Any]) -> None:
        fields["location"] = f"file://{tmp_path}/lake/{location}"

    for path in crafting.metadata_files(tmp_path / "lake"):
        crafting.change_json(path, change)
    before = dict(everything(tmp_path))
    with pytest.raises(CorruptLakeError):
        hg.Lake.open(tmp_path / "lake").table("t.t").append(pa.table({"id": [9]}))
    assert before.items() <= dict(everything(tmp_path)).items()
    assert not (tmp_path / "outside").exists()
    assert not (tmp_path / "lake/control/data").exists()


# --- deleting -----------------------------------------------------------------------------------------------

VICTIMS = ("headgate.json", "control/log/00000000000000000001.json", "data/t/other/data", "data/t/t/metadata")


def old_versions(tmp_path: Path) -> Path:
    """A lake whose first versions can be expired: nothing of them is in the newest one."""
    lake = hg.Lake.init(LocalStore(tmp_path / "lake", fsync=False))
    lake.create_table("t.other", "id BIGINT").append(pa.table({"id": [7]}))
    table = lake.create_table("t.t", "id BIGINT")
    table.append(pa.table({"id": [1]}))
    for number in range(3):
        table.overwrite(pa.table({"id": [number]}))
    return tmp_path / "lake"


def later(place: Path | Store) -> hg.Lake:
    """The lake, opened a day later."""
    clock = Clock()
    clock.pass_time(timedelta(days=1))
    return hg.Lake.open(place, host=AgingHost(clock))


def target_of(root: Path, victim: str) -> str:
    path = root / victim
    if path.is_file():
        return victim
    newest = sorted(one for one in path.rglob("*.*") if one.suffix in (".parquet", ".json"))[-1]
    return newest.relative_to(root).as_posix()


@pytest.mark.parametrize("victim", VICTIMS)
def test_expire_deletes_nothing_but_files_of_the_table(tmp_path: Path, victim: str) -> None:
    root = old_versions(tmp_path)
    key = target_of(root, victim)
    rename_files(root, lambda _: f"file://{root}/{key}", of=("4-", "5-"))
    before = (root / key).read_bytes()
    report = later(root).expire(["all:1h"])
    assert report.expired
    assert report.left_alone == (f"file://{root}/{key}",)
    assert (root / key).read_bytes() == before
    assert hg.Lake.open(root).table("t.t").read_arrow()["id"].to_pylist() == [2]


def test_expire_deletes_nothing_of_a_table_whose_kept_version_names_something_else(tmp_path: Path) -> None:
    root = old_versions(tmp_path)
    rename_files(root, lambda _: f"file://{root}/headgate.json")
    before = {name: content for name, content in everything(root) if name.startswith("data/")}
    with pytest.raises(CorruptLakeError, match=r"nothing was deleted; version \d+ expired \d versions"):
        later(root).expire(["all:1h"])
    names = {name for name, _ in everything(root)}
    assert {name for name in before if not name.endswith(".metadata.json")} <= names


def test_expire_that_fails_half_way_says_what_was_done(tmp_path: Path) -> None:
    root = old_versions(tmp_path)
    store, schedule = faulty(LocalStore(root, fsync=False))
    lake = later(store)
    schedule.add(Fault(lambda request: isinstance(request, Delete), refuse, times=None))
    with pytest.raises(hg.StorageError) as raised:
        lake.expire(["all:1h"])
    told = raised.value.problem
    assert "some of their files may remain" in told
    assert "objects were deleted" in told
    again = later(root).expire(["all:1h"])
    assert again.objects


def test_replication_of_a_lake_with_strange_names_copies_nothing_from_elsewhere(tmp_path: Path) -> None:
    root = old_versions(tmp_path)
    rename_files(root, lambda _: f"file://{root}/headgate.json")
    with pytest.raises(CorruptLakeError, match="is outside of"):
        hg.Lake.open(root).replicate(tmp_path / "replica")
    shutil.rmtree(tmp_path / "replica", ignore_errors=True)
