"""Checks and repairs a lake without opening it, because it may be too damaged to open."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headgate.core.input.arguments import check_callable
from headgate.log.driver import Driver
from headgate.model.fsck import FsckReport, RepairReport
from headgate.spark.store.open import opened_store
from headgate.storage.capabilities import Store
from headgate.storage.location import Options
from headgate.system.host import SYSTEM, Host
from headgate.transaction.builder import make_envelope

if TYPE_CHECKING:
    from headgate.steward.fsck.check import OnProgress


def fsck(
    place: str | os.PathLike[str] | Store,
    *,
    all_versions: bool = False,
    deep: bool = False,
    options: Options | None = None,
    progress: OnProgress | None = None,
    host: Host = SYSTEM,
) -> FsckReport:
    """Checks the lake at `place` for damage, and changes nothing.

    Works on a lake that does not open. Checks the newest version of each table; with `all_versions`, every
    version that the log names. `deep` also checks all versions, and reads every data and delete file
    completely, with bounded memory. `progress` is called with the kind of objects that are being checked, how
    many are done, and how many there are. Raises `NotFoundError` if there is no lake.
    """
    return examine(Driver(opened_store(place, options), host), all_versions, deep, progress)


def repair(
    place: str | os.PathLike[str] | Store,
    *,
    accept_loss: bool = False,
    options: Options | None = None,
    host: Host = SYSTEM,
) -> RepairReport:
    """Rebuilds records that are missing from the log of the lake at `place`. Stop its writers first.

    Rebuilds each record, byte for byte, from the copy in its control entry. A transaction that was committed
    under the number of a lost version is set aside, and reported as `divergent`: its rows are not part of the
    lake. With `accept_loss`, gives up versions at the end of the log that cannot be rebuilt: records that
    change nothing take their numbers, and `vacuum` deletes the files that they wrote. Copies of what is set
    aside stay below `control/aside/`. Idempotent. Handles that had read a version that was set aside must be
    opened again.
    """
    from headgate.steward.fsck.repair import Repair  # loads pyiceberg

    args = ("fsck", "--repair", *(["--accept-loss"] if accept_loss else []))
    command = make_envelope(host, args, None, None).command
    return Repair(Driver(opened_store(place, options), host), command, accept_loss).run()


def examine(driver: Driver, all_versions: bool, deep: bool, progress: OnProgress | None) -> FsckReport:
    """Checks the storage of an open lake, as `fsck` does."""
    from headgate.steward.fsck.check import Extent, check  # loads pyiceberg

    check_callable("progress", progress)
    extent = Extent(all_versions=all_versions or deep, rows=deep)
    return check(driver, extent, progress or (lambda _what, _done, _all: None))
