"""Everything that `fsck` can find: a table of kinds, with what they mean and what to do.

Also what reading an object can return: its bytes, nothing, or why it could not be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from headgate.model.fsck import Finding, Severity

RESTORE = "stop writing to this lake, and restore the object from a backup"
RESTORE_LOG = (
    "stop writing to this lake; restore control/log/ from a backup, or run headgate fsck --repair, which "
    "rebuilds what it can"
)
REPAIR_FIRST = (
    "stop writing to this lake, and run headgate fsck --repair; if no version is missing, run headgate "
    "rebuild-control, which rebuilds it from the log"
)
"""For what names a version above the newest: a rebuild would make it fit a log that has lost its end."""
REBUILD = "run headgate rebuild-control, which rebuilds it from the log"
COMPARE = (
    "one of the two was changed: compare the record with a backup; if it is right, run headgate "
    "rebuild-control"
)
"""For a digest that does not match its record: rebuilding would destroy evidence of the original record."""
TWINS = (
    "another transaction was committed as this version after the log had lost its end: stop writing to this "
    "lake, and run headgate fsck --repair; if it changes nothing, run headgate rebuild-control"
)
RECOVER = "run headgate recover"
NOTHING = "you do not have to do anything"
REPLACE = (
    "restore the file from a backup; without a backup, delete or overwrite the rows of its partition, so "
    "that "
    "newer versions no longer need it"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """What all findings of a kind have in common."""

    severity: Severity
    meaning: str
    next_step: str


def _damage(meaning: str, next_step: str) -> Kind:
    return Kind(Severity.DAMAGE, meaning, next_step)


def _note(meaning: str, next_step: str = NOTHING) -> Kind:
    return Kind(Severity.NOTE, meaning, next_step)


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        # --- the log
        "identity-missing": _damage("there is a log, but neither `headgate.json` nor record 0", RESTORE),
        "identity-unreadable": _damage("`headgate.json`, or record 0, cannot be read", RESTORE),
        "identity-differs": _damage(
            "`headgate.json` differs from record 0",
            "copy record 0 over headgate.json, unless record 0 is the one that was changed",
        ),
        "identity-not-copied": _note(
            "an init died before it wrote `headgate.json`; the lake is read from record 0",
            "copy record 0 to headgate.json",
        ),
        "record-missing": _damage("the record of a version is missing", RESTORE_LOG),
        "record-unreadable": _damage("a record cannot be read", RESTORE_LOG),
        "record-changed": _damage("a record does not match the digest in the next record", RESTORE_LOG),
        "record-impossible": _damage(
            "a record contains what no writer would commit: a transaction that is already committed or was "
            "cancelled, a batch that was already loaded, an earlier time",
            "stop writing to this lake; compare the named version with a backup",
        ),
        "record-later-release": _damage(
            "a record was written by a later release, so fsck cannot check what follows from it",
            "upgrade headgate, and run fsck again",
        ),
        "clock-ahead": _note(
            "the time of a commit, or of the lake itself, is weeks ahead of the clock of this machine",
            "correct the clock of the machine that it names, or of this one; the next commit of a writer "
            "with a correct clock sets the time back",
        ),
        "clock-set-back": _note(
            "a commit set the time of the log back, because the clock of an earlier writer was weeks ahead; "
            "versions before it count as committed no later than it",
            "correct the clock of the machine that committed the version before it, if it is still wrong",
        ),
        "log-leftovers": _note(
            "objects in the log belong to no version: their writers died, or are still running",
            "you can delete them when no writer is running",
        ),
        # --- what is derived from it
        "checkpoint-unreadable": _damage("a checkpoint cannot be read", REBUILD),
        "checkpoint-differs": _damage(
            "a checkpoint differs from the state that its records produce", REBUILD
        ),
        "checkpoint-of-another-lake": _damage("a checkpoint belongs to another lake", REBUILD),
        "checkpoint-beyond-head": _damage(
            "a checkpoint is for a version above the newest: the end of the log is lost", RESTORE_LOG
        ),
        "checkpoint-missing": _note(
            "boundaries have no checkpoint, so that reading needs more records", RECOVER
        ),
        "last-checkpoint-wrong": _damage("`last.json` cannot be read, or names no checkpoint", REBUILD),
        "mark-wrong": _damage(
            "the mark of recovery cannot be read, or is above the newest version: it was changed, or the end "
            "of the log is lost",
            REBUILD,
        ),
        "entry-missing": _damage("a recovered version has no control entry", REBUILD),
        "entry-due": _note("versions have no control entry yet; recovery writes them", RECOVER),
        "entry-unreadable": _damage("a control entry cannot be read", REBUILD),
        "entry-differs": _damage("a control entry does not match its record", REBUILD),
        "entry-beyond-head": _damage(
            "a control entry is for a version above the newest: the end of the log is lost", RESTORE_LOG
        ),
        "outbox-orphan": _damage("an object in the outbox belongs to a version without hooks", REBUILD),
        "outbox-missing": _damage("a version has open hooks, but is not in the outbox", REBUILD),
        "outbox-done": _note("an object in the outbox belongs to a version whose hooks are done", RECOVER),
        "control-stray": _note("objects under `control/` do not belong to Headgate", "you can delete them"),
        "announcement-dead": _note(
            "announcements of transactions that have ended, or have not sent a heartbeat for a long time",
            "headgate timeline removes them",
        ),
        "announcement-unreadable": _note("an announcement cannot be read", "you can delete it"),
        # --- the state
        "tag-wrong": _damage("a tag names a version that does not exist", "set the tag again, or untag it"),
        "app-wrong": _damage("the last batch of an application is not in the version that it names", RESTORE),
        "plan-without-table": _damage(
            "a plan is pending for a table that does not exist", "cancel it: headgate timeline LAKE --cancel"
        ),
        "plan-without-inputs": _damage(
            "a plan is pending for files that are not in the table",
            "cancel it: headgate timeline LAKE --cancel",
        ),
        "plan-overtaken": _note(
            "a compaction is planned for files that a later version removed: its completion will be rejected",
            "cancel it: headgate timeline LAKE --cancel; or wait until recover cancels it when it is old "
            "enough",
        ),
        # --- tables
        "metadata-missing": _damage("the metadata file of a table is missing", RESTORE),
        "metadata-unreadable": _damage("the metadata file of a table is not valid Iceberg metadata", RESTORE),
        "metadata-of-another-table": _damage("the metadata file belongs to another table", RESTORE),
        "metadata-of-another-place": _damage(
            "the metadata file names another location: the lake was moved or copied, or the file was changed",
            "open the lake at its original location",
        ),
        "snapshot-differs": _damage(
            "the metadata file does not have the snapshot that the log names", RESTORE
        ),
        "manifest-list-missing": _damage("the manifest list of a snapshot is missing", RESTORE),
        "manifest-list-unreadable": _damage("the manifest list of a snapshot cannot be read", RESTORE),
        "manifest-missing": _damage("a manifest is missing", RESTORE),
        "manifest-unreadable": _damage("a manifest cannot be read", RESTORE),
        "manifest-size": _damage("the size of a manifest differs from the one in its manifest list", RESTORE),
        "manifest-differs": _damage(
            "the content of a manifest differs from its description in the manifest list", RESTORE
        ),
        "summary-differs": _damage("the totals of a snapshot differ from those of its manifests", RESTORE),
        "file-missing": _damage("a data or delete file is missing", REPLACE),
        "file-size": _damage(
            "the size of a data or delete file differs from the one in its manifest", REPLACE
        ),
        "file-twice": _damage("a data file is in the table twice, and so are its rows", RESTORE),
        "file-unreadable": _damage(
            "a data or delete file is not Parquet, or a part of it cannot be decoded", REPLACE
        ),
        "file-rows": _damage(
            "the row count of a data or delete file differs from the one in its manifest", REPLACE
        ),
        "delete-differs": _damage("a delete file refers to data files or rows that do not exist", REPLACE),
        "delete-dangling": _note("a delete file refers to data files that are no longer in the table"),
        "live-rows-differ": _damage(
            "the number of live rows of a table differs from the one in its snapshot", RESTORE
        ),
        "hint-missing": _note("a table was never published for engines that open it by path", RECOVER),
        "hint-old": _note(
            "a table is published at an older version; recover publishes the newest one", RECOVER
        ),
        "hint-unreadable": _damage("`version-hint.text` does not contain a number", REBUILD),
        "hint-beyond-head": _damage("`version-hint.text` names a version above the newest", REPAIR_FIRST),
        "hint-wrong": _damage("`version-hint.text` names a version that did not change the table", REBUILD),
        "published-missing": _damage("the file that `version-hint.text` names is missing", REBUILD),
        "published-beyond": _damage(
            "metadata was published for versions that the table does not have: the end of the log is lost, "
            "or control/ was restored from an older backup; a commit with such a number ends with an error",
            "stop writing to this lake; run headgate fsck --repair, which rebuilds versions if it can; for "
            "the others, restore control/ from a newer backup, or add --accept-loss",
        ),
        "published-differs": _damage(
            "the published metadata differs from that of its version: one of the two was changed",
            "if the published file was changed, run headgate rebuild-control; otherwise restore the other "
            "one "
            "from a backup",
        ),
        "files-unreferenced": _note(
            "no version needs these files, or they are being written",
            "they only use space; headgate vacuum deletes them",
        ),
        # --- the storage
        "object-unreadable": _damage(
            "the storage could not read an object", "fix the cause, and run fsck again"
        ),
    }
)


def finding(kind: str, where: str, problem: str, next_step: str | None = None) -> Finding:
    """A finding of a kind, with the next step of its kind unless another one is given."""
    known = KINDS[kind]
    return Finding(known.severity, kind, where, problem, next_step or known.next_step)


@dataclass(frozen=True, slots=True)
class Trouble:
    """The storage could not read an object, although the object may exist."""

    problem: str


Seen: TypeAlias = bytes | Trouble | None
"""The bytes of an object, why it could not be read, or None if it does not exist."""


def trouble_with(where: str, trouble: Trouble) -> Finding:
    return finding("object-unreadable", where, trouble.problem)
