"""Queries that systems without an engine of their own answer through Arrow, all in the same way."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def loaded(directory: str) -> pa.Table:
    return pq.read_table(directory)


def totals(rows: pa.Table) -> dict[str, int]:
    """Totals that identify the contents of a table, independent of the order of rows."""
    return {
        "rows": rows.num_rows,
        "ids": pc.sum(rows["id"]).as_py() or 0,
        "amount": round((pc.sum(rows["amount"]).as_py() or 0) * 64),
    }


def grouped(rows: pa.Table) -> list[Any]:
    """For each kind: the number of rows, the sum of amounts and the latest timestamp."""
    found = rows.group_by("kind").aggregate([("amount", "sum"), ("ts", "max"), ("amount", "count")])
    moments = found["ts_max"].cast(pa.int64()).to_pylist()
    amounts = [round(amount * 64) for amount in found["amount_sum"].to_pylist()]
    columns = (found["kind"].to_pylist(), amounts, moments, found["amount_count"].to_pylist())
    return digest(zip(*columns, strict=True))


def digest(groups: Any) -> list[Any]:
    """A few numbers that differ if any group differs."""
    known = sorted(tuple(group) for group in groups)
    return [len(known), *(sum(number * group[k] for number, group in enumerate(known, 1)) for k in range(4))]
