"""The state of a lake at a version: the fold of all records up to it, and the checkpoint that stores it.

Also set-backs: where the times in a log go back, because a writer corrected what a clock far ahead had
caused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.identifiers import TxId, Version, is_txid
from headgate.model.json_object import Json, JsonObject, digest, encode, timestamp
from headgate.model.named_object import NamedObject
from headgate.model.plan import PendingPlan
from headgate.model.retention import EVERYTHING, Retention
from headgate.model.table import TableRef, stored_name

CHECKPOINT_FORMAT = 1


@dataclass(frozen=True, slots=True)
class AppProgress:
    """The newest batch of an application, and the version that holds it."""

    batch: int
    version: Version


@dataclass(frozen=True, slots=True)
class LakeState:
    """Everything that a commit on top of `version` must know, in a size that does not grow with versions.

    `digest` is that of the record of `version`; `identity` that of record 0, which identifies the log.
    `committed_at` is the time in the record; None before the first one. `plans` are the pending table
    services, by the transaction that scheduled each. `cancelled` are transactions that must not commit, each
    with the version that says so: the newest ones only, see `core.history.fold`. `objects` are views and
    mounts: a name belongs to a table, or to one of them. `retention` says which versions can be read.
    `set_backs` says where the times in the log go back, see `core.history.commit_time`, oldest first. `fence`
    is the newest version that fences, see `Record`; it may be that of a replica that was adopted here.
    """

    version: Version
    digest: str
    next_strategy: str
    identity: str
    properties: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, TableRef] = field(default_factory=dict)
    apps: Mapping[str, AppProgress] = field(default_factory=dict)
    cancelled: Mapping[TxId, Version] = field(default_factory=dict)
    tags: Mapping[str, Version] = field(default_factory=dict)
    committed_at: datetime | None = None
    plans: Mapping[TxId, PendingPlan] = field(default_factory=dict)
    objects: Mapping[str, NamedObject] = field(default_factory=dict)
    retention: Retention = EVERYTHING
    fence: Version | None = None
    set_backs: tuple[SetBack, ...] = ()

    def encode(self) -> bytes:
        """The checkpoint of this state: the same bytes in every process."""
        apps: dict[str, Json] = {
            app: {"batch": progress.batch, "version": progress.version.number}
            for app, progress in self.apps.items()
        }
        fields: dict[str, Json] = {
            "format": CHECKPOINT_FORMAT,
            "version": self.version.number,
            "digest": self.digest,
            "next_strategy": self.next_strategy,
            "identity": self.identity,
            "properties": dict(self.properties),
            "tables": {name: table.to_json() for name, table in self.tables.items()},
            "apps": apps,
            "cancelled": {txid.text: version.number for txid, version in self.cancelled.items()},
            "tags": {name: version.number for name, version in self.tags.items()},
        }
        if self.plans:
            fields["plans"] = {
                txid.text: {**plan.to_json(), "version": plan.version.number}
                for txid, plan in self.plans.items()
            }
        if self.objects:
            fields["objects"] = {name: each.to_json() for name, each in self.objects.items()}
        if self.retention != EVERYTHING:
            fields["retention"] = {**self.retention.to_json(), "by": self.retention.by.number}
        if self.fence is not None:
            fields["fence"] = self.fence.number
        if self.set_backs:
            fields["set_backs"] = [each.to_json() for each in self.set_backs]
        if self.committed_at is not None:
            fields["committed_at"] = timestamp(self.committed_at)
        return encode({**fields, "checksum": digest(encode(fields))})

    @classmethod
    def decode(cls, data: bytes, version: Version, origin: str) -> LakeState:
        source = JsonObject.parse(data, f"the checkpoint of version {version} ({origin})")
        checkpoint_format = source.number("format")
        if checkpoint_format > CHECKPOINT_FORMAT:
            raise UnsupportedError(
                f"{source.origin} has format {checkpoint_format}; "
                f"this release reads formats up to {CHECKPOINT_FORMAT}",
                "upgrade headgate",
            )
        if source.number("version") != version.number:
            raise CorruptLakeError(f"{source.origin} says that its version is {source.number('version')}")
        if source.text("checksum") != _checksum(source):
            raise CorruptLakeError(f"{source.origin} does not match its checksum")
        cancelled = source.object("cancelled")
        tags = source.object("tags")
        retention = source.optional_object("retention")
        return cls(
            version=version,
            digest=source.text("digest"),
            next_strategy=source.text("next_strategy"),
            identity=source.text("identity"),
            properties=source.text_by_name("properties"),
            tables={
                stored_name(name, source.origin): TableRef.from_json(inside, version)
                for name, inside in source.objects_by_name("tables")
            },
            apps={
                app: AppProgress(inside.number("batch"), inside.version("version"))
                for app, inside in source.objects_by_name("apps")
            },
            cancelled={_txid(text, cancelled): cancelled.version(text) for text in cancelled.fields},
            tags={name: tags.version(name) for name in tags.fields},
            committed_at=source.moment("committed_at") if "committed_at" in source.fields else None,
            plans={
                _txid(text, inside): PendingPlan.from_json(inside, TxId(text), inside.version("version"))
                for text, inside in source.objects_by_name("plans")
            },
            objects={
                stored_name(name, source.origin): NamedObject.from_json(inside)
                for name, inside in source.objects_by_name("objects")
            },
            retention=EVERYTHING
            if retention is None
            else Retention.from_json(retention, retention.version("by")),
            fence=source.version("fence") if "fence" in source.fields else None,
            set_backs=tuple(map(SetBack.from_json, source.objects("set_backs"))),
        )


def _txid(text: str, source: JsonObject) -> TxId:
    if not is_txid(text):
        raise CorruptLakeError(f"{source.origin}: {text[:80]!r} is not a transaction id")
    return TxId(text)


def _checksum(source: JsonObject) -> str:
    try:
        return digest(encode(source.unknown("checksum")))
    except (ValueError, RecursionError) as error:  # halves of characters; nested too deeply to be written
        raise CorruptLakeError(f"Headgate cannot have written {source.origin}: {error}") from error


@dataclass(frozen=True, slots=True)
class SetBack:
    """A version that is dated `at`, while the version before it is dated `was`, which is later.

    Several can be merged: then `version` and `at` are those of the last one, `since` is the version of the
    first one, and `was` the latest time of all.
    """

    since: int
    version: int
    at: datetime
    was: datetime

    def to_json(self) -> dict[str, Json]:
        return {
            "since": self.since,
            "version": self.version,
            "at": timestamp(self.at),
            "was": timestamp(self.was),
        }

    @classmethod
    def from_json(cls, source: JsonObject) -> SetBack:
        return cls(
            source.number("since"), source.number("version"), source.moment("at"), source.moment("was")
        )
