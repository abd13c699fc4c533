"""The surroundings of a process: tasks that run at once."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from headgate.host import REQUESTS_AT_ONCE, SystemHost

DEADLOCK_SECONDS = 20.0


def test_tasks_of_all_workers_can_have_tasks_of_their_own() -> None:
    host = SystemHost()
    everybody = threading.Barrier(REQUESTS_AT_ONCE, timeout=DEADLOCK_SECONDS)

    def outer(number: int) -> list[int]:
        everybody.wait()  # so every worker is taken when the inner tasks are given out
        return host.together([partial(int, number), partial(int, number + 1)])

    found: list[list[int]] = []
    tasks = [partial(outer, number) for number in range(REQUESTS_AT_ONCE)]
    caller = threading.Thread(target=lambda: found.extend(host.together(tasks)), daemon=True)
    caller.start()
    caller.join(DEADLOCK_SECONDS)

    assert found == [[number, number + 1] for number in range(REQUESTS_AT_ONCE)]


def test_all_inner_tasks_are_finished_when_the_first_error_is_raised() -> None:
    host = SystemHost()

    def outer() -> None:
        done: list[str] = []

        def inner(text: str) -> None:
            done.append(text)
            int(text)

        with pytest.raises(ValueError, match="'x'"):
            host.together([partial(inner, text) for text in ("1", "x", "2", "y")])
        assert done == ["1", "x", "2", "y"]

    host.together([outer, outer])
