"""A second process that writes to a lake on HDFS, through a Spark session of its own."""

from __future__ import annotations

import sys

import pyarrow as pa

import headgate as hg


def main(place: str, first: int, count: int) -> None:
    hg.session("local[1]", spark_driver_memory="512m")
    table = hg.Lake.open(place).table("t.shared")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for number in range(first, first + count):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
