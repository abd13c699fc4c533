"""Every error that Headgate raises, grouped by what you do when you catch it.

```
HeadgateError
├── ConflictError            conflicting commits         -> retry on the new head
├── CommitUnknownError       the outcome is unknown      -> do not retry; call resolve()
├── NotFoundError            lake, version, …            -> check the name
├── AlreadyExistsError       the name is taken           -> open it, or choose another
├── InvalidInputError        options, values             -> fix the call
│   └── UnreadablePredicateError  not in our subset of SQL -> rewrite it, or leave it to Spark
├── UnsupportedError         storage or format feature   -> choose another strategy, upgrade
├── StorageError             the environment             -> retry later
│   ├── StorageRefusedError  nothing changed             -> fix the cause (permissions, space), retry
│   └── NoAnswerError        it may have been done       -> read the state before you retry
│       └── NotOfferedError  the service lacks it        -> use another strategy
├── HookFailedError          the action of a hook failed -> fix the cause, run the hook again
├── CorruptLakeError         an invariant is broken      -> stop writing, run headgate fsck
└── InternalError            our bug                     -> report it
```

Each error has a stable `kind`, a `problem`, and a `next_step`. Errors can be pickled, because they cross
process boundaries.
"""

from __future__ import annotations

import copy
from typing import ClassVar, Self


def shown(value: object, most: int = 80) -> str:
    """A value as an error shows it: short, even if the value is too deep or too large to print."""
    try:
        return repr(value)[:most]
    except Exception:  # noqa: BLE001 — of another type, too deep, or with an integer of thousands of digits
        return f"a {type(value).__name__} that cannot be printed"


class HeadgateError(Exception):
    """The base class of all errors that Headgate raises on purpose."""

    kind: ClassVar[str] = "error"
    usual_step: ClassVar[str] = ""

    def __init__(self, problem: str, next_step: str | None = None) -> None:
        super().__init__(problem, next_step)
        self.problem = problem
        self.next_step = self.usual_step if next_step is None else next_step

    def after(self, done: str) -> Self:
        """A copy of this error whose text also says what was done before it."""
        told = copy.copy(self)
        told.problem = f"{self.problem}; {done}"
        told.args = (told.problem, *self.args[1:])
        return told

    def __str__(self) -> str:
        return f"{self.problem}\n  next: {self.next_step}" if self.next_step else self.problem


class ConflictError(HeadgateError):
    """Other writers committed first, and nothing changed.

    Either their commits conflict with this one, or this commit lost every race until its retry budget was
    used up.
    """

    kind = "conflict"
    usual_step = "retry it on the new head"


class CommitUnknownError(HeadgateError):
    """The storage failed at a point after which it is unknown whether the commit succeeded.

    The text contains the error of the storage, which is also the `__cause__`. Do not run the work again
    before you have resolved the outcome: if the commit succeeded, the work would be done twice.
    """

    kind = "commit-unknown"

    def __init__(self, problem: str, next_step: str | None = None, version: int = 0, txid: str = "") -> None:
        super().__init__(problem, next_step)
        self.args = (problem, next_step, version, txid)
        self.version = version
        self.txid = txid


class NotFoundError(HeadgateError):
    """The named object does not exist."""

    kind = "not-found"
    usual_step = "check the name"


class AlreadyExistsError(HeadgateError):
    """The name is taken. Nothing changed."""

    kind = "already-exists"
    usual_step = "open it, or choose another name"


class InvalidInputError(HeadgateError):
    """The arguments of the call are invalid. Nothing changed."""

    kind = "invalid-input"
    usual_step = "fix the call"


class UnreadablePredicateError(InvalidInputError):
    """The predicate is not in the subset of SQL that Headgate can parse. Nothing changed.

    Another engine may still understand it. That engine then filters the rows, and no file is skipped.
    """

    kind = "unreadable-predicate"
    usual_step = "see docs/predicates.md for the supported syntax"


class UnsupportedError(HeadgateError):
    """The storage, or this release, lacks a feature that the call needs. Nothing changed."""

    kind = "unsupported"
    usual_step = "choose another strategy, or upgrade headgate"


class StorageError(HeadgateError):
    """The storage failed."""

    kind = "storage"
    usual_step = "check that the storage is reachable, then try again"


class StorageRefusedError(StorageError):
    """The storage rejected the request, so nothing changed: no permission, no space, a bad name."""

    kind = "storage-refused"
    usual_step = "fix the cause, then try again"


class NoAnswerError(StorageError):
    """The storage did not answer. The request may have been carried out, or may still be."""

    kind = "storage-no-answer"


class NotOfferedError(NoAnswerError):
    """The service answered that it does not support such requests, so retrying is useless.

    The outcome of this request is still unknown: the storage client may repeat requests and show only the
    last answer, and another server may have carried out an earlier one.
    """

    kind = "storage-not-offered"
    usual_step = "choose a strategy that does not need it: headgate doctor lists the safe ones"


class HookFailedError(HeadgateError):
    """The action of a hook failed. The commit that triggered it is not affected."""

    kind = "hook-failed"
    usual_step = "fix the cause, then run it again with headgate hooks retry"


class CorruptLakeError(HeadgateError):
    """An object on storage breaks a rule that Headgate always keeps: something else changed it."""

    kind = "corrupt-lake"
    usual_step = (
        "stop writing to this lake; headgate fsck --deep reports what is damaged, and what to do about it"
    )


class InternalError(HeadgateError):
    """Headgate broke one of its own rules."""

    kind = "internal"
    usual_step = "please report this with the text above"


class UnknownOutcomeNote(str):
    """A note on a Ctrl-C: it is unknown whether the interrupted commit succeeded, and how to find out."""

    __slots__ = ()


def interruption_before(error: BaseException) -> KeyboardInterrupt | None:
    """The Ctrl-C that was being handled when `error` was raised, if there was one."""
    before = error.__context__
    while before is not None and not isinstance(before, KeyboardInterrupt):
        before = before.__context__
    return before
