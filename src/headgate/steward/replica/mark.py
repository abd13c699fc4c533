"""The mark of a replica on storage: it allows replication, and forbids commits."""

from __future__ import annotations

from headgate.errors import InvalidInputError, UnsupportedError
from headgate.log.checkpoints import Checkpoints
from headgate.log.driver import Driver
from headgate.log.layout import REPLICA
from headgate.model.replica import ReplicaMark
from headgate.model.state import LakeState


def read_mark(driver: Driver) -> ReplicaMark | None:
    """The mark of the lake at this location; None if it is not a replica."""
    data = driver.get(REPLICA)
    return None if data is None else ReplicaMark.decode(data, f"{driver.store.describe()}/{REPLICA}")


def write_mark(driver: Driver, mark: ReplicaMark) -> None:
    driver.put(REPLICA, mark.encode())


def refuse_replica(checkpoints: Checkpoints, state: LakeState) -> None:
    """Raises `UnsupportedError` if the lake is a replica: after a commit it could not follow its source.

    `state` is the state on which the next commit is based. Costs nothing unless it `may_be_replica`; then it
    costs one GET. If the advice was lost, and no replica was ever adopted, a replica goes unnoticed here; the
    next replication detects it.
    """
    # An adoption marks the replica before its fence is decided there. So a writer whose state contains the
    # fence finds the mark. A writer without the fence can only win a version below the fence; then the
    # adoption is rejected, and the replica stays promoted.
    if not checkpoints.may_be_replica(state):
        return
    driver = checkpoints.log.driver
    mark = read_mark(driver)
    if mark is None:
        checkpoints.replica = False  # promoted meanwhile, or the source of an adopted replica
        checkpoints.looked_at = state.fence
        return
    raise UnsupportedError(
        f"{driver.store.describe()} is a replica of {mark.source}, and does not accept commits",
        "commit to the source; or, if you no longer use the source, promote the replica: Lake.promote() or "
        "headgate replicate REPLICA --promote",
    )


def promote(checkpoints: Checkpoints) -> ReplicaMark:
    """Turns a replica into an independent lake: removes its mark, and returns it.

    The mark goes first: from then on no process replicates to it. If this process dies before it writes the
    advice, each handle of the lake checks once for a mark.
    """
    driver = checkpoints.log.driver
    mark = read_mark(driver)
    if mark is None:
        raise InvalidInputError(f"{driver.store.describe()} is not a replica", "there is nothing to promote")
    driver.delete(REPLICA)
    checkpoints.note_replica(False)
    return mark
