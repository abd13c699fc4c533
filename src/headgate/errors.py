"""Every error that Headgate raises, grouped by what the person or program that catches it does next.

```
HeadgateError
├── ConflictError            others were in the way      -> run it again on the new head
├── CommitUnknownError       the answer is lost          -> do not retry; resolve() decides
├── NotFoundError            lake, version, …            -> check the name
├── AlreadyExistsError       the name is taken           -> open it, or choose another
├── InvalidInputError        options, values             -> fix the call
│   └── UnreadablePredicateError  not in our subset of SQL -> write it otherwise, or leave it to Spark
├── UnsupportedError         storage or format feature   -> choose another strategy, upgrade
├── StorageError             the environment             -> retry later
│   ├── StorageRefusedError  certainly nothing changed   -> mend the cause (rights, space), retry
│   └── NoAnswerError        it may have been done       -> read back before trusting anything
│       └── NotOfferedError  the service lacks it        -> use another strategy
├── HookFailedError          the action of a hook failed -> mend the cause, run the hook again
├── CorruptLakeError         an invariant is broken      -> stop writing, run headgate fsck
└── InternalError            our bug                     -> report it
```

Each error has a stable `kind`, a `problem`, and a `next_step`, and survives pickling, because errors
cross process boundaries.
"""

from __future__ import annotations

from typing import ClassVar


class HeadgateError(Exception):
    """The root of the tree. Catch it to catch everything that Headgate raises on purpose."""

    kind: ClassVar[str] = "error"
    usual_step: ClassVar[str] = ""

    def __init__(self, problem: str, next_step: str | None = None) -> None:
        super().__init__(problem, next_step)
        self.problem = problem
        self.next_step = self.usual_step if next_step is None else next_step

    def __str__(self) -> str:
        return f"{self.problem}\n  next: {self.next_step}" if self.next_step else self.problem


class ConflictError(HeadgateError):
    """Other writers were in the way, and nothing changed.

    What they committed meanwhile contradicts this commit, or they were faster until its time was over.
    """

    kind = "conflict"
    usual_step = "run it again on the new head"


class CommitUnknownError(HeadgateError):
    """Storage failed at a moment after which nobody can tell yet whether the commit landed.

    What the storage said is in the text, and is the `__cause__`. Do not run the work again before it is
    settled: it would be done twice if the commit did land.
    """

    kind = "commit-unknown"

    def __init__(self, problem: str, next_step: str | None = None, version: int = 0, txid: str = "") -> None:
        super().__init__(problem, next_step)
        self.args = (problem, next_step, version, txid)
        self.version = version
        self.txid = txid


class NotFoundError(HeadgateError):
    """The named thing does not exist."""

    kind = "not-found"
    usual_step = "check the name"


class AlreadyExistsError(HeadgateError):
    """The name is taken. Nothing changed."""

    kind = "already-exists"
    usual_step = "open it, or choose another name"


class InvalidInputError(HeadgateError):
    """The call cannot be carried out as it was made. Nothing changed."""

    kind = "invalid-input"
    usual_step = "fix the call"


class UnreadablePredicateError(InvalidInputError):
    """The text of a predicate is not in the subset of SQL that is read here. Nothing changed.

    Another engine may still read it; it then filters rows, and no file is skipped.
    """

    kind = "unreadable-predicate"
    usual_step = "see docs/predicates.md for what can be written"


class UnsupportedError(HeadgateError):
    """The storage, or this release, lacks what the call needs. Nothing changed."""

    kind = "unsupported"
    usual_step = "choose another strategy, or upgrade headgate"


class StorageError(HeadgateError):
    """Storage did not do its part."""

    kind = "storage"
    usual_step = "check that the storage is reachable, then try again"


class StorageRefusedError(StorageError):
    """Storage refused the request, so it certainly changed nothing: no rights, no space, a bad name."""

    kind = "storage-refused"
    usual_step = "mend the cause, then try again"


class NoAnswerError(StorageError):
    """Storage did not answer. The request may have been carried out, or may still be."""

    kind = "storage-no-answer"


class NotOfferedError(NoAnswerError):
    """The service answered that it does not know such requests, so asking again is useless.

    For whoever must know what became of this one it is still doubt: a client below us that repeats requests
    shows only the last answer, and another server may have carried out an earlier one.
    """

    kind = "storage-not-offered"
    usual_step = "choose a strategy that does not need it: headgate doctor names those that are safe"


class HookFailedError(HeadgateError):
    """The action of a hook did not do its part. The commit that it ran after is not affected."""

    kind = "hook-failed"
    usual_step = "mend the cause, then run it again with headgate hooks retry"


class CorruptLakeError(HeadgateError):
    """Something on storage breaks a rule that Headgate never breaks: it was changed by something else."""

    kind = "corrupt-lake"
    usual_step = "stop writing to this lake; headgate fsck says what is damaged, and what to do about it"


class InternalError(HeadgateError):
    """Headgate broke one of its own rules."""

    kind = "internal"
    usual_step = "please report this with the text above"


class UnknownOutcomeNote(str):
    """A note on a Ctrl-C: whether what it interrupted was committed is not known, and how to find out."""

    __slots__ = ()


def interruption_before(error: BaseException) -> KeyboardInterrupt | None:
    """The Ctrl-C that was being handled when `error` came, as from stopping what it had interrupted."""
    before = error.__context__
    while before is not None and not isinstance(before, KeyboardInterrupt):
        before = before.__context__
    return before
