"""The changes that a caller adds to a transaction, and the metadata that goes into the log with them.

Nothing is visible before the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from headgate.core.input.arguments import (
    app_batch,
    found_table,
    found_tag,
    json_object,
    of_kind,
    public_properties,
    refuse_credential,
    refuse_credentials_in,
    require_kept,
    require_version,
    tag_name,
    text_by_name,
    texts,
    version_number,
)
from headgate.core.input.secrets import without_secret_values, without_secrets
from headgate.core.input.settings import OF_LAKES, check_settings
from headgate.errors import InvalidInputError
from headgate.log.driver import Driver
from headgate.log.log import CommitLog
from headgate.model.announcement import Intent
from headgate.model.footprint import file_mark
from headgate.model.identifiers import StrategyName, TxId
from headgate.model.json_object import Json, timestamp
from headgate.model.plan import MAX_INPUTS, PendingPlan, Service, service_named
from headgate.model.record import AppBatch, Command, PropertyChange, TagChange
from headgate.model.reports import RowCounts
from headgate.model.state import LakeState
from headgate.model.table import TableName
from headgate.storage.mount_roots import MountRoots
from headgate.system.host import Host
from headgate.transaction.changes import Changes, TableChange, TableRead
from headgate.transaction.conflicts import OtherWriters
from headgate.transaction.named_objects import Catalog, Step

if TYPE_CHECKING:
    from headgate.core.sql.query import Travel
    from headgate.iceberg.format.loader import TableLoader
    from headgate.lake.lake_view import LakeView
    from headgate.transaction.table_writer import TableWriter


class Stage(Enum):
    OPEN = "open"
    UNSETTLED = "unresolved"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(eq=False)
class Work:
    """The changes of a transaction so far, for the classes that write tables and define objects.

    `lake_at` returns the lake at a version that a query names; tags are looked up in the given state.
    """

    id: TxId
    base: LakeState
    driver: Driver
    loader: Callable[[], TableLoader]
    others: OtherWriters
    mounts: MountRoots
    lake_at: Callable[[LakeState, Travel], LakeView] | None = None
    stage: Stage = Stage.OPEN
    noted: Changes = field(default_factory=Changes)
    rows: RowCounts | None = None

    def require_open(self) -> None:
        if self.stage is not Stage.OPEN:
            raise InvalidInputError(
                f"transaction {self.id} is {self.stage.value}",
                "call commit() again to resolve its outcome"
                if self.stage is Stage.UNSETTLED
                else "begin a new transaction",
            )

    def changes(self) -> Changes:
        """The changes noted so far. Raises an error if the transaction is over."""
        self.require_open()
        return self.noted

    def announce(self, intent: Intent, change: TableChange) -> None:
        """Announces a change before it is made. May raise the conflict that the commit would raise."""
        self.require_open()
        self.others.announce(self, intent, change)

    def note(self, change: TableChange) -> None:
        self.noted = self.changes().with_table(change)

    def forget(self, name: str) -> None:
        """Removes everything that was noted for a table."""
        self.noted = self.changes().without_table(name)

    def note_changes(self, changes: Changes) -> None:
        """Replaces the noted changes with `changes`, which extend them."""
        self.require_open()
        self.noted = changes

    def note_read(self, read: TableRead) -> None:
        self.noted = self.changes().with_read(read)

    def note_object_read(self, name: str) -> None:
        """Notes that the commit may depend on the definition of a view or mount."""
        changes, found = self.changes(), self.base.objects.get(name)
        if found is not None:
            self.noted = changes.with_object_read(name, found)

    def earlier(self, travel: Travel) -> LakeView:
        """The lake at a version that a query names; tags are those of the base."""
        assert self.lake_at is not None, "a lake begins transactions"
        return self.lake_at(self.base, travel)

    def count(self, rows: RowCounts) -> None:
        """Adds to the rows that the transaction has changed."""
        self.rows = rows if self.rows is None else self.rows + rows


@dataclass(frozen=True, slots=True)
class Envelope:
    """The metadata of a commit: the command, its start, the batch of an application and the properties."""

    command: Command
    started_at: datetime
    app: AppBatch | None = None
    properties: Mapping[str, str] | None = None

    def remarks(self) -> dict[str, str]:
        """The properties that are also written into the snapshots of the tables, for audits."""
        remarks = {**(self.properties or {}), "headgate.started-at": timestamp(self.started_at)}
        if self.command.args:
            remarks["headgate.command"] = self.command.args[0]
        if self.app is not None:
            remarks |= {"headgate.app": self.app.app, "headgate.batch": str(self.app.batch)}
        return remarks


def make_envelope(
    host: Host, args: Sequence[str], app: tuple[str, int] | None, properties: Mapping[str, str] | None
) -> Envelope:
    """Checks the arguments of the caller, and removes secrets from them."""
    said = texts("args", args)
    remarks = text_by_name(properties) if properties is not None else {}
    return Envelope(
        command=Command(without_secrets(said) if said else (), host.user(), host.name(), host.process()),
        started_at=host.now(),
        app=None if app is None else app_batch(app),
        properties=without_secret_values(remarks.items()) if remarks else {},
    )


class NotedChanges(Catalog[None]):
    """The methods with which a caller adds changes to a transaction before the commit."""

    def __init__(self, work: Work, log: CommitLog) -> None:
        self._work = work
        self._log = log

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Sets lake properties. They are stored forever as they are, so names of secrets are rejected."""
        self._work.require_open()
        given = public_properties(properties)
        check_settings(given, OF_LAKES)
        before = self._work.noted.properties
        change = PropertyChange({**before.set, **given}, before.removed - frozenset(given))
        self._work.note_changes(replace(self._work.changes(), properties=change))

    def remove_properties(self, *names: str) -> None:
        """Removes lake properties. Ignores names that are not set."""
        self._work.require_open()
        gone = frozenset(texts("property names", names))
        for name in gone - self._work.base.properties.keys():
            refuse_credential("the name of a property", name)
        before = self._work.noted.properties
        kept = {name: value for name, value in before.set.items() if name not in gone}
        self._work.note_changes(
            replace(self._work.changes(), properties=PropertyChange(kept, before.removed | gone))
        )

    def set_tag(self, name: str, version: int) -> None:
        """Tags a committed version. Raises `NotFoundError` if it does not exist or is expired."""
        self._work.require_open()
        checked, before, wanted = tag_name(name), self._work.noted.tags, version_number(version)
        if wanted > self._work.base.version:
            # Others may have committed it since the transaction began. Only this case pays for the check.
            require_version(self._log.catch_up(self._work.base, 1).state, wanted)
        require_kept(self._work.base, wanted.number, self._log.identity.divisor)
        change = TagChange({**before.set, checked: wanted}, before.removed - {checked})
        self._work.note_changes(replace(self._work.changes(), tags=change))

    def remove_tag(self, name: str) -> None:
        """Removes a tag. If there is none with this name, the `NotFoundError` suggests similar names."""
        self._work.require_open()
        found_tag(self._work.base, name)
        before = self._work.noted.tags
        kept = {other: version for other, version in before.set.items() if other != name}
        self._work.note_changes(replace(self._work.changes(), tags=TagChange(kept, before.removed | {name})))

    def choose_strategy(self, strategy: StrategyName) -> None:
        """Changes the commit strategy for all later versions. The caller must make sure that it is safe."""
        self._work.require_open()
        chosen = of_kind("the strategy", strategy, StrategyName)
        self._work.note_changes(replace(self._work.changes(), strategy=chosen))

    # --- table services ---------------------------------------------------------------------------------

    def plan(
        self,
        service: Service,
        table: str,
        inputs: Iterable[str],
        paths: Iterable[str],
        details: Mapping[str, Json] | None = None,
    ) -> TxId:
        """Plans a table service, and returns the id of the plan, which is the txid of this transaction.

        `inputs` are the paths of the files that it will rewrite, and `paths` the virtual paths that contain
        them. `details` are stored with the plan. The commit is rejected if another pending plan has some of
        the same inputs.
        """
        self._work.require_open()
        kept = {} if details is None else json_object("what is kept with the plan", details)
        refuse_credentials_in("what is kept with the plan", kept)
        marks = frozenset(map(file_mark, texts("the inputs of a plan", inputs)))
        plan = PendingPlan(
            txid=self._work.id,
            service=service_named(service),
            table=found_table(self._work.base, table).uuid,
            inputs=marks if len(marks) <= MAX_INPUTS else None,
            paths=frozenset(texts("the paths of a plan", paths)),
            unknown=kept,
        )
        self._work.note_changes(replace(self._work.changes(), plan=plan))
        return self._work.id

    def complete(self, plan: TxId) -> None:
        """Completes a plan with this transaction. The commit is rejected unless the plan is pending."""
        self._work.require_open()
        completed = of_kind("the plan", plan, TxId)
        self._work.note_changes(
            replace(self._work.changes(), completes=(*self._work.noted.completes, completed))
        )

    def cancel(self, txid: TxId) -> None:
        """Cancels a pending plan, or a transaction that has not committed yet, which then never can."""
        self._work.require_open()
        cancelled = of_kind("the transaction", txid, TxId)
        self._work.note_changes(replace(self._work.changes(), cancels=(*self._work.noted.cancels, cancelled)))

    def fence(self) -> None:
        """Makes handles that read this version check for a replica mark before they commit again."""
        self._work.require_open()
        self._work.note_changes(replace(self._work.changes(), fences=True))

    def count_rows(self, rows: RowCounts) -> None:
        """Adds to the count of changed rows. Without changed rows or other changes, no version is created."""
        self._work.count(of_kind("the rows", rows, RowCounts))

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
        """Creates a table. `schema` is DDL, a pyarrow Schema or an Iceberg Schema."""
        from headgate.transaction import table_writer

        given = {} if properties is None else properties
        return table_writer.create(self._work, name, schema, partition_by, sort_by, given)

    def table(self, name: str) -> TableWriter:
        """A table to read and write. Raises `NotFoundError` if nothing has this name.

        You can also get a view or a mount, which is read-only; reading a view needs Spark.
        """
        from headgate.transaction import table_writer

        work = self._work
        TableName.parse(name)
        found = work.changes().objects_on(work.base).get(name)
        if found is not None:
            from headgate.transaction.views_and_mounts import ObjectReader

            return ObjectReader(work, name, found)
        table_writer.require_table(work, name)
        return table_writer.TableWriter(work, name)

    def drop_table(self, name: str) -> None:
        """Drops a table. Its files stay until its versions expire."""
        from headgate.transaction import table_writer

        table_writer.drop(self._work, name)

    def rename_table(self, name: str, to: str) -> None:
        """Renames a table. Its files stay where they are."""
        from headgate.transaction import table_writer

        table_writer.rename(self._work, name, to)

    def _define(self, step: Step, *description: str) -> None:  # noqa: ARG002 - the transaction has its own
        step(self._work)
