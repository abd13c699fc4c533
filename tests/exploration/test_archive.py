"""Clean-up keeps who competed for a version, however many clean up at once and wherever one of them dies."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.log import cleanup
from headgate.log.cleanup import CheckingArchive, CleanUp, ListingAttempts
from headgate.log.filetracker import FileTrackerPublish
from headgate.log.layout import TRACKER, Ballot
from headgate.log.machine import Ask
from headgate.model.attempts import Bids
from headgate.model.identifiers import Version
from headgate.storage.requests import Answer, Delete, Get, ListPage, Missing, Put, Request
from tests.exploration.explorer import Client, Explorer, Faults, Laws, Objects, perform_on
from tests.exploration.report import CLEAN, claim, claimant

FIRST = Version(1)
COMPETITORS: set[str | None] = {claimant(1).text, claimant(2).text}


def contested() -> dict[str, bytes]:
    """Version 1 was contested by two clients, version 2 by one; nobody is at work on them any more."""
    objects: dict[str, bytes] = {}
    objects[TRACKER.prepare_key(FIRST, Ballot(1, claimant(1)))] = b"1"
    for version in (1, 2):
        machine = claim(FileTrackerPublish, 2, version)
        step = machine.begin()
        while isinstance(step, Ask):
            answers = []
            for request in step.requests:
                objects, answer = perform_on(objects, request, None, str)
                answers.append(answer)
            step = machine.resume(step.state, tuple(answers))
    return objects


class KeepsCompetitors(Laws):
    """No attempt goes before both clients are kept, and what is kept never becomes less."""

    def on_change(self, before: Objects, request: Request, after: Objects) -> str | None:
        match request:
            case Put(key) if key == TRACKER.archive_key(FIRST) and _kept(after) != COMPETITORS:
                return "kept less than there was"
            case Delete(key) if (
                key in before and TRACKER.attempts(FIRST) in key and _kept(after) != COMPETITORS
            ):
                return "deleted an attempt of which nothing is kept"
            case _:
                return None


def _kept(objects: Objects) -> set[str | None]:
    key = TRACKER.archive_key(FIRST)
    return {bid.client for bid in Bids.decode(objects[key], FIRST, key).bids} if key in objects else set()


def explored(clean: CleanUp, cleaners: int, faults: Faults) -> str | None:
    clients = tuple(Client(f"cleaner {number}", (clean,)) for number in range(cleaners))
    exploration = Explorer(clients, KeepsCompetitors(), contested(), faults=faults).explore()
    assert exploration.violation is not None or exploration.complete
    return None if exploration.violation is None else str(exploration.violation)


@pytest.mark.parametrize(("cleaners", "faults"), [(1, 2), (2, 1), (3, 0)])
def test_no_order_of_requests_forgets_a_competitor(cleaners: int, faults: int) -> None:
    assert explored(CLEAN, cleaners, Faults(faults)) is None


class AsksForTheArchiveFirst(CleanUp):
    """Asks whether anything is kept before it lists: by the time of the listing attempts may be gone."""

    def _next(self, work: cleanup.Work) -> cleanup.Step:
        if not work.due:
            return super()._next(work)
        return Ask(CheckingArchive(work, ()), (Get(self.layout.archive_key(work.due[0])),))

    def resume(self, state: Any, answers: tuple[Answer, ...]) -> cleanup.Step:
        if isinstance(state, CheckingArchive) and isinstance(answers[0], Missing):
            return Ask(ListingAttempts(state.work), (ListPage(self.layout.attempts(state.work.due[0])),))
        step = super().resume(state, answers)
        listed = isinstance(state, ListingAttempts) and isinstance(step, Ask)
        if listed and isinstance(step, Ask) and isinstance(step.state, CheckingArchive):
            return self._keep(step.state.work, step.state.attempts)
        return step


class KeepsWhatIsLeft(CleanUp):
    """Keeps what it could still read, although another clean-up has kept all of it."""

    def _read(self, work: cleanup.Work, attempts: tuple[str, ...], answers: Any) -> cleanup.Step:
        there = {key: answer for key, answer in answers.items() if not isinstance(answer, Missing)}
        return super()._read(work, attempts, there)


class KeepsNothing(CleanUp):
    """Deletes attempts without keeping who competed."""

    def _keep(self, work: cleanup.Work, attempts: tuple[str, ...]) -> cleanup.Step:
        return self._delete_attempts(work, attempts)


@pytest.mark.parametrize("broken", [AsksForTheArchiveFirst, KeepsWhatIsLeft, KeepsNothing])
def test_a_broken_clean_up_is_caught(broken: type[CleanUp]) -> None:
    assert explored(broken(keep=1), 2, Faults()) is not None
