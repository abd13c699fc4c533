"""The target of a replication: opened if it is a replica of this lake, created if it is empty, else rejected.

Nothing is written to a rejected target.

The digests that chain the records show whether two logs are equal up to the end of the shorter one.
"""

from __future__ import annotations

from collections.abc import Callable

from headgate.core.history.fold import empty_state
from headgate.core.plans.strategy import choose, require_for_init
from headgate.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from headgate.iceberg.format.loader import TableLoader
from headgate.log.checkpoints import Checkpoints
from headgate.log.driver import Driver
from headgate.log.genesis import copy_identity, decide_identity_bytes, read_identity, refuse_existing
from headgate.log.layout import REPLICA
from headgate.log.log import CommitLog
from headgate.log.probe import probe
from headgate.log.strategy import known_strategy, strategy_named
from headgate.model.identifiers import GENESIS, Version
from headgate.model.probe import ProbeReport, Promise
from headgate.model.record import Record
from headgate.model.replica import ReplicaMark
from headgate.model.state import LakeState
from headgate.steward.follow_up import Steward
from headgate.steward.hooks.runner import HookRunner
from headgate.steward.replica.mark import read_mark, write_mark
from headgate.storage.location import overlap

Fence = Callable[[], object]
"""Commits a fence to the source: see `Record.fences`."""


def open_steward(driver: Driver) -> Steward:
    """The steward of the lake at a location, without hooks. Raises `NotFoundError` if there is no lake."""
    identity, data = read_identity(driver)
    genesis = empty_state(identity, data)
    log = CommitLog(driver, identity, genesis)
    checkpoints = Checkpoints(log, genesis)
    checkpoints.open()
    loader = TableLoader(driver)
    return Steward(log, checkpoints, lambda: loader, HookRunner(driver.host))


def require_mark(source: Steward, driver: Driver) -> None:
    """Raises `AlreadyExistsError` unless the lake at a location is marked as a replica of `source`."""
    mark = read_mark(driver)
    if mark is not None and mark.lake_id == source.log.identity.lake_id:
        return
    raise AlreadyExistsError(
        f"{driver.store.describe()} contains the same lake (id {source.log.identity.lake_id}), but is not "
        f"marked as its replica ({REPLICA}): it is the source itself, a copy made by other means, or a "
        "promoted replica; nothing was changed",
        "choose another location; or, if it was a replica and nothing was committed there since, adopt it: "
        "Lake.replicate(target, adopt=True) or headgate replicate LAKE TARGET --adopt",
    )


def open_target(source: Steward, driver: Driver, fence: Fence | None) -> Steward | None:
    """The replica at a location; None if there is no lake.

    Raises `AlreadyExistsError` if there is another lake, or this one without the mark of a replica. With
    `fence`, adopts a lake without a mark, if its log is that of the source and its tables are at its
    location.
    """
    _refuse_overlap(source, driver)
    try:
        target = open_steward(driver)
    except NotFoundError:
        return None
    found, ours = target.log.identity.lake_id, source.log.identity.lake_id
    if found != ours:
        raise AlreadyExistsError(
            f"{driver.store.describe()} contains another lake (id {found}, not {ours}); nothing was changed",
            "choose another location",
        )
    if fence is None:
        require_mark(source, driver)
    else:
        _adopt(source, target, fence)
    return target


def make_target(source: Steward, driver: Driver) -> Steward:
    """Creates an empty replica at a location without a lake.

    Writes the mark first, so that a replica always has it. If the process dies in between, there is no lake
    or a complete one; a later call continues.
    """
    mark = read_mark(driver)
    identity = source.log.identity
    if mark is not None and mark.lake_id != identity.lake_id:
        raise AlreadyExistsError(
            f"a replica of another lake (id {mark.lake_id}) is being created at {driver.store.describe()}; "
            "nothing was changed",
            f"choose another location; or delete {REPLICA} there, if you no longer want that replica",
        )
    refuse_existing(driver)
    _require_usable(probe(driver.store, driver.host), source, driver)
    _, data = read_identity(source.log.driver)
    write_mark(driver, mark or _mark(source))
    decide_identity_bytes(driver, data, ordered_listing=identity.ordered_listing)
    return open_steward(driver)


def finish_target(target: Steward) -> None:
    """Finishes the creation of a replica whose creator may have died. Idempotent."""
    driver = target.log.driver
    copy_identity(driver, read_identity(driver)[1])
    if not target.checkpoints.replica:
        target.checkpoints.note_replica(True)


