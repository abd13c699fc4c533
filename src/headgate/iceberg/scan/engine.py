"""The interface of the engines that change rows of a table: what they get, and what they return.

An engine finds rows and writes files; its caller decides what these mean for the table.

And the interface for rewriting files, which table maintenance uses: rows are moved, not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headgate.core.sql.merge_clauses import Expression, MergeSpec
from headgate.iceberg.format.data_file import DataFile
from headgate.iceberg.format.directories import Role, Target
from headgate.iceberg.format.positions import Positions
from headgate.iceberg.predicate.bound import Bound
from headgate.iceberg.scan.planning import Plan, PlannedFile
from headgate.model.identifiers import Window


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows that a change selects: by a predicate that can skip files, or by a condition for Spark only.

    `text` is what the caller wrote.
    """

    bound: Bound | None
    condition: Expression | None
    text: str


@dataclass(frozen=True, slots=True)
class RowChange:
    """What an engine found, and the files that it wrote. No file is referenced yet.

    `deleted` and `updated` are rows of the files that the engine got; `images` contain the new values of the
    updated rows, and `inserted` the new rows.
    """

    deleted: Positions = field(default_factory=Positions)
    updated: Positions = field(default_factory=Positions)
    images: tuple[DataFile, ...] = ()
    inserted: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys of a source: their bounds by field id, and the partitions of its rows.

    `bound` is a predicate that every row of the table with one of the keys satisfies; None if none is known.
    `place` is the same, with the partitions if they are known: it selects the files that can contain such
    rows. A key column with a null, or of a type without an order, has no bounds.
    """

    bound: Bound | None = None
    place: Bound | None = None
    bounds: Mapping[int, tuple[object, object]] = field(default_factory=dict)
    partitions: frozenset[tuple[int, tuple[object, ...]]] | None = None


class RowEngine(Protocol):
    """Changes rows of one table inside one transaction."""

    def find_rows(self, files: Sequence[PlannedFile], wanted: Wanted) -> Positions:
        """The live rows of `files` that are wanted."""
        ...

    def update_rows(
        self, files: Sequence[PlannedFile], wanted: Wanted, values: Mapping[str, Expression]
    ) -> RowChange:
        """The same, plus files with these rows after `values` were assigned to their columns."""
        ...

    def write_again(self, files: Sequence[PlannedFile], role: Role) -> tuple[DataFile, ...]:
        """Writes the live rows of `files` again, unchanged, for copy-on-write. `role` says what they are."""
        ...


class MergeEngine(RowEngine, Protocol):
    """The rows of a source, to be merged into a table. The source is evaluated once."""

    def matching(self, on: Expression) -> Mapping[str, str]:
        """The columns of the table that must equal a source column according to `on`, with its name."""
        ...

    def keys(self, columns: Mapping[str, str]) -> KeyRange:
        """The keys of the source; `columns` has the names of its key columns, by those of the table."""
        ...

    def merge_rows(self, plan: Plan, spec: MergeSpec) -> RowChange:
        """Merges the source into the rows of a plan.

        `InvalidInputError` lists keys if two rows of the source would change one row of the table.
        """
        ...

    def upsert_rows(self, plan: Plan, keys: Sequence[str]) -> RowChange:
        """Replaces rows of the table by the source rows with the same keys; other source rows are new.

        `InvalidInputError` lists keys that occur twice in the source, or are null.
        """
        ...


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Files of one virtual path that are rewritten. `window` are the versions that the new files cover.

    The deletes of `files` are those up to the end of the window: they are applied. Later deletes are not
    included; they are rebased onto the new files.
    """

    path: str
    window: Window
    files: tuple[PlannedFile, ...]


@dataclass(frozen=True, slots=True)
class Clustering:
    """How a clustering arranges rows: sorted by `columns`, or close in all of them at once (Z-order)."""

    columns: tuple[str, ...]
    zorder: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """The content of rows in any order: the number of rows, and the sum of their hashes."""

    rows: int
    hash: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The new files of a group, and the content of its live rows before, and of the new files as written.

    The new files have the columns of `arrow.origins`, which contain the original location of each row.
    """

    files: tuple[DataFile, ...]
    before: Content
    after: Content


class Rewriter(Protocol):
    """Rewrites files of one table inside one transaction. The new files are not visible yet."""

    def rewrite(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> Iterator[Rewritten]:
        """Writes the live rows of each group to new files, and yields each result as soon as it is complete.

        Rows are arranged by the table's sort order, or by `clustering`. Each file has about the table's
        target size. The partition spec is that of the group's files.
        """
        ...
