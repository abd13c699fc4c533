"""Which versions are kept: the rules of a policy, on top of what earlier ones have left."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from headgate.core.boundaries import Coverage
from headgate.errors import NotFoundError
from headgate.model.retention import Retention

Rule = tuple[int, int]
"""Boundaries of a level or above, from a version on."""


def next_retention(old: Retention, until: int, rules: Iterable[Rule], versions: Collection[int]) -> Retention:
    """What is kept by `rules` up to `until`, beside `versions`; of what `old` has kept. Without files.

    What a policy would keep, but an earlier one has let go, does not come back.
    """
    later = max(old.until, until)
    wanted = list(rules)
    both = [
        (max(level, kept), max(since, first)) for level, since in wanted for kept, first in old.boundaries
    ]
    fresh = [(level, max(since, old.until + 1)) for level, since in wanted]
    return Retention(
        until=later,
        boundaries=_without_idle([*both, *fresh, *_as_rules(old, wanted)]),
        versions=frozenset(version for version in versions if version <= later),
    )


def _as_rules(old: Retention, wanted: Sequence[Rule]) -> Iterator[Rule]:
    """Before anything was expired, all versions were there."""
    if old.until == 0:
        yield from wanted


def _without_idle(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules without those that keep nothing beyond others."""
    kept: list[Rule] = []
    for level, since in sorted(set(rules)):
        if not any(since >= first for _, first in kept):
            kept.append((level, since))
    return tuple(kept)


def dropped(old: Retention, new: Retention, divisor: int) -> Iterator[int]:
    """The versions that `old` keeps and `new` does not, in order."""
    kept = kept_until(old, old.until, divisor)
    yield from (version for version in kept if not new.keeps(version, divisor))
    fresh = range(old.until + 1, new.until + 1)
    yield from (version for version in fresh if not new.keeps(version, divisor))


def kept_until(retention: Retention, last: int, divisor: int) -> list[int]:
    """The versions up to `last` that are kept, in order; version 0 is none of them."""
    found = {version for version in retention.versions if version <= last}
    for level, since in retention.boundaries:
        size = divisor**level
        found.update(range(max(size, -(-since // size) * size), min(last, retention.until) + 1, size))
    found.update(range(retention.until + 1, last + 1))
    return sorted(found)


def nearest_kept(retention: Retention, version: int, divisor: int) -> tuple[int | None, int]:
    """The kept versions next to one that is not: below, if there is one, and above."""
    below = max((one for one in retention.versions if one < version), default=0)
    above = min((one for one in retention.versions if one > version), default=retention.until + 1)
    for level, since in retention.boundaries:
        size = divisor**level
        lower = version // size * size
        if lower >= max(since, size):
            below = max(below, lower)
        upper = max(version // size + 1, -(-since // size)) * size
        if upper <= retention.until:
            above = min(above, upper)
    return below or None, above


def is_expired(name: str, version: int, retention: Retention, readable: Iterable[int]) -> NotFoundError:
    """The error for a version that is not kept any more. `readable` are some that are, with the table."""
    near = " and ".join(map(str, sorted(readable)))
    nearest = f"the nearest that can be read: {near}; " if near else ""
    return NotFoundError(
        f"{name}: version {version} is expired: version {retention.by} has let go of it",
        f"{nearest}every version from {retention.until + 1} on can be read",
    )


@dataclass(frozen=True, slots=True)
class Held:
    """What is kept of a version of a table: its metadata, or also all the files that it consists of."""

    place: int
    files: bool


def held(
    versions: Sequence[tuple[int, bool]], uuid: str, retention: Retention, divisor: int, head: int
) -> Iterator[Held]:
    """Of the versions at which a table changed, in order, those that something is kept of, by their place.

    Each comes with whether the table was dropped then.
    """
    kept = kept_until(retention, retention.until, divisor)
    files = frozenset(retention.files.get(uuid, ()))
    following = [number for number, _ in versions[1:]] + [head + 1]
    for place, ((number, is_dropped), end) in enumerate(zip(versions, following, strict=True)):
        if is_dropped:
            continue
        if end > retention.until + 1 or number in files:
            yield Held(place, files=True)
        elif bisect_left(kept, number) < bisect_left(kept, end):
            yield Held(place, files=False)


# --- files ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A kept version with the snapshot that a table had then."""

    version: int
    snapshot: int


def kept_files(
    top: int | None, points: Sequence[KeptVersion], coverage: Callable[[int], Coverage]
) -> tuple[int, ...]:
    """The snapshots of a table whose files must stay for `points`, kept versions that are not above `until`.

    `top` is the snapshot that the table has above them: its files stay in any case. None: it is gone by then.
    From the newest down: a point is told by the files of the next snapshot above, or keeps its own.
    """
    chosen = set() if top is None else {top}
    source = top
    for point in sorted(points, key=lambda one: one.version, reverse=True):
        if point.snapshot in chosen:
            source = point.snapshot
            continue
        if source is not None and coverage(source).tells(point.version):
            continue
        source = point.snapshot
        chosen.add(source)
    return tuple(sorted(chosen))


def still_needed(
    files: Sequence[int],
    source: int | None,
    kept: Sequence[int],
    coverage: Callable[[int], Coverage],
    exists: Callable[[int], bool],
) -> tuple[int, ...]:
    """Those of `files`, snapshots that an earlier retention has kept, that `kept` versions still need.

    Decided without looking at what the table was at each of these versions: a snapshot goes if the next one
    above it, at last `source`, tells of every version that it may have been kept for. `exists`: whether the
    table was there at a version; asked where it may have been made later, or dropped before.
    """
    chosen: list[int] = []
    for place in range(len(files) - 1, -1, -1):
        own = files[place]
        below = [one for one in kept if (files[place - 1] if place else 0) < one < own]
        above = [one for one in kept if own <= one and (place + 1 == len(files) or one < files[place + 1])]
        if place == 0 and below and not exists(below[-1]):
            below = []
        if place + 1 == len(files) and above and not exists(above[0]):
            above = []
        told = source is not None and all(coverage(source).tells(one) for one in (*below, *above))
        if (below or above) and not told:
            source = own
            chosen.append(own)
    return tuple(sorted(chosen))
