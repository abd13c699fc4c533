"""What a running transaction announces about itself: `control/timeline/<txid>.json`.

Announcements are advisory. Nothing that is committed depends on them: a transaction that does not see an
announcement, or ignores it, may work in vain, and the conflict rules stop it when it commits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headgate.errors import CorruptLakeError, UnsupportedError
from headgate.model.footprint import Upserted
from headgate.model.identifiers import TxId, Version, is_txid
from headgate.model.json_object import Json, JsonObject, encode, timestamp

ANNOUNCEMENT_FORMAT = 1
MAX_NAMED = 1024
"""How many files and paths of a table an announcement names; if there are more, it names none."""
MISSED_HEARTBEATS = 6
"""After how many intervals without a heartbeat a transaction is considered dead."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What a transaction is about to do to one table.

    `kind` is the operation (`overwrite`, `delete`, …, or the name of a table service), `table` the uuid.
    `paths` are the virtual paths that it touches; empty if they are not known yet. `files` are marks
    (`model.footprint.file_mark`) of the files that it may change or remove; None if they are unknown or too
    many. `by_position`: it marks rows as deleted and leaves the files as they are. `upserted`: it adds rows
    whose keys it does not find, and where it looks for these.
    """

    kind: str
    name: str
    table: str
    paths: frozenset[str] = frozenset()
    files: frozenset[str] | None = None
    by_position: bool = False
    upserted: Upserted | None = None

    @classmethod
    def of(
        cls,
        kind: str,
        name: str,
        table: str,
        paths: Iterable[str] = (),
        files: Iterable[str] | None = None,
        *,
        by_position: bool = False,
        upserted: Upserted | None = None,
    ) -> Intent:
        """An intent that is small enough for an announcement."""
        touched = frozenset(paths)
        marks = None if files is None else frozenset(files)
        return cls(
            kind,
            name,
            table,
            touched if len(touched) <= MAX_NAMED else frozenset(),
            marks if marks is not None and len(marks) <= MAX_NAMED else None,
            by_position,
            upserted,
        )

    def after(self, earlier: Intent | None) -> Intent:
        """The same intent, which keeps where the transaction upserts from its `earlier` intent."""
        if earlier is None or earlier.upserted is None or earlier.table != self.table:
            return self
        # Where two upserts looked is not merged: it may have been anywhere.
        return replace(self, upserted=earlier.upserted if self.upserted is None else Upserted())

    def to_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {
            "kind": self.kind,
            "name": self.name,
            "table": self.table,
            "paths": [*sorted(self.paths)],
            "files": None if self.files is None else [*sorted(self.files)],
            "by_position": self.by_position,
        }
        if self.upserted is not None:
            fields["upserted"] = self.upserted.to_json()
        return fields

    @classmethod
    def from_json(cls, source: JsonObject) -> Intent:
        upserted = source.optional_object("upserted")
        return cls(
            kind=source.text("kind"),
            name=source.text("name"),
            table=source.text("table"),
            paths=frozenset(source.texts("paths")),
            files=None if source.fields.get("files") is None else frozenset(source.texts("files")),
            by_position=source.fields.get("by_position") is True,
            upserted=None if upserted is None else Upserted.from_json(upserted),
        )


@dataclass(frozen=True, slots=True)
class Announcement:
    """A running transaction. `plan` is the pending plan that it carries out, if any.

    `interval` is how often `heartbeat_at` is renewed, measured by the clock of its own process.
    """

    txid: TxId
    base: Version
    started_at: datetime
    heartbeat_at: datetime
    interval: timedelta
    user: str
    host: str
    intents: tuple[Intent, ...] = ()
    plan: TxId | None = None

    def at(self, now: datetime) -> Announcement:
        """The next heartbeat."""
        return replace(self, heartbeat_at=now)

    def is_alive(self, now: datetime) -> bool:
        """Whether it was renewed recently, as far as the clocks of two machines show.

        A heartbeat from far in the future does not count: its writer may have died long ago, and would be
        respected until then.
        """
        return abs(now - self.heartbeat_at) <= MISSED_HEARTBEATS * self.interval

    def encode(self) -> bytes:
        fields: dict[str, Json] = {
            "format": ANNOUNCEMENT_FORMAT,
            "txid": self.txid.text,
            "base": self.base.number,
            "started_at": timestamp(self.started_at),
            "heartbeat_at": timestamp(self.heartbeat_at),
            "interval_ms": self.interval // timedelta(milliseconds=1),
            "user": self.user,
            "host": self.host,
            "intents": [intent.to_json() for intent in self.intents],
        }
        if self.plan is not None:
            fields["plan"] = self.plan.text
        return encode(fields)

    @classmethod
    def decode(cls, data: bytes, txid: TxId, origin: str) -> Announcement:
        source = JsonObject.parse(data, f"the announcement {origin}")
        if source.number("format") > ANNOUNCEMENT_FORMAT:
            raise UnsupportedError(f"{source.origin} was written by a later release", "upgrade headgate")
        if source.text("txid") != txid.text:
            raise CorruptLakeError(f"{source.origin} names the transaction {source.text('txid')[:80]!r}")
        plan = source.optional_text("plan")
        if plan is not None and not is_txid(plan):
            raise CorruptLakeError(f"{source.origin}: {plan[:80]!r} is not a transaction id")
        return cls(
            txid=txid,
            base=source.version("base"),
            started_at=source.moment("started_at"),
            heartbeat_at=source.moment("heartbeat_at"),
            interval=_interval(source),
            user=source.text("user"),
            host=source.text("host"),
            intents=tuple(Intent.from_json(intent) for intent in source.objects("intents")),
            plan=None if plan is None else TxId(plan),
        )


def _interval(source: JsonObject) -> timedelta:
    try:
        return timedelta(milliseconds=source.number("interval_ms"))
    except OverflowError as error:
        raise CorruptLakeError(f"{source.origin}: the interval of the heartbeat is too long") from error
