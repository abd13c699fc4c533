"""Which versions are kept: the rules of a policy, applied on top of what earlier retentions have kept."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from headgate.core.compaction.windows import Coverage
from headgate.errors import NotFoundError
from headgate.model.retention import Retention

Rule = tuple[int, int]
"""Boundaries of at least a level, from a version on."""


def next_retention(old: Retention, until: int, rules: Iterable[Rule], versions: Collection[int]) -> Retention:
    """The retention that keeps versions up to `until` by `rules`, and also `versions`, as far as `old` has
    kept them. Without files.

    A version that the policy would keep, but an earlier retention has released, does not come back.
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
    """Before the first expiry, all versions were there."""
    if old.until == 0:
        yield from wanted


def _without_idle(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules without those that keep nothing in addition to the others."""
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
    """The versions up to `last` that are kept, in order; version 0 is not included."""
    found = {version for version in retention.versions if version <= last}
    for level, since in retention.boundaries:
        size = divisor**level
        found.update(range(max(size, -(-since // size) * size), min(last, retention.until) + 1, size))
    found.update(range(retention.until + 1, last + 1))
    return sorted(found)


def nearest_kept(retention: Retention, version: int, divisor: int) -> tuple[int | None, int]:
    """The kept versions nearest to one that is not: the one below, if any, and the one above."""
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
    """The error for a version that has expired.

    `readable` are versions near it that can be read, with the table.
    """
    near = " and ".join(map(str, sorted(readable)))
    nearest = f"the nearest that can be read: {near}; " if near else ""
    return NotFoundError(
        f"{name}: version {version} has expired: version {retention.by} released it",
        f"{nearest}every version from {retention.until + 1} on can be read",
    )


@dataclass(frozen=True, slots=True)
class Held:
    """What is kept of a version of a table: its metadata, or also all of its data files."""

    place: int
    files: bool


def held(
    versions: Sequence[tuple[int, bool]], uuid: str, retention: Retention, divisor: int, head: int
) -> Iterator[Held]:
    """Of `versions`, those at which a table changed, the ones of which something is kept, by their index.

    Each comes with whether the table was dropped at that version.
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
    """A kept version with the snapshot that a table had at that version."""

    version: int
    snapshot: int


def kept_files(
    top: int | None, points: Sequence[KeptVersion], coverage: Callable[[int], Coverage]
) -> tuple[int, ...]:
    """The snapshots of a table whose files must stay for `points`, kept versions that are not above `until`.

    `top` is the snapshot of the table above them, whose files stay in any case. None: the table is gone by
    then. Goes from the newest down: a point follows from the files of the next snapshot above it, or keeps
    its own.
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

    Decided without reading what the table was at each of these versions. A snapshot goes if the next one
    above it, or finally `source`, describes every version for which it may have been kept. `exists` says
    whether the table existed at a version; it is asked where the table may have been created later, or
    dropped before.
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
