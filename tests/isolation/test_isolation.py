"""What each isolation promises, on random histories of several handles against all orders that it allows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.isolation.histories import (
    HANDLES,
    NOTHING,
    ON_X,
    ONE,
    RELAXED,
    Alone,
    Commits,
    Compacts,
    Event,
    History,
    Properties,
    Works,
    at_once,
    events,
    some_properties,
)
from tests.isolation.lake_model import (
    LAYOUTS,
    NOTHING_MOUNTED,
    TABLES,
    Drop,
    Mounts,
    On,
    OverwritePartitions,
    Remount,
    Rename,
    Respecify,
    Several,
    Step,
    Tell,
    TellMounted,
    UseAgain,
)
from tests.isolation.row_model import Append, Condition, Delete, Overwrite, Row, Update

EVERY = Condition("true", lambda row: True)


def run(data: st.DataObject, isolation: str, mounts: Mounts) -> None:
    history, properties = begun(data, isolation, mounts)
    for event in (*data.draw(events(properties, mounts)), *map(Commits, range(HANDLES))):
        history.happens(event)
    history.require(isolation)


def run_over_several_tables(data: st.DataObject, isolation: str, mounts: Mounts) -> None:
    history, properties = begun(data, isolation, mounts)
    for event in data.draw(at_once(properties, mounts)):
        history.happens(event)
    history.require(isolation)


def begun(data: st.DataObject, isolation: str, mounts: Mounts) -> tuple[History, Properties]:
    properties = data.draw(some_properties(isolation))
    layouts = data.draw(st.tuples(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS)))
    return History.of(layouts, properties, mounts), properties


LEVELS = ("write-serializable", "serializable")


@RELAXED
@given(st.data(), st.sampled_from(LEVELS))
def test_there_is_an_order_that_gives_the_same_rows(
    mounts: Mounts, data: st.DataObject, isolation: str
) -> None:
    run(data, isolation, mounts)


@RELAXED
@given(st.data(), st.sampled_from((LEVELS[0], *LEVELS)))
def test_there_is_an_order_of_transactions_over_several_tables(
    mounts: Mounts, data: st.DataObject, isolation: str
) -> None:
    run_over_several_tables(data, isolation, mounts)


@pytest.mark.nightly
@settings(RELAXED, max_examples=examples(1000))
@given(st.data(), st.sampled_from(LEVELS))
def test_there_is_an_order_that_gives_the_same_rows_for_long(
    mounts: Mounts, data: st.DataObject, isolation: str
) -> None:
    run(data, isolation, mounts)


@pytest.mark.nightly
@settings(RELAXED, max_examples=examples(1000))
@given(st.data(), st.sampled_from((LEVELS[0], *LEVELS)))
def test_there_is_an_order_of_transactions_over_several_tables_for_long(
    mounts: Mounts, data: st.DataObject, isolation: str
) -> None:
    run_over_several_tables(data, isolation, mounts)


# --- histories that went wrong ------------------------------------------------------------------------------

B, C = TABLES
TO_Y = 2
"""The assignment of `p`."""


def happened(
    isolation: str, *events: Event, mounts: Mounts = NOTHING_MOUNTED, layout: tuple[str, ...] = ()
) -> History:
    history = History.of([layout, layout], (("isolation", isolation),), mounts)
    for event in events:
        history.happens(event)
    history.require(isolation)
    return history


def append(table: str, p: str = "x") -> On:
    return On(table, Append((Row(1, 1, p),)))


@pytest.mark.parametrize("isolation", LEVELS)
def test_an_append_that_follows_from_rows_is_not_blind(isolation: str) -> None:
    done = happened(
        isolation,
        Works(0, On(B, Update(0, EVERY))),
        Works(1, Tell(B, EVERY, B)),
        Commits(1),
        Commits(0),
    )
    assert [len(each.steps) for each in done.log] == [1], "the update was refused"


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("compacted", [False, True])
def test_an_append_that_another_one_has_seen_is_not_moved_behind_us(isolation: str, compacted: bool) -> None:
    """Whoever counted the rows saw the append and not our update; we saw the count, but not the append."""
    happened(
        isolation,
        Works(0, On(B, Update(TO_Y, ON_X))),
        Alone(1, append(B)),
        *([Compacts(B)] if compacted else []),
        Works(2, Tell(B, ON_X, C)),
        Commits(2),
        Commits(0),
    )


def test_an_append_that_another_one_has_not_seen_is() -> None:
    done = happened(
        "write-serializable",
        Works(0, On(B, Update(TO_Y, ON_X))),
        Works(2, Tell(B, ON_X, C)),
        Alone(1, append(B)),
        Commits(2),
        Commits(0),
    )
    assert len(done.log) == 3


def test_what_others_have_seen_is_told_by_files() -> None:
    """Somebody has read the table since, but not the files of the append."""
    done = happened(
        "write-serializable",
        Works(0, On(B, Delete(ONE))),
        Alone(1, append(B)),
        Works(2, Tell(B, NOTHING, C)),
        Commits(2),
        Commits(0),
    )
    assert len(done.log) == 3


@pytest.mark.parametrize("isolation", LEVELS)
def test_what_was_looked_for_counts_if_the_table_is_dropped_then(isolation: str) -> None:
    for meanwhile in (On(B, Delete(ONE)), On(B, Overwrite((), "y"))):
        again = UseAgain(B, ONE, C, (("isolation", isolation),))
        happened(isolation, Works(0, again), Alone(1, meanwhile), Commits(0))


@pytest.mark.parametrize("isolation", LEVELS)
def test_rows_that_came_after_a_look_count_if_the_table_is_dropped_then(isolation: str) -> None:
    """Nobody can have appended them later, for the table is gone by then."""
    again = UseAgain(B, ONE, C, (("isolation", isolation),))
    done = happened(isolation, Works(0, again), Alone(1, append(B)), Commits(0))
    assert len(done.log) == 1, "the drop was refused"


def test_rows_that_nobody_looked_for_go_with_the_table() -> None:
    again = UseAgain(B, NOTHING, C, (("isolation", "serializable"),))
    done = happened("serializable", Works(0, again), Alone(1, append(B)), Commits(0))
    assert len(done.log) == 2


@pytest.mark.parametrize("isolation", LEVELS)
def test_an_overwrite_of_partitions_depends_on_the_spec(isolation: str) -> None:
    one = OverwritePartitions(B, (Row(1, 7, "x"),))
    happened(isolation, Works(0, one), Alone(1, Respecify(B, ("p",))), Commits(0))


# --- several tables -----------------------------------------------------------------------------------------

WRITES = "write-serializable"
"""The isolation at which blind appends may move."""


def whole(who: int, *steps: Step) -> Works:
    return Works(who, Several(steps))


@pytest.mark.parametrize("needs", [On(C, Delete(EVERY)), On(C, Overwrite((), None)), Drop(C), Rename(C)])
def test_an_append_is_one_whatever_table_the_others_miss_or_need_it_in(needs: Step) -> None:
    """We missed its rows of one table; another one saw those of the other table, or took the table away."""
    done = happened(
        WRITES,
        whole(0, On(B, Update(TO_Y, EVERY))),
        whole(1, append(B), append(C)),
        Commits(1),
        whole(2, needs),
        Commits(2),
        Commits(0),
    )
    assert len(done.log) == 2, "the update was refused"


def test_an_append_that_another_table_lost_before_is_one_too() -> None:
    """What drops the table has not seen the append. But the rows are gone with it, so it came after them."""
    done = happened(
        WRITES,
        whole(0, On(B, Update(TO_Y, EVERY))),
        whole(2, Drop(C)),
        whole(1, append(B), append(C)),
        Commits(1),
        Commits(2),
        Commits(0),
    )
    assert len(done.log) == 2, "the update was refused"


def test_an_append_to_two_tables_is_followed_through_a_compaction_of_the_other_one() -> None:
    done = happened(
        WRITES,
        whole(0, On(B, Update(TO_Y, EVERY))),
        whole(1, append(B), append(C)),
        Commits(1),
        Compacts(C),
        whole(2, On(C, Delete(EVERY))),
        Commits(2),
        Commits(0),
    )
    assert len(done.log) == 2, "the update was refused"


def test_files_of_one_append_move_together() -> None:
    """We missed one of its files, and another transaction saw only the other file."""
    both = On(B, Append((Row(7, 7, "x"), Row(8, 8, "y"))))
    done = happened(
        WRITES,
        whole(0, On(B, Update(0, ON_X))),
        Alone(1, both),
        whole(2, On(B, Delete(Condition("p = 'y' AND id = 8", lambda row: row.p == "y" and row.id == 8)))),
        Commits(2),
        Commits(0),
        layout=("p",),
    )
    assert len(done.log) == 2, "the update was refused"


@pytest.mark.parametrize("first", [On(C, Update(TO_Y, EVERY)), On(C, Overwrite((), None)), Tell(C, EVERY, C)])
@pytest.mark.parametrize("end", [Drop(B), Rename(B), UseAgain(B, NOTHING, C, (("isolation", WRITES),))])
def test_an_append_does_not_follow_who_misses_it_and_drops_another_table(first: Step, end: Step) -> None:
    done = happened(WRITES, whole(0, first, end), whole(1, append(B), append(C)), Commits(1), Commits(0))
    assert len(done.log) == 1, "the drop was refused"


def test_blind_appends_move_next_to_changes_of_several_tables() -> None:
    """Nobody needs the append, so it can come last."""
    done = happened(
        WRITES,
        whole(0, On(B, Update(TO_Y, EVERY)), On(C, Delete(ONE))),
        whole(2, On(C, Update(0, NOTHING)), append(C)),
        whole(1, append(B), append(C)),
        Commits(1),
        Alone(1, append(B)),
        Commits(0),
    )
    assert len(done.log) == 3


@pytest.mark.parametrize("isolation", LEVELS)
def test_an_append_that_follows_from_a_mount_is_not_blind(isolation: str, mounts: Mounts) -> None:
    done = happened(
        isolation,
        Works(0, On(B, Update(0, EVERY))),
        Works(1, TellMounted(B)),
        Commits(1),
        Alone(2, Remount(mounts, 2)),
        Commits(0),
        mounts=mounts,
    )
    assert len(done.log) == 2, "the update was refused"


# --- batches of an application ------------------------------------------------------------------------------

LATER_ADDS_TO_C = Works(2, Several((append(C),)), 2)


def batches(*events: Event) -> History:
    """An update is open while batch 1, an append that it misses, and the events are committed."""
    first = Works(1, Several((append(B),)), 1)
    return happened(WRITES, whole(0, On(B, Update(TO_Y, EVERY))), first, Commits(1), *events, Commits(0))


def test_a_batch_is_not_moved_behind_us_if_we_are_a_later_one() -> None:
    ours = Works(0, Several((On(B, Update(TO_Y, EVERY)),)), 3)
    first = Works(1, Several((append(B),)), 1)
    done = happened(WRITES, ours, first, Commits(1), Commits(0))
    assert len(done.log) == 1, "the update was refused"


def test_a_batch_is_not_moved_behind_a_later_one_that_is_not_blind() -> None:
    done = batches(Works(2, Several((Tell(C, EVERY, C),)), 2), Commits(2))
    assert len(done.log) == 2, "the update was refused"


def test_what_needs_a_later_batch_needs_the_earlier_one() -> None:
    done = batches(LATER_ADDS_TO_C, Commits(2), Alone(2, On(C, Delete(EVERY))))
    assert len(done.log) == 3, "the update was refused"


def test_a_later_batch_moves_too_and_cannot_if_we_drop_its_table() -> None:
    done = happened(
        WRITES,
        whole(0, On(B, Update(TO_Y, EVERY)), Drop(C)),
        Works(1, Several((append(B),)), 1),
        Commits(1),
        LATER_ADDS_TO_C,
        Commits(2),
        Commits(0),
    )
    assert len(done.log) == 2, "the drop was refused"


def test_batches_that_are_blind_appends_move_together() -> None:
    done = batches(LATER_ADDS_TO_C, Commits(2))
    assert len(done.log) == 3
