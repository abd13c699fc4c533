"""The formats on storage: the fields that the code writes, and what each of them means.

The fields are read from the encoders, the meanings stand here. A field without a meaning, or a meaning
without
a field, fails the build: whoever changes a format says so on this page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.core.descriptor import descriptor
from headgate.errors import InternalError
from headgate.model.announcement import ANNOUNCEMENT_FORMAT, Announcement, Intent
from headgate.model.control_entry import ENTRY_FORMAT, ControlEntry, HookRun
from headgate.model.footprint import (
    _MARKS,
    MAX_FILES,
    MAX_PARTITIONS,
    MAX_POSITION_FILES,
    FileFootprint,
    Upserted,
)
from headgate.model.identity import LAKE_FORMAT, LakeIdentity
from headgate.model.named_object import ObjectCommit
from headgate.model.plan import PendingPlan
from headgate.model.record import KNOWN_FIELDS, RECORD_FORMAT, AppBatch, Command, Record
from headgate.model.replica import MARK_FORMAT, ReplicaMark
from headgate.model.retention import Retention
from headgate.model.state import CHECKPOINT_FORMAT, LakeState
from headgate.model.table import PathChange, TableCommit, TableRef
from scripts.reference.fields import written
from scripts.reference.markdown import code, page, table

INTRODUCTION = """
Where each of these lies is told in [what is on storage](../on-storage.md). All are JSON: canonical
(sorted keys, no spaces), UTF-8, nested at most 100 deep. Versions are numbers up to 2^63 - 1. Fields that
a reader does not know are kept when it writes a record again; an object of a higher format is refused, or
passed over if it is only advice.
"""


@dataclass(frozen=True, slots=True)
class Format:
    """An object on storage, or a part of one: who writes it, and what its fields mean."""

    title: str
    encoder: Any
    meanings: Mapping[str, str]
    introduction: str = ""
    ending: str = ""
    more: Mapping[str, bool] = field(default_factory=dict)
    """Fields that the source of the encoder does not name, and whether they are always there."""

    def rows(self) -> list[tuple[str, str, str]]:
        fields = {**written(self.encoder), **self.more}
        if set(fields) != set(self.meanings):
            unknown, gone = sorted(set(fields) - set(self.meanings)), sorted(set(self.meanings) - set(fields))
            raise InternalError(
                f"{self.title}: no meaning for {unknown}, no field for {gone}",
                "correct FORMATS in scripts/reference/formats.py",
            )
        return [
            (code(name), "" if fields[name] else "optional", meaning)
            for name, meaning in self.meanings.items()
        ]


IDENTITY = Format(
    "The identity",
    LakeIdentity.encode,
    {
        "format": f"{LAKE_FORMAT}; a reader refuses a higher one",
        "lake_id": "random, made once",
        "divisor": "how many versions make a window",
        "first_strategy": "how version 1 is claimed",
        "ordered_listing": "whether the storage lists keys in order; saves FileTracker one LIST per scan",
        "created_at": "UTC, for people",
    },
    "Record 0, and `headgate.json`, its copy.",
)

RECORD = Format(
    "A record",
    Record.to_json,
    {
        "format": f"{RECORD_FORMAT}; a reader refuses a higher one",
        "needs_release": "the first release that reads this format",
        "version": "which commit",
        "txid": "by which transaction",
        "previous": "the digest (`sha256:…`) of the bytes of the record before",
        "kind": "`commit`, `switch` (changes the strategy), `plan`, `cancel`, `expire`",
        "started_at": "when the transaction began; UTC, for people",
        "committed_at": "UTC, for people and for `Lake.at(timestamp=…)`; never goes back from one version "
        "to the next",
        "command": "who asked for it, see below",
        "base": "the version that it began on",
        "attempts": "how many versions were tried, with earlier runs of the same operation",
        "next_strategy": "how the next version is claimed",
        "app": "application `id` and `batch`",
        "lake_properties": "what is `set` and `removed`",
        "tags": "tags `set`, each to a version, and `removed`",
        "tables": "for each changed table, see below",
        "objects": "for each changed view or mount, see below",
        "paths": "for each virtual path what was added and removed, see below",
        "plan": "a table service that is scheduled, see below",
        "completes": "plans whose work this commits, by the transactions that scheduled them",
        "cancels": "plans that are given up, and transactions that must not commit any more",
        "expires": "what is still kept of earlier versions from here on, see below",
        "properties": "remarks of the caller, without secrets",
        "hooks": "the names of the hooks that the writer was to run after it, in order",
    },
)

FORMATS: tuple[Format, ...] = (
    IDENTITY,
    RECORD,
    Format(
        "A record: the command",
        Command.to_json,
        {
            "args": "without secrets, cut at 4,096 characters each",
            "user": "of the operating system",
            "host": "the name of the machine",
            "process": "its number",
            "client": "program and release",
        },
    ),
    Format(
        "A record: the application",
        AppBatch.to_json,
        {
            "id": "its name",
            "batch": "its number; one at or below the newest of the name is not committed again",
        },
    ),
    Format(
        "A record: a table",
        TableCommit.to_json,
        {
            "name": "as it is called from this version on",
            "action": "`create`, `change`, `drop`, `rename`",
            "uuid": "of the table, for ever",
            "location": "its directory in the lake",
            "metadata": "its metadata file in the lake",
            "renamed_from": "its name before",
            "snapshot_id": "of the new snapshot, if files changed",
            "operation": "as in the summary of the snapshot",
            "replaces_all": "all rows were replaced",
            "property_names": "the properties that changed",
            "footprint": "what others need to see whether they meet this commit, see below",
            "structure": "what of the structure changed: `schema`, `partition-spec`, `sort-order`",
            "dropped_fields": "the ids of dropped columns, at every depth",
            "verbs": "what the caller did: `append`, `overwrite`, `delete`, …",
        },
        more=written(TableRef.to_json),
    ),
    Format(
        "A record: a footprint",
        FileFootprint.to_json,
        {
            "added": "the partitions that files were added to: the id of the spec, then the values as "
            "Iceberg stores "
            'them; bytes, decimals and floats as `{"bytes": hex}`, `{"decimal": text}`, `{"float": hex}`',
            "removed": "the files of which all rows are gone: the first 16 hexadecimal digits of the "
            "SHA-256 of their "
            "path below the directory of the table (`data/L0-…`), which is the same in a replica",
            "rewritten": "the files of which some rows are in other files now (copy-on-write), in the same "
            "way",
            "compacted": "the files of which all rows are in other files now",
            "deleted": "the files in which rows were deleted by position",
            "updated": "the files in which rows were updated by position",
            "upserted": "of an upsert by key: the `partitions` that it looked at, and the `bounds` of its "
            "keys, "
            "`[least, greatest]` by field id",
            "positions": "position files that are not in the table, by their path below its directory",
        },
        ending=f"""
