"""The record of a version: what was committed, by whom, on top of what.

A record is primarily bytes. The next record contains its digest, so the bytes are never rebuilt from the
value; `encode` exists for the writer that proposes a record. Fields that this release does not know are kept
in `unknown`. A record of a newer format is rejected, and the error names the release that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.footprint import Marks, reads_from_json, reads_to_json
from headgate.model.identifiers import TxId, Version, is_txid
from headgate.model.json_object import Json, JsonObject, encode, timestamp
from headgate.model.named_object import ObjectCommit
from headgate.model.plan import PendingPlan
from headgate.model.retention import Retention
from headgate.model.table import PathChange, TableCommit, path_changes
from headgate.release import __version__

RECORD_FORMAT = 1
FIRST_RELEASE_OF_FORMAT = "0.1.0"
"""The first release that reads `RECORD_FORMAT`; each record contains it for the sake of older readers."""
MAX_READ_OBJECTS = 64
"""The most views and mounts that a record lists as read: whether there is one decides, not which."""


@dataclass(frozen=True, slots=True)
class Command:
    """Who asked for a commit: the audit entry. Secrets are removed before this value is built."""

    args: tuple[str, ...]
    user: str
    host: str
    process: int
    client: str = f"headgate {__version__}"
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        return {
            **self.unknown,
            "args": [*self.args],
            "user": self.user,
            "host": self.host,
            "process": self.process,
            "client": self.client,
        }

    @classmethod
    def from_json(cls, source: JsonObject) -> Command:
        return cls(
            args=source.texts("args"),
            user=source.text("user"),
            host=source.text("host"),
            process=source.number("process"),
            client=source.text("client"),
            unknown=source.unknown("args", "user", "host", "process", "client"),
        )


@dataclass(frozen=True, slots=True)
class AppBatch:
    """A batch of an application: the key that makes a repeated commit harmless."""

    app: str
    batch: int
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        return {**self.unknown, "id": self.app, "batch": self.batch}

    @classmethod
    def from_json(cls, source: JsonObject) -> AppBatch:
        return cls(source.text("id"), source.number("batch"), source.unknown("id", "batch"))


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """Lake properties to set and to remove."""

    set: Mapping[str, str] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.set or self.removed or self.unknown)

    def names(self) -> frozenset[str]:
        return frozenset(self.set) | self.removed

    def to_json(self) -> dict[str, Json]:
        return {**self.unknown, "set": dict(self.set), "removed": [*sorted(self.removed)]}

    @classmethod
    def from_json(cls, source: JsonObject) -> PropertyChange:
        return cls(
            source.text_by_name("set"), frozenset(source.texts("removed")), source.unknown("set", "removed")
        )


@dataclass(frozen=True, slots=True)
class TagChange:
    """Tags to set, each to a version, and to remove."""

    set: Mapping[str, Version] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    unknown: Mapping[str, Json] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.set or self.removed or self.unknown)

    def names(self) -> frozenset[str]:
        return frozenset(self.set) | self.removed

    def to_json(self) -> dict[str, Json]:
        versions: dict[str, Json] = {name: version.number for name, version in self.set.items()}
        return {**self.unknown, "set": versions, "removed": [*sorted(self.removed)]}

    @classmethod
    def from_json(cls, source: JsonObject) -> TagChange:
        versions = source.object("set")
        return cls(
            {name: versions.version(name) for name in versions.fields},
            frozenset(source.texts("removed")),
            source.unknown("set", "removed"),
        )


KNOWN_FIELDS = (
    "format",
    "needs_release",
    "version",
    "txid",
    "previous",
    "kind",
    "started_at",
    "committed_at",
    "command",
    "app",
    "base",
    "attempts",
    "lost",
    "lake_properties",
    "tags",
    "tables",
    "objects",
    "paths",
    "reads",
    "read_objects",
    "plan",
    "completes",
    "cancels",
    "expires",
    "next_strategy",
    "properties",
    "hooks",
    "fences",
)


@dataclass(frozen=True, slots=True)
class Record:
    """One committed record.

    `previous` is the digest of the bytes of the previous record. `next_strategy` (a string, because this
    release may not know the name) says how the next version is claimed. Times are for people: no decision
    uses them. `committed_at` does not go back from one version to the next, so that a version can be found by
    time; unless a clock was far ahead, see `core.history.commit_time`.

    `reads` are the tables of which it read rows, by uuid, with marks of the files that could contain them
    (None: too many to list). The whole field is None if the record was written before reads were recorded.
    `read_objects` are the views and mounts that it read, by uuid (at most `MAX_READ_OBJECTS` of them); None
    if the record was written before these were recorded.

    `plan` is the table service that it schedules; `completes` are the plans, by the transactions that
    scheduled them, whose work it commits; `cancels` are plans that are given up and transactions that must
    not commit any more. `expires` is what is still kept of earlier versions from here on. `fences`: a process
    that has read it checks for the mark of a replica before the next commit, because a replica is being
    adopted. `lost` are the last versions that the same operation tried before, and that other writers won.
    """

    version: Version
    txid: TxId
    previous: str
    kind: str
    started_at: datetime
    committed_at: datetime
    command: Command
    base: Version
    attempts: int
    next_strategy: str
    app: AppBatch | None = None
    lake_properties: PropertyChange = field(default_factory=PropertyChange)
    tags: TagChange = field(default_factory=TagChange)
    tables: tuple[TableCommit, ...] = ()
    objects: tuple[ObjectCommit, ...] = ()
    paths: Mapping[str, PathChange] = field(default_factory=dict)
    reads: Mapping[str, Marks] | None = field(default_factory=dict)
    read_objects: tuple[str, ...] | None = ()
    plan: PendingPlan | None = None
    completes: tuple[TxId, ...] = ()
    cancels: tuple[TxId, ...] = ()
    expires: Retention | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    hooks: tuple[str, ...] = ()
    fences: bool = False
    lost: tuple[int, ...] = ()
    unknown: Mapping[str, Json] = field(default_factory=dict)

    @property
    def appends_blindly(self) -> bool:
        """Whether it only added rows, and these do not depend on anything that it read.

        A later commit that has not read its rows may be ordered before it. A record that does not say what
        was read may have read everything. A mount counts: no commit changes its files, but another one may
        replace it, and then the order of the two matters.
        """
        if self.reads is None or self.read_objects is None:
            return False
        looked = self.reads or self.read_objects or self.objects
        return not looked and all(table.only_appends for table in self.tables)

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {
            **self.unknown,
            "format": RECORD_FORMAT,
            "needs_release": FIRST_RELEASE_OF_FORMAT,
            "version": self.version.number,
            "txid": self.txid.text,
            "previous": self.previous,
            "kind": self.kind,
            "started_at": timestamp(self.started_at),
            "committed_at": timestamp(self.committed_at),
            "command": self.command.to_json(),
            "base": self.base.number,
            "attempts": self.attempts,
            "next_strategy": self.next_strategy,
        }
        # Empty parts are left out: most records have few of them.
        if self.app is not None:
            fields["app"] = self.app.to_json()
        if self.lake_properties:
            fields["lake_properties"] = self.lake_properties.to_json()
        if self.tags:
            fields["tags"] = self.tags.to_json()
        if self.tables:
            fields["tables"] = [table.to_json() for table in self.tables]
        if self.objects:
            fields["objects"] = [change.to_json() for change in self.objects]
        if self.paths:
            fields["paths"] = {path: change.to_json() for path, change in self.paths.items()}
        if self.reads is not None:
            # Written even if there are none: a record without the field does not say.
            fields["reads"] = reads_to_json(self.reads)
        if self.read_objects is not None:
            fields["read_objects"] = [*self.read_objects]
        if self.plan is not None:
            fields["plan"] = self.plan.to_json()
        if self.completes:
            fields["completes"] = [txid.text for txid in self.completes]
        if self.cancels:
            fields["cancels"] = [txid.text for txid in self.cancels]
        if self.expires is not None:
            fields["expires"] = self.expires.to_json()
        if self.properties:
            fields["properties"] = dict(self.properties)
        if self.hooks:
            fields["hooks"] = [*self.hooks]
        if self.fences:
            fields["fences"] = True
        if self.lost:
            fields["lost"] = [*self.lost]
        return fields

    def encode(self) -> bytes:
        return encode(self.to_json())

    @classmethod
    def decode(cls, data: bytes, version: Version, origin: str) -> Record:
        """The record in `data`; `CorruptLakeError` unless it is that of `version`."""
        source = JsonObject.parse(data, f"the record of version {version} ({origin})")
        _refuse_newer_format(source)
        if source.number("version") != version.number:
            raise CorruptLakeError(f"{source.origin} says that its version is {source.number('version')}")
        app = source.optional_object("app")
        changed = source.optional_object("lake_properties")
        tags = source.optional_object("tags")
        plan = source.optional_object("plan")
        expires = source.optional_object("expires")
        txid = _txid(source, source.text("txid"))
        return cls(
            version=version,
            txid=txid,
            previous=source.text("previous"),
            kind=source.text("kind"),
            started_at=source.moment("started_at"),
            committed_at=source.moment("committed_at"),
            command=Command.from_json(source.object("command")),
            base=source.version("base"),
            attempts=source.number("attempts"),
            next_strategy=source.text("next_strategy"),
            app=None if app is None else AppBatch.from_json(app),
            lake_properties=PropertyChange() if changed is None else PropertyChange.from_json(changed),
            tags=TagChange() if tags is None else TagChange.from_json(tags),
            tables=tuple(TableCommit.from_json(table, version) for table in source.objects("tables")),
            objects=tuple(ObjectCommit.from_json(change) for change in source.objects("objects")),
            paths=path_changes(source, "paths"),
            reads=reads_from_json(source, "reads"),
            read_objects=source.texts("read_objects") if "read_objects" in source.fields else None,
            plan=None if plan is None else PendingPlan.from_json(plan, txid, version),
            completes=tuple(_txid(source, text) for text in source.texts("completes")),
            cancels=tuple(_txid(source, text) for text in source.texts("cancels")),
            expires=None if expires is None else Retention.from_json(expires, version),
            properties=source.text_by_name("properties"),
            hooks=source.texts("hooks"),
            fences=source.fields.get("fences") is True,
            lost=source.numbers("lost"),
            unknown=source.unknown(*KNOWN_FIELDS),
        )


def _refuse_newer_format(source: JsonObject) -> None:
    record_format = source.number("format")
    if record_format > RECORD_FORMAT:
        raise UnsupportedError(
            f"{source.origin} has format {record_format}; this release reads formats up to {RECORD_FORMAT}",
            f"upgrade to headgate {source.text('needs_release')} or later",
        )


def _txid(source: JsonObject, text: str) -> TxId:
    if not is_txid(text):
        raise CorruptLakeError(f"{source.origin}: {text[:80]!r} is not a transaction id")
    return TxId(text)
