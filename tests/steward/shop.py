"""A lake with a bit of everything, for tests that break it: deletes, schema changes, tags, plans, hooks."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import headgate as hg
from headgate.core.conflict.retry import RetryPolicy
from headgate.core.plans.hooks import When
from headgate.iceberg.format.avro import decode_manifest_list
from headgate.iceberg.format.data_file import Content, Manifest
from headgate.log.layout import PLAIN, entry_key
from headgate.model.commit_event import CommitEvent
from headgate.model.identifiers import Version
from headgate.steward.hooks.hook import Hook
from headgate.storage.capabilities import Store
from headgate.storage.local import LocalStore

DIVISOR = 4


class Refusing:
    """An action that never succeeds, so that its hook stays open."""

    def run(self, event: CommitEvent) -> None:
        raise RuntimeError(f"no answer for version {event.version}")

    def describe(self) -> str:
        return "refuses"


def orders(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "region": ["north" if i % 2 else "south" for i in ids]})


def totals(*sums: float) -> pa.Table:
    return pa.table({"total": pa.array(sums, pa.float64())})


def fill(lake: hg.Lake) -> hg.Lake:
    """Commits to a new lake until it has a bit of everything, and is recovered."""
    table = lake.create_table("shop.orders", "id BIGINT, region STRING", partition_by=["region"])
    sums = lake.create_table("shop.totals", "total DOUBLE")
    for first in range(0, 40, 10):
        table.append(orders(*range(first, first + 10)))
    with lake.transaction(app=("loader", 7)) as tx:
        tx.table("shop.orders").append(orders(100, 101))
        tx.table("shop.totals").append(totals(1.5))
    table.delete("id = 3")
    table.delete("id in (5, 12)")
    table.add_column("note", "STRING")
    table.update({"note": "'seen'"}, where="id = 8")
    lake.tag("eom", 5)
    lake.create_table("shop.gone", "id BIGINT").append(pa.table({"id": [1]}))
    lake.drop_table("shop.gone")
    lake.create_table("shop.old", "id BIGINT").append(pa.table({"id": [1, 2]}))
    lake.rename_table("shop.old", "shop.new")
    sums.append(totals(2.5, 3.5))
    with lake.transaction() as tx:
        tx.plan("compaction", "shop.totals", [file.path for file in sums.files()], ["/shop/totals"])
    lake.add_hook(Hook("mail", Refusing(), when=When(tables=("shop.new",)), retry=RetryPolicy(attempts=1)))
    lake.table("shop.new").append(pa.table({"id": [3]}))
    lake.recover()
    return lake


def make(place: Path | Store, strategy: str | None = None) -> hg.Lake:
    """A lake in a directory, or on a store; on a disk without syncing, which takes most of the time."""
    store = LocalStore(place, fsync=False) if isinstance(place, Path) else place
    return fill(hg.Lake.init(store, divisor=DIVISOR, strategy=strategy))


def fingerprint(root: Path) -> str:
    """What a directory is: names, bytes, links and times of everything in it."""
    seen = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        seen.update(f"{path.relative_to(root)} {path.lstat().st_mtime_ns}\n".encode())
        if path.is_symlink():
            seen.update(str(path.readlink()).encode())
        elif path.is_file():
            seen.update(path.read_bytes())
    return seen.hexdigest()


@dataclass(frozen=True)
class Scene:
    """A lake on a disk that is about to be broken."""

    root: Path

    @classmethod
    def restored(cls, root: Path, backup: Path) -> Scene:
        """The lake as it was made; at the same place, since its metadata names it."""
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(backup, root)
        return cls(root)

    def fsck(self, *, deep: bool = False) -> hg.FsckReport:
        """What is found; nothing must change."""
        before = fingerprint(self.root)
        report = hg.fsck(self.root, deep=deep)
        assert fingerprint(self.root) == before
        return report

    @property
    def head(self) -> int:
        return max(int(path.stem) for path in (self.root / "control/log").glob("*.json"))

    def path(self, key_or_uri: str) -> Path:
        return self.root / key_or_uri.removeprefix(f"file://{self.root}/")

    def record(self, version: int) -> Path:
        return self.root / PLAIN.record_key(Version(version))

    def entry(self, version: int) -> Path:
        return self.root / entry_key(Version(version))

    def checkpoint(self, version: int) -> Path:
        return self.root / f"control/checkpoint/{version:020d}.json"

    def outbox(self) -> Path:
        return next((self.root / "control/outbox").iterdir())

    def metadata(self, table: str = "shop.orders") -> Path:
        """The newest metadata file of a table."""
        return self.root / self.ref(table)["metadata"]

    def ref(self, table: str) -> dict[str, str]:
        for version in range(self.head, 0, -1):
            for commit in json.loads(self.record(version).read_bytes()).get("tables", []):
                if commit["name"] == table:
                    return dict(commit)
        raise AssertionError(table)

    def snapshot(self, table: str = "shop.orders") -> dict[str, Any]:
        fields = json.loads(self.metadata(table).read_bytes())
        wanted = fields["current-snapshot-id"]
        return next(dict(one) for one in fields["snapshots"] if one["snapshot-id"] == wanted)

    def manifest_list(self, table: str = "shop.orders") -> Path:
        return self.path(self.snapshot(table)["manifest-list"])

    def manifests(self, content: Content = Content.DATA) -> list[Manifest]:
        path = self.manifest_list()
        return [one for one in decode_manifest_list(path.read_bytes(), "") if one.content is content]

    def data_file(self) -> Path:
        return self.path(hg.Lake.open(self.root).table("shop.orders").files()[0].path)

    def delete_file(self) -> Path:
        """The delete file that tells of one row only."""
        found = sorted(self.root.glob("data/shop/orders/data/*/*-positions-deleted/**/*.parquet"))
        return min(found, key=lambda path: path.stat().st_mtime_ns)

    def hint(self, table: str = "orders") -> Path:
        return self.root / f"data/shop/{table}/metadata/version-hint.text"


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes a JSON file in place."""
    fields = json.loads(path.read_bytes())
    change(fields)
    path.write_text(json.dumps(fields))


def cut(path: Path) -> None:
    """Half of the file is lost."""
    os.truncate(path, path.stat().st_size // 2)
