"""What a lake keeps of its past: versions expire, and files that nobody needs are vacuumed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from headgate.core.expire_policy import DEFAULT_POLICY, ExpirePolicy, parse_age
from headgate.errors import InvalidInputError
from headgate.model.expiry import ExpireReport, VacuumReport
from headgate.model.state import LakeState
from headgate.result import CommitResult
from headgate.steward.replica.mark import refuse_replica

if TYPE_CHECKING:
    from headgate.commit.announcements import Announcements
    from headgate.services.sweep import OnProgress
    from headgate.steward.steward import Steward
    from headgate.transaction import Transaction


DEFAULT_AGE = timedelta(days=1)


class LakeRetention:
    """The part of a lake that is about what stays."""

    _steward: Steward
    _announcements: Announcements

    @abstractmethod
    def _run(
        self, args: Sequence[str], change: Callable[[Transaction], object], base: LakeState | None = None
    ) -> CommitResult: ...

    def expire(
        self,
        policy: ExpirePolicy | Sequence[str] = DEFAULT_POLICY,
        *,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> ExpireReport:
        """Lets go of versions that a policy does not keep, and deletes the files that only they needed.

        A policy has tiers: `["all:1d", "1:30d", "2:forever"]` keeps all versions for a day, boundaries of
        level 1 for 30 days, those of level 2 for ever. Kept too: the newest version, versions with a tag, and
        all that pending plans, running transactions and materialized views still need. A kept version reads
        the same rows as before; an expired one raises `NotFoundError`. Can be repeated, and run by several at
        once; one that dies inside is finished by the next. With `dry_run` nothing is changed.
        """
        from headgate.services.expire import Expiring  # loads pyiceberg

        refuse_replica(self._steward.checkpoints)
        chosen = policy if isinstance(policy, ExpirePolicy) else ExpirePolicy.parse(*_tiers(policy))
        expiring = Expiring(self._steward, self._announcements, self._run)
        return expiring.expire(chosen, progress or (lambda _what, _done, _all: None), dry_run=dry_run)

    def vacuum(
        self,
        *,
        older_than: timedelta | str = DEFAULT_AGE,
        dry_run: bool = False,
        progress: OnProgress | None = None,
    ) -> VacuumReport:
        """Deletes files of transactions that never committed, and what lost attempts and crashes have left.

        Only in the directories of tables, and nothing that a kept version needs. A transaction that has left
        files and is not in the log is cancelled by a record first: if it was only asleep, its commit is
        refused. `older_than` (a time, or a text as `1d`) spares those that are at work. Can be repeated. With
        `dry_run` nothing is changed.
        """
        from headgate.services.vacuum import Vacuum  # loads pyiceberg

        age = parse_age(older_than) if isinstance(older_than, str) else older_than
        if not isinstance(age, timedelta) or age < timedelta(0):
            raise InvalidInputError(f"older_than is a time from 0 on, but got {older_than!r}")
        refuse_replica(self._steward.checkpoints)
        vacuum = Vacuum(self._steward, self._announcements, self._run)
        return vacuum.vacuum(age, progress or (lambda _what, _done, _all: None), dry_run=dry_run)


def _tiers(given: Sequence[str]) -> Sequence[str]:
    if isinstance(given, str):
        raise InvalidInputError(f"a policy is several tiers, not {given!r}", f"write [{given!r}]")
    if not isinstance(given, Sequence):
        raise InvalidInputError(
            f"a policy is several tiers, not a {type(given).__name__}", "such as ['all:1d', '1:30d']"
        )
    return given
