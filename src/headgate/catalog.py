"""Views and mounts: made, replaced, renamed and dropped; the same on a lake and in a transaction."""

from __future__ import annotations

import hashlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace as with_fields
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID

from headgate.changes import Changes, ObjectChange
from headgate.commit.driver import Driver
from headgate.core.arguments import refuse_credential
from headgate.core.lookup import nearest
from headgate.core.view_rules import checked_sql, sources_of
from headgate.errors import InvalidInputError, NotFoundError
from headgate.model.identifiers import TxId
from headgate.model.named_object import Definition, NamedObject, View
from headgate.model.state import LakeState
from headgate.model.table import TableName

R = TypeVar("R", covariant=True)


class Naming(Protocol):
    """What making and dropping objects needs of a transaction."""

    @property
    def base(self) -> LakeState: ...

    @property
    def id(self) -> TxId: ...

    @property
    def driver(self) -> Driver: ...

    def changes(self) -> Changes:
        """What was noted so far; raises if the transaction is over."""
        ...

    def note_objects(self, changes: Changes) -> None:
        """Notes `changes`, which have other objects than those before."""
        ...


Step: TypeAlias = Callable[[Naming], None]


class Catalog(ABC, Generic[R]):
    """Whoever has named objects beside tables: a name belongs to a table, a view or a mount.

    Each method changes the log only. The objects are versioned like tables: they are as they were at every
    earlier version.
    """

    @abstractmethod
    def _define(self, step: Step, *description: str) -> R:
        """Takes one step; `description` is what the log says of it."""

    def create_view(self, name: str, sql: str, *, replace: bool = False) -> R:
        """Makes a view: the result of a query over tables, views and mounts of this lake.

        With `replace`, also if there is a view or a mount of this name. The SQL is checked as far as it can
        be without Spark (see docs/views.md), and by Spark's parser if a session runs in this process; what
        is wrong is an `InvalidInputError` or, for a name that is not there, a `NotFoundError`.
        """

        def step(tx: Naming) -> None:
            definition = View(_parsed(checked_sql(sql)))
            _define(tx, name, definition, replace=replace)
            changes = tx.changes()
            sources_of(name, sql, changes.tables_on(tx.base), changes.objects_on(tx.base))

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
        """Makes the CSV files of a directory of this host readable as a table.

        `schema` is what `create_table` takes; without it the files that are there tell the columns, which
        stay the same from then on. `options`: `header` (`true` or `false`) and `delimiter`. The directory is
        kept as an absolute path, and must lie outside of the lake.
        """

        def step(tx: Naming) -> None:
            from headgate.mounting import csv_mount  # loads pyiceberg, which only tables need

            given = {} if options is None else options
            mount = csv_mount(name, directory, schema, given, tx.driver.store.uri())
            _define(tx, name, mount, replace=replace)

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
        """Makes the files of a directory of this host readable as a table: `parquet`, `json` (lines), `text`.

        As `mount_csv` otherwise. Text has a row for each line, in the column `value`.
        """

        def step(tx: Naming) -> None:
            from headgate.mounting import host_mount

            mount = host_mount(name, directory, format, schema, tx.driver.store.uri())
            _define(tx, name, mount, replace=replace)

        return self._define(step, "mount_directory", name)

    def drop_object(self, name: str) -> R:
        """Drops a view or a mount. What it reads stays as it is; views that read it fail from then on."""
        return self._define(lambda tx: _drop(tx, name), "drop_object", name)

    def rename_object(self, name: str, to: str) -> R:
        """Gives a view or a mount another name. Views that read it go by the old one, and fail then."""
        return self._define(lambda tx: _rename(tx, name, to), "rename_object", name, to)


def _parsed(sql: str) -> str:
    if "pyspark.sql" in sys.modules:
        from headgate.spark.session import running_session

        spark = running_session()
        if spark is not None:
            from headgate.spark.sql import require_parses

            require_parses(spark, sql)
    return sql


def _define(tx: Naming, name: str, definition: Definition, *, replace: bool) -> None:
    """Notes that an object is made, or takes the place of the one that has its name."""
    TableName.parse(name)
    refuse_credential("the name of a view or mount", name)
    changes, current = tx.changes(), _current(tx, name)
    if current is not None and current.after is not None and replace:
        after = NamedObject(current.after.uuid, definition)
        tx.note_objects(changes.with_object(with_fields(current, after=after)))
        return
    changes.require_free(name, tx.base)
    gone = changes.objects.get(name)
    if gone is not None and gone.renamed_to is not None:
        raise InvalidInputError(
            f"{name} gets another name in this transaction, and until it ends this is its name",
            "make the new one in the next transaction",
        )
    # One that this transaction has dropped is replaced after all.
    before = None if gone is None else gone.before
    after = NamedObject(_new_uuid(tx, name) if before is None else before.uuid, definition)
    tx.note_objects(changes.with_object(ObjectChange(name, before, after, replaces=replace)))


def _drop(tx: Naming, name: str) -> None:
    current = _found(tx, name)
    if current.before is None:
        tx.note_objects(tx.changes().without_object(current.name))
    else:
        tx.note_objects(tx.changes().with_object(ObjectChange(current.name, current.before, None)))


def _rename(tx: Naming, name: str, to: str) -> None:
    TableName.parse(to)
    refuse_credential("the name of a view or mount", to)
    current = _found(tx, name)
    tx.changes().require_free(to, tx.base)
    if current.before is None and current.after is not None:
        tx.note_objects(tx.changes().without_object(current.name))
        _define(tx, to, current.after.definition, replace=False)
        return
    renamed_to = None if to == current.name else to
    tx.note_objects(tx.changes().with_object(with_fields(current, renamed_to=renamed_to)))


def _found(tx: Naming, name: str) -> ObjectChange:
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


def _current(tx: Naming, name: str) -> ObjectChange | None:
    """The object that has this name by now, with what was done to it; None if there is none."""
    changes = tx.changes()
    for change in changes.objects.values():
        if change.after is not None and change.name_after == name:
            return change
    found = None if name in changes.objects else tx.base.objects.get(name)
    return None if found is None else ObjectChange(name, found, found)


def _new_uuid(tx: Naming, name: str) -> str:
    # The same for every attempt of the transaction, and for nothing else.
    digest = hashlib.sha256(f"{tx.id}/object/{name}".encode()).digest()
    return str(UUID(bytes=digest[:16], version=4))
