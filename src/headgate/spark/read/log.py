"""The log of a lake as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession

from headgate.core.history.log_entry import LogEntry
from headgate.spark.session import prepared

COLUMNS = """version BIGINT, txid STRING, kind STRING, committed_at TIMESTAMP, started_at TIMESTAMP,
user STRING, host STRING, args ARRAY<STRING>, base BIGINT, attempts INT, app STRING, batch BIGINT,
tables ARRAY<STRING>, verbs ARRAY<STRING>, rows_added BIGINT, rows_removed BIGINT,
bytes_added BIGINT, bytes_removed BIGINT, properties MAP<STRING, STRING>"""


def log_frame(spark: SparkSession, entries: Iterable[LogEntry]) -> DataFrame:
    """One row per commit, newest first."""
    return prepared(spark).createDataFrame([_row(entry) for entry in entries], COLUMNS)


def _row(entry: LogEntry) -> tuple[object, ...]:
    app, batch = entry.app or (None, None)
    return (
        entry.version,
        entry.txid,
        entry.kind,
        entry.committed_at,
        entry.started_at,
        entry.user,
        entry.host,
        [*entry.args],
        entry.base,
        entry.attempts,
        app,
        batch,
        [*entry.table_names],
        [*entry.verbs],
        entry.changed.rows_added,
        entry.changed.rows_removed,
        entry.changed.bytes_added,
        entry.changed.bytes_removed,
        dict(entry.properties),
    )
