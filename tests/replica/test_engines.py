"""Other engines, and other storages: a replica is read where the source cannot be reached any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.core.input.arguments import found_table
from headgate.storage.capabilities import Store
from headgate.testing.inspector import Inspector
from tests.iceberg.peers import ask_clickhouse, ask_duckdb, ask_pyiceberg
from tests.replica.shop import assert_complete, assert_same, contents, fill
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.slow


def moved_away(source: Path, replica: Path, lake: hg.Lake) -> Any:
    """What the lake holds, told before its directory goes: a forgotten path leads nowhere then."""
    expected = contents(lake)
    source.rename(source.with_name("moved"))
    assert contents(hg.Lake.open(replica)) == expected
    return expected[-1][-1]


def told(rows: list[dict[str, Any]], columns: list[str]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in columns) for row in rows), key=repr)


def test_engines_read_a_replica_whose_source_is_gone(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "a-source-with-a-longer-name", divisor=4)
    fill(lake)
    lake.replicate(tmp_path / "r")
    tables = moved_away(tmp_path / "a-source-with-a-longer-name", tmp_path / "r", lake)
    read_by_engines(hg.Lake.open(tmp_path / "r"), tables)


def test_and_one_that_caught_up_commit_by_commit(tmp_path: Path) -> None:
    """Delete files that were copied in an earlier run are listed again by manifests that are merged later."""
    lake = hg.Lake.init(tmp_path / "s", divisor=4)
    lake.replicate(tmp_path / "a-replica-with-a-longer-name")
    following(lake, lambda: lake.replicate(tmp_path / "a-replica-with-a-longer-name"))
    tables = moved_away(tmp_path / "s", tmp_path / "a-replica-with-a-longer-name", lake)
    read_by_engines(hg.Lake.open(tmp_path / "a-replica-with-a-longer-name"), tables)


def following(lake: hg.Lake, replicate: Callable[[], object]) -> None:
    """Fills a lake, and replicates after every commit."""
    run = Inspector(lake).handle.run

    def run_and_replicate(*args: Any, **named: Any) -> Any:
        result = run(*args, **named)
        replicate()
        return result

    Inspector(lake).handle.run = run_and_replicate  # type: ignore[method-assign]
    fill(lake)


def read_by_engines(replica: hg.Lake, tables: dict[str, list[dict[str, Any]]]) -> None:
    assert tables
    for name, rows in tables.items():
        columns = list(rows[0])
        directory = Path(
            replica.place, "data", *Path(found_table(Inspector(replica).refresh(), name).location).parts[1:]
        )
        listed = ", ".join(columns)
        assert sorted(ask_duckdb(directory, listed), key=repr) == told(rows, columns), name
        assert told(ask_pyiceberg(replica.table(name).metadata_location), columns) == told(rows, columns)
        if not replica.table(name).partition_by:
            found = [tuple(map(str, row)) for row in ask_clickhouse(directory, listed)]
            assert sorted(found) == sorted(tuple(map(str, row)) for row in told(rows, columns)), name


def test_files_of_a_replica_are_as_long_as_its_manifests_say(tmp_path: Path) -> None:
    lake = hg.Lake.init(tmp_path / "s", divisor=4)
    following(lake, lambda: lake.replicate(tmp_path / "a-longer-name"))
    replica = hg.Lake.open(tmp_path / "a-longer-name")
    loader = Inspector(replica).loader()
    for version in range(replica.version + 1):
        for name in replica.tables(version=version):
            metadata = loader.metadata(
                found_table(Inspector(replica).handle.state_at(version), name).metadata
            )
            manifests = loader.manifests(metadata)
            for manifest, entries in zip(manifests, loader.entries(manifests), strict=True):
                assert Path(loader.key(manifest.path) and manifest.path[7:]).stat().st_size == manifest.length
                for entry in entries:
                    assert Path(entry.file.path[7:]).stat().st_size == entry.file.size_bytes


def test_from_a_disk_to_object_storage_and_back(tmp_path: Path, s3: S3Server, s3_store: Store) -> None:
    lake = hg.Lake.init(tmp_path / "lake", divisor=4)
    fill(lake)
    there = s3_store.uri()
    assert lake.replicate(there, options=s3.options).created
    remote = hg.Lake.open(there, options=s3.options)
    assert_same(lake, remote)
    assert_complete(remote)
    remote.replicate(tmp_path / "back")
    tables = moved_away(tmp_path / "lake", tmp_path / "back", remote)
    read_by_engines(hg.Lake.open(tmp_path / "back"), tables)


@pytest.mark.parametrize("strategy", ["conditional", "filetracker"])
def test_a_replica_on_object_storage_follows(strategy: str, s3: S3Server, s3_store: Store) -> None:
    lake = hg.Lake.init(s3.url(f"source-{strategy}"), options=s3.options, strategy=strategy, divisor=4)
    lake.replicate(s3_store)
    fill(lake)
    assert lake.replicate(s3_store).versions == lake.version
    assert_same(lake, hg.Lake.open(s3_store))
