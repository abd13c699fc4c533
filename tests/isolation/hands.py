"""Handles that do the steps of a history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import headgate as hg
from headgate.transaction.conflicts import TransactionConflictError
from headgate.transaction.transaction import Transaction
from tests.isolation.lake_model import OwnStep, Step

APP = "job"


class Outcome(Enum):
    DONE = "done"
    ABSENT = "there is no such table"
    WRONG = "wrong input"
    CONFLICT = "conflict"
    NOTHING = "nothing to commit"
    EARLIER = "a batch that was committed before"


class Hand(Protocol):
    """A handle, and its open transaction, if it has one."""

    def works(self, step: Step, batch: int | None) -> Outcome:
        """Does something in the transaction, which is begun if there is none: a batch, if it has a number."""

    def works_alone(self, step: OwnStep) -> Outcome:
        """Does something in a transaction of its own."""

    def commits(self) -> Outcome: ...

    def gives_up(self) -> None:
        """Aborts the transaction."""


@dataclass
class HandHere:
    """A handle in this process."""

    lake: hg.Lake
    tx: Transaction | None = None
    batch: int | None = None

    def works(self, step: Step, batch: int | None) -> Outcome:
        if self.tx is None:
            self.tx = self.lake.transaction(app=None if batch is None else (APP, batch))
            self.batch = batch
        tx = self.tx
        return _outcome(lambda: step.on_lake(tx))

    def works_alone(self, step: OwnStep) -> Outcome:
        return _outcome(lambda: step.on_handle(self.lake))

    def commits(self) -> Outcome:
        assert self.tx is not None
        tx, self.tx = self.tx, None
        try:
            result = tx.commit()
        except TransactionConflictError:
            return Outcome.CONFLICT
        except hg.InvalidInputError as error:
            if "nothing to commit" not in error.problem:
                raise
            return Outcome.NOTHING
        if result.already_committed:
            return Outcome.EARLIER
        return Outcome.DONE if result.changed or self.batch is not None else Outcome.NOTHING

    def gives_up(self) -> None:
        assert self.tx is not None
        self.tx.abort()
        self.tx = None


def _outcome(call: Callable[[], object]) -> Outcome:
    try:
        call()
    except hg.NotFoundError:
        return Outcome.ABSENT
    except hg.InvalidInputError:
        return Outcome.WRONG
    return Outcome.DONE
