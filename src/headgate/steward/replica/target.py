"""The place of a replica: opened if it is one of this lake, made if nothing is there, refused otherwise.

Nothing is written to a place that is refused.
"""

from __future__ import annotations

from headgate.commit.checkpoints import Checkpoints
from headgate.commit.driver import Driver
from headgate.commit.genesis import copy_identity, decide_identity_bytes, read_identity, refuse_existing
from headgate.commit.layout import REPLICA
from headgate.commit.log import CommitLog
from headgate.commit.probe import probe
from headgate.commit.strategy import known_strategy, strategy_named
from headgate.core.choice import choose, require_for_init
from headgate.core.fold import empty_state
from headgate.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from headgate.iceberg.loader import TableLoader
from headgate.model.probe import ProbeReport, Promise
from headgate.model.replica import ReplicaMark
from headgate.steward.hooks.runner import HookRunner
from headgate.steward.replica.divergence import refuse_divergence
from headgate.steward.replica.mark import read_mark, write_mark
from headgate.steward.steward import Steward
from headgate.storage.overlap import overlap


def opened_steward(driver: Driver) -> Steward:
    """The steward of the lake at a place, without hooks; `NotFoundError` if there is none."""
    identity, data = read_identity(driver)
    genesis = empty_state(identity, data)
    log = CommitLog(driver, identity, genesis)
    checkpoints = Checkpoints(log, genesis)
    checkpoints.open()
    loader = TableLoader(driver)
    return Steward(log, checkpoints, lambda: loader, HookRunner(driver.host))


def require_mark(source: Steward, driver: Driver) -> None:
    """Raises `AlreadyExistsError` unless the lake at a place is marked as a replica of that of `source`."""
    mark = read_mark(driver)
    if mark is not None and mark.lake_id == source.log.identity.lake_id:
        return
    raise AlreadyExistsError(
        f"{driver.store.describe()} holds this very lake (id {source.log.identity.lake_id}), but is not "
        f"marked as a replica of it ({REPLICA}): it is the source itself, a copy made by other means, or was "
        "promoted; nothing was changed",
        "choose another place; or, if it was a replica and nothing was committed there since, adopt it: "
        "Lake.replicate(target, adopt=True) or headgate replicate LAKE TARGET --adopt",
    )


def open_target(source: Steward, driver: Driver, *, adopt: bool) -> Steward | None:
    """The replica at a place; None if there is no lake.

    `AlreadyExistsError` if there is another lake, or this one without the mark of a replica. With `adopt`,
    one without a mark gets it, if its log is that of the source and its tables lie where it is.
    """
    _refuse_overlap(source, driver)
    try:
        target = opened_steward(driver)
    except NotFoundError:
        return None
    found, ours = target.log.identity.lake_id, source.log.identity.lake_id
    if found != ours:
        raise AlreadyExistsError(
            f"there is another lake at {driver.store.describe()} (id {found}, not {ours}); nothing was "
            "changed",
            "choose another place",
        )
    if adopt:
        _adopt(source, target)
    else:
        require_mark(source, driver)
    return target


def make_target(source: Steward, driver: Driver) -> Steward:
    """Makes an empty replica at a place without a lake.

    The mark comes first: a replica is never without it. If the process dies inside, there is no lake, or a
    complete one; a later call goes on.
    """
    mark = read_mark(driver)
    identity = source.log.identity
    if mark is not None and mark.lake_id != identity.lake_id:
        raise AlreadyExistsError(
            f"{driver.store.describe()} is where a replica of another lake is being made "
            f"(id {mark.lake_id}); nothing was changed",
            f"choose another place; or delete {REPLICA} there, if that was given up",
        )
    refuse_existing(driver)
    _require_usable(probe(driver.store, driver.host), source, driver)
    _, data = read_identity(source.log.driver)
    write_mark(driver, mark or _mark(source))
    decide_identity_bytes(driver, data, ordered_listing=identity.ordered_listing)
    return opened_steward(driver)


def finish_target(target: Steward) -> None:
    """Does what whoever made a replica may have died before: for those that open it. Idempotent."""
    driver = target.log.driver
    copy_identity(driver, read_identity(driver)[1])
    if not target.checkpoints.replica:
        target.checkpoints.note_replica(True)


def require_strategy(source: Steward, driver: Driver) -> None:
    """Raises `UnsupportedError` if the lake could not be written to at this place, were it promoted."""
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
            f"{place} does not list in key order, and the lake relies on it since it was made",
            "choose another storage for the replica",
        )


def _unusable(error: UnsupportedError, source: Steward) -> UnsupportedError:
    return UnsupportedError(
        error.problem,
        "choose another storage for the replica; or change the source to a strategy that is safe there, as "
        f"filetracker on most: headgate doctor {source.log.driver.store.describe()} --switch-to filetracker",
    )


def _refuse_overlap(source: Steward, driver: Driver) -> None:
    if overlap(source.log.driver.store, driver.store):
        raise InvalidInputError(
            f"the replica would be at {driver.store.describe()}, and the lake is at "
            f"{source.log.driver.store.describe()}: one in the other",
            "choose a place outside of the lake, and not above it",
        )


def _adopt(source: Steward, target: Steward) -> None:
    source.checkpoints.refresh()
    refuse_divergence(source, target)
    loader, place = target.loader(), target.log.driver.store.uri()
    for name, ref in target.log.newest.tables.items():
        location = loader.metadata(ref.metadata).location
        if not location.startswith(f"{place}/"):
            raise AlreadyExistsError(
                f"{name} at {place} says that it lies at {location}: the lake was copied by other means, and "
                "its tables still lead to where it came from; nothing was changed",
                "replicate to another, empty place",
            )
    if read_mark(target.log.driver) is None:
        write_mark(target.log.driver, _mark(source))


def _mark(source: Steward) -> ReplicaMark:
    driver = source.log.driver
    return ReplicaMark(source.log.identity.lake_id, driver.store.describe(), driver.host.now())
