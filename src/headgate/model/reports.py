"""Results of operations, as values for callers: compaction and its progress, clustering, expire and vacuum,
changes of rows, and recovery.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompactionProgress:
    """The progress of the plan that is being carried out: files and bytes read so far, and in total."""

    table: str
    path: str
    files_done: int
    files: int
    bytes_done: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What a compaction did, up to the version that the lake had when it ended.

    Plans are named by their transactions: `planned` by this call, `taken_over` from processes that died, and
    `completed` and `cancelled` of both; `reasons` says why each of the cancelled ones was given up. `groups`
    of files were merged: `files_in` with `bytes_in` became `files_out`, which contain `rows`; `rows_dropped`
    had been deleted before. `versions` are those that this call committed.
    """

    until: int = 0
    tables: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    taken_over: tuple[str, ...] = ()
    completed: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    groups: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    rows: int = 0
    rows_dropped: int = 0
    versions: tuple[int, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether it did anything."""
        return bool(self.versions)


@dataclass(frozen=True, slots=True)
class ClusteringReport:
    """What a clustering of one table did.

    `groups` of files, each of one path and one window of versions, were sorted: `files_in` with `bytes_in`
    became `files_out`, which contain `rows`; `rows_dropped` had been deleted before. `plans` are the
    transactions that scheduled it, `versions` all that it committed. It left alone `files_recent`, whose
    window is complete when the lake reaches version `complete_at`; `files_pending`, which another table
    service is going to rewrite; and `files_clustered`, which are clustered that way already.
    """

    table: str
    by: tuple[str, ...]
    zorder: bool
    groups: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    rows: int = 0
    rows_dropped: int = 0
    plans: tuple[str, ...] = ()
    versions: tuple[int, ...] = ()
    files_recent: int = 0
    complete_at: int = 0
    files_pending: int = 0
    files_clustered: int = 0

    @property
    def changed(self) -> bool:
        """Whether it did anything."""
        return bool(self.versions)


@dataclass(frozen=True, slots=True)
class ExpireReport:
    """What an expire did, or with `dry_run` would do.

    `version` is the one whose record says what is kept; None if there was nothing to expire, or in a dry run.
    All versions above `until` are kept, and of those up to it `kept`. `expired` is how many versions can no
    longer be read. `data_files` and `objects` were deleted: data and delete files, and everything together,
    with `bytes` as far as known; including what an expire that died had left. `held_back` says why more was
    not expired. `left_alone` are names in expired manifests that cannot be files of their table: something
    other than Headgate wrote them, and nothing was deleted by these names.
    """

    policy: str
    version: int | None
    until: int
    expired: int
    kept: tuple[int, ...]
    data_files: int
    objects: int
    bytes: int
    held_back: tuple[str, ...] = ()
    left_alone: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """What a vacuum did, or with `dry_run` would do.

    `cancelled` are transactions that had left files and not committed: now they never can; `versions` are
    those whose records say so. `objects` were deleted, with `bytes` as far as known. `spared` are
    unreferenced objects that are too young, or belong to running transactions.
    """

    cancelled: tuple[str, ...]
    versions: tuple[int, ...]
    objects: int
    bytes: int
    spared: int
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows that were deleted, updated and inserted. False if there were none."""

    deleted: int = 0
    updated: int = 0
    inserted: int = 0

    def __add__(self, other: RowCounts) -> RowCounts:
        return RowCounts(
            self.deleted + other.deleted, self.updated + other.updated, self.inserted + other.inserted
        )

    def __bool__(self) -> bool:
        return bool(self.deleted or self.updated or self.inserted)


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What `Lake.recover` did, up to version `until`.

    `looked_from` is the version up to which nothing was missing when it began. `entries` are the versions
    whose control entries were backfilled. `cancelled_plans` were given up, because no process was carrying
    them out; that took a version of its own, `cancelled_by`. `not_published` are tables whose metadata cannot
    be read, with the reason: `fsck` reports more. `hooks_done` and `hooks_open` name the version and the
    hook: open ones have failed again, wait for others, or are not registered here.
    """

    looked_from: int
    until: int
    entries: tuple[int, ...] = ()
    published: tuple[str, ...] = ()
    not_published: tuple[str, ...] = ()
    checkpoints: tuple[int, ...] = ()
    cancelled_plans: tuple[str, ...] = ()
    cancelled_by: int | None = None
    hooks_done: tuple[str, ...] = ()
    hooks_open: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return bool(
            self.entries or self.published or self.checkpoints or self.cancelled_plans or self.hooks_done
        )


@dataclass(frozen=True, slots=True)
class RecoveryNeed:
    """What recovery would find to do, up to version `until`; true if there is anything.

    `entries` are versions without a control entry: their writers died, or are still working. `checkpoints`
    are boundaries without one. `hooks` are versions with hooks, or undo steps, that still have to run:
    recovery runs them where they are registered. `plans` are transactions whose plans are abandoned.

    `failed_hooks` are versions with hooks that failed, or wait for one that did. They are no reason for a
    recovery, which does not retry them: `run_hooks(retry=True)` does, and `skip_hooks` gives them up.
    """

    until: int
    entries: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    hooks: tuple[int, ...] = ()
    plans: tuple[str, ...] = ()
    failed_hooks: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.reasons)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why recovery is needed, in words."""
        found = {
            "versions without a control entry, whose writers died or are still working": self.entries,
            "boundaries without a checkpoint": self.checkpoints,
            "versions with hooks to run": self.hooks,
            "abandoned plans": self.plans,
        }
        return tuple(f"{what}: {', '.join(map(str, which))}" for what, which in found.items() if which)
