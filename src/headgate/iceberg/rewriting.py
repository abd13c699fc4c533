"""Rewriting files: what a table service asks of an engine, and what it gets back. Rows move, none changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from headgate.iceberg.data_file import DataFile
from headgate.iceberg.planning import PlannedFile
from headgate.iceberg.target import Target
from headgate.model.window import Window


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Files of one virtual path that become new ones. `window` are the versions that the new ones cover.

    The deletes of `files` are those up to the end of the window: they are applied. Later ones are not here;
    they are carried over to the new files.
    """

    path: str
    window: Window
    files: tuple[PlannedFile, ...]


@dataclass(frozen=True, slots=True)
class Clustering:
    """How a clustering puts rows: in the order of `columns`, or near to each other in all of them at once."""

    columns: tuple[str, ...]
    zorder: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """What rows are, in any order: how many, and a hash of each of them added up."""

    rows: int
    hash: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The new files of a group, and the content of its live rows before, and of the new files as written.

    The new files have the columns of `iceberg.origins`, which tell where each row was before.
    """

    files: tuple[DataFile, ...]
    before: Content
    after: Content


class Rewriter(Protocol):
    """Rewrites files of one table inside of one transaction. Nobody sees the new files yet."""

    def rewritten(
        self, target: Target, groups: Sequence[RewriteGroup], clustering: Clustering | None
    ) -> Iterator[Rewritten]:
        """Writes the live rows of each group into new files, and tells of each as soon as it is done.

        By the table's sort order, or as a clustering says; each file about as large as the table wants them;
        in the partition spec that the files of the group have.
        """
        ...
