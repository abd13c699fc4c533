"""A writer that appends the same id to two tables in one transaction: run with LAKE NAME TRANSACTIONS."""

import sys

import pyarrow as pa

import headgate as hg

place, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
lake = hg.Lake.open(place)
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.readline()
for number in range(count):
    row = pa.table({"id": [f"{name}.{number}"]})
    with lake.transaction([name, str(number)]) as tx:
        tx.table("both.one").append(row)
        tx.table("both.two").append(row)
    sys.stdout.write(f"{tx.result.version} {tx.result.txid}\n")
    sys.stdout.flush()
