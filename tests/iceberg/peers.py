"""Other engines that read Iceberg tables by path: what a table is worth is what they say."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.table import StaticTable

_CHDB = """
import json, sys, chdb
print(chdb.query(sys.argv[1], "JSONCompact").bytes().decode())
"""


def _extension(name: str) -> str:
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert spec is not None and spec.origin is not None
    return str(next(Path(spec.origin).parent.glob(f"extensions/*/{name}.duckdb_extension")))


def ask_duckdb(root: Path, columns: str) -> list[tuple[Any, ...]]:
    """Selects `columns` from the table at `root`, as published there, or from a metadata file."""
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for name in ("avro", "iceberg"):
            connection.execute(f"LOAD '{_extension(name)}'")
        return connection.execute(f"SELECT {columns} FROM iceberg_scan('{root}')").fetchall()


def ask_clickhouse(root: Path, columns: str, metadata_file: str | None = None) -> list[tuple[Any, ...]]:
    """Selects `columns` from the table at `root`. In a process of its own, which may read that directory.

    The version that ClickHouse takes for the newest, or that of `metadata_file`, which is relative to `root`.
    """
    how = "" if metadata_file is None else f", SETTINGS iceberg_metadata_file_path = '{metadata_file}'"
    query = f"SELECT {columns} FROM icebergLocal('{root}'{how})"
    command = [sys.executable, "-c", _CHDB, query]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return [tuple(row) for row in json.loads(result.stdout)["data"]]


def ask_pyiceberg(metadata_file: str, row_filter: str | None = None) -> list[dict[str, Any]]:
    """All rows, or those that the filter selects."""
    table = StaticTable.from_metadata(metadata_file)
    scan = table.scan() if row_filter is None else table.scan(row_filter=row_filter)
    rows: list[dict[str, Any]] = scan.to_arrow().to_pylist()
    return rows
