"""The times of versions, by the times that are in their records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.history.commit_time import (
    MAX_SET_BACKS,
    clock_warning,
    has_passed,
    set_backs_after,
    time_of,
)
from headgate.model.json_object import JsonObject, encode
from headgate.model.state import SetBack

DAY = timedelta(days=1)
JULY = datetime(2026, 7, 1, tzinfo=UTC)
AHEAD = JULY + 500 * 365 * DAY


def set_backs_of(times: list[datetime]) -> tuple[SetBack, ...]:
    known: tuple[SetBack, ...] = ()
    last = None
    for version, time in enumerate(times, 1):
        known, last = set_backs_after(known, last, version, time), time
    return known


def read(times: list[datetime], now: datetime | None = None) -> list[datetime]:
    """The times of all versions, as who comes later reads them."""
    known = set_backs_of(times)
    return [time_of(known, version, time, now) for version, time in enumerate(times, 1)]


def test_times_that_never_go_back_are_as_they_are() -> None:
    times = [JULY, JULY, JULY + DAY, AHEAD]
    assert read(times) == times
    assert set_backs_of(times) == ()


def test_versions_are_not_later_than_the_one_that_set_the_time_back() -> None:
    assert read([JULY, AHEAD, AHEAD, JULY + DAY, JULY + 2 * DAY]) == [
        JULY,
        JULY + DAY,
        JULY + DAY,
        JULY + DAY,
        JULY + 2 * DAY,
    ]


def test_who_deletes_keeps_in_doubt() -> None:
    """From July back to May: either the first clock was ahead, or the second is behind."""
    may = JULY - 60 * DAY
    times = [JULY - 90 * DAY, JULY, may, JULY + 60 * DAY]
    assert read(times) == [JULY - 90 * DAY, may, may, JULY + 60 * DAY]
    # As long as July has not come, it is certain who was right.
    assert read(times, may + DAY) == read(times)
    assert read(times, JULY + 70 * DAY) == [JULY - 90 * DAY, JULY, JULY, JULY + 60 * DAY]


def test_two_writers_that_take_turns_with_a_clock_that_is_ahead() -> None:
    times = [time for day in range(100) for time in (JULY + day * DAY, AHEAD + day * DAY)]
    assert len(set_backs_of(times)) == MAX_SET_BACKS
    told = read(times)
    assert told == sorted(told)
    # The newest are exact; of the oldest, some days are told as one.
    assert told[-10:-1] == [JULY + day * DAY for day in (95, 96, 96, 97, 97, 98, 98, 99, 99)]
    assert all(time >= right for time, right in zip(told[::2], times[::2], strict=True))


@given(
    st.lists(st.integers(0, 40_000).map(lambda days: JULY + days * DAY), max_size=80),
    st.none() | st.integers(0, 50_000).map(lambda days: JULY + days * DAY),
)
def test_whatever_is_in_records_versions_can_be_found_by_time(
    times: list[datetime], now: datetime | None
) -> None:
    told = read(times, now)
    assert told == sorted(told)
    known = set_backs_of(times)
    assert len(known) <= MAX_SET_BACKS
    assert tuple(SetBack.from_json(JsonObject.parse(encode(each.to_json()), "x")) for each in known) == known


@given(st.lists(st.integers(0, 40_000).map(lambda days: JULY + days * DAY), max_size=80), st.data())
def test_in_doubt_no_version_is_told_earlier(times: list[datetime], data: st.DataObject) -> None:
    now = data.draw(st.sampled_from([*times, JULY]))
    assert all(careful >= usual for careful, usual in zip(read(times, now), read(times), strict=True))


@pytest.mark.parametrize(
    ("last", "committed_at", "now", "said"),
    [
        (JULY, JULY + DAY, JULY + DAY, None),
        (JULY, JULY, JULY - DAY, None),
        (JULY, AHEAD, AHEAD, "182,500 days after the previous one"),
        (AHEAD, JULY, JULY, "182,500 days ahead of this clock"),
        (JULY, JULY, JULY - 40 * DAY, "40 days behind the log"),
    ],
)
def test_a_writer_is_warned(last: datetime, committed_at: datetime, now: datetime, said: str | None) -> None:
    warning = clock_warning(last, committed_at, now)
    assert (warning is None) == (said is None)
    assert said is None or said in str(warning)


def test_what_is_dated_far_ahead_is_not_waited_for() -> None:
    assert has_passed(JULY, DAY, JULY + DAY) and has_passed(AHEAD, DAY, JULY)
    assert not has_passed(JULY, DAY, JULY + DAY / 2) and not has_passed(JULY + DAY, DAY, JULY)
