"""Rows deleted by position, through what transactions are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import headgate as hg
from headgate.arrow.data_files import read_located
from headgate.iceberg.format.directories import Target
from headgate.iceberg.format.positions import Kind, Positions, position_columns, write_positions
from headgate.iceberg.predicate.binding import bind_text
from headgate.iceberg.scan.planning import plan
from headgate.transaction.transaction import Transaction


def note_delete(tx: Transaction, name: str, where: str, kind: Kind = "deleted") -> Positions:
    """Deletes the rows of the table that match, as the transaction began with it; returns where they are."""
    opened, writer = tx._work, tx.table(name)
    change = writer._change()
    metadata = writer._metadata(change)
    matching = bind_text(where, metadata.schema)
    files = plan(opened.loader(), metadata, matching, change.deletes).files
    rows = read_located(opened.driver, opened.loader(), files, metadata.schema, matching)
    positions = Positions.of_columns(*(rows.column(name) for name in position_columns(metadata.schema)))
    target = Target(opened.driver, opened.loader(), metadata, opened.id, name)
    written = write_positions(target, positions, {p.file.path: p.file for p in files}, kind)
    change = replace(change, deletes=(*change.deletes, *written))
    if kind == "deleted":
        change = replace(change, deleted={**change.deleted, **positions.by_file})
    else:
        change = replace(change, updated={**change.updated, **positions.by_file})
    opened.note(change)
    return positions


def delete_rows(lake: hg.Lake, name: str, where: str, kind: Kind = "deleted") -> int:
    """Deletes rows in a transaction of its own; returns the version."""
    with lake.transaction() as tx:
        note_delete(tx, name, where, kind)
    return tx.result.version


def begun_delete(lake: hg.Lake, name: str, where: str) -> Callable[[], int]:
    """A delete that has found its rows, and is committed when it is called."""
    tx = lake.transaction()
    note_delete(tx, name, where)
    return lambda: tx.commit().version
