"""Measures the cost of Parquet encodings: `python -m benchmarks.encodings` prints the table of design 0018.

It measures only Arrow, on one thread and in memory. It does not compare systems, so the benchmark page has no
section for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.iceberg.format.encoding import COMPRESSION, ROW_GROUP_ROWS

VALUES = 2_500_000
READS = 5
DAY_US = 86_400_000_000
COLUMN = "c"
FORMS: Mapping[str, Mapping[str, object]] = {
    "plain": {"use_dictionary": False},
    "with a dictionary": {"use_dictionary": True},
    "by differences": {"use_dictionary": False, "column_encoding": {COLUMN: "DELTA_BINARY_PACKED"}},
}


def columns() -> Iterator[tuple[str, npt.NDArray[np.int64] | npt.NDArray[np.int32]]]:
    """Typical values of tables, by name."""
    chance = np.random.default_rng(0)
    keys = np.arange(VALUES, dtype=np.int64)
    moments = 1_760_000_000_000_000 + keys * 259_200
    yield "keys in order, 64 bits", keys
    yield "timestamps in order", moments
    yield "timestamps in order, each up to a second off", moments + chance.integers(0, 1_000_000, VALUES)
    yield "timestamps of a day in any order", chance.integers(0, DAY_US, VALUES)
    for bits in (20, 48, 62):
        yield f"numbers up to 2^{bits} in any order, 64 bits", chance.integers(0, 2**bits, VALUES)
    yield "numbers up to 2^31 in any order, 32 bits", chance.integers(0, 2**31, VALUES).astype(np.int32)


def written(rows: pa.Table, form: Mapping[str, object]) -> pa.Buffer:
    out = pa.BufferOutputStream()
    pq.write_table(rows, out, compression=COMPRESSION, row_group_size=ROW_GROUP_ROWS, **form)
    return out.getvalue()


def read_seconds(data: pa.Buffer) -> float:
    """The shortest of several reads, row group by row group."""

    def once() -> float:
        started = time.perf_counter()
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        for group in range(file.num_row_groups):
            file.read_row_group(group, use_threads=False)
        return time.perf_counter() - started

    return min(once() for _ in range(READS))


def main() -> None:
    print(f"| {VALUES:,} values | {' | '.join(FORMS)} |")
    print(f"|---|{'---:|' * len(FORMS)}")
    for name, values in columns():
        files = [written(pa.table({COLUMN: values}), form) for form in FORMS.values()]
        cells = [f"{data.size / 1e6:.2f} MB, {read_seconds(data) * 1000:.0f} ms" for data in files]
        print(f"| {name} | {' | '.join(cells)} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
