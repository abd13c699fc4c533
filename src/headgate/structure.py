"""The methods that change the structure of a table: the same on a table and on a table in a transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from headgate.iceberg import columns, evolution
from headgate.iceberg.columns import Columns, Position
from headgate.iceberg.evolution import Step, Subject

R = TypeVar("R", covariant=True)


class Evolvable(ABC, Generic[R]):
    """A table whose columns, partition fields and sort order can be changed.

    Only metadata changes: no data file is read or written. Files keep the columns, the partition spec and the
    order that they were written with, and are read by the ids of their columns; older versions stay as they
    were.
    Each method refuses what cannot be done with an `InvalidInputError` that lists all reasons.
    """

    @abstractmethod
    def _evolve(self, step: Step, *description: str) -> R:
        """Takes one step; `description` is what the log says of it."""

    def _columns(self, change: Callable[[Columns, Subject], Columns], *description: str) -> R:
        return self._evolve(evolution.change_columns(change), *description)

    def add_column(
        self,
        name: str,
        type: Any,
        *,
        doc: str | None = None,
        required: bool = False,
        default: Any = None,
        first: bool = False,
        before: str | None = None,
        after: str | None = None,
    ) -> R:
        """Adds a column, null in all rows that are there; at the end, or where it is said.

        `name` may be a path into a struct (`address.zip`). `type` is DDL, a pyarrow type or an Iceberg type.
        `required` and `default` are refused: Iceberg's format version 2 has no defaults.
        """
        position = Position(first, before, after)
        return self._columns(
            lambda present, _: columns.with_added(
                present, name, type, doc=doc, required=required, default=default, position=position
            ),
            "add_column",
            name,
        )

    def drop_column(self, name: str) -> R:
        """Drops a column. Its values stay in the files, unread; a new column of its name starts empty."""
        return self._columns(
            lambda present, table: columns.with_dropped(present, name, evolution.users_of(table)),
            "drop_column",
            name,
        )

    def rename_column(self, name: str, to: str) -> R:
        """Gives a column another name. `to` is the new name alone, also for a field of a struct."""
        return self._columns(
            lambda present, _: columns.with_renamed(present, name, to), "rename_column", name, to
        )

    def widen_column(self, name: str, type: Any) -> R:
        """Gives a column a wider type: int to long, float to double, or a higher decimal precision."""
        return self._columns(
            lambda present, _: columns.with_widened(present, name, type), "widen_column", name
        )

    def move_column(
        self, name: str, *, first: bool = False, before: str | None = None, after: str | None = None
    ) -> R:
        """Moves a column to the front, or beside another one."""
        position = Position(first, before, after)
        return self._columns(
            lambda present, _: columns.with_moved(present, name, position), "move_column", name
        )

    def make_optional(self, name: str) -> R:
        """Allows nulls in a column."""
        return self._columns(lambda present, _: columns.with_optional(present, name), "make_optional", name)

    def describe_column(self, name: str, doc: str | None) -> R:
        """Sets the description of a column; None removes it."""
        return self._columns(lambda present, _: columns.with_doc(present, name, doc), "describe_column", name)

    def add_partition_field(self, term: str) -> R:
        """Partitions new files by one field more, such as `bucket(8, id)`."""
        return self._evolve(evolution.add_partition_field(term), "add_partition_field", term)

    def drop_partition_field(self, name: str) -> R:
        """Partitions new files by one field less; given by its name, or as it was written."""
        return self._evolve(evolution.drop_partition_field(name), "drop_partition_field", name)

    def replace_partition_by(self, terms: Sequence[str]) -> R:
        """Chooses all partition fields of new files; an empty list for none."""
        return self._evolve(evolution.replace_partition_by(terms), "replace_partition_by", *terms)

    def replace_sort_by(self, terms: Sequence[str]) -> R:
        """Chooses the order of the rows in new files, such as `["ts", "id desc"]`; an empty list for none."""
        return self._evolve(evolution.replace_sort_by(terms), "replace_sort_by", *terms)
