"""The original rules allow each kind of harm; under the same schedule, Headgate's FileTracker does none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import pytest

from headgate.log.cleanup import CleanUp
from headgate.log.filetracker import FileTrackerPublish
from headgate.log.machine import Committed, Lost
from tests.exploration.explorer import Client, Exploration, Explorer, Objects, Violation
from tests.exploration.laws import ProtocolLaws, Results
from tests.exploration.report import CLEAN, claim
from tests.exploration.seed_model import HARMS, Harm, SeedCleanUp
from tests.exploration.variants import DeletesHints, OwnValue

ENOUGH_TURNS = 100
"""More than a client needs to finish all that it does."""
OF_AN_ATTEMPT = re.compile(r"commit/\d+/(\d+|sub-hint)/")


@dataclass(frozen=True, slots=True)
class Retrying(Client):
    """An application that, having lost a version, commits to the next one."""

    def goes_on(self, result: object) -> bool:
        return isinstance(result, Lost)


class OneWinner(ProtocolLaws):
    """All the laws; and when everybody has been told about version 1, exactly one has won it."""

    def on_world(self, objects: Objects, results: Results) -> str | None:
        first = [told[0] for told in results if told]
        if len(first) == len(results) and sum(isinstance(result, Committed) for result in first) != 1:
            return f"not one winner: {first}"
        return super().on_world(objects, results)


def same_work(harm: Harm, kind: type[FileTrackerPublish], clean: CleanUp) -> tuple[Client, ...]:
    """Clients with the same names and the same work, on our protocol."""
    if any(isinstance(task, SeedCleanUp) for client in harm.clients for task in client.tasks):
        one = tuple(claim(kind, 1, version) for version in (1, 2, 3))
        return Client("c1", (one[0], clean, one[1], clean, one[2])), Client("c2", (claim(kind, 2),))
    return tuple(
        Retrying(client.name, tuple(claim(kind, number, version) for version in (1, 2, 3)))
        for number, client in enumerate(harm.clients, start=1)
    )


@cache
def shortest_schedule(harm: Harm) -> Violation:
    found = harm.explorer().explore().violation
    assert found is not None
    assert harm.text in found.law
    return found


def attempts_only(found: Violation) -> tuple[str, ...]:
    """The turns without those that discover version and sub-version, for which we need no requests."""
    return tuple(name for name, what in found.schedule if OF_AN_ATTEMPT.search(what) and "GET" not in what)


def replays(
    harm: Harm, kind: type[FileTrackerPublish] = FileTrackerPublish, clean: CleanUp = CLEAN
) -> Iterator[Exploration]:
    """Plays the schedule of the harm, or a beginning of it; then everybody finishes, in every order."""
    found = shortest_schedule(harm)
    clients = same_work(harm, kind, clean)
    turns = attempts_only(found)
    for played in (found.turns(), *(turns[:count] for count in range(len(turns) + 1))):
        for order in permutations(client.name for client in clients):
            finishing = tuple(name for name in order for _ in range(ENOUGH_TURNS))
            laws = OneWinner(clients, storage_fails=False)
            yield Explorer(clients, laws, turns=played + finishing, check_progress=False).explore()


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.name)
def test_the_original_rules_allow_it_and_ours_do_not(harm: Harm) -> None:
    for replayed in replays(harm):
        assert replayed.violation is None, f"{replayed.violation}"
        assert replayed.worlds == 1, "somebody has not finished"


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.name)
def test_the_replay_notices_a_client_that_does_not_adopt(harm: Harm) -> None:
    assert any(replayed.violation is not None for replayed in replays(harm, kind=OwnValue))


def test_the_replay_notices_a_clean_up_that_deletes_records() -> None:
    assert any(replayed.violation is not None for replayed in replays(HARMS[-1], clean=DeletesHints(keep=1)))
