"""Fields of a lake replaced at random: only errors of our tree, nothing outside is touched, and it ends."""

from __future__ import annotations

import base64
import json
import random
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptLakeError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from headgate.iceberg.format import container
from headgate.iceberg.format.container import long_bytes
from headgate.model.json_object import digest, encode
from tests.hostile import crafting
from tests.hostile.crafting import everything, make_lake
from tests.maintenance.aging import AgingHost, Clock

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    "../../x",
    "/etc/passwd",
    "data/../../victim/secret",
    "headgate.json",
    "\x1b[31mred",
    "a.b.c",
    "\x00",
    "9" * 5000,
    [],
    {},
    [{}],
    {"a": []},
)
TELLING = {
    "name",
    "location",
    "metadata",
    "positions",
    "manifest-list",
    "snapshots",
    "schemas",
    "partition-specs",
    "properties",
    "summary",
    "current-snapshot-id",
    "sequence-number",
    "tables",
    "kind",
}
ALLOWED = (CorruptLakeError, StorageError, NotFoundError, UnsupportedError, ConflictError, AlreadyExistsError)
"""How using a damaged lake may end; never in an error that blames the call, or us."""
ROUNDS = 40


def spots(value: Any) -> Iterator[tuple[object, Callable[[Any], None]]]:
    """For each field at every depth its name, and what replaces it."""
    if isinstance(value, dict | list):
        for name in list(value) if isinstance(value, dict) else range(len(value)):
            yield name, partial(value.__setitem__, name)
            yield from spots(value[name])


def strike_json(path: Path, dice: random.Random) -> None:
    fields = json.loads(path.read_bytes())
    known = list(spots(fields))
    # Most fields are harmless; those by which something is opened or printed come often.
    telling = [replace for name, replace in known if name in TELLING]
    chosen = telling if telling and dice.random() < 0.6 else [replace for _, replace in known]
    dice.choice(chosen)(dice.choice(VALUES))
    if "checksum" in fields:
        fields.pop("checksum")
        fields["checksum"] = digest(encode(fields))
    path.write_bytes(json.dumps(fields).encode())


def strike_avro(path: Path, dice: random.Random) -> None:
    """A text or a number in the records of a manifest or of a list of manifests."""
    texts = [value for value in VALUES if isinstance(value, str)]

    def change(record: dict[str, Any]) -> None:
        inner = record.get("data_file", record)
        name = dice.choice([name for name, old in inner.items() if type(old) in (str, int)])
        number = (
            dice.choice([0, -1, 1, 2**31 - 1])
            if "count" in name or "content" in name
            else dice.choice([0, 7])
        )
        inner[name] = dice.choice(texts) if isinstance(inner[name], str) else number

    crafting.change_avro(path, change)


TYPES: tuple[Any, ...] = (
    "null",
    "manifest_entry",
    "manifest_file",
    [],
    ["null"],
    {"type": "record", "name": "w", "fields": []},
    {"type": "error", "name": "w", "fields": []},
    {"type": "record", "name": "w", "fields": [{"name": "x", "type": "w"}]},
    {"type": "array", "items": "null"},
    {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}},
    {"type": "map", "values": "null"},
    {"type": "bytes", "logicalType": "decimal", "precision": 1, "scale": 10**9},
)
"""In the place of a type in the schema of a manifest: what Avro allows, and what manifests do not have."""
CLAIMS = ("", "0", base64.b64encode(long_bytes(1 << 50) + b"\0").decode(), "{}", "x " * 10_000)
"""In the header of a manifest, instead of what its blocks have."""


