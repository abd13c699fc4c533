"""Policies of expiring, and which versions they leave of what earlier ones have left."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.core.compaction.windows import Coverage
from headgate.core.retention.expire_policy import DEFAULT_POLICY, Tier, parse_age
from headgate.core.retention.kept_versions import (
    KeptVersion,
    dropped,
    held,
    kept_files,
    kept_until,
    nearest_kept,
    next_retention,
    still_needed,
)
from headgate.model.identifiers import Version, Window
from headgate.model.json_object import JsonObject, encode
from headgate.model.retention import EVERYTHING, Retention

DAY = timedelta(days=1)
DIVISOR = 3


def test_tiers_are_read_from_text() -> None:
    policy = hg.ExpirePolicy.parse("2:FOREVER", " all : 36h ", "1:30d")
    assert policy.tiers == (Tier(0, 1.5 * DAY), Tier(1, 30 * DAY), Tier(2, None))
    assert str(policy) == "all:36h 1:30d 2:forever"
    assert hg.ExpirePolicy.parse(*str(policy).split()) == policy
    assert str(DEFAULT_POLICY) == "all:1d 1:30d 2:forever"
    assert parse_age("2w") == 14 * DAY


@pytest.mark.parametrize(
    ("tiers", "reason"),
    [
        ((), "has no tier for all versions"),
        (("1:30d",), "has no tier for all versions"),
        (("all:0d",), "cannot be kept for"),
        (("all:-1d",), "is not a tier"),
        (("all:1",), "is not a tier"),
        (("all:1y",), "is not a tier"),
        (("some:1d",), "is not a tier"),
        (("all:1d", "0:2d"), "but levels count from 1"),
        (("all:1d", "64:2d"), "cannot have the level 64"),
        (("all:1d", "all:2d"), "two tiers, all:1d and all:2d"),
        (("all:1d", "1:1d"), "1:1d keeps nothing that all:1d"),
        (("all:1d", "1:30d", "2:10d"), "2:10d keeps nothing that 1:30d"),
        (("all:forever", "1:forever"), "keeps nothing that all:forever"),
        (("all:999999999w",), "longer than 1000 years"),
    ],
)
def test_policies_without_sense_are_refused(tiers: tuple[str, ...], reason: str) -> None:
    with pytest.raises(hg.InvalidInputError, match=reason):
        hg.ExpirePolicy.parse(*tiers)


def test_a_tier_that_was_not_read_from_text_is_checked_too() -> None:
    with pytest.raises(hg.InvalidInputError, match="levels count from 1"):
        hg.ExpirePolicy((Tier(0, DAY), Tier(-1, None)))
    with pytest.raises(hg.InvalidInputError, match="give a positive duration"):
        hg.ExpirePolicy((Tier(0, -DAY),))


def test_a_retention_survives_storage() -> None:
    kept = Retention(17, ((1, 12), (2, 0)), frozenset({5}), {"u": (3, 9)}, Version(20), {"later": 1})
    stored = JsonObject.parse(encode(kept.to_json()), "x")
    assert Retention.from_json(stored, Version(20)) == kept
    for broken in ("no", [[0, 1]], [[1]], [[1, -1]]):
        bad = JsonObject.parse(encode({**kept.to_json(), "boundaries": broken}), "x")  # type: ignore[dict-item]
        with pytest.raises(hg.CorruptLakeError):
            Retention.from_json(bad, Version(20))


steps = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.lists(st.tuples(st.integers(1, 4), st.integers(0, 60)), max_size=3),
        st.sets(st.integers(1, 60), max_size=3),
    ),
    min_size=1,
    max_size=5,
)


@given(steps)
def test_what_is_let_go_never_comes_back(
    policies: list[tuple[int, list[tuple[int, int]], set[int]]],
) -> None:
    """Each policy leaves exactly what it keeps of what was there."""
    there = set(range(1, 70))
    kept = EVERYTHING
    for until, rules, tags in policies:
        named = {version for version in tags if kept.keeps(version, DIVISOR)}
        after = next_retention(kept, until, rules, named)
        for version in list(there):
            above = version > max(until, kept.until)
            rule = any(version >= since and version % DIVISOR**level == 0 for level, since in rules)
            if not (above or rule or version in named):
                there.discard(version)
        assert {version for version in range(1, 70) if after.keeps(version, DIVISOR)} == there
        assert sorted(dropped(kept, after, DIVISOR)) == [
            v for v in range(1, 70) if kept.keeps(v, DIVISOR) and v not in there
        ]
        assert kept_until(after, 69, DIVISOR) == sorted(there)
        assert len(after.boundaries) <= 4
        kept = after


@given(st.integers(1, 50), st.lists(st.tuples(st.integers(1, 3), st.integers(0, 60)), max_size=3), st.data())
def test_the_nearest_kept_ones(until: int, rules: list[tuple[int, int]], data: st.DataObject) -> None:
    kept = next_retention(EVERYTHING, until, rules, data.draw(st.sets(st.integers(1, until), max_size=2)))
    for version in range(1, until + 1):
        if not kept.keeps(version, DIVISOR):
            every = kept_until(kept, until + 1, DIVISOR)
            below = max((one for one in every if one < version), default=None)
            assert nearest_kept(kept, version, DIVISOR) == (below, min(v for v in every if v > version))


def test_files_stay_for_what_nothing_newer_tells() -> None:
    tells = {
        30: Coverage(20, frozenset({Window(19, 27, 2), Window(30, 30)})),
        12: Coverage(0, frozenset({Window(1, 9, 2), Window(12, 12)})),
    }
    points = [KeptVersion(27, 26), KeptVersion(18, 17), KeptVersion(12, 12), KeptVersion(9, 8)]
    # 27 is told by 30; 18 is from before the rows that 30 lost; 12 and 17 are not told by 18 itself.
    told = {**tells, 17: Coverage(15, frozenset({Window(10, 18, 1)}))}
    assert kept_files(30, points, told.__getitem__) == (12, 17, 30)
    assert kept_files(None, [KeptVersion(9, 8)], told.__getitem__) == (8,)


def test_earlier_files_go_when_something_newer_tells_the_same() -> None:
    tells = {50: Coverage(20, frozenset()), 10: Coverage(0, frozenset()), 30: Coverage(0, frozenset())}

    def needed(files: list[int], kept: list[int], source: int | None = 50) -> tuple[int, ...]:
        return still_needed(files, source, kept, tells.__getitem__, lambda version: version < 40)

    assert needed([10, 30], [9, 18, 27, 36]) == (30,)
    assert needed([30], [27, 36]) == ()
    assert needed([10], [9]) == (10,)
    assert needed([30], [], None) == ()
    # It was dropped before the next kept version.
    assert needed([39], [45], None) == ()


def test_what_is_held_of_a_table() -> None:
    kept = Retention(10, ((1, 0),), files={"u": (4,)})
    changes = [(2, False), (4, False), (5, False), (7, False), (8, False), (12, True)]
    found = {changes[one.place][0]: one.files for one in held(changes, "u", kept, DIVISOR, 20)}
    # 2 is what it was at version 3; 5 at version 6; 8 at 9, and from 11 on.
    assert found == {2: False, 4: True, 5: False, 8: True}
