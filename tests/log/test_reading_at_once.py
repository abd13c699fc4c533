"""Tasks that read: all at once where storage is far away, and as many as processors where it is near."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from headgate.log import driver as driver_module
from headgate.log.driver import Driver
from headgate.storage.local import LocalStore
from headgate.storage.memory import MemoryStore
from headgate.system.host import SystemHost, processors

TASKS = 12


@pytest.fixture
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "processors", lambda: 2)


class Crowd:
    """Counts who is inside; a task leaves when so many were inside at once, or nobody else can come."""

    def __init__(self, expected: int) -> None:
        self._changed = threading.Condition()
        self._expected, self._inside, self.most = expected, 0, 0

    def task(self, number: int) -> int:
        with self._changed:
            self._inside += 1
            self.most = max(self.most, self._inside)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self.most >= self._expected, timeout=60)
            self._inside -= 1
        return number


@pytest.mark.usefixtures("two_processors")
def test_near_storage_is_read_by_as_many_threads_as_there_are_processors(tmp_path: Path) -> None:
    near = Driver(LocalStore(tmp_path), SystemHost())
    crowd = Crowd(expected=2)
    assert near.read_at_once([partial(crowd.task, n) for n in range(TASKS)]) == list(range(TASKS))
    assert crowd.most == 2


@pytest.mark.usefixtures("two_processors")
def test_storage_that_is_far_away_is_asked_for_all_at_once() -> None:
    far = Driver(MemoryStore(), SystemHost())
    crowd = Crowd(expected=TASKS)
    assert far.read_at_once([partial(crowd.task, n) for n in range(TASKS)]) == list(range(TASKS))


@pytest.mark.usefixtures("two_processors")
def test_an_error_of_a_task_is_raised_when_all_have_ended(tmp_path: Path) -> None:
    ended: list[int] = []

    def task(number: int) -> None:
        if number == 3:
            raise ValueError(number)
        ended.append(number)

    near = Driver(LocalStore(tmp_path), SystemHost())
    with pytest.raises(ValueError, match="3"):
        near.read_at_once([partial(task, n) for n in range(TASKS)])
    assert sorted(ended) == [n for n in range(TASKS) if n != 3]


def test_nothing_is_done_of_nothing(tmp_path: Path) -> None:
    assert Driver(LocalStore(tmp_path), SystemHost()).read_at_once([]) == []
    assert processors() >= 1
