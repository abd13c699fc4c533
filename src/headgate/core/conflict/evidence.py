"""What the rules may ask for when a record alone does not show whether two transactions overlap.

An implementation of `Evidence` fetches it, at most once for each record. The rules ask only when partitions
overlap, or when the same data file was changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyroaring import BitMap64

from headgate.model.record import Record
from headgate.model.table import TableCommit


class Selection(Protocol):
    """The rows of a table that a predicate selects, as far as metadata shows. In doubt, the answer is yes."""

    def partition(self, spec_id: int, values: tuple[Any, ...]) -> bool:
        """Whether a partition can contain selected rows."""
        ...

    def file(self, file: object) -> bool:
        """Whether a data file can, by its partition and column bounds. `file` comes from `Evidence`."""
        ...


@dataclass(frozen=True, slots=True)
class EveryRow:
    """The selection of all rows."""

    def partition(self, spec_id: int, values: tuple[Any, ...]) -> bool:  # noqa: ARG002 - all of them
        return True

    def file(self, file: object) -> bool:  # noqa: ARG002 - all of them
        return True


EVERY_ROW = EveryRow()


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Positions in one data file at which a commit deleted rows, and at which it updated rows."""

    deleted: BitMap64 = field(default_factory=BitMap64)
    updated: BitMap64 = field(default_factory=BitMap64)


class Evidence(Protocol):
    """What a committed version did to a table, from its manifests and position delete files."""

    def added(self, other: Record, table: TableCommit) -> Mapping[str, object] | None:
        """The data files that it added, by path, for a `Selection` to judge; None if they are unknown."""
        ...

    def rows(
        self, other: Record, table: TableCommit, files: frozenset[str]
    ) -> Mapping[str, ChangedRows] | None:
        """The rows that it changed by position in `files` (marks), by mark; None if they are unknown."""
        ...


@dataclass(frozen=True, slots=True)
class NoEvidence:
    """Nothing is known, so the worst is assumed: for a check that must not cost a request."""

    def added(self, other: Record, table: TableCommit) -> Mapping[str, object] | None:  # noqa: ARG002
        return None

    def rows(
        self,
        other: Record,  # noqa: ARG002
        table: TableCommit,  # noqa: ARG002
        files: frozenset[str],  # noqa: ARG002
    ) -> Mapping[str, ChangedRows] | None:
        return None


NO_EVIDENCE = NoEvidence()
