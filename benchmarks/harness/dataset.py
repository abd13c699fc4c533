"""The rows that all systems work with, created once as Parquet files: the same for all systems, every time.

Amounts are multiples of 1/64, so their sums are exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KINDS = 1000
"""A kind is one row in a thousand, spread over all files."""
DAYS = 30
START_US = 1_760_000_000_000_000
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("kind", pa.int32()),
        ("amount", pa.float64()),
        ("name", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
    ]
)
COLUMNS = "id BIGINT, kind INT, amount DOUBLE, name STRING, ts TIMESTAMP"


def made(first: int, count: int, of: int, seed: int = 0) -> pa.Table:
    """Realistic rows: ids in order, a thousand kinds, random amounts and names, timestamps of a month."""
    chance = np.random.default_rng([seed, first])
    ids = np.arange(first, first + count, dtype=np.int64)
    step_us = DAYS * 86_400_000_000 // max(1, of)
    names = pa.array(chance.integers(0, 1_000_000, count)).cast(pa.string())
    return pa.table(
        {
            "id": ids,
            "kind": chance.integers(0, KINDS, count).astype(np.int32),
            "amount": chance.integers(0, 64_000, count) / 64,
            "name": pa.compute.binary_join_element_wise("customer", names, " "),
            "ts": pa.array(START_US + ids * step_us, pa.timestamp("us", tz="UTC")),
        },
        schema=SCHEMA,
    )


def changed(rows: pa.Table, every: int, of: int) -> pa.Table:
    """One of every `every` rows, with another amount. Nine of ten exist in the table, the others are new."""
    chosen = rows.filter(pa.compute.equal(_remainder(rows["id"], every), 0))
    new = pa.compute.equal(_remainder(chosen["id"], 10 * every), 0)
    ids = pa.compute.if_else(new, pa.compute.add(chosen["id"], of), chosen["id"])
    amounts = pa.compute.add(chosen["amount"], 1)
    return chosen.set_column(0, "id", ids).set_column(2, "amount", amounts)


def _remainder(ids: pa.ChunkedArray, divisor: int) -> pa.Array:
    return pa.array(ids.to_numpy() % divisor)


@dataclass(frozen=True, slots=True)
class Datasets:
    """Directories with Parquet files, one file per core, created on first use."""

    place: Path
    parts: int

    def rows(self, count: int) -> str:
        """So many rows."""
        return self._directory(f"rows-{count}", lambda first, size: made(first, size, count), count)

    def changes(self, count: int, every: int) -> str:
        """Changes of one in `every` of the rows."""
        return self._directory(
            f"changes-{count}-{every}",
            lambda first, size: changed(made(first, size, count), every, count),
            count,
        )

    def _directory(self, name: str, part: object, count: int) -> str:
        directory = self.place / name
        if not (directory / "_SUCCESS").exists():
            directory.mkdir(parents=True, exist_ok=True)
            size = -(-count // self.parts)
            for number in range(self.parts):
                first = number * size
                table = part(first, min(size, count - first))  # type: ignore[operator]
                pq.write_table(table, directory / f"part-{number}.parquet", compression="zstd")
            (directory / "_SUCCESS").touch()
        return str(directory)
