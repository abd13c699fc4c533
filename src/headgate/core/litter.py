"""Objects of tables that nobody needs, told from their names, their age and who wrote them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headgate.core.fsck.tables import owner_of, summed
from headgate.model.identifiers import TxId

_IN_A_TABLE = re.compile(r"data/[^/]+/[^/]+/(data|metadata)/.+")
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
    """What is needed: objects by key; of each directory of a table the versions that may be published there.

    `published_above`: all published ones of versions above this may be. A directory that is not in
    `published` has no table.
    """

    keys: Collection[str]
    published: Mapping[str, frozenset[int]]
    published_above: int


@dataclass
class Litter:
    """What can go. `of_dead` are objects of transactions that must be cancelled first, by transaction."""

    objects: dict[str, int] = field(default_factory=dict)
    of_dead: dict[TxId, dict[str, int]] = field(default_factory=dict)
    spared: int = 0


@dataclass(frozen=True, slots=True)
class Owners:
    """Who has written to tables: transactions in the log, those that are cancelled, and those that run."""

    committed: Collection[TxId]
    cancelled: Collection[TxId]
    running: Collection[TxId]


def find_litter(found: Iterable[Found], needed: Needed, owners: Owners, before: datetime | None) -> Litter:
    """The objects that nothing needs and nobody can come to need.

    Those written before a moment, or all with None. Of a transaction that is not in the log, only if all that
    it has written is that old: else it is at work. What has no name that Headgate gives is left alone.
    """
    litter, young = Litter(), set[TxId]()
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
                litter.objects[one.key] = one.size_bytes
            litter.spared += not is_old
            continue
        of_dead.setdefault(owner, []).append(one)
        if not is_old or owner in owners.running:
            young.add(owner)
    for owner, objects in of_dead.items():
        if owner in young:
            litter.spared += len(objects)
        else:
            litter.of_dead[owner] = {one.key: one.size_bytes for one in objects}
    return litter


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
