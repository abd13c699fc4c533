"""The state of a lake at a version: the fold of all records up to it, and the checkpoint that stores one."""

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
from headgate.model.table import TableRef

CHECKPOINT_FORMAT = 1


@dataclass(frozen=True, slots=True)
class AppProgress:
    """The newest batch of an application, and the version that holds it."""

    batch: int
    version: Version


@dataclass(frozen=True, slots=True)
class LakeState:
    """Everything that a commit on top of `version` must know, in a size that does not grow with versions.

    `digest` is that of the record of `version`; `identity` that of record 0, which says whose log this is.
    `committed_at` is the time that the record carries; None before the first one. `plans` are the table
    services that are pending, by the transaction that scheduled each. `cancelled` are transactions that must
    not commit, each with the version that says so: the newest ones only, see `core.fold`. `objects` are views
    and mounts: a name is that of a table, or of one of them. `retention` says which versions can be read.
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

    def encode(self) -> bytes:
        """The checkpoint of this state: the same bytes whoever writes it."""
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
        if self.committed_at is not None:
            fields["committed_at"] = timestamp(self.committed_at)
        return encode({**fields, "checksum": digest(encode(fields))})

    @classmethod
    def decode(cls, data: bytes, version: Version, origin: str) -> LakeState:
        source = JsonObject.parse(data, f"the checkpoint of version {version} ({origin})")
        checkpoint_format = source.number("format")
        if checkpoint_format > CHECKPOINT_FORMAT:
            raise UnsupportedError(
                f"{source.origin} is of format {checkpoint_format}; "
                f"this release reads formats up to {CHECKPOINT_FORMAT}",
                "upgrade headgate",
            )
        if source.number("version") != version.number:
            raise CorruptLakeError(f"{source.origin} says it is of version {source.number('version')}")
        if source.text("checksum") != _checksum(source):
            raise CorruptLakeError(f"{source.origin} does not fit its checksum")
        cancelled = source.object("cancelled")
        tags = source.object("tags")
        retention = source.optional_object("retention")
        return cls(
            version=version,
            digest=source.text("digest"),
            next_strategy=source.text("next_strategy"),
            identity=source.text("identity"),
            properties=source.text_by_name("properties"),
            tables={name: TableRef.from_json(inside) for name, inside in source.objects_by_name("tables")},
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
                name: NamedObject.from_json(inside) for name, inside in source.objects_by_name("objects")
            },
            retention=EVERYTHING
            if retention is None
            else Retention.from_json(retention, retention.version("by")),
        )


def _txid(text: str, source: JsonObject) -> TxId:
    if not is_txid(text):
        raise CorruptLakeError(f"{source.origin}: {text[:80]!r} is not a transaction id")
    return TxId(text)


def _checksum(source: JsonObject) -> str:
    try:
        return digest(encode(source.unknown("checksum")))
    except (ValueError, RecursionError) as error:  # halves of characters; nested too deeply to be written
        raise CorruptLakeError(f"{source.origin} cannot have been written so: {error}") from error
