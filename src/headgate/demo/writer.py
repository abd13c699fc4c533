"""A writer in a process of its own: `python -m headgate.demo.writer LAKE NAME COMMITS FIRST_ID`.

Says `ready`, waits for a line on standard input, then appends customers and their orders with a Spark of its
own, both in one version each time, and prints one line per acknowledged commit: its version and transaction
id. Whoever started it can kill it at any moment, and knows what it was told. If nobody is there any more to
tell, it ends.
"""

from __future__ import annotations

import os
import sys

from headgate.demo.shop import CUSTOMER_EXPRESSIONS, ORDER_EXPRESSIONS
from headgate.lake import Lake
from headgate.spark.session import session

ORDERS = 500
"""How many orders a commit adds."""
CUSTOMERS = 5
"""How many customers, in the same version."""


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
        os._exit(1)  # at once: at its end Python would try to write what could not be written
