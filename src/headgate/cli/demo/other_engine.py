"""DuckDB, if it is installed: another engine that reads the same table, where Headgate published it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

INSTALL = "pip install duckdb duckdb-extension-iceberg"


def is_there() -> bool:
    """Whether the packages with DuckDB and its Iceberg extension are installed."""
    return all(_found(name) for name in ("duckdb", "duckdb_extension_avro", "duckdb_extension_iceberg"))


def ask(table: Path, columns: str) -> tuple[Any, ...]:
    """Selects one row of `columns` from the table in a directory."""
    import duckdb

    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for name in ("avro", "iceberg"):
            connection.execute(f"LOAD '{_extension(name)}'")
        found = connection.execute(f"SELECT {columns} FROM iceberg_scan('{table}')").fetchone()
    assert found is not None, columns
    return tuple(found)


def _found(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _extension(name: str) -> Path:
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert spec is not None and spec.origin is not None, name
    return next(Path(spec.origin).parent.glob(f"extensions/*/{name}.duckdb_extension"))
