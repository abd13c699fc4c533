"""Candidates by start and by end: the same records, hence the same verdicts, on any history."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.conflict.detection import Beginning, by_end, by_start, candidates, find_conflicts
from headgate.core.conflict.footprint import Footprint
from headgate.model.identifiers import TxId, Version
from headgate.model.record import PropertyChange, Record
from tests.model.test_record import a_record


def txid(number: int) -> TxId:
    return TxId(f"{number:032x}")


@dataclass(frozen=True)
class Event:
    """Somebody begins, or ends. `name` is the property that it changes, `announces` whether others see it."""

    who: int
    name: str
    announces: bool
    leaves_its_announcement: bool


@dataclass
class History:
    """Transactions that begin and commit, as the rules with one way of choosing candidates let them."""

    choice: str
    log: list[Record] = field(default_factory=list)
    begun: dict[int, Beginning] = field(default_factory=dict)
    announced: set[TxId] = field(default_factory=set)
    verdicts: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)

    def happens(self, event: Event) -> None:
        if event.who not in self.begun:
            pending = frozenset(self.announced) if self.choice == "start" else None
            self.begun[event.who] = Beginning(Version(len(self.log)), pending)
            if event.announces:
                self.announced.add(txid(event.who))
            return
        beginning = self.begun[event.who]
        if any(record.txid == txid(event.who) for record in self.log):
            return
        chosen = candidates(beginning, self.log)
        ours = Footprint(txid(event.who), PropertyChange({event.name: ""}))
        conflicts = find_conflicts(ours, (candidate.record for candidate in chosen))
        self.verdicts.append((event.who, tuple(conflict.other.version.number for conflict in conflicts)))
        if not event.leaves_its_announcement:
            self.announced.discard(txid(event.who))
        if not conflicts:
            self.log.append(
                a_record(
                    version=Version(len(self.log) + 1),
                    txid=txid(event.who),
                    base=beginning.base,
                    lake_properties=PropertyChange({event.name: ""}),
                )
            )


events = st.builds(Event, st.integers(0, 5), st.sampled_from("abc"), st.booleans(), st.booleans())


@settings(deadline=None)
@given(st.lists(events, max_size=40))
def test_both_ways_give_the_same_verdicts_on_random_histories(happened: list[Event]) -> None:
    by_its_end, by_its_start = History("end"), History("start")
    for event in happened:
        by_its_end.happens(event)
        by_its_start.happens(event)
    assert by_its_end.verdicts == by_its_start.verdicts
    assert by_its_end.log == by_its_start.log


@settings(deadline=None)
@given(base=st.integers(0, 8), pending=st.sets(st.integers(0, 8)), completes=st.sets(st.integers(0, 8)))
def test_both_ways_choose_what_ended_after_the_beginning(
    base: int, pending: set[int], completes: set[int]
) -> None:
    log = [
        a_record(
            version=Version(number),
            txid=txid(number),
            completes=(txid(100 + number),) if number in completes else (),
        )
        for number in range(1, 9)
    ]
    known = frozenset({txid(number) for number in pending} | {txid(100 + number) for number in pending})
    started = by_start(Version(base), known, log)
    assert [one.record for one in started] == [one.record for one in by_end(Version(base), log)]
    # Both of its own kinds are there: what was pending and what was not known to be.
    assert {one.record.version.number for one in started if one.was_pending} == {
        number for number in pending if number > base
    }


def test_the_completion_of_a_plan_that_was_pending_is_one_that_was_pending() -> None:
    record = a_record(version=Version(3), txid=txid(1), completes=(txid(2),))
    (candidate,) = by_start(Version(2), frozenset({txid(2)}), [record])
    assert candidate.was_pending
