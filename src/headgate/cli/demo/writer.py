"""A writer in a process of its own: `python -m headgate.cli.demo.writer LAKE NAME COMMITS FIRST_ID`.

Prints `ready`, waits for a line on standard input, then appends customers and their orders with its own Spark
session, both in one version each time. Prints one line per acknowledged commit: its version and transaction
id. The parent process can kill it at any time, and knows which commits were acknowledged. If the parent
closes the pipe, the writer exits.
"""

from __future__ import annotations

import os
import sys

from headgate.cli.demo.shop import CUSTOMER_EXPRESSIONS, ORDER_EXPRESSIONS
from headgate.lake.lake import Lake
from headgate.spark.session import session

ORDERS = 500
"""How many orders a commit adds."""
CUSTOMERS = 5
"""How many customers a commit adds, in the same version."""


def main() -> None:
    place, name, commits, first_id = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    spark = session("local[1]", spark_ui_enabled="false", spark_driver_memory="600m")
    lake = Lake.open(place)
    _say("ready")
    if not sys.stdin.readline():
        return
    for number in range(commits):
        start = first_id + number * ORDERS
        orders = spark.range(start, start + ORDERS, 1, 1).selectExpr(*ORDER_EXPRESSIONS)
        customers = spark.range(start, start + CUSTOMERS, 1, 1).selectExpr(*CUSTOMER_EXPRESSIONS)
        with lake.transaction([name, str(number)]) as tx:
            tx.table("sales.customers").append(customers)
            tx.table("sales.orders").append(orders)
        _say(f"{tx.result.version} {tx.result.txid}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(1)  # at once: a normal exit would try to flush the output again
