"""The errors of transactions that cannot be committed: which rules refused, and what can be done."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.commit.log import CommitLog
from headgate.core.conflict import Conflict, Incompatible, Retryable, refusal
from headgate.core.pending import PendingConflict
from headgate.core.retry import Effort, RetryPolicy
from headgate.errors import ConflictError, CorruptLakeError, HeadgateError, UnknownOutcomeNote
from headgate.model.identifiers import Version

if TYPE_CHECKING:
    from headgate.iceberg.loader import TableLoader


class ExpiredBaseError(ConflictError):
    """The version that a transaction began on is expired, and it needs something that went with it."""


@dataclass(frozen=True, slots=True)
class ExpiringBase:
    """Gives a transaction its loader, which tells whether what is missing went with the version it began on.

    What it has read so far cannot be trusted to be all, so it ends.
    """

    log: CommitLog
    base: Version
    loader: Callable[[], TableLoader]

    def __call__(self) -> TableLoader:
        return self.loader().explained(self._why_missing)

    def _why_missing(self, key: str) -> HeadgateError:
        kept = self.log.catch_up(self.log.newest, 1).state.retention
        uri = self.loader().uri(key)
        if self.base.number > kept.until:
            return CorruptLakeError(f"{uri} is named by the lake, but is not there")
        return ExpiredBaseError(
            f"the transaction began on version {self.base}, and version {kept.by} has expired all up to "
            f"{kept.until} since then: {uri} is gone",
            "run it again, in a new transaction on the newest version; nothing has changed",
        )


class TransactionConflictError(ConflictError):
    """A `ConflictError` with the rules that refused."""

    def __init__(
        self, problem: str, next_step: str | None = None, conflicts: tuple[Conflict, ...] = ()
    ) -> None:
        super().__init__(problem, next_step)
        self.args = (problem, next_step, conflicts)
        self.conflicts = conflicts

    @property
    def outcome(self) -> Retryable | Incompatible:
        """Whether the same operation can succeed in a new transaction on the new head."""
        return refusal(self.conflicts)


class PendingConflictError(TransactionConflictError):
    """A transaction cannot be committed while others are pending: `pending` says which, and why."""

    def __init__(
        self,
        problem: str,
        next_step: str | None = None,
        conflicts: tuple[Conflict, ...] = (),
        pending: tuple[PendingConflict, ...] = (),
    ) -> None:
        super().__init__(problem, next_step, conflicts)
        self.args = (problem, next_step, conflicts, pending)
        self.pending = pending

    @classmethod
    def of(cls, pending: tuple[PendingConflict, ...]) -> PendingConflictError:
        text = "\n".join(f"{one.reason} [rule {one.rule}: {one.name}]" for one in pending)
        return cls(text, pending[0].next_step, pending=pending)

    @property
    def outcome(self) -> Retryable | Incompatible:
        return Retryable(()) if all(one.rerun_helps for one in self.pending) else Incompatible(())


def gave_up(error: TransactionConflictError, runs: int, effort: Effort) -> TransactionConflictError:
    """The conflict of the last run of an operation, as the caller of the operation is told it."""
    return TransactionConflictError(
        f"gave up after {runs} runs with {effort.attempts} attempts, each contradicted by another writer; "
        f"nothing has changed. The last one:\n{error.problem}",
        "try again when the lake is less busy, or allow more in the retry policy",
        conflicts=error.conflicts,
    )


def out_of_time(tries: str, policy: RetryPolicy, newest: Version) -> ConflictError:
    """The error of a transaction that was never the first."""
    return ConflictError(
        f"gave up after {tries}: other writers were always faster, and the "
        f"{policy.total.total_seconds():g} s that the retry policy allows are over; nothing has changed, and "
        f"the newest version is {newest}",
        "try again when the lake is less busy, or allow more time in the retry policy",
    )


def how_to_settle(txid: str, committed: Version | int | None, place: str) -> str:
    """What to do about a transaction that was interrupted while it was decided, or after that."""
    if committed is not None:
        return (
            f"transaction {txid} was committed as version {committed}; what was left to do, such as hooks, "
            f"is done by headgate recover {place}"
        )
    return UnknownOutcomeNote(
        f"transaction {txid} may have been committed; to settle it: commit() on it again, "
        f"Lake.resolve({txid!r}), or headgate doctor {place} --resolve {txid}"
    )


def conflict_text(conflicts: Sequence[Conflict], was_pending: Container[Version] = ()) -> str:
    """The conflicts in plain words, one line each; `was_pending` are versions that ran when ours began."""
    return "\n".join(
        f"{conflict}{' (it was running when yours began)' if conflict.other.version in was_pending else ''}"
        for conflict in conflicts
    )
