"""Which version a lake was at, at a moment.

Commit times never go back from one version to the next, so the answer is found by halving: some seventeen
records are read of a hundred thousand.
"""

from __future__ import annotations

from datetime import datetime

from headgate.commit.log import CommitLog
from headgate.errors import NotFoundError
from headgate.model.identifiers import Version
from headgate.model.state import LakeState


def version_at(log: CommitLog, newest: LakeState, moment: datetime) -> Version:
    """The newest version that was committed at or before `moment`.

    `NotFoundError` if the lake did not exist yet.
    """
    created = log.identity.created_at
    if moment < created:
        raise NotFoundError(
            f"the lake did not exist at {moment.isoformat()}; it was made at {created.isoformat()}",
            "choose a later moment",
        )
    # Versions up to `known` are at or before the moment; those from `late` on are after it.
    known, late = 0, newest.version.number + 1
    while late - known > 1:
        middle = (known + late) // 2
        if log.record(Version(middle)).committed_at <= moment:
            known = middle
        else:
            late = middle
    return Version(known)
