"""Fields of a lake replaced at random: only errors of our tree, nothing outside is touched, and it ends."""

from __future__ import annotations

import base64
import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptLakeError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from headgate.iceberg.format import container
from headgate.iceberg.format.container import long_bytes
from headgate.model.json_object import digest, encode
from tests.examples import examples, seed_of_tonight
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
    0,
    2,
    2**40,
    2**62,
    -(2**63),
    float("nan"),
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "t.t",
    "t.u",
    "0" * 32,
    "x" * 100_000,
    ["t.t"],
    {"t.t": {}},
)
NUMBERS = (0, 1, -1, 7, 2**31 - 1, 2**40, 2**62, 2**63 - 1, -(2**63))
FEW = (0, 1, 2, -1, 2**31 - 1)
"""For counts, and for what stands for one of a few things."""
FITTING: Mapping[type, tuple[Any, ...]] = {int: (0, -(2**31)), str: ("", "../../x")}
"""Other values of a partition."""
BOUNDS = (b"", b"b", b"\xff", b"\xff\xfe", b"\0" * 8, b"\xff" * 8, b"\x7f" * 9)
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
ROUNDS = 150


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
    """Values in the records of a manifest or of a list of manifests."""
    table = f"file://{path.parent.parent}"
    texts = [value for value in VALUES if isinstance(value, str)]
    texts += [f"{table}/data/{name}-{'a' * 32}/x.parquet" for name in ("L0", "L5-99-3", f"L1-1-{2**62}")]

    def change(record: dict[str, Any]) -> None:
        inner = record.get("data_file", record) if dice.random() < 0.7 else record
        partition = inner.get("partition")
        if partition and dice.random() < 0.25:
            name = dice.choice(list(partition))
            partition[name] = dice.choice([None, *FITTING.get(type(partition[name]), ())])
            return
        name = dice.choice([name for name, old in inner.items() if type(old) in (str, int, list)])
        inner[name] = another(name, inner[name], texts, dice)

    crafting.change_avro(path, change)


def another(name: str, old: Any, texts: list[str], dice: random.Random) -> Any:
    match old:
        case str():
            return dice.choice(texts)
        case int():
            is_small = "count" in name or name in ("content", "status", "partition_spec_id", "sort_order_id")
            return dice.choice(FEW if is_small and name != "record_count" else NUMBERS)
        case [{"key": _, "value": value}, *_]:
            values = BOUNDS if isinstance(value, bytes) else NUMBERS
            return [{"key": dice.choice([1, 2, 2147483546]), "value": dice.choice(values)}]
        case [int(), *_]:
            return [dice.choice(NUMBERS)]
    return []


def strike_positions(path: Path, dice: random.Random) -> None:
    """What a position delete file lists; other Parquet files stay as they are."""
    before = pq.read_table(path)
    if "pos" not in before.column_names:
        return
    positions: list[Any] = [dice.choice((*NUMBERS, 3, None)) for _ in range(dice.randint(0, 3))]
    paths: list[Any] = [dice.choice([before["file_path"][0].as_py(), "x", "\x1b[31m", None])] * len(positions)
    kind = dice.choice([pa.int64(), pa.int64(), pa.float64(), pa.string(), pa.list_(pa.int64())])
    values = pa.array(positions, kind) if kind == pa.int64() else pa.nulls(len(positions), kind)
    pq.write_table(pa.table({"file_path": pa.array(paths, pa.string()), "pos": values}), path)


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


STRIKES = {".json": strike_json, ".avro": strike_avro, ".text": strike_text}


def strike(root: Path, dice: random.Random) -> str:
    files = [path for path in sorted(root.rglob("*")) if path.suffix in (*STRIKES, ".parquet")]
    # A directory first, then a file: there are many records and few hints.
    directory = dice.choice(sorted({path.parent for path in files}))
    path = dice.choice([path for path in files if path.parent == directory])
    by = strike_positions if path.suffix == ".parquet" else strike_bytes
    if path.suffix in STRIKES and dice.random() < 0.8:
        by = STRIKES[path.suffix]
        if by is strike_avro and dice.random() < 0.5:
            by = strike_header
    by(path, dice)
    return f"{by.__name__} {path.relative_to(root)}"


ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "s": ["a", "b", None, "bcde"],
        "d": [date(2026, 1, 1), date(2026, 2, 3), date(2026, 2, 4), None],
    }
)


