"""Looking up who competed for a version: in the attempts while they are there, else in what clean-up kept."""

from __future__ import annotations

from functools import partial

from headgate.core.history.competition import LOOK_AHEAD, competition
from headgate.errors import CorruptLakeError
from headgate.log.attempts import MAX_KEPT, bids_in, telling
from headgate.log.checkpoints import Checkpoints, state_at
from headgate.log.driver import Driver
from headgate.log.layout import TRACKER
from headgate.log.log import CommitLog
from headgate.log.strategy import layout_named
from headgate.model.attempts import Bids, VersionAttempts
from headgate.model.identifiers import Version
from headgate.model.state import LakeState


def attempts_at(
    log: CommitLog, checkpoints: Checkpoints, newest: LakeState, version: Version
) -> VersionAttempts:
    """Who competed for a version from 1 to that of `newest`."""
    last = min(newest.version.number, version.number + LOOK_AHEAD)
    end = state_at(checkpoints, newest, Version(last))
    *later, record = log.records_down(end, last - version.number + 1)
    strategy = state_at(checkpoints, newest, Version(version.number - 1)).next_strategy
    bids = _bids(log.driver, version) if layout_named(strategy) is TRACKER else Bids()
    return competition(record, strategy, bids, reversed(later))


def _bids(driver: Driver, version: Version) -> Bids:
    # In the order in which clean-up works: whatever it has deleted before the listing, it has kept before.
    keys = driver.keys(TRACKER.attempts(version))
    kept = _read_kept(driver, version)
    if kept is not None and kept.bids:
        return kept
    asked = telling(version, keys)[-MAX_KEPT:]
    found = driver.fetch_at_once([partial(driver.get, key) for key in asked])
    said = {key: data for key, data in zip(asked, found, strict=True) if data is not None}
    if len(said) < len(asked):
        return _read_kept(driver, version) or bids_in(version, keys, said)
    return bids_in(version, keys, said)


def _read_kept(driver: Driver, version: Version) -> Bids | None:
    key = TRACKER.archive_key(version)
    data = driver.get(key)
    try:
        return None if data is None else Bids.decode(data, version, key)
    except CorruptLakeError as error:
        raise CorruptLakeError(
            error.problem, f"you can delete {key}; only the list of writers that competed is lost"
        ) from error