With more than {MAX_PARTITIONS} partitions, {MAX_FILES} files or {MAX_POSITION_FILES} position files the
list is `null`, and whoever compares must assume all of them; bounds of keys that are longer than 256
characters are left out. So a record stays small, and a conflict can be reported that is none, but none is
missed. A footprint with `removed` and without `rewritten` was written before the two were told apart:
each of its files can be either.
""",
        more=dict.fromkeys(_MARKS, False),
    ),
    Format(
        "A record: keys of an upsert",
        Upserted.to_json,
        {"partitions": "those that it looked at", "bounds": "`[least, greatest]` of its keys, by field id"},
    ),
    Format(
        "A record: a view or mount",
        ObjectCommit.to_json,
        {
            "name": "as it is called from this version on",
            "action": "`create`, `replace`, `drop`, `rename`",
            "object": "`uuid`, `kind`, and of a `view` its `sql`; of a `csv` mount `directory`, `columns` "
            "(an Iceberg "
            "schema), `header` if false, `delimiter` if given; of a `host` mount `directory`, `format` "
            "(`parquet`, "
            "`json`, `text`), `columns` ([0012](../design/0012-named-objects.md))",
            "renamed_from": "its name before",
        },
    ),
    Format(
        "A record: a virtual path",
        PathChange.to_json,
        {
            "files_added": "data files",
            "rows_added": "their rows",
            "bytes_added": "their bytes",
            "files_removed": "data files that are no longer in the table",
            "rows_removed": "live rows that are gone",
            "bytes_removed": "bytes of the removed files",
        },
    ),
    Format(
        "A record: a plan",
        PendingPlan.to_json,
        {
            "service": "`compaction`, `clustering`",
            "table": "its uuid",
            "inputs": "files as in `removed` of a footprint, or `null` beyond 1,024",
            "paths": "the virtual paths that it works on",
        },
        ending="Other fields are kept: of a compaction `groups`, the `level`, `first`, `last` and `path` of "
        "each window ([0014](../design/0014-windows-of-compaction.md)).",
    ),
    Format(
        "A record: what is kept",
        Retention.to_json,
        {
            "until": "all versions above it are kept",
            "boundaries": "of those up to it: pairs of a level, and the version from which on its "
            "boundaries are",
            "versions": "of those up to it: those that tags name",
            "files": "by the uuid of a table: the versions up to `until` whose own files are kept; others "
            "are told by the files of the next one above",
        },
        ending="In a checkpoint with `by`, the version whose record said so.",
    ),
    Format(
        "A checkpoint",
        LakeState.encode,
        {
            "format": f"{CHECKPOINT_FORMAT}; one that cannot be read, also because its format is higher, is "
            f"passed over",
            "version": "the boundary",
            "digest": "of the record of this version",
            "identity": "the digest of record 0",
            "next_strategy": "how the next version is claimed",
            "properties": "of the lake",
            "tables": "by name: `uuid`, `location`, `metadata`",
            "apps": "by application: its newest `batch`, and the `version` that committed it",
            "cancelled": "the newest 1,000 transactions that must not commit, with the version that says so",
            "tags": "by name, the version",
            "plans": "those that are pending, by transaction, each with its `version`",
            "objects": "views and mounts by name",
            "retention": "what is still kept of earlier versions, as in a record",
            "committed_at": "of the record of this version",
            "checksum": "over all of these",
        },
        more={"checksum": True},
    ),
    Format(
        "A control entry",
        ControlEntry.encode,
        {
            "format": f"{ENTRY_FORMAT}; a reader refuses a higher one",
            "version": "which commit",
            "txid": "by which transaction",
            "record": "the digest of its record",
            "descriptor": "what the record says, see below",
            "hooks": "for each hook that was due, in order, its `name` and the fields below",
            "timings": "seconds by what took them: `commit`, `waited`, `hooks`",
            "recovered": "true if somebody else than the writer of the version wrote it",
        },
        "In `control/txn/`. Written when everything else that is due after the commit was done; a version "
        "without one is\n"
        "made up for by the next boundary, or by `headgate recover` "
        "([0011](../design/0011-control-entries.md)).",
    ),
    Format(
        "A control entry: the descriptor",
        descriptor,
        {
            "kind": "of the record",
            "args": "and the other fields of the command: `user`, `host`, `process`, `client`",
            "started_at": "as in the record",
            "committed_at": "as in the record",
            "base": "as in the record",
            "attempts": "as in the record",
            "tables": "for each its `name`, `action` and `verbs`",
            "changed": "files, rows and bytes added and removed, over all virtual paths",
            "objects": "for each its `name`, `action` and `kind`",
            "app": "as in the record",
            "properties": "as in the record",
        },
        more={"args": True},
    ),
    Format(
        "A control entry: a hook",
        HookRun.to_json,
        {
            "state": "`pending`, `done`, `failed`",
            "attempts": "over all runs",
            "seconds": "over all runs",
            "error": "of the last run, without secrets and cut at 1,000 characters",
        },
    ),
    Format(
        "An announcement",
        Announcement.encode,
        {
            "format": f"{ANNOUNCEMENT_FORMAT}",
            "txid": "of the transaction",
            "base": "the version that it began on",
            "started_at": "UTC",
            "heartbeat_at": "when it was last renewed",
            "interval_ms": "how often it is renewed",
            "user": "of the operating system",
            "host": "the name of the machine",
            "intents": "for each table, see below",
            "plan": "the plan that is carried out",
        },
        "In `control/timeline/` ([0010](../design/0010-plans-and-announcements.md)).",
    ),
    Format(
        "An announcement: an intent",
        Intent.to_json,
        {
            "kind": "`overwrite`, …",
            "name": "of the table",
            "table": "its uuid",
            "paths": "empty if not known",
            "files": "as in `removed` of a footprint; `null` if not known",
            "by_position": "rows are marked as deleted, files stay",
        },
    ),
    Format(
        "The mark of a replica",
        ReplicaMark.encode,
        {
            "format": f"{MARK_FORMAT}",
            "lake_id": "of the lake, and of its replicas",
            "source": "the place it was first copied from, without credentials",
            "since": "UTC",
        },
        "`control/replica.json` ([0013](../design/0013-replicas.md)).",
    ),
)

ENDING = """
## Advice and marks

`control/checkpoint/last.json` is `{"version": N}`, in a replica with `"replica": true`.
`control/txn/recovered.json` is `{"version": N}`. `control/outbox/<version>.json` is `{"hooks": [names]}`:
it is there while an entry has hooks that are not done, so that they are found without reading every
entry. It is written before the entry and removed after it. How a hook is run stands nowhere on storage:
only its name does.
"""


def formats_page() -> str:
    if set(RECORD.meanings) != set(KNOWN_FIELDS):
        raise InternalError(
            "KNOWN_FIELDS of model/record.py are not the fields that a record is written with"
        )
    return page("Formats on storage", INTRODUCTION, *map(_section, FORMATS), ENDING)


def _section(described: Format) -> str:
    parts = (
        f"## {described.title}",
        described.introduction.strip(),
        table(("field", "", "meaning"), described.rows()),
        described.ending.strip(),
    )
    return "\n\n".join(part for part in parts if part)
