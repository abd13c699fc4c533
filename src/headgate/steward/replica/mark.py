"""The mark of a replica on storage: who may follow, and who must not commit."""

from __future__ import annotations

from headgate.commit.checkpoints import Checkpoints
from headgate.commit.driver import Driver
from headgate.commit.layout import REPLICA
from headgate.errors import InvalidInputError, UnsupportedError
from headgate.model.replica import ReplicaMark


def read_mark(driver: Driver) -> ReplicaMark | None:
    """The mark of the lake at this place; None if it is no replica."""
    data = driver.get(REPLICA)
    return None if data is None else ReplicaMark.decode(data, f"{driver.store.describe()}/{REPLICA}")


def write_mark(driver: Driver, mark: ReplicaMark) -> None:
    driver.put(REPLICA, mark.encode())


def refuse_replica(checkpoints: Checkpoints) -> None:
    """Raises `UnsupportedError` if the lake is a replica: what was committed there would end its following.

    Costs nothing unless opening the lake has said that it may be one, and one GET then. If that advice was
    lost it notices nothing; the next replication does.
    """
    if not checkpoints.replica:
        return
    driver = checkpoints.log.driver
    mark = read_mark(driver)
    if mark is None:
        checkpoints.replica = False  # promoted since
        return
    raise UnsupportedError(
        f"{driver.store.describe()} is a replica of {mark.source}, and takes no commits of its own",
        "commit to the source; or, if the source is gone or given up, promote the replica: Lake.promote() or "
        "headgate replicate REPLICA --promote",
    )


def promote(checkpoints: Checkpoints) -> ReplicaMark:
    """Makes a replica a lake of its own: removes its mark. Returns what it said.

    The mark goes first: then nobody replicates to it any more. Whoever dies before the advice is written
    leaves a lake whose handles each look once for a mark.
    """
    driver = checkpoints.log.driver
    mark = read_mark(driver)
    if mark is None:
        raise InvalidInputError(f"{driver.store.describe()} is not a replica", "nothing to do")
    driver.delete(REPLICA)
    checkpoints.note_replica(False)
    return mark
