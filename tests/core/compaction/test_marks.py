"""Marks: whoever has one, of whatever age, finds all that is due, and reads little of the log for it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.compaction.eligible import plan_compaction
from headgate.core.compaction.touched import (
    MAX_NAMED,
    MAX_PATHS_OF_TABLE,
    Intents,
    Look,
    Mark,
    look_everywhere,
)
from headgate.core.compaction.windows import complete_windows
from headgate.errors import CorruptLakeError
from headgate.model.identifiers import GENESIS, TxId, Version, Window
from headgate.model.json_object import encode
from headgate.model.plan import PendingPlan
from headgate.model.record import Command, PropertyChange, Record
from headgate.model.table import PathChange, TableAction, TableCommit, TableRef
from tests.core.compaction.test_eligible import PATHS, Rows, divisors, histories, policy

TABLE = TableRef("u-t", "data/t", "")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def record(version: int, paths: Iterable[str] = (), deleted: Iterable[str] = (), **fields: object) -> Record:
    """A commit to table `t` that adds a file at virtual paths of it, and deletes a row at others."""
    plain = Record(
        version=Version(version),
        txid=TxId(f"{version:032x}"),
        previous=digest_at(version - 1),
        kind="commit",
        started_at=NOON,
        committed_at=NOON,
        command=Command((), "ann", "host-1", 1),
        base=GENESIS,
        attempts=1,
        next_strategy="conditional",
        tables=(TableCommit("t", TableAction.CHANGE, TABLE),),
        paths=dict.fromkeys(paths, PathChange(files_added=1))
        | dict.fromkeys(deleted, PathChange(rows_removed=1)),
    )
    return replace(plain, **fields)  # type: ignore[arg-type]


def digest_at(version: int) -> str:
    return f"digest {version}"


def looked(mark: Mark, newest: int, divisor: int, log: Sequence[Record]) -> Look:
    """What a process without memory finds out from a mark on storage."""
    stored = Mark.decode(mark.encode(), "mark")
    assert stored == mark
    records = [log[version - 1] for version in stored.wanted(newest, divisor)]
    found = stored.look(newest, digest_at(newest), divisor, records)
    assert found is not None
    return found


@given(
    divisor=st.integers(2, 4),
    min_inputs=st.integers(2, 4),
    seed=st.integers(0, 2**32),
    quiet=st.floats(0, 0.95),
)
@settings(deadline=None)
def test_a_process_with_any_mark_plans_what_one_that_looks_everywhere_does(
    divisor: int, min_inputs: int, seed: int, quiet: float
) -> None:
    """At every version, compacted or not; with the newest mark or with one that others have left behind."""
    chance = random.Random(seed)
    table, log = Rows(divisor, policy(divisor, min_inputs=min_inputs)), list[Record]()
    marks = [look_everywhere(0, digest_at(0)).mark]
    for _ in range(90):
        touched = frozenset(path for path in PATHS if chance.random() > quiet)
        table.commit(touched)
        log.append(record(table.newest, touched, delete_some(table, chance)))
        compacts, age = chance.random() < 0.5, chance.choice((0, 0, 0, 1, 5))
        look = looked(marks[-1 - min(age, len(marks) - 1)], table.newest, divisor, log)
        paths = look.intents.paths_of(TABLE.uuid, "t")
        assert paths is not None
        here = [segment for segment in table.segments if segment.path in paths]
        assert plan_compaction(here, table.newest, divisor, table.policy) == table.due()
        if compacts:
            table.compact()
            marks.append(look.mark)


def delete_some(table: Rows, chance: random.Random) -> frozenset[str]:
    """Now and then a commit deletes the rows of a file, new or old; the paths that it touches so."""
    alive = [number for number, segment in enumerate(table.segments) if not segment.dead]
    if not alive or chance.random() > 0.1:
        return frozenset()
    number = chance.choice(alive)
    segment = table.segments[number]
    table.segments[number] = replace(segment, dead=((table.newest, segment.rows),))
    return frozenset({segment.path})


@given(divisor=divisors, history=histories, first=st.integers(0, 110))
@settings(deadline=None)
def test_few_records_are_read(divisor: int, history: list[frozenset[str]], first: int) -> None:
    """Each look reads what is new, and less than a window before its mark; whatever level is completed."""
    log = [record(version, touched) for version, touched in enumerate(history, 1)]
    mark = look_everywhere(min(first, len(log)), digest_at(min(first, len(log)))).mark
    for newest in range(mark.version, len(log) + 1):
        wanted = mark.wanted(newest, divisor)
        assert list(wanted) == sorted(set(wanted))
        since = newest - mark.version
        # What was never read of the first windows has to be, once.
        unread = sum(window.first <= first for window in complete_windows(newest, divisor)) * first
        assert since <= len(wanted) <= since + divisor - 1 + unread
        mark = looked(mark, newest, divisor, log).mark


def test_the_intents_of_a_window_are_those_of_the_windows_in_it() -> None:
    """What is known is not read again, and what is not known is read."""
    known = {
        Window(1, 10, 1): Intents(frozenset({("u", "p=1")})),
        Window(21, 30, 1): Intents(whole=frozenset({"v"})),
    }
    mark = Mark(35, digest_at(35), known)
    assert mark.wanted(39, 10) == (36, 37, 38, 39)
    wanted = mark.wanted(100, 10)
    assert wanted == (*range(11, 21), *range(31, 101))
    log = [record(version, ["/t/a"] if version == 33 else []) for version in wanted]
    look = mark.look(100, digest_at(100), 10, log)
    assert look is not None
    assert look.intents == Intents(frozenset({("u", "p=1"), (TABLE.uuid, "a")}), frozenset({"v"}))
    assert look.mark.windows == {Window(1, 100, 2): look.intents}
    assert [look.intents.concerns(uuid) for uuid in ("u", "v", "w")] == [True, True, False]


def test_a_touched_path_brings_those_above_it() -> None:
    intents = Intents(frozenset({("u", "day=1/bucket=2"), ("v", "day=9")}))
    root = frozenset({"/", "/s", "/s/t"})
    assert intents.paths_of("u", "s.t") == root | {"/s/t/day=1", "/s/t/day=1/bucket=2"}
    assert intents.paths_of("w", "s.t") == frozenset({"/"})
    assert Intents(whole=frozenset({"u"})).paths_of("u", "s.t") is None
    assert Intents(everything=True).paths_of("u", "s.t") is None


# --- other reasons ------------------------------------------------------------------------------------------


def rules(newest: int, *records: Record) -> Intents:
    """What has to be looked at since version 1, in a lake where no window is complete."""
    look = Mark(1, digest_at(1)).look(newest, digest_at(newest), 10, records)
    assert look is not None
    return look.intents


def test_rules_and_structures_that_change_are_heard_at_once() -> None:
    assert rules(2, record(2, ["/t/a"])) == Intents()
    own = replace(record(2).tables[0], property_names=frozenset({"compaction.min_inputs"}))
    assert rules(2, record(2, tables=(own,))) == Intents(whole=frozenset({TABLE.uuid}))
    # The paths of its files may have other names from here on.
    shaped = replace(record(2).tables[0], structure=frozenset({"columns"}))
    assert rules(2, record(2, tables=(shaped,))) == Intents(whole=frozenset({TABLE.uuid}))
    of_lake = PropertyChange(set={"compaction.min_inputs": "2"})
    assert rules(2, record(2, lake_properties=of_lake)).everything
    assert not rules(2, record(2, lake_properties=PropertyChange(set={"owner": "ann"}))).everything


def test_a_clustered_table_is_looked_at_once() -> None:
    """It may have more small files than before, so that files of other windows are ready."""
    clustered = replace(record(2).tables[0], verbs=frozenset({"cluster"}))
    assert rules(2, record(2, ["/t/a"], tables=(clustered,))) == Intents(whole=frozenset({TABLE.uuid}))
    compacted = replace(record(2).tables[0], verbs=frozenset({"compact"}))
    assert rules(2, record(2, ["/t/a"], tables=(compacted,))) == Intents()


def test_a_plan_that_was_given_up_is_about_its_table_and_a_vacuum_about_none() -> None:
    planned = record(2, tables=())
    plan = PendingPlan(planned.txid, "clustering", "u-other", frozenset(), frozenset())
    planned = replace(planned, plan=plan)
    ends = record(3, tables=(), cancels=(planned.txid,))
    assert rules(3, planned, ends) == Intents(whole=frozenset({"u-other"}))
    assert rules(2, planned) == Intents()
    assert rules(2, record(2, tables=(), cancels=(TxId("f" * 32),))) == Intents()


def test_what_the_rules_of_a_lake_asked_for_is_asked_for_once() -> None:
    """A look at everything is due when they change, and not each time a larger window is complete."""
    change = PropertyChange(set={"compaction.min_inputs": "2"})
    log = [record(version, ["/t/a"]) for version in range(1, 101)]
    log[4] = record(5, lake_properties=change)
    first = looked(Mark(1, digest_at(1)), 10, 10, log)
    assert first.intents.everything
    later = looked(first.mark, 100, 10, log)
    assert later.intents == Intents(frozenset({(TABLE.uuid, "a")}))


# --- plans, and what is left --------------------------------------------------------------------------------


def found(mark: Mark, newest: int, plans: dict[str, str], *records: Record) -> Look:
    """What a process without memory looks at while some plans are pending."""
    stored = Mark.decode(mark.encode(), "mark")
    assert stored == mark
    look = stored.look(newest, digest_at(newest), 10, records, plans)
    assert look is not None
    return look


def test_a_plan_is_looked_at_when_it_comes_and_when_it_has_ended() -> None:
    """While it is pending, its table costs nothing."""
    mark, pending = Mark(1, digest_at(1)), {"plan": "u-planned"}
    table = Intents(whole=frozenset({"u-planned"}))
    came = found(mark, 2, pending, record(2))
    assert (came.intents, came.mark.plans) == (table, pending)
    stays = found(came.mark, 3, pending, record(3))
    assert (stays.intents, stays.mark.plans) == (Intents(), pending)
    ended = found(stays.mark, 3, {})
    assert (ended.intents, ended.mark.plans) == (table, {})
    assert found(ended.mark, 3, {}).intents == Intents()
    # The id of one plan, and the table of another: a mark that somebody else's log left behind.
    other = found(stays.mark, 3, {"plan": "u-other"})
    assert other.intents == Intents(whole=frozenset({"u-planned", "u-other"}))


def test_what_is_left_is_looked_at_until_it_is_done() -> None:
    some = Intents(frozenset({("u", "p=1"), ("v", "p=2")}), frozenset({"w"}))
    assert some.within({"u"}) == Intents(frozenset({("u", "p=1")}))
    assert some.within({"w"}) == Intents(whole=frozenset({"w"}))
    assert Intents(everything=True).within({"u"}) == Intents(whole=frozenset({"u"}))
    mark = Mark(1, digest_at(1)).leaving(some.within({"u", "w"}))
    assert not mark.waits_like(Mark(1, digest_at(1)))
    look = found(mark, 1, {})
    assert look.intents == some.within({"u", "w"})
    assert look.mark.left == Intents()  # unless it is left again


# --- without a mark -----------------------------------------------------------------------------------------


def from_creation(divisor: int, *log: Record) -> Look | None:
    return Mark(0, digest_at(0)).look(len(log), digest_at(len(log)), divisor, log)


def test_the_whole_log_says_what_a_mark_would() -> None:
    log = [record(1, ["/t/a", "/t/b"]), record(2, ["/t/a"], ["/t/c"]), record(3), record(4, ["/t/d"])]
    look = from_creation(2, *log)
    assert look is not None
    # Each path of complete windows, but one with a single whole file has nothing to merge or to drop.
    touched = Intents(frozenset((TABLE.uuid, path) for path in "abcd"))
    assert look.intents == touched.within({TABLE.uuid}).without({(TABLE.uuid, "b"), (TABLE.uuid, "d")})
    assert look.mark.windows == {Window(1, 4, 2): touched}


def test_a_file_that_a_service_or_a_later_commit_touched_is_not_single() -> None:
    compacted = replace(record(3).tables[0], verbs=frozenset({"compact"}))
    for other in (record(3, deleted=["/t/a"]), record(3, ["/t/a"], tables=(compacted,))):
        look = from_creation(2, record(1, ["/t/a"]), record(2), other)
        assert look is not None and look.intents.paths == {(TABLE.uuid, "a")}
    moved = replace(record(3).tables[0], name="s.u", action=TableAction.RENAME, renamed_from="t")
    look = from_creation(2, record(1, ["/t/a"]), record(2), record(3, ["/s/u/a"], tables=(moved,)))
    assert look is not None and look.intents.paths == {(TABLE.uuid, "a")}


def test_rules_of_a_lake_have_nothing_to_concern_before_there_are_tables() -> None:
    of_lake = PropertyChange(set={"compaction.min_inputs": "2"})
    look = from_creation(10, record(1, lake_properties=of_lake), record(2, ["/t/a"]))
    assert look is not None and look.intents == Intents()


def test_records_that_say_less_are_not_relied_on() -> None:
    """Releases that did not record reads recorded no structure changes, or had only begun to."""
    older = record(2, ["/t/a"], reads=None)
    assert from_creation(10, record(1), older) is None
    assert Mark(1, digest_at(1)).look(2, digest_at(2), 10, [older]) is None


# --- bounds and damage --------------------------------------------------------------------------------------


def test_marks_do_not_grow_with_what_was_touched() -> None:
    many = frozenset(("u", f"p={n}") for n in range(MAX_PATHS_OF_TABLE + 1))
    some = Intents(many | {("v", "p=1")})
    assert some.bounded() == Intents(frozenset({("v", "p=1")}), frozenset({"u"}))
    assert Intents(frozenset({("u", "p")}), frozenset({"u"})).bounded() == Intents(whole=frozenset({"u"}))
    crowd = Intents(frozenset((f"u{n}", "") for n in range(MAX_NAMED + 1)))
    assert crowd.bounded() == Intents(everything=True)


def test_a_mark_of_another_log_is_none() -> None:
    mark = Mark(3, "digest of another record")
    assert mark.look(3, digest_at(3), 10, []) is None
    assert mark.look(4, digest_at(4), 10, [record(4)]) is None
    assert Mark(3, digest_at(3)).look(4, digest_at(4), 10, [record(4)]) is not None


def test_a_mark_does_not_grow_with_plans() -> None:
    few = {"plan": "u"}
    assert Mark.at(3, "", {}, few) == Mark(3, "", plans=few)
    many = {f"plan {number}": "u" for number in range(MAX_NAMED + 1)}
    assert Mark.at(3, "", {}, many) == Mark(3, "", left=Intents(everything=True))
    crowd = Intents(frozenset((f"u{n}", "") for n in range(MAX_NAMED + 1)))
    assert Mark(3, "").leaving(crowd).left == Intents(everything=True)


NOT_A_NUMBER = b'{"format": 2, "checksum": "", "version": NaN}'


def test_a_damaged_mark_is_not_believed() -> None:
    data = Mark(30, digest_at(30), {Window(1, 10, 1): Intents(frozenset({("u", PATHS[0])}))}).encode()
    for wrong in (data.replace(b'"version":30', b'"version":90'), data[:-9], b"[]", b"{}", NOT_A_NUMBER):
        with pytest.raises(CorruptLakeError):
            Mark.decode(wrong, "mark")
    assert Mark.decode(encode({"format": 3, "anything": []}), "mark") is None
