"""The methods that change the schema, partitioning and sort order of a table, alone or in a transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from headgate.core.input.arguments import texts
from headgate.iceberg.schema import columns, evolution
from headgate.iceberg.schema.columns import Columns, Position
from headgate.iceberg.schema.evolution import Step, Subject

R = TypeVar("R", covariant=True)


class Evolvable(ABC, Generic[R]):
    """A table whose columns, partition fields and sort order can be changed.

    Only metadata changes: no data file is read or written. Files keep the columns, the partition spec and the
    order that they were written with, and their columns are found by id. Older versions do not change. If a
    change is not possible, the method raises an `InvalidInputError` that lists all reasons.
    """

    @abstractmethod
    def _evolve(self, step: Step, *description: str) -> R:
        """Takes one step; `description` is stored in the log."""

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
        """Adds a column, which is null in all existing rows. It goes to the end unless you choose a position.

        `name` can be a path into a struct (`address.zip`). `type` is DDL, a pyarrow type or an Iceberg type.
        `required` and `default` are rejected, because version 2 of the Iceberg format has no defaults.
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
        """Drops a column. Its values stay in the files, but a new column with this name starts empty."""
        return self._columns(
            lambda present, table: columns.with_dropped(present, name, evolution.users_of(table)),
            "drop_column",
            name,
        )

    def rename_column(self, name: str, to: str) -> R:
        """Renames a column. `to` is only the new name, without a path, even for a field of a struct."""
        return self._columns(
            lambda present, _: columns.with_renamed(present, name, to), "rename_column", name, to
        )

    def widen_column(self, name: str, type: Any) -> R:
        """Changes a column to a wider type: int to long, float to double, or a higher decimal precision."""
        return self._columns(
            lambda present, _: columns.with_widened(present, name, type), "widen_column", name
        )

    def move_column(
        self, name: str, *, first: bool = False, before: str | None = None, after: str | None = None
    ) -> R:
        """Moves a column to the front, or before or after another one."""
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
        """Adds a partition field for new files, such as `bucket(8, id)`."""
        return self._evolve(evolution.add_partition_field(term), "add_partition_field", term)

    def drop_partition_field(self, name: str) -> R:
        """Removes a partition field for new files. Pass its name, or the term that created it."""
        return self._evolve(evolution.drop_partition_field(name), "drop_partition_field", name)

    def replace_partition_by(self, terms: Sequence[str]) -> R:
        """Replaces all partition fields for new files; an empty list removes them."""
        given = texts("terms", terms)
        return self._evolve(evolution.replace_partition_by(given), "replace_partition_by", *given)

    def replace_sort_by(self, terms: Sequence[str]) -> R:
        """Replaces the sort order for new files, such as `["ts", "id desc"]`; an empty list removes it."""
        given = texts("terms", terms)
        return self._evolve(evolution.replace_sort_by(given), "replace_sort_by", *given)
