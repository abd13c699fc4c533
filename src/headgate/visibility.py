"""Which files of a table a transaction sees: those of its base, with what it has changed itself."""

from __future__ import annotations

from dataclasses import replace

from headgate.changes import TableChange
from headgate.iceberg.bound import Always, Bound
from headgate.iceberg.loader import TableLoader
from headgate.iceberg.metadata import TableMetadata
from headgate.iceberg.planning import Plan, plan, planned


def visible(change: TableChange, metadata: TableMetadata, loader: TableLoader, only: Bound | None) -> Plan:
    """The files that can hold rows that `only` selects, and the deletes that apply to them."""
    at_base, own = visible_at_base(change, metadata, loader, only), visible_own(change, metadata, only)
    return replace(at_base, files=(*at_base.files, *own.files))


def visible_at_base(
    change: TableChange, metadata: TableMetadata, loader: TableLoader, only: Bound | None
) -> Plan:
    """Those of the base, without the ones that the transaction takes away."""
    if change.base is None:
        return Plan(())
    found = plan(loader, metadata, only, change.own_deletes)
    gone = change.replaced or {}
    return replace(found, files=tuple(f for f in found.files if f.file.path not in gone))


def visible_own(change: TableChange, metadata: TableMetadata, only: Bound | None) -> Plan:
    """Those that the transaction has added itself."""
    return planned(change.added, metadata, only or Always(True), change.own_deletes)
