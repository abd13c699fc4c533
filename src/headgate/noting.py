"""What a transaction is to change, as its caller says it. Nothing of it is visible before the commit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from headgate.catalog import Catalog, Naming, Step
from headgate.changes import Changes
from headgate.commit.log import CommitLog
from headgate.core.arguments import (
    public_properties,
    refuse_credential,
    refuse_credentials_in,
    tag_name,
    texts,
)
from headgate.core.lookup import found_table, found_tag, require_kept
from headgate.core.settings import OF_LAKES, check_settings
from headgate.model.footprint import file_mark
from headgate.model.identifiers import TxId, Version
from headgate.model.json_object import Json
from headgate.model.plan import MAX_INPUTS, PendingPlan, Service
from headgate.model.record import PropertyChange, TagChange
from headgate.model.row_counts import RowCounts
from headgate.model.state import LakeState
from headgate.model.strategy import StrategyName

if TYPE_CHECKING:
    from headgate.writing import OpenTransaction, TableWriter

    class Opened(Naming, OpenTransaction, Protocol):
        """The transaction, as those who write to tables and name objects see it."""


class NotedChanges(Catalog[None]):
    """The part of a transaction that its caller fills, before it is committed."""

    _log: CommitLog
    _txid: TxId
    _base: LakeState
    _changes: Changes

    @abstractmethod
    def _require_open(self) -> None: ...

    @abstractmethod
    def _open(self) -> Opened: ...

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Sets lake properties. They are data, kept for ever and as they are: a secret name is refused."""
        self._require_open()
        given = public_properties(properties)
        check_settings(given, OF_LAKES)
        before = self._changes.properties
        change = PropertyChange({**before.set, **given}, before.removed - frozenset(given))
        self._changes = replace(self._changes, properties=change)

    def remove_properties(self, *names: str) -> None:
        """Removes lake properties; one that is not there is no error."""
        self._require_open()
        gone = frozenset(texts("property names", names))
        for name in gone - self._base.properties.keys():
            refuse_credential("the name of a property", name)
        before = self._changes.properties
        kept = {name: value for name, value in before.set.items() if name not in gone}
        self._changes = replace(self._changes, properties=PropertyChange(kept, before.removed | gone))

    def set_tag(self, name: str, version: int) -> None:
        """Gives a version a name. The caller has made sure that the version exists."""
        self._require_open()
        require_kept(self._base, version, self._log.identity.divisor)
        checked, before = tag_name(name), self._changes.tags
        change = TagChange({**before.set, checked: Version(version)}, before.removed - {checked})
        self._changes = replace(self._changes, tags=change)

    def remove_tag(self, name: str) -> None:
        """Removes a tag; `NotFoundError` names the nearest ones."""
        self._require_open()
        found_tag(self._base, name)
        before = self._changes.tags
        kept = {other: version for other, version in before.set.items() if other != name}
        self._changes = replace(self._changes, tags=TagChange(kept, before.removed | {name}))

    def choose_strategy(self, strategy: StrategyName) -> None:
        """Makes `strategy` the one of all later versions. The caller has made sure that it is safe."""
        self._require_open()
        self._changes = replace(self._changes, strategy=strategy)

    # --- table services ---------------------------------------------------------------------------------

    def plan(
        self,
        service: Service,
        table: str,
        inputs: Iterable[str],
        paths: Iterable[str],
        details: Mapping[str, Json] | None = None,
    ) -> TxId:
        """Schedules a table service, and returns the name of the plan: the txid of this transaction.

        `inputs` are the paths of the files that it will rewrite, `paths` the virtual paths where they lie.
        `details` are kept with it. Committing it is refused if a pending plan has some of the inputs.
        """
        self._require_open()
        refuse_credentials_in("what is kept with the plan", dict(details or {}))
        marks = frozenset(file_mark(path) for path in inputs)
        plan = PendingPlan(
            txid=self._txid,
            service=service,
            table=found_table(self._base, table).uuid,
            inputs=marks if len(marks) <= MAX_INPUTS else None,
            paths=frozenset(paths),
            unknown=details or {},
        )
        self._changes = replace(self._changes, plan=plan)
        return self._txid

    def complete(self, plan: TxId) -> None:
        """Makes this the transaction that completes a plan; the commit is refused unless it is pending."""
        self._require_open()
        self._changes = replace(self._changes, completes=(*self._changes.completes, plan))

    def cancel(self, txid: TxId) -> None:
        """Gives up a pending plan, or forbids a transaction to commit if it has not done so yet."""
        self._require_open()
        self._changes = replace(self._changes, cancels=(*self._changes.cancels, txid))

    def count_rows(self, rows: RowCounts) -> None:
        """Adds to the rows that were changed. If there are none, and no other change, no version is made."""
        self._open().count(rows)

    # --- tables -----------------------------------------------------------------------------------------

    def create_table(
        self,
        name: str,
        schema: Any,
        *,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> TableWriter:
        """Makes a table. `schema` is DDL, a pyarrow Schema or an Iceberg Schema."""
        from headgate import writing

        given = {} if properties is None else properties
        return writing.create(self._open(), name, schema, partition_by, sort_by, given)

    def table(self, name: str) -> TableWriter:
        """A table to write to; `NotFoundError` if there is none of this name."""
        from headgate import writing

        writing.require_table(self._open(), name)
        return writing.TableWriter(self._open(), name)

    def drop_table(self, name: str) -> None:
        """Drops a table. Its files stay until its versions expire."""
        from headgate import writing

        writing.drop(self._open(), name)

    def rename_table(self, name: str, to: str) -> None:
        """Gives a table another name. Its files stay where they are."""
        from headgate import writing

        writing.rename(self._open(), name, to)

    def _define(self, step: Step, *description: str) -> None:  # noqa: ARG002 - the transaction has its own
        step(self._open())