def make_origin(root: Path) -> None:
    """A lake with a table and a partitioned one, both with deleted rows, and a victim next to it."""
    make_lake(root / "lake", divisor=2)
    lake = hg.Lake.open(root / "lake")
    lake.tag("eom")
    table = lake.create_table(
        "p.p", "id BIGINT, s STRING, d DATE", partition_by=["month(d)", "truncate(3, s)"]
    )
    table.append(ROWS)
    table.append(ROWS.slice(0, 2))
    table.delete("id = 3")
    (root / "victim").mkdir()
    (root / "victim" / "secret").write_bytes(b"precious")


def reading(root: Path, replica: Path) -> Iterator[Callable[[], object]]:
    """What people look at; each on its own."""

    def lake() -> hg.Lake:
        return hg.Lake.open(root)

    yield lambda: lake().fsck(deep=True)
    yield lambda: lake().table("t.t").read_arrow()
    yield lambda: lake().table("p.p").read_arrow(where="d > DATE '2026-02-01' AND s = 'b' OR id < 2")
    yield lambda: lake().at(3).table("t.t").read_arrow()
    yield lambda: lake().at(timestamp="2030-01-01T00:00:00Z").tables()
    yield lambda: [lake().log(), lake().tables(), lake().timeline(), lake().attempts(3)]
    yield lambda: [lake().table("t.t").history(), lake().table("p.p").size, lake().table("p.p").files()]
    yield lambda: [lake().metrics(), lake().recovery_needed(), lake().doctor()]
    yield lambda: lake().table("t.t").changes_arrow(since=1)
    yield lambda: lake().table("p.p").changes_arrow(since=6)
    yield lambda: lake().replicate(replica)


def writing(root: Path, dice: random.Random) -> Iterator[Callable[[], object]]:
    """What people do, in any order: some of it."""
    clock = Clock()
    clock.pass_time(timedelta(days=3))

    def table(name: str) -> hg.Table:
        return hg.Lake.open(root).table(name)

    done: list[Callable[[], object]] = [
        lambda: table("t.t").append(pa.table({"id": [9]})),
        lambda: table("t.t").delete("id = 3"),
        lambda: table("t.t").update({"id": "id + 1"}, where="id = 4"),
        lambda: table("t.t").overwrite(pa.table({"id": [1]})),
        lambda: table("t.t").set_properties({"a": "b"}),
        lambda: table("p.p").append(ROWS),
        lambda: table("p.p").delete("s = 'b'"),
        lambda: table("p.p").overwrite_partitions(ROWS),
        lambda: table("p.p").upsert(ROWS, keys=["id"]),
        lambda: hg.Lake.open(root).compact(),
        lambda: hg.Lake.open(root).recover(),
        lambda: hg.Lake.open(root, host=AgingHost(clock)).expire(["all:1h"]),
        lambda: hg.Lake.open(root, host=AgingHost(clock)).vacuum(older_than=timedelta(seconds=1)),
        lambda: hg.repair(root),
    ]
    yield from dice.sample(done, 8)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2))
def test_a_lake_with_replaced_fields_harms_nobody(tmp_path: Path, seed: int) -> None:
    make_origin(tmp_path / "origin")
    dice = random.Random(seed_of_tonight(seed))
    here = tmp_path / "here"
    for number in range(examples(ROUNDS)):
        crafting.copied(tmp_path / "origin" / "lake", here / "lake")
        shutil.copytree(tmp_path / "origin" / "victim", here / "victim")
        struck = strike(here / "lake", dice)
        for step in (*reading(here / "lake", here / "replica"), *writing(here / "lake", dice)):
            try:
                step()
            except ALLOWED:
                pass
            except InvalidInputError as error:
                # The columns of a table are what the lake says, and the rows have others.
                if "fit" not in error.problem and "no column" not in error.problem:
                    pytest.fail(f"round {number}, {struck}: {error!r}")
            except Exception as error:  # noqa: BLE001 — whatever it is, it is to say what was changed
                pytest.fail(f"round {number}, {struck}: {error!r}")
        assert dict(everything(here / "victim")) == {"secret": b"precious"}, struck
        assert {path.name for path in here.iterdir()} <= {"lake", "victim", "replica"}, struck
        shutil.rmtree(here)
