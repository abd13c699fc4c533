"""The table that a transaction writes files to."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.commit.driver import Driver
from headgate.iceberg.directories import Role, new_directory
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.model.identifiers import TxId
from headgate.model.window import Window


@dataclass(frozen=True, slots=True)
class Target:
    """The table that rows are written to, inside of one transaction.

    `role` says what the rows are; `window`, of compacted rows, which versions they are of.
    """

    driver: Driver
    loader: TableLoader
    metadata: TableMetadata
    txid: TxId
    table: str
    role: Role = Role.NEW
    window: Window | None = None

    def new_directory(self) -> str:
        """The URI of a directory that one write has to itself."""
        return new_directory(self.metadata, self.txid, self.driver.host.new_txid(), self.role, self.window)
