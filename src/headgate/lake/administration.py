"""The maintenance of a lake: what its methods check and put together before the services begin."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from headgate.core.history.metrics import activity, lake_metrics
from headgate.core.input.arguments import check_callable, whole_number
from headgate.core.retention.expire_policy import ExpirePolicy, parse_age
from headgate.core.sql.query import Travel
from headgate.errors import ConflictError, InvalidInputError, shown
from headgate.log.driver import Driver
from headgate.model.identifiers import TxId, Version
from headgate.model.metrics import LakeMetrics
from headgate.model.replica import ReplicaReport
from headgate.model.reports import ExpireReport, RecoveryNeed, RecoveryReport, VacuumReport
from headgate.spark.store.open import opened_store
from headgate.steward.recovery import Recovery
from headgate.steward.replica.mark import refuse_replica
from headgate.storage.capabilities import Store
from headgate.storage.location import Options
from headgate.transaction.handle import LakeHandle
from headgate.transaction.result import CommitResult
from headgate.transaction.transaction import Transaction

if TYPE_CHECKING:
    from headgate.maintenance.expired_files import OnProgress

DEFAULT_AGE = timedelta(days=1)
"""The minimum age of the files that vacuum deletes, unless the caller passes another one."""
DEAD_AFTER = timedelta(minutes=10)
"""The minimum age of an abandoned plan before recovery cancels it."""


def recover(lake: LakeHandle, patience: timedelta) -> RecoveryReport:
    """See `Lake.recover`."""
    if not isinstance(patience, timedelta):
        raise InvalidInputError(f"patience must be a timedelta, not a {type(patience).__name__}")
    dead, cancelled = _cancel_dead_plans(lake, patience)
    report = Recovery(lake.idle_steward()).run()
    if cancelled is None:
        return report
    return replace(report, cancelled_plans=tuple(txid.text for txid in dead), cancelled_by=cancelled.version)


def recovery_needed(lake: LakeHandle, patience: timedelta) -> RecoveryNeed:
    """See `Lake.recovery_needed`."""
    _, dead = lake.dead_plans(patience)
    return replace(Recovery(lake.idle_steward()).needed(), plans=tuple(txid.text for txid in dead))


def measure(lake: LakeHandle, versions: int | None) -> LakeMetrics:
    """See `Lake.measure`."""
    if versions is not None and whole_number("versions", versions) < 0:
        raise InvalidInputError(f"versions must not be negative, but is {versions}")
    newest = lake.refresh()
    view = lake.lake_at(newest, Travel(version=newest.version.number))
    first = 1 if versions is None else max(1, view.version - versions + 1)
    wanted = [Version(number) for number in range(first, view.version + 1)]
    return lake_metrics(
        view.version,
        activity(lake.idle_steward().entries.read_all(wanted)),
        {name: view.table(name).size for name in view.tables()},
        lake.driver.sizes(""),
    )


def replicate(
    lake: LakeHandle,
    target: str | os.PathLike[str] | Store,
    options: Options | None,
    *,
    adopt: bool,
    progress: Callable[[int, int], None] | None,
) -> ReplicaReport:
    """See `Lake.replicate`."""
    from headgate.steward.replica.replication import Replicator  # loads pyiceberg

    check_callable("progress", progress)
    driver = Driver(opened_store(target, options), lake.driver.host)
    fence = partial(lake.run, ("replicate", "--adopt"), lambda tx: tx.fence()) if adopt else None
    return Replicator(lake.idle_steward(), driver).run(progress or (lambda _done, _all: None), fence)


def expire(
    lake: LakeHandle, policy: ExpirePolicy | Sequence[str], *, dry_run: bool, progress: OnProgress | None
) -> ExpireReport:
    """See `Lake.expire`."""
    from headgate.maintenance.expire import Expiring  # loads pyiceberg

    check_callable("progress", progress)
    steward = lake.idle_steward()
    refuse_replica(steward.checkpoints, steward.checkpoints.refresh())
    chosen = policy if isinstance(policy, ExpirePolicy) else ExpirePolicy.parse(*_tiers(policy))
    expiring = Expiring(steward, lake.announcements, lake.run)
    return expiring.expire(chosen, progress or (lambda _what, _done, _all: None), dry_run=dry_run)


def vacuum(
    lake: LakeHandle, older_than: timedelta | str, *, dry_run: bool, progress: OnProgress | None
) -> VacuumReport:
    """See `Lake.vacuum`."""
    from headgate.maintenance.vacuum import Vacuum  # loads pyiceberg

    check_callable("progress", progress)
    age = parse_age(older_than) if isinstance(older_than, str) else older_than
    if not isinstance(age, timedelta) or age < timedelta(0):
        raise InvalidInputError(f"older_than must be a non-negative duration, not {shown(older_than)}")
    steward = lake.idle_steward()
    refuse_replica(steward.checkpoints, steward.checkpoints.refresh())
    work = Vacuum(steward, lake.announcements, lake.run)
    return work.vacuum(age, progress or (lambda _what, _done, _all: None), dry_run=dry_run)


def _tiers(given: Sequence[str]) -> Sequence[str]:
    if isinstance(given, str):
        raise InvalidInputError(
            f"a policy must be a list of tiers, not the string {given!r}", f"write [{given!r}]"
        )
    if not isinstance(given, Sequence):
        raise InvalidInputError(
            f"a policy must be a list of tiers, not a {type(given).__name__}",
            "write it as ['all:1d', '1:30d']",
        )
    return given


def _cancel_dead_plans(lake: LakeHandle, patience: timedelta) -> tuple[tuple[TxId, ...], CommitResult | None]:
    """Cancels abandoned plans. If another process ends one of them meanwhile, recovery continues."""
    for _ in range(lake.retry.attempts):
        seen, dead = lake.dead_plans(patience)
        if not dead:
            break
        try:
            # Based on the state that was read, so that a plan that has ended since then is a conflict.
            return dead, lake.run(("recover",), partial(_cancel_all, plans=dead), seen)
        except ConflictError:
            continue  # another process completed or cancelled one of them: read the plans again
    return (), None


def _cancel_all(tx: Transaction, plans: Sequence[TxId]) -> None:
    for txid in plans:
        tx.cancel(txid)
