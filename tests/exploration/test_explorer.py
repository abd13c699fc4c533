"""The explorer visits what there is to visit, and says so when it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from headgate.log.machine import Ask, Finish
from headgate.storage.capabilities import Page
from headgate.storage.requests import Answer, Create, Get, ListPage, Put, Refused, Rename, Request
from tests.exploration.explorer import (
    Choose,
    Client,
    Exploration,
    Explorer,
    Faults,
    Laws,
    Objects,
    perform_on,
)


@dataclass(frozen=True, slots=True)
class Errand:
    """Makes some requests, one after the other or all at once, and returns the answers."""

    requests: tuple[Any, ...]
    at_once: bool = False

    def begin(self) -> Ask:
        return Ask((), self.requests if self.at_once else self.requests[:1])

    def resume(self, state: tuple[Answer, ...], answers: tuple[Answer, ...]) -> Ask | Finish[Any]:
        known = state + answers
        if len(known) == len(self.requests):
            return Finish(known)
        return Ask(known, self.requests[len(known) : len(known) + 1])


class Endless:
    """Asks for ever."""

    def begin(self) -> Ask:
        return Ask("waiting", (Get("a"),))

    def resume(self, state: str, answers: tuple[Answer, ...]) -> Ask:
        return self.begin()


class Collecting(Laws):
    """Keeps all final results."""

    def __init__(self) -> None:
        self.results: set[tuple[Any, ...]] = set()

    def on_world(self, objects: Objects, results: tuple[tuple[Any, ...], ...]) -> str | None:
        self.results.add(tuple(told for all_told in results for told in all_told))
        return None


class Forbidden(Laws):
    """Forbids a key."""

    def on_change(self, before: Objects, request: Request, after: Objects) -> str | None:
        return "b was written" if "b" in after else None


def puts(*keys: str, at_once: bool = False) -> Errand:
    return Errand(tuple(Put(key, b"") for key in keys), at_once)


def explore(*tasks: Errand, **options: Any) -> Exploration:
    clients = tuple(Client(f"c{number}", (task,)) for number, task in enumerate(tasks, start=1))
    return Explorer(clients, options.pop("laws", Laws()), **options).explore()


def test_two_independent_clients_visit_every_pair_of_places() -> None:
    exploration = explore(puts("a", "b", "c"), puts("x", "y"))

    assert exploration == Exploration(worlds=4 * 3, steps=3 * 3 + 4 * 2, violation=None, complete=True)


def test_requests_made_at_once_arrive_in_every_order() -> None:
    assert explore(puts("a", "b", "c", at_once=True)).worlds == 2**3


def test_a_choice_is_answered_in_every_way() -> None:
    laws = Collecting()

    explore(Errand((Choose("which?", ("this", "that")),)), laws=laws)

    assert laws.results == {(), (("this",),), (("that",),)}


def test_each_fault_is_a_world_of_its_own() -> None:
    kinds = {"lose_answers": False, "lose_requests": False, "repeat_late": False}
    calm = explore(puts("a"), faults=Faults(1, **kinds)).worlds

    assert explore(puts("a"), faults=Faults(1, **{**kinds, "lose_answers": True})).worlds == calm + 1
    assert explore(puts("a"), faults=Faults(1, **{**kinds, "lose_requests": True})).worlds == calm + 1
    assert explore(puts("a"), faults=Faults(1, **kinds, refuse=True)).worlds == calm + 1
    # Done and still to come again; not done and still to come: before and after it comes.
    assert explore(puts("a"), faults=Faults(1, **{**kinds, "repeat_late": True})).worlds == calm + 4


def test_a_late_request_is_carried_out_without_its_client() -> None:
    # The second write is there first; the first one arrives late and replaces it.
    overwrite = Errand((Put("a", b"1"), Put("a", b"2"), Get("a"), Get("a")))
    laws = Collecting()

    explore(overwrite, laws=laws, faults=Faults(1))

    read = {tuple(getattr(answer, "data", None) for answer in told[0][2:]) for told in laws.results if told}
    assert (b"2", b"1") in read


def test_the_shortest_schedule_to_a_violation_is_reported() -> None:
    violation = explore(puts("a", "b"), puts("x"), laws=Forbidden()).violation

    assert violation is not None
    assert violation.schedule == (("c1", "PUT a"), ("c1", "PUT b"))
    assert str(violation).splitlines()[0] == "b was written"


def test_turns_are_played_before_the_exploration_and_skip_who_has_finished() -> None:
    played = explore(puts("a", "c"), puts("x"), turns=("c1", "c1", "c1", "c1"))

    assert (played.worlds, played.steps) == (2, 1)


def test_a_violation_in_the_played_turns_is_reported() -> None:
    violation = explore(puts("a", "b"), laws=Forbidden(), turns=("c1", "c1")).violation

    assert violation is not None
    assert violation.turns() == ("c1", "c1")


def test_who_never_finishes_alone_is_reported() -> None:
    violation = Explorer((Client("c1", (Endless(),)),), Laws()).explore().violation

    assert violation is not None
    assert "c1, left alone, does not finish" in violation.law


def test_a_search_that_was_cut_short_says_so() -> None:
    assert not explore(puts("a", "b", "c"), puts("x", "y"), max_worlds=5).complete


def test_steps_that_are_not_allowed_are_left_out() -> None:
    assert explore(puts("a", "b", "c"), allow=lambda state: len(state) < 1).worlds == 2


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (Create("a", b"2"), Refused()),
        (Rename("b", "a"), Refused()),
        (Rename("missing", "c"), Refused()),
        (ListPage(""), Page(("a", "b"), complete=True)),
        (ListPage("", "a"), Page(("b",), complete=True)),
    ],
)
def test_the_storage_keeps_its_promises(request_: Request, answer: Answer) -> None:
    objects = {"a": b"1", "b": b"1"}

    assert perform_on(objects, request_) == (objects, answer)


def test_a_listing_can_be_split_and_in_any_order() -> None:
    objects = {"a": b"", "b": b"", "c": b""}

    def last_first(key: str) -> int:
        return -ord(key)

    assert perform_on(objects, ListPage(""), 1)[1] == Page(("a",), complete=False)
    assert perform_on(objects, ListPage("", "c"), 1)[1] == Page((), complete=True)
    assert perform_on(objects, ListPage("", "c"), 1, last_first)[1] == Page(("b",), complete=False)
