"""The shop of the demo: customers and orders, computed from numbers, the same on every run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

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
"""Orders in Spark SQL, computed from their ids."""
CUSTOMER_EXPRESSIONS = (
    "id",
    "concat('customer ', id) AS name",
    f"element_at(array({', '.join(repr(country) for country in COUNTRIES)}), "
    f"int(id % {len(COUNTRIES)}) + 1) AS country",
)
"""Customers in Spark SQL, computed from their ids."""


def customers(ids: Sequence[int] = range(CUSTOMERS)) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"customer {number}" for number in ids],
            "country": [COUNTRIES[number % len(COUNTRIES)] for number in ids],
        }
    )
