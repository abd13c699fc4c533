"""Changing rows of a table: what an engine is asked for, and what it gives back.

The engine finds rows and writes files; what they mean for the table is decided by its caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headgate.core.merging import Expression, MergeSpec
from headgate.iceberg.bound import Bound
from headgate.iceberg.data_file import DataFile
from headgate.iceberg.directories import Role
from headgate.iceberg.planning import Plan, PlannedFile
from headgate.iceberg.positions import Positions


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows that a change is about: a predicate that files are left out by, or else what Spark reads.

    `text` is what the caller wrote.
    """

    bound: Bound | None
    condition: Expression | None
    text: str


@dataclass(frozen=True, slots=True)
class RowChange:
    """What an engine found, and the files that it wrote. None of them is referenced by anything yet.

    `deleted` and `updated` are rows of the files that it was given; `images` hold the updated rows as they
    are to be, `inserted` the new ones.
    """

    deleted: Positions = field(default_factory=Positions)
    updated: Positions = field(default_factory=Positions)
    images: tuple[DataFile, ...] = ()
    inserted: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyRange:
    """What a source holds in the key columns: their bounds by field id, and the partitions of its rows.

    `bound` is the predicate that every row of the table with one of the keys satisfies; None if that cannot
    be told. `place` is the same, with the partitions if they are known: which files can hold such rows. A key
    column with a null, or of a type without an order, has no bounds.
    """

    bound: Bound | None = None
    place: Bound | None = None
    bounds: Mapping[int, tuple[object, object]] = field(default_factory=dict)
    partitions: frozenset[tuple[int, tuple[object, ...]]] | None = None


class RowEngine(Protocol):
    """Changes rows of one table inside of one transaction."""

    def deleted(self, files: Sequence[PlannedFile], wanted: Wanted) -> Positions:
        """The live rows of `files` that are wanted."""
        ...

    def updated(
        self, files: Sequence[PlannedFile], wanted: Wanted, values: Mapping[str, Expression]
    ) -> RowChange:
        """The same, with files that hold them after `values` were assigned to their columns."""
        ...

    def written_again(self, files: Sequence[PlannedFile], role: Role) -> tuple[DataFile, ...]:
        """Writes the live rows of `files` again, unchanged, for copy-on-write. `role` says what they are."""
        ...


class MergeEngine(RowEngine, Protocol):
    """The rows of a source, to be merged into a table. The source is evaluated once."""

    def matching(self, on: Expression) -> Mapping[str, str]:
        """Columns of the table that must equal one of the source, with its name, as far as `on` says so."""
        ...

    def keys(self, columns: Mapping[str, str]) -> KeyRange:
        """What the source holds in its key columns; `columns` has their names by those of the table."""
        ...

    def merged(self, plan: Plan, spec: MergeSpec) -> RowChange:
        """Merges the source into the rows of a plan.

        `InvalidInputError` shows keys if two rows of the source would change one row of the table.
        """
        ...

    def upserted(self, plan: Plan, keys: Sequence[str]) -> RowChange:
        """Rows of the table with the keys of a source row become that row; others of the source are new.

        `InvalidInputError` shows keys that are twice in the source, or null.
        """
        ...
