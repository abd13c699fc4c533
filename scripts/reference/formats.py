"""The formats on storage: the fields that the code writes, and what each of them means.

The fields are read from the encoders; the meanings are written here. A field without a meaning, or a meaning
without a field, fails the build, so every change of a format is documented on this page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.core.history.descriptor import descriptor
from headgate.errors import InternalError
from headgate.model.announcement import ANNOUNCEMENT_FORMAT, Announcement, Intent
from headgate.model.control_entry import ENTRY_FORMAT, ControlEntry, HookRun
from headgate.model.footprint import (
    _MARKS,
    MAX_FILES,
    MAX_PARTITIONS,
    MAX_POSITION_FILES,
    MAX_READ_FILES,
    FileFootprint,
    Upserted,
)
from headgate.model.identity import LAKE_FORMAT, LakeIdentity
from headgate.model.named_object import ObjectCommit
from headgate.model.plan import PendingPlan
from headgate.model.record import KNOWN_FIELDS, MAX_READ_OBJECTS, RECORD_FORMAT, AppBatch, Command, Record
from headgate.model.replica import MARK_FORMAT, ReplicaMark
from headgate.model.retention import Retention
from headgate.model.state import CHECKPOINT_FORMAT, LakeState
from headgate.model.table import PathChange, TableCommit, TableRef
from scripts.reference.fields import written
from scripts.reference.markdown import code, page, table

INTRODUCTION = """
This page lists the fields of the objects that Headgate stores in a lake, for people who write tools that read
them. [What is on storage](../on-storage.md) shows the location of each object. All of them are canonical JSON
(sorted keys, no spaces) in UTF-8, nested at most 100 levels deep. Versions are integers up to 2^63 - 1. When
a reader writes a record again, it keeps fields that it does not know. It rejects an object with a higher
format, or ignores it if the object is only advice.
"""


@dataclass(frozen=True, slots=True)
class Format:
    """An object on storage, or a part of one, with its fields and their meanings."""

    title: str
    encoder: Any
    meanings: Mapping[str, str]
    introduction: str = ""
    ending: str = ""
    more: Mapping[str, bool] = field(default_factory=dict)
    """Fields that the source of the encoder does not name, and whether they are always present."""

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
    LakeIdentity.to_json,
    {
        "format": f"{LAKE_FORMAT}; a reader rejects a higher one",
        "lake_id": "random, generated once",
        "divisor": "how many versions make a window",
        "first_strategy": "how version 1 is claimed",
        "ordered_listing": "whether the storage lists keys in order; saves FileTracker one LIST per scan",
        "created_at": "UTC, informational",
        "command": "the command that created the lake, as in a record; absent in lakes of earlier releases",
    },
    "Record 0, and `headgate.json`, its copy.",
)

RECORD = Format(
    "A record",
    Record.to_json,
    {
        "format": f"{RECORD_FORMAT}; a reader rejects a higher one",
        "needs_release": "the first release that reads this format",
        "version": "the version of the commit",
        "txid": "the transaction that committed it",
        "previous": "the digest (`sha256:…`) of the bytes of the record before",
        "kind": "`commit`, `switch` (changes the strategy), `plan`, `cancel`, `expire`, `lost` "
        "(a repair gave the version up)",
        "started_at": "when the transaction began; UTC, informational",
        "committed_at": "UTC, informational and for `Lake.at(timestamp=…)`; decreases from one version to "
        "the next only if a clock was far ahead (design 0023)",
        "command": "the command that made the commit, see below",
        "base": "the version that it began on",
        "attempts": "how many versions were tried, including earlier runs of the same operation",
        "next_strategy": "how the next version is claimed",
        "app": "application `id` and `batch`",
        "lake_properties": "the properties that are `set` and `removed`",
        "tags": "tags `set`, each to a version, and `removed`",
        "tables": "for each changed table, see below",
        "objects": "for each changed view or mount, see below",
        "paths": "for each virtual path, what was added and removed, see below",
        "reads": "the tables whose rows were read, by uuid, each with the files that could contain them, "
        f"as in `removed` of a footprint; `null` beyond {MAX_READ_FILES}. `{{}}`: nothing was read. A "
        "record without it may have read everything ([0019](../design/0019-what-an-append-depends-on.md))",
        "read_objects": "the views and mounts that were read, by uuid, at most "
        f"{MAX_READ_OBJECTS} of them. `[]`: none was read. A record without it may have read some",
        "plan": "a table service that is scheduled, see below",
        "completes": "plans whose work this commits, by the transactions that scheduled them",
        "cancels": "plans that are abandoned, and transactions that must not commit any more",
        "expires": "what is still kept of earlier versions from here on, see below",
        "properties": "the properties that the caller passed, without secrets",
        "hooks": "the names of the hooks that the writer had to run after it, in order",
        "lost": "the last versions that the same operation tried before and lost to other writers, at most "
        "20; left out if there are none",
        "fences": "true: check for the mark of a replica before the next commit "
        "([0020](../design/0020-fences.md))",
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
            "host": "the host name",
            "process": "the process id",
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
            "name": "its name from this version on",
            "action": "`create`, `change`, `drop`, `rename`",
            "uuid": "of the table; it never changes",
            "location": "its directory in the lake",
            "metadata": "its metadata file in the lake",
            "renamed_from": "its name before",
            "snapshot_id": "of the new snapshot, if files changed",
            "operation": "as in the summary of the snapshot",
            "replaces_all": "all rows were replaced",
            "property_names": "the properties that changed",
            "footprint": "what other commits need to detect conflicts with this one, see below",
            "structure": "the parts of the structure that changed: `schema`, `partition-spec`, `sort-order`",
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
            "removed": "the files whose rows are all gone: the first 16 hexadecimal digits of the SHA-256 "
            "of their path below the directory of the table (`data/L0-…`), which is the same in a replica",
            "overwritten": "those of them that an overwrite replaced, not a delete, in the same form",
            "rewritten": "the files with some rows that are in other files now (copy-on-write), in the same "
            "form",
            "compacted": "the files whose rows are all in other files now",
            "deleted": "the files in which rows were deleted by position",
            "updated": "the files in which rows were updated by position",
            "upserted": "of an upsert by key: the `partitions` that it searched, and the `bounds` of its "
            "keys, `[least, greatest]` by field id",
            "positions": "position files that are not in the table, by their path below its directory",
        },
        ending=f"""
