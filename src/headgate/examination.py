"""A lake looked at without being opened: for one that is perhaps too damaged to be."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headgate.commit.driver import Driver
from headgate.host import SYSTEM, Host
from headgate.model.fsck import FsckReport
from headgate.opening import check_callable, opened_store
from headgate.storage.capabilities import Store
from headgate.storage.location import Options

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
    """Looks for damage in the lake at `place`, and changes nothing. `NotFoundError` if there is no lake.

    Needs no lake that opens. Of tables the newest version is looked at, with `all_versions` every one that
    the log names; `deep` looks into data files too, and at all versions. `progress` is told what is being
    looked at, how much is done, and of how much.
    """
    return examined(Driver(opened_store(place, options), host), all_versions, deep, progress)


def examined(driver: Driver, all_versions: bool, deep: bool, progress: OnProgress | None) -> FsckReport:
    """The same, for the storage of a lake that is open."""
    from headgate.steward.fsck.check import Extent, check  # loads pyiceberg

    check_callable("progress", progress)
    extent = Extent(all_versions=all_versions or deep, rows=deep)
    return check(driver, extent, progress or (lambda _what, _done, _all: None))
