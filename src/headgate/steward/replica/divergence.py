"""Whether two logs are the same, as far as both go: told by the digests that chain their records."""

from __future__ import annotations

from headgate.errors import AlreadyExistsError
from headgate.model.identifiers import GENESIS, Version
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.steward.steward import Steward


def refuse_divergence(source: Steward, target: Steward) -> None:
    """Raises `AlreadyExistsError` if the newest version that `target` knows is not one of `source`.

    What `target` knows must have been read before what `source` knows: it is then never ahead of it, unless
    it has versions of its own. Costs one record of the source, which the replication needs anyway.
    """
    there, here = target.log.newest, source.log.newest
    if there.version <= here.version and digest_at(source, there.version, here) == there.digest:
        return
    raise diverged(source, target, _first_difference(source, target))


def diverged(source: Steward, target: Steward, version: Version) -> AlreadyExistsError:
    """The error for a replica whose record of `version` is not that of its source."""
    place, origin = target.log.driver.store.describe(), source.log.driver.store.describe()
    return AlreadyExistsError(
        f"{place} has versions of its own from version {version} on: somebody committed to the replica, or "
        f"{origin} was set back; nothing was changed",
        f"if what is there from version {version} on is wanted, use it as a lake of its own (headgate "
        f"replicate {place} --promote); replicate to another, empty place",
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
    """The first version in which they differ, found by halving: once they differ, they do so for ever."""
    same, differs = -1, min(source.log.newest.version, target.log.newest.version).number + 1
    while differs - same > 1:
        middle = Version((same + differs) // 2)
        if _digest(source, middle) == _digest(target, middle):
            same = middle.number
        else:
            differs = middle.number
    return Version(differs)


def _digest(steward: Steward, version: Version) -> str:
    return steward.checkpoints.genesis.digest if version == GENESIS else steward.log.decided(version)[1]