With more than {MAX_PARTITIONS} partitions, {MAX_FILES} files or {MAX_POSITION_FILES} position files the list
is `null`, and a reader must assume all of them. Bounds of keys that are longer than 256 characters are left
out. This keeps records small. A reader may report a conflict that is not one, but it never misses one. A
footprint with `removed` and without `rewritten` was written before the two were separate: each of its files
can be either. Likewise, each of its files can be `overwritten` if that is missing.
""",
        more=dict.fromkeys(_MARKS, False),
    ),
    Format(
        "A record: keys of an upsert",
        Upserted.to_json,
        {"partitions": "those that it searched", "bounds": "`[least, greatest]` of its keys, by field id"},
    ),
    Format(
        "A record: a view or mount",
        ObjectCommit.to_json,
        {
            "name": "its name from this version on",
            "action": "`create`, `replace`, `drop`, `rename`",
            "object": "`uuid`, `kind`, and of a `view` its `sql`; of a `csv` mount `directory`, `columns` "
            "(an Iceberg "
            "schema), `header` if false, `delimiter` and `max_cell_lines` if given; "
            "of a `host` mount `directory`, `format` "
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
            "inputs": "files in the form of `removed` of a footprint, or `null` beyond 1,024",
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
            "boundaries": "of those up to it: pairs of a level, and the version from which its boundaries "
            "are kept",
            "versions": "of those up to it: those that tags name",
            "files": "by the uuid of a table: the versions up to `until` whose own files are kept; other "
            "versions are read from the files of the next one above",
        },
        ending="In a checkpoint with `by`, the version whose record contained it.",
    ),
    Format(
        "A checkpoint",
        LakeState.encode,
        {
            "format": f"{CHECKPOINT_FORMAT}; a checkpoint that cannot be read, or has a higher format, is "
            f"ignored",
            "version": "the boundary",
            "digest": "of the record of this version",
            "identity": "the digest of record 0",
            "next_strategy": "how the next version is claimed",
            "properties": "of the lake",
            "tables": "by name: `uuid`, `location`, `metadata`",
            "apps": "by application: its newest `batch`, and the `version` that committed it",
            "cancelled": "the newest 1,000 transactions that must not commit, each with the version that "
            "cancelled it",
            "tags": "by name, the version",
            "plans": "those that are pending, by transaction, each with its `version`",
            "objects": "views and mounts by name",
            "retention": "what is still kept of earlier versions, as in a record",
            "fence": "the newest version whose record has `fences`",
            "set_backs": "versions with an earlier time than the version before, at most 16: `version`, its "
            "time (`at`) and that of the version before (`was`); if several were combined, "
            "`since` is the first one ([0023](../design/0023-the-time-of-a-commit.md))",
            "committed_at": "of the record of this version",
            "checksum": "over all of these",
        },
        more={"checksum": True},
    ),
    Format(
        "A control entry",
        ControlEntry.encode,
        {
            "format": f"{ENTRY_FORMAT}; a reader rejects a higher one",
            "version": "the version of the commit",
            "txid": "the transaction that committed it",
            "record": "the digest of its record",
            "descriptor": "a summary of the record, see below",
            "hooks": "for each hook that had to run, in order, its `name` and the fields below",
            "timings": "seconds by step: `commit`, `waited`, `hooks`",
            "recovered": "true if another process than the writer of the version wrote it",
            "copy": "the text of the record, up to 64 KiB: a lost record is rebuilt from it",
            "failures": "commits with the same handle that failed since its last entry, by kind of error",
            "unknown_outcomes": "likewise, commits whose outcome was unknown when they ended",
        },
        "In `control/txn/`. Written when everything else that follows the commit is done; a missing entry "
        "is\n"
        "backfilled at the next boundary, or by `headgate recover` "
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
            "state": "`pending`, `done`, `failed`, `skipped`",
            "attempts": "over all runs",
            "seconds": "over all runs",
            "error": "of the last run, without secrets and cut at 1,000 characters",
            "undo": "if the hook had to be undone, `state`, `attempts` and `error` of its undo",
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
            "host": "the host name",
            "intents": "for each table, see below",
            "plan": "the plan that is being executed",
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
            "by_position": "rows are marked as deleted, and files stay",
            "upserted": "of an upsert: where it searches for its keys, as in a footprint",
        },
    ),
    Format(
        "The mark of a replica",
        ReplicaMark.encode,
        {
            "format": f"{MARK_FORMAT}",
            "lake_id": "of the lake, and of its replicas",
            "source": "the location it was first copied from, without credentials",
            "since": "UTC",
        },
        "`control/replica.json` ([0013](../design/0013-replicas.md)).",
    ),
)

ENDING = """
## Advice and marks

`control/checkpoint/last.json` is `{"version": N}`, in a replica with `"replica": true`.
`control/txn/recovered.json` is `{"version": N}`. `control/outbox/<version>.json` is `{"hooks": [names]}`:
it exists while an entry has hooks that are not done, so that they are found without reading every entry. It
is written before the entry and removed after it. Only the name of a hook is stored, not how it is run.

`control/compacted.json` is the mark of a compaction ([0026](../design/0026-intents-from-the-log.md)):
`format` (1), `version`, the `digest` of the record of that version, `windows`, and a `checksum` as in a
checkpoint. Each window has its `first` and `last` version and its `level`; `paths`, by the uuid of a table,
below the table; `whole`, the uuids of tables that must be checked as a whole; and whether it applies to
`everything`.
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
