"""Unreferenced objects of tables, found by their names, their age and the transactions that wrote them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headgate.core.fsck.tables import owner_of, summed
from headgate.model.identifiers import TxId

_IN_A_TABLE = re.compile(r"data/[^/]+/[^/]+/(attempts|data|metadata)/.+")
_PUBLISHED = re.compile(r"(data/[^/]+/[^/]+)/metadata/v(\d{1,19})\.metadata\.json")
_HINT = re.compile(r"(data/[^/]+/[^/]+)/metadata/version-hint\.text")


@dataclass(frozen=True, slots=True)
class Found:
    """An object in the listing of tables. `written_at` is None if the storage does not say."""

    key: str
    size_bytes: int
    written_at: datetime | None


@dataclass(frozen=True, slots=True)
class Needed:
    """What is needed: objects by key, and for each directory of a table the versions that may be published
    there.

    `published_above`: every version above this one may be published. A directory that is not in `published`
    has no table.
    """

    keys: Collection[str]
    published: Mapping[str, frozenset[int]]
    published_above: int


@dataclass
class Unreferenced:
    """What can be deleted.

    `of_dead` are objects of transactions that must be cancelled first, by transaction.
    """

    objects: dict[str, int] = field(default_factory=dict)
    of_dead: dict[TxId, dict[str, int]] = field(default_factory=dict)
    spared: int = 0


@dataclass(frozen=True, slots=True)
class Owners:
    """The transactions that wrote to tables: those in the log, the cancelled ones, and the running ones."""

    committed: Collection[TxId]
    cancelled: Collection[TxId]
    running: Collection[TxId]


def find_unreferenced(
    found: Iterable[Found], needed: Needed, owners: Owners, before: datetime | None
) -> Unreferenced:
    """The objects that nothing references and nothing can come to reference.

    Only those written before a point in time, or all with None. Objects of a transaction that is not in the
    log are included only if all of its objects are that old; otherwise it is still running. Objects whose
    names Headgate did not assign are left alone.
    """
    unreferenced, young = Unreferenced(), set[TxId]()
    of_dead: dict[TxId, list[Found]] = {}
    for one in found:
        key = summed(one.key)
        if not _IN_A_TABLE.fullmatch(key) or _is_needed(key, needed):
            continue
        owner, is_old = owner_of(key), before is None or _is_older(one, before)
        if owner is None and not _is_announcement(key):
            continue
        if owner is None or owner in owners.committed or owner in owners.cancelled:
            if is_old:
                unreferenced.objects[one.key] = one.size_bytes
            unreferenced.spared += not is_old
            continue
        of_dead.setdefault(owner, []).append(one)
        if not is_old or owner in owners.running:
            young.add(owner)
    for owner, objects in of_dead.items():
        if owner in young:
            unreferenced.spared += len(objects)
        else:
            unreferenced.of_dead[owner] = {one.key: one.size_bytes for one in objects}
    return unreferenced


def _is_older(one: Found, before: datetime) -> bool:
    return one.written_at is not None and one.written_at < before


def _is_announcement(key: str) -> bool:
    return bool(_PUBLISHED.fullmatch(key) or _HINT.fullmatch(key))


def _is_needed(key: str, needed: Needed) -> bool:
    if (published := _PUBLISHED.fullmatch(key)) is not None:
        location, number = published[1], int(published[2])
        return number > needed.published_above or number in needed.published.get(location, ())
    if (hint := _HINT.fullmatch(key)) is not None:
        return hint[1] in needed.published
    return key in needed.keys