def strike_header(path: Path, dice: random.Random) -> None:
    """The schema of a manifest or of a list of manifests, another part of its header, or what it counts."""
    before = container.split(path.read_bytes())
    metadata, records = dict(before.metadata), list(before.records())
    counts = [block.count for block in before.blocks]
    match dice.choice(["type", "claim", "count", "items"]):
        case "type":
            schema = json.loads(metadata["avro.schema"])
            dice.choice([new for name, new in spots(schema) if name in ("type", "items")])(dice.choice(TYPES))
            metadata["avro.schema"] = json.dumps(schema)
        case "claim":
            metadata[dice.choice([name for name in metadata if name != "avro.codec"])] = dice.choice(CLAIMS)
        case "count" if counts:
            counts[0] = dice.choice([0, counts[0] + 1, 1 << 50])
        case "items" if records:
            at = dice.randrange(len(records[0]))
            records[0] = records[0][:at] + long_bytes(1 << 50) + records[0][at:]
    path.write_bytes(container.assembled(metadata, before.sync, zip(counts, records, strict=True)))


def strike_text(path: Path, dice: random.Random) -> None:
    path.write_bytes(str(dice.choice(VALUES)).encode())


def strike_bytes(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(dice.randint(1, 8)):
        data[dice.randrange(len(data))] = dice.randrange(256)
    path.write_bytes(data[: dice.randint(1, len(data))] if dice.random() < 0.2 else data)


def strike(root: Path, dice: random.Random) -> str:
    files = [path for path in sorted(root.rglob("*")) if path.suffix in (".json", ".avro", ".text")]
    # A directory first, then a file: there are many records and few hints.
    directory = dice.choice(sorted({path.parent for path in files}))
    path = dice.choice([path for path in files if path.parent == directory])
    by = strike_bytes
    if dice.random() < 0.8:
        by = {".json": strike_json, ".avro": strike_avro, ".text": strike_text}[path.suffix]
        if by is strike_avro and dice.random() < 0.5:
            by = strike_header
    by(path, dice)
    return f"{by.__name__} {path.relative_to(root)}"


def use(root: Path, replica: Path) -> Iterator[Callable[[], object]]:
    """What people do with a lake; each on its own."""
    clock = Clock()
    clock.pass_time(timedelta(days=3))
    yield lambda: hg.Lake.open(root).fsck(deep=True)
    yield lambda: hg.Lake.open(root).table("t.t").read_arrow()
    yield lambda: [hg.Lake.open(root).log(), hg.Lake.open(root).tables()]
    yield lambda: hg.Lake.open(root).table("t.t").changes_arrow(since=1)
    yield lambda: hg.Lake.open(root).replicate(replica)
    yield lambda: hg.Lake.open(root, host=AgingHost(clock)).expire(["all:1h"])
    yield lambda: hg.Lake.open(root, host=AgingHost(clock)).vacuum(older_than=timedelta(seconds=1))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(2))
def test_a_lake_with_replaced_fields_harms_nobody(tmp_path: Path, seed: int) -> None:
    make_lake(tmp_path / "origin" / "lake", divisor=2)
    (tmp_path / "origin" / "victim").mkdir()
    (tmp_path / "origin" / "victim" / "secret").write_bytes(b"precious")
    dice = random.Random(seed)
    here = tmp_path / "here"
    for number in range(ROUNDS):
        shutil.copytree(tmp_path / "origin", here)
        for path in crafting.metadata_files(here / "lake"):
            path.write_bytes(path.read_bytes().replace(b"/origin/", b"/here/"))
        crafting.rename_files(here / "lake", moved)
        crafting.rename_manifests(here / "lake", moved)
        struck = strike(here / "lake", dice)
        for step in use(here / "lake", here / "replica"):
            try:
                step()
            except ALLOWED:
                pass
            except Exception as error:  # noqa: BLE001 — whatever it is, it is to say what was changed
                pytest.fail(f"round {number}, {struck}: {error!r}")
        assert dict(everything(here / "victim")) == {"secret": b"precious"}, struck
        assert {path.name for path in here.iterdir()} <= {"lake", "victim", "replica"}, struck
        shutil.rmtree(here)


def moved(uri: str) -> str:
    return uri.replace("/origin/", "/here/")