def require_strategy(source: Steward, driver: Driver) -> None:
    """Raises `UnsupportedError` if a promoted replica at this location could not accept commits."""
    name = source.log.newest.next_strategy
    try:
        strategy_named(name, driver, ordered_listing=source.log.identity.ordered_listing)
    except UnsupportedError as error:
        raise _unusable(error, source) from error


def _require_usable(report: ProbeReport, source: Steward, driver: Driver) -> None:
    place = driver.store.describe()
    require_for_init(report, place)
    try:
        choose(report, known_strategy(source.log.newest.next_strategy), place)
    except UnsupportedError as error:
        raise _unusable(error, source) from error
    if source.log.identity.ordered_listing and not report.holds(Promise.ORDERED_LISTING):
        raise UnsupportedError(
            f"{place} does not list in key order, and the lake was created to rely on that",
            "choose another storage for the replica",
        )


def _unusable(error: UnsupportedError, source: Steward) -> UnsupportedError:
    return UnsupportedError(
        error.problem,
        "choose another storage for the replica; or switch the source to a strategy that is safe there, "
        "such as "
        f"filetracker: headgate doctor {source.log.driver.store.describe()} --switch-to filetracker",
    )


def _refuse_overlap(source: Steward, driver: Driver) -> None:
    if overlap(source.log.driver.store, driver.store):
        raise InvalidInputError(
            f"the replica at {driver.store.describe()} and the lake at "
            f"{source.log.driver.store.describe()} overlap",
            "choose a location outside of the lake, and not above it",
        )


def _adopt(source: Steward, target: Steward, fence: Fence) -> None:
    """Marks a lake as a replica, and fences writers that have it open.

    The fence first: if the process dies between the two steps, only the source has changed. Once the mark
    exists, any replication that reaches the newest version brings the fence.
    """
    source.checkpoints.refresh()
    refuse_divergence(source, target)
    loader, place = target.loader(), target.log.driver.store.uri()
    for name, ref in target.log.newest.tables.items():
        location = loader.metadata(ref.metadata).location
        if not location.startswith(f"{place}/"):
            raise AlreadyExistsError(
                f"{name} at {place} has the location {location}: the lake was copied by other means, and its "
                "tables still point to the original; nothing was changed",
                "replicate to another, empty location",
            )
    if read_mark(target.log.driver) is None:
        fence()
        write_mark(target.log.driver, _mark(source))


def _mark(source: Steward) -> ReplicaMark:
    driver = source.log.driver
    return ReplicaMark(source.log.identity.lake_id, driver.store.describe(), driver.host.now())


class DivergedError(AlreadyExistsError):
    """The lake at the location of the replica has versions of its own."""


def refuse_divergence(source: Steward, target: Steward) -> None:
    """Raises `DivergedError` if the newest known version of `target` is not a version of `source`.

    The target must have been read before the source, so that it is ahead only if it has versions of its own.
    Costs one record of the source, which the replication needs anyway.
    """
    there, here = target.log.newest, source.log.newest
    if there.version <= here.version and digest_at(source, there.version, here) == there.digest:
        return
    raise diverged(source, target, _first_difference(source, target))


def diverged(source: Steward, target: Steward, version: Version) -> DivergedError:
    """The error for a replica whose record of `version` differs from that of its source."""
    place, origin = target.log.driver.store.describe(), source.log.driver.store.describe()
    return DivergedError(
        f"{place} has versions of its own from version {version} on: a writer committed to the replica, or "
        f"{origin} was restored to an earlier version; nothing was changed",
        f"replicate to another, empty location; if you need the versions from {version} on, turn {place} "
        "into "
        f"an independent lake (headgate replicate {place} --promote)",
    )


def digest_at(steward: Steward, version: Version, newest: LakeState) -> str:
    """The digest of the record of a version that is not above `newest`."""
    if version == newest.version:
        return newest.digest
    if version == GENESIS:
        return steward.checkpoints.genesis.digest
    following = version.next()
    data = steward.log.data(following)
    return Record.decode(data, following, f"version {following}").previous


def _first_difference(source: Steward, target: Steward) -> Version:
    """The first version in which they differ, by binary search: all later versions differ too."""
    same, differs = -1, min(source.log.newest.version, target.log.newest.version).number + 1
    while differs - same > 1:
        middle = Version((same + differs) // 2)
        if _digest(source, middle) == _digest(target, middle):
            same = middle.number
        else:
            differs = middle.number
    return Version(differs)


def _digest(steward: Steward, version: Version) -> str:
    return steward.checkpoints.genesis.digest if version == GENESIS else steward.log.read_decided(version)[1]
