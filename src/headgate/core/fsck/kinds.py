"""Everything that `fsck` can find: a table from kinds to what they mean and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from headgate.model.fsck import Finding, Severity

RESTORE = "stop writing to this lake, and bring the object back from a backup"
RESTORE_LOG = "stop writing to this lake, and bring control/log/ back from a backup"
REBUILD = "run headgate rebuild-control: it is made anew from the log"
COMPARE = (
    "one of the two was changed: compare the record with a backup; if it is right, run headgate "
    "rebuild-control"
)
"""Where the digest of a record is not what was noted of it: rebuilding would forget what the record was."""
RECOVER = "run headgate recover"
NOTHING = "nothing has to be done"
REPLACE = (
    "bring the file back from a backup; without one, delete or overwrite the rows of its partition, and "
    "what is lost is in no newer version"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """What findings of a kind have in common."""

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
            "`headgate.json` is not what was decided as version 0",
            "copy record 0 over headgate.json, unless record 0 is the one that was changed",
        ),
        "identity-not-copied": _note(
            "an init died before it made `headgate.json`; the lake is read from record 0",
            "copy record 0 to headgate.json",
        ),
        "record-missing": _damage("the record of a version is gone", RESTORE_LOG),
        "record-unreadable": _damage("a record cannot be read", RESTORE_LOG),
        "record-changed": _damage("a record is not the one that the next version follows", RESTORE_LOG),
        "record-impossible": _damage(
            "a record says what no writer would have committed: a transaction twice, one that was cancelled, "
            "a batch again, an earlier time",
            "stop writing to this lake; compare the named version with a backup",
        ),
        "record-later-release": _damage(
            "a record was written by a later release: what follows from it cannot be checked",
            "upgrade headgate, and run fsck again",
        ),
        "log-leftovers": _note(
            "objects in the log that belong to no version: writers died, or are at work",
            "may be deleted when no writer is running",
        ),
        # --- what is derived from it
        "checkpoint-unreadable": _damage("a checkpoint cannot be read", REBUILD),
        "checkpoint-differs": _damage("a checkpoint is not the state that its records make", REBUILD),
        "checkpoint-of-another-lake": _damage("a checkpoint was made in another lake", REBUILD),
        "checkpoint-beyond-head": _damage(
            "a checkpoint is of a version above the newest: the end of the log is lost", RESTORE_LOG
        ),
        "checkpoint-missing": _note("boundaries without a checkpoint: reading costs more records", RECOVER),
        "last-checkpoint-wrong": _damage("`last.json` cannot be read, or names no checkpoint", REBUILD),
        "mark-wrong": _damage(
            "the mark of recovery cannot be read, or is above the newest version: it was changed, or the end "
            "of the log is lost",
            REBUILD,
        ),
        "entry-missing": _damage("no control entry of a version that was recovered", REBUILD),
        "entry-due": _note("versions without a control entry: recovery makes them", RECOVER),
        "entry-unreadable": _damage("a control entry cannot be read", REBUILD),
        "entry-differs": _damage("a control entry is not that of its record", REBUILD),
        "entry-beyond-head": _damage(
            "a control entry is of a version above the newest: the end of the log is lost", RESTORE_LOG
        ),
        "outbox-orphan": _damage("an object in the outbox is of a version without hooks", REBUILD),
        "outbox-missing": _damage("hooks of a version are open, and the outbox does not tell so", REBUILD),
        "outbox-done": _note("an object in the outbox is of a version whose hooks are done", RECOVER),
        "control-stray": _note("objects under `control/` that nobody wrote", "they may be deleted"),
        "announcement-dead": _note(
            "announcements of transactions that are over, or have not been heard of for long",
            "headgate timeline removes them",
        ),
        "announcement-unreadable": _note("an announcement cannot be read", "it may be deleted"),
        # --- the state
        "tag-wrong": _damage("a tag names a version that is not there", "set the tag again, or untag it"),
        "app-wrong": _damage("the last batch of an application is not in the version that it names", RESTORE),
        "plan-without-table": _damage(
            "a plan is pending for a table that is not there", "cancel it: headgate timeline LAKE --cancel"
        ),
        "plan-without-inputs": _damage(
            "a plan is pending for files that are not in the table",
            "cancel it: headgate timeline LAKE --cancel",
        ),
        "plan-overtaken": _note(
            "a compaction is planned for files that a later version removed: its completion will be refused",
            "cancel it: headgate timeline LAKE --cancel; or recover does, when it is old enough",
        ),
        # --- tables
        "metadata-missing": _damage("the metadata file of a table is gone", RESTORE),
        "metadata-unreadable": _damage("the metadata file of a table is not Iceberg's", RESTORE),
        "metadata-of-another-table": _damage("the metadata file is that of another table", RESTORE),
        "metadata-of-another-place": _damage(
            "the metadata file tells another location: the lake was moved or copied, or the file changed",
            "open the lake at the place where it was made",
        ),
        "snapshot-differs": _damage("the metadata file has not the snapshot that the log names", RESTORE),
        "manifest-list-missing": _damage("the manifest list of a snapshot is gone", RESTORE),
        "manifest-list-unreadable": _damage("the manifest list of a snapshot cannot be read", RESTORE),
        "manifest-missing": _damage("a manifest is gone", RESTORE),
        "manifest-unreadable": _damage("a manifest cannot be read", RESTORE),
        "manifest-size": _damage("a manifest has not the size that its list says", RESTORE),
        "manifest-differs": _damage("a manifest does not list what its list says", RESTORE),
        "summary-differs": _damage("the totals of a snapshot are not those of its manifests", RESTORE),
        "file-missing": _damage("a data or delete file is gone", REPLACE),
        "file-size": _damage("a data or delete file has not the size that its manifest says", REPLACE),
        "file-twice": _damage("a data file is in the table twice: so are its rows", RESTORE),
        "file-unreadable": _damage("a data or delete file is not Parquet", REPLACE),
        "file-rows": _damage("a data or delete file has not the rows that its manifest says", REPLACE),
        "delete-differs": _damage(
            "a delete file tells of other data files, or of other rows, than there are", REPLACE
        ),
        "delete-dangling": _note("a delete file tells of data files that are gone from the table"),
        "live-rows-differ": _damage("a table has not as many live rows as its snapshot says", RESTORE),
        "hint-missing": _note("a table was never announced to engines that open it by path", RECOVER),
        "hint-old": _note("a table is announced at an older version: recover would publish", RECOVER),
        "hint-unreadable": _damage("`version-hint.text` is not a number", REBUILD),
        "hint-beyond-head": _damage("`version-hint.text` names a version above the newest", REBUILD),
        "hint-wrong": _damage("`version-hint.text` names a version that did not change the table", REBUILD),
        "published-missing": _damage("the file that `version-hint.text` names is gone", REBUILD),
        "published-differs": _damage(
            "the published metadata is not that of its version: one of the two was changed",
            "if the published one was changed, run headgate rebuild-control; else bring the other back from "
            "a backup",
        ),
        "files-unreferenced": _note(
            "files that no version needs, or that are being written",
            "they only take space: headgate vacuum deletes them",
        ),
        # --- the storage
        "object-unreadable": _damage(
            "the storage did not give an object", "mend the cause, and run it again"
        ),
    }
)


def finding(kind: str, where: str, problem: str, next_step: str | None = None) -> Finding:
    """A finding of a kind, with the usual next step unless another one is given."""
    known = KINDS[kind]
    return Finding(known.severity, kind, where, problem, next_step or known.next_step)
