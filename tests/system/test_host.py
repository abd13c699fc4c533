"""The surroundings of a process: tasks that run at once."""

from __future__ import annotations

import threading
from functools import partial

import pytest

import headgate.system.host as host_module
from headgate.system.host import REQUESTS_AT_ONCE, SystemHost, _Batch

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


def test_tasks_that_nobody_waits_for_do_not_begin() -> None:
    """After a Ctrl-C of who gave them out, which comes while the first ones are under way."""
    host, begun, go_on = SystemHost(), threading.Semaphore(0), threading.Event()
    done: list[int] = []

    def task(number: int) -> None:
        begun.release()
        go_on.wait(DEADLOCK_SECONDS)
        done.append(number)

    class InterruptedQueue:
        """A Ctrl-C that comes as soon as all workers are busy."""

        def put(self, answer: object) -> None: ...

        def get(self) -> object:
            for _ in range(REQUESTS_AT_ONCE):
                assert begun.acquire(timeout=DEADLOCK_SECONDS)
            raise KeyboardInterrupt

    batch = _Batch()
    batch.answers = InterruptedQueue()  # type: ignore[assignment]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_module, "_Batch", lambda: batch)
        with pytest.raises(KeyboardInterrupt):
            host.together([partial(task, number) for number in range(3 * REQUESTS_AT_ONCE)])
    go_on.set()
    # These come behind all of the others.
    assert host.together([partial(int, number) for number in range(50)]) == list(range(50))
    assert host._workers.stop(DEADLOCK_SECONDS) > 0
    assert len(done) == REQUESTS_AT_ONCE


def test_work_goes_on_after_the_workers_were_stopped() -> None:
    """As in a function that the end of the process calls."""
    host = SystemHost()
    assert host.together([partial(int, 1), partial(int, 2)]) == [1, 2]
    assert host._workers.stop(DEADLOCK_SECONDS) > 0
    assert host.together([partial(int, 1), partial(int, 2)]) == [1, 2]
