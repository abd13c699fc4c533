"""The shop of the demonstration: customers and orders, made up from numbers, the same on every run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

CUSTOMERS = 200
FIRST_DAY = datetime(2026, 11, 9, tzinfo=UTC)
DAYS = 7
COUNTRIES = ("Austria", "Brazil", "Canada", "Denmark", "Estonia")
CUSTOMER_COLUMNS = "id BIGINT NOT NULL COMMENT 'of the customer', name STRING, country STRING"
ORDER_COLUMNS = "id BIGINT NOT NULL, customer BIGINT NOT NULL, ts TIMESTAMP, amount DECIMAL(10, 2)"
ORDER_EXPRESSIONS = (
    "id",
    f"id * 7919 % {CUSTOMERS} AS customer",
    f"timestampadd(MINUTE, int(id * 104729 % {DAYS * 24 * 60}), timestamp'{FIRST_DAY.isoformat()}') AS ts",
    "cast((id * 6151 % 20000) / 100 AS decimal(10, 2)) AS amount",
)
"""Orders in Spark's SQL, from their ids."""


def customers() -> pa.Table:
    ids = range(CUSTOMERS)
    return pa.table(
        {
            "id": ids,
            "name": [f"customer {number}" for number in ids],
            "country": [COUNTRIES[number % len(COUNTRIES)] for number in ids],
        }
    )


def orders(ids: Sequence[int]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "customer": [number * 7919 % CUSTOMERS for number in ids],
            "ts": [FIRST_DAY + timedelta(minutes=number * 104729 % (DAYS * 24 * 60)) for number in ids],
            "amount": pa.array(
                [Decimal(number * 6151 % 20000).scaleb(-2) for number in ids], pa.decimal128(10, 2)
            ),
        }
    )
