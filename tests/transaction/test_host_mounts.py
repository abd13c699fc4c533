"""Host mounts show the files of a directory and of all directories below it, as they are now."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.storage.memory import MemoryStore

HERE = ("top.parquet", "2026/one.parquet", "2026/11/two.parquet", "day=3/three.parquet", "empty so far")
UNSEEN = (".hidden/a.parquet", "_temporary/0/b.parquet", "2026/.c.parquet", "2026/_d.parquet", "2026/e.txt")


def write(path: Path, *ids: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    root = tmp_path / "host"
    for number, name in enumerate(HERE):
        if name.endswith(".parquet"):
            write(root / name, number)
        else:
            (root / name).mkdir()
    for name in UNSEEN:
        write(root / name, 99)
    return root


def mounted(directory: Path) -> hg.Table:
    lake = hg.Lake.init(MemoryStore())
    lake.mount_directory("ext.host", directory, format="parquet")
    return lake.table("ext.host")


def ids(table: hg.Table) -> list[int]:
    return sorted(table.read_arrow()["id"].to_pylist())


def test_files_of_all_directories_below_are_rows(directory: Path) -> None:
    table = mounted(directory)
    assert ids(table) == [0, 1, 2, 3]
    assert table.read_arrow(where="id = 2").num_rows == 1
    write(directory / "2027/01/new.parquet", 7)
    assert ids(table) == [0, 1, 2, 3, 7]
    (directory / "2026/11/two.parquet").unlink()
    assert ids(table) == [0, 1, 3, 7]


def test_a_lake_below_is_not_read_as_rows(directory: Path) -> None:
    hg.Lake.init(directory / "lake").create_table("a.b", "id BIGINT").append(pa.table({"id": [50]}))
    assert ids(mounted(directory)) == [0, 1, 2, 3]


def test_rows_come_in_the_order_of_the_paths(directory: Path) -> None:
    assert mounted(directory).read_arrow()["id"].to_pylist() == [2, 1, 3, 0]


def test_the_columns_are_told_by_files_of_directories_below(tmp_path: Path) -> None:
    write(tmp_path / "host/only/here.parquet", 5)
    assert ids(mounted(tmp_path / "host")) == [5]


def test_links_to_directories_are_not_followed(directory: Path, tmp_path: Path) -> None:
    """They can lead back, and out of what was mounted."""
    write(tmp_path / "elsewhere/secret.parquet", 99)
    (directory / "2026/back").symlink_to(directory, target_is_directory=True)
    (directory / "out").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert ids(mounted(directory)) == [0, 1, 2, 3]


def test_directories_may_be_nested_as_deeply_as_the_system_allows(directory: Path) -> None:
    parts = [directory / ("a/" * level) for level in range(1, 1_200)]
    for part in parts:
        part.mkdir()
    write(parts[-1] / "deep.parquet", 5)
    try:
        assert ids(mounted(directory)) == [0, 1, 2, 3, 5]
    finally:  # pytest could not remove them
        (parts[-1] / "deep.parquet").unlink()
        for part in reversed(parts):
            part.rmdir()


def test_a_file_below_that_does_not_fit_is_named(directory: Path) -> None:
    table = mounted(directory)
    (directory / "2026/11/broken.parquet").write_bytes(b"no parquet")
    with pytest.raises(hg.HeadgateError, match=r"2026/11/broken\.parquet"):
        table.read_arrow()


def test_a_directory_that_cannot_be_read_is_no_empty_one(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = mounted(directory)
    shipped = Path.iterdir

    def failing(path: Path) -> object:
        if path.name == "11":
            raise PermissionError(13, "Permission denied", str(path))
        return shipped(path)

    monkeypatch.setattr(Path, "iterdir", failing)
    with pytest.raises(hg.StorageError, match="2026/11 cannot be read: Permission denied"):
        table.read_arrow()


def test_csv_mounts_stay_with_their_directory(tmp_path: Path) -> None:
    (tmp_path / "csv/below").mkdir(parents=True)
    (tmp_path / "csv/a.csv").write_text("id\n1\n")
    (tmp_path / "csv/below/b.csv").write_text("id\n2\n")
    lake = hg.Lake.init(MemoryStore())
    lake.mount_csv("ext.csv", tmp_path / "csv")
    assert lake.table("ext.csv").read_arrow()["id"].to_pylist() == [1]
