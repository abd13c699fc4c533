"""The methods that create, replace, rename and drop views and mounts, on a lake or in a transaction."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace as with_fields
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar
from uuid import UUID

from headgate.core.input.arguments import nearest, refuse_credential
from headgate.core.sql.view_rules import checked_sql, sources_of
from headgate.errors import InvalidInputError, NotFoundError
from headgate.model.named_object import Definition, NamedObject, View
from headgate.model.table import TableName
from headgate.transaction.changes import ObjectChange

if TYPE_CHECKING:
    from headgate.transaction.builder import Work

R = TypeVar("R", covariant=True)


Step: TypeAlias = "Callable[[Work], None]"


class Catalog(ABC, Generic[R]):
    """The methods for views and mounts, which share one set of names with tables.

    Each method changes only the log. Views and mounts are versioned like tables, so you can read them at
    earlier versions.
    """

    @abstractmethod
    def _define(self, step: Step, *description: str) -> R:
        """Takes one step; `description` is stored in the log."""

    def create_view(self, name: str, sql: str, *, replace: bool = False) -> R:
        """Creates a view: a stored query over tables, views and mounts of this lake.

        `replace` replaces an existing view or mount with this name. If a Spark session runs in this process,
        the SQL is checked in the same way as when the view is read; without a session, only partially (see
        docs/views.md). Raises `InvalidInputError` if the SQL is not allowed, and `NotFoundError` if it reads
        a name that does not exist.
        """

        def step(tx: Work) -> None:
            from headgate.transaction.engines import (
                relations_finder,  # loads pyarrow, which few commands need
            )

            definition = View(checked_sql(sql))
            _define(tx, name, definition, replace=replace)
            changes = tx.changes()
            sources_of(name, sql, changes.tables_on(tx.base), changes.objects_on(tx.base), relations_finder())

        return self._define(step, "create_view", name)

    def mount_csv(
        self,
        name: str,
        directory: str | os.PathLike[str],
        *,
        schema: Any = None,
        options: Mapping[str, str] | None = None,
        replace: bool = False,
    ) -> R:
        """Mounts a directory of CSV files on this host, so that you can read them as a table.

        `schema` has the same forms as in `create_table`. Without it, the columns are inferred from the files
        that exist now, and do not change later. `options` are `header` (`true` or `false`), `delimiter`, and
        `max_cell_lines`, the maximum number of lines in a quoted cell (500 by default). The directory is
        stored as an absolute path and must be outside the lake. This handle can read it; other handles must
        allow the directory when they open the lake (`allow_mounts`).
        """

        def step(tx: Work) -> None:
            from headgate.transaction.views_and_mounts import (
                csv_mount,  # loads pyiceberg, which only tables need
            )

            given = {} if options is None else options
            mount = csv_mount(name, directory, schema, given, tx.driver.store.uri())
            _define(tx, name, mount, replace=replace)
            tx.mounts.name(mount.directory)

        return self._define(step, "mount_csv", name)

    def mount_directory(
        self,
        name: str,
        directory: str | os.PathLike[str],
        *,
        format: str = "parquet",
        schema: Any = None,
        replace: bool = False,
    ) -> R:
        """Mounts a directory of files on this host: `parquet`, `json` (one object per line) or `text`.

        Includes all subdirectories. Text files have one row per line, in the column `value`. Everything else
        works as in `mount_csv`.
        """

        def step(tx: Work) -> None:
            from headgate.transaction.views_and_mounts import host_mount

            mount = host_mount(name, directory, format, schema, tx.driver.store.uri())
            _define(tx, name, mount, replace=replace)
            tx.mounts.name(mount.directory)

        return self._define(step, "mount_directory", name)

    def drop_object(self, name: str) -> R:
        """Drops a view or a mount, but not the data behind it. Views that read it fail after that."""
        return self._define(lambda tx: _drop(tx, name), "drop_object", name)

    def rename_object(self, name: str, to: str) -> R:
        """Renames a view or a mount. Views that read it use the old name, and fail after that."""
        return self._define(lambda tx: _rename(tx, name, to), "rename_object", name, to)


def _define(tx: Work, name: str, definition: Definition, *, replace: bool) -> None:
    """Notes that an object is created, or replaces the one with its name."""
    TableName.parse(name)
    refuse_credential("the name of a view or mount", name)
    changes, current = tx.changes(), _current(tx, name)
    if current is not None and current.after is not None and replace:
        after = NamedObject(current.after.uuid, definition)
        tx.note_changes(changes.with_object(with_fields(current, after=after)))
        return
    changes.require_free(name, tx.base)
    gone = changes.objects.get(name)
    if gone is not None and gone.renamed_to is not None:
        raise InvalidInputError(
            f"this transaction renames {name}, so the name is taken until it commits",
            "create the new object in the next transaction",
        )
    # One that this transaction has dropped is replaced after all.
    before = None if gone is None else gone.before
    after = NamedObject(_new_uuid(tx, name) if before is None else before.uuid, definition)
    tx.note_changes(changes.with_object(ObjectChange(name, before, after, replaces=replace)))


def _drop(tx: Work, name: str) -> None:
    current = _found(tx, name)
    if current.before is None:
        tx.note_changes(tx.changes().without_object(current.name))
    else:
        tx.note_changes(tx.changes().with_object(ObjectChange(current.name, current.before, None)))


def _rename(tx: Work, name: str, to: str) -> None:
    TableName.parse(to)
    refuse_credential("the name of a view or mount", to)
    current = _found(tx, name)
    tx.changes().require_free(to, tx.base)
    if current.before is None and current.after is not None:
        tx.note_changes(tx.changes().without_object(current.name))
        _define(tx, to, current.after.definition, replace=False)
        return
    renamed_to = None if to == current.name else to
    tx.note_changes(tx.changes().with_object(with_fields(current, renamed_to=renamed_to)))


def _found(tx: Work, name: str) -> ObjectChange:
    TableName.parse(name)
    current = _current(tx, name)
    if current is not None:
        return current
    if name in tx.changes().tables_on(tx.base):
        raise InvalidInputError(f"{name} is a table", "use drop_table or rename_table")
    known = tx.changes().objects_on(tx.base)
    raise NotFoundError(
        f"there is no view or mount {name} at version {tx.base.version}",
        nearest(name, known) or f"views and mounts: {', '.join(sorted(known)) or 'none'}",
    )


def _current(tx: Work, name: str) -> ObjectChange | None:
    """The object that currently has this name in the transaction, with its changes; None if there is none."""
    changes = tx.changes()
    for change in changes.objects.values():
        if change.after is not None and change.name_after == name:
            return change
    found = None if name in changes.objects else tx.base.objects.get(name)
    return None if found is None else ObjectChange(name, found, found)


def _new_uuid(tx: Work, name: str) -> str:
    # The same for every attempt of the transaction, and for nothing else.
    digest = hashlib.sha256(f"{tx.id}/object/{name}".encode()).digest()
    return str(UUID(bytes=digest[:16], version=4))
