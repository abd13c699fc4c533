"""Rows on their way into a table: written as they are, checked against a predicate, or in place of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headgate.iceberg.arrow import fitted
from headgate.iceberg.arrow_files import write_rows
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.matching import require_matching
from headgate.iceberg.rolling import RollingFiles
from headgate.iceberg.target import Target


class IncomingRows(Protocol):
    """Rows of one engine. Files that it writes are unreferenced until a commit names them."""

    def written(self) -> tuple[DataFile, ...]:
        """Writes all rows as new data files; `InvalidInputError` if they do not fit the table."""
        ...

    def written_matching(self, matching: Bound, where: str) -> tuple[DataFile, ...]:
        """The same, but refuses rows that `matching`, which the caller wrote as `where`, does not select."""
        ...


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows in memory, written without a JVM."""

    target: Target
    rows: pa.Table

    def written(self) -> tuple[DataFile, ...]:
        return write_rows(self.target, self.rows)

    def written_matching(self, matching: Bound, where: str) -> tuple[DataFile, ...]:
        target = self.target
        fitting = fitted(self.rows, target.metadata.schema, target.table)
        require_matching(fitting, matching, target.table, where)
        return write_rows(target, fitting)


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Rows that come in batches, once, and are written as they come: more of them than memory holds."""

    target: Target
    batches: pa.RecordBatchReader

    def written(self) -> tuple[DataFile, ...]:
        return self._written(self._fitting())

    def written_matching(self, matching: Bound, where: str) -> tuple[DataFile, ...]:
        return self._written(self._matching(matching, where))

    def _written(self, tables: Iterable[pa.Table]) -> tuple[DataFile, ...]:
        files = RollingFiles(self.target)
        for table in tables:
            files.add(table)
        return files.finish()

    def _fitting(self) -> Iterator[pa.Table]:
        for batch in self.batches:
            yield fitted(pa.Table.from_batches([batch]), self.target.metadata.schema, self.target.table)

    def _matching(self, matching: Bound, where: str) -> Iterator[pa.Table]:
        for table in self._fitting():
            require_matching(table, matching, self.target.table, where)
            yield table
