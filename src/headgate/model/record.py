"""The record of a version: what was committed, by whom, on top of what.

A record is bytes first. Its digest stands in the next record, so the bytes are never made again from the
value; `encode` exists for the writer that proposes a record. Fields that this release does not know are
kept in `unknown`. A record of a newer format is refused with the name of the release that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.identifiers import TxId, Version, is_txid
from headgate.model.json_object import Json, JsonObject, encode, timestamp
from headgate.model.named_object import ObjectCommit
from headgate.model.plan import PendingPlan
from headgate.model.retention import Retention
from headgate.model.table import PathChange, TableCommit, path_changes
from headgate.release import __version__

RECORD_FORMAT = 1
FIRST_RELEASE_OF_FORMAT = "0.1.0"
"""The first release that reads `RECORD_FORMAT`; it stands in each record for the sake of older readers."""


@dataclass(frozen=True, slots=True)
class Command:
    """Who asked for a commit: the audit entry. Secrets are gone before this value is built."""

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
    "lake_properties",
    "tags",
    "tables",
    "objects",
    "paths",
    "plan",
    "completes",
    "cancels",
    "expires",
    "next_strategy",
    "properties",
    "hooks",
)


@dataclass(frozen=True, slots=True)
class Record:
    """One decided commit.

    `previous` is the digest of the bytes of the record before; `next_strategy` (text, for the sake of
    names that this release does not know) says how the version after this one is claimed. Times are for
    people: no decision uses them. `committed_at` never goes back from one version to the next, whatever the
    clocks of the writers say, so a version can be found by time.

    `plan` is the table service that it schedules; `completes` are the plans, by the transactions that
    scheduled them, whose work it commits; `cancels` are plans that are given up and transactions that must
    not commit any more. `expires` is what is still kept of earlier versions from here on.
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
    plan: PendingPlan | None = None
    completes: tuple[TxId, ...] = ()
    cancels: tuple[TxId, ...] = ()
    expires: Retention | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    hooks: tuple[str, ...] = ()
    unknown: Mapping[str, Json] = field(default_factory=dict)

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
        return fields

    def encode(self) -> bytes:
        return encode(self.to_json())

    @classmethod
    def decode(cls, data: bytes, version: Version, origin: str) -> Record:
        """The record that `data` says it is; `CorruptLakeError` unless it is the one of `version`."""
        source = JsonObject.parse(data, f"the record of version {version} ({origin})")
        _refuse_newer_format(source)
        if source.number("version") != version.number:
            raise CorruptLakeError(f"{source.origin} says it is version {source.number('version')}")
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
            tables=tuple(TableCommit.from_json(table) for table in source.objects("tables")),
            objects=tuple(ObjectCommit.from_json(change) for change in source.objects("objects")),
            paths=path_changes(source, "paths"),
            plan=None if plan is None else PendingPlan.from_json(plan, txid, version),
            completes=tuple(_txid(source, text) for text in source.texts("completes")),
            cancels=tuple(_txid(source, text) for text in source.texts("cancels")),
            expires=None if expires is None else Retention.from_json(expires, version),
            properties=source.text_by_name("properties"),
            hooks=source.texts("hooks"),
            unknown=source.unknown(*KNOWN_FIELDS),
        )


def _refuse_newer_format(source: JsonObject) -> None:
    record_format = source.number("format")
    if record_format > RECORD_FORMAT:
        raise UnsupportedError(
            f"{source.origin} is of format {record_format}; this release reads formats up to {RECORD_FORMAT}",
            f"upgrade to headgate {source.text('needs_release')} or later",
        )


def _txid(source: JsonObject, text: str) -> TxId:
    if not is_txid(text):
        raise CorruptLakeError(f"{source.origin}: {text[:80]!r} is not a transaction id")
    return TxId(text)
