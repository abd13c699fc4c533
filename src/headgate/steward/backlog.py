"""Work after commits that this process does behind the callers, in the order of the versions.

1. A version is decided. What follows it is added here, and the caller goes on.
2. One thread takes everything that waits and does it together, so that each table is published only once.
   Then it takes what has been added meanwhile. When nothing is left, it ends.

The end of the process waits for the thread. A process that is killed leaves versions without control
entries, like any writer that dies between its decision and its entry; recovery does their work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headgate.log.lost_end import LostEndError
from headgate.model.record import Record
from headgate.model.state import LakeState
from headgate.system.host import Host, renew_after_fork

MOST_WAITING = 64
"""With so many versions waiting, writers do the work themselves, so that it does not fall further behind."""
OF_THE_PARENT = "the process that was forked does what follows this commit"


@dataclass(frozen=True, slots=True)
class Decided:
    """A version that was committed, the lake after it, and how long the commit took."""

    record: Record
    state: LakeState
    timings: dict[str, float]


@dataclass(frozen=True, slots=True)
class Aftermath:
    """The result of the work after a commit: postponed work, and why some hooks are not done."""

    postponed: tuple[str, ...] = ()
    hook_failures: tuple[str, ...] = ()


@dataclass(slots=True)
class Awaited:
    """What will have become of the work after a commit."""

    _aftermath: Aftermath | None = None
    _error: BaseException | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def end(self, aftermath: Aftermath | None, error: BaseException | None = None) -> None:
        self._aftermath, self._error = aftermath, error
        self._ended.set()

    def end_in_fork(self, aftermath: Aftermath) -> None:
        """Ends it in a forked child, where a thread that is gone may still hold the old lock."""
        self._ended = threading.Event()
        self.end(aftermath)

    def wait(self) -> Aftermath:
        """Waits until the work is done. Raises what has made it end early, such as a `LostEndError`."""
        self._ended.wait()
        if self._error is not None:
            raise self._error
        assert self._aftermath is not None
        return self._aftermath


@dataclass(frozen=True, slots=True)
class _Waiting:
    decided: Decided
    follow: Callable[[Sequence[Decided]], Sequence[Aftermath]]
    awaited: Awaited


class Backlog:
    """The versions of one lake whose work waits, over all handles of this process. Safe to share."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._waiting: list[_Waiting] = []
        self._under_way: list[_Waiting] = []
        self._is_running = False
        self._lost: LostEndError | None = None
        renew_after_fork(self)

    def after_fork(self) -> None:
        # The thread belongs to the parent, which does the work. Here nobody would ever end the waiting.
        for one in (*self._waiting, *self._under_way):
            one.awaited.end_in_fork(Aftermath(postponed=(OF_THE_PARENT,)))
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._waiting, self._under_way, self._is_running = [], [], False

    def add(
        self, decided: Decided, follow: Callable[[Sequence[Decided]], Sequence[Aftermath]]
    ) -> Awaited | None:
        """Lets `follow` do the work of a version later; None if the caller has to do it itself.

        `follow` gets versions in ascending order, and returns a result for each.
        """
        awaited = Awaited()
        with self._lock:
            if len(self._waiting) + len(self._under_way) >= MOST_WAITING:
                return None
            self._waiting.append(_Waiting(decided, follow, awaited))
            if not self._is_running:
                self._is_running = self._host.background(self._work, "follow-up", awaited=True)
                if not self._is_running:
                    # At the end of the process, or at a limit of the system.
                    del self._waiting[-1]
                    return None
        return awaited

    def drain(self) -> None:
        """Waits until nothing is left to do."""
        with self._idle:
            self._host.wait_until(self._idle, lambda: not self._is_running)

    def raise_lost(self) -> None:
        """Raises, once, the error that showed that the log had lost its end.

        Perhaps no caller waited for the commit that found it out, and the next one must not continue.
        """
        with self._lock:
            lost, self._lost = self._lost, None
        if lost is not None:
            raise lost

    def _work(self) -> None:
        while True:
            with self._lock:
                self._under_way, self._waiting = self._waiting, []
                if not self._under_way:
                    self._is_running = False
                    self._idle.notify_all()
                    return
            self._do(self._under_way)

    def _do(self, batch: Sequence[_Waiting]) -> None:
        # Handles have caches and counters of their own; usually there is one.
        for follow in dict.fromkeys(one.follow for one in batch):
            mine = sorted(
                (one for one in batch if one.follow == follow), key=lambda one: one.decided.record.version
            )
            try:
                results = follow([one.decided for one in mine])
            except BaseException as error:  # noqa: BLE001 — raised by those who wait for the results
                if isinstance(error, LostEndError):
                    with self._lock:
                        self._lost = error
                for one in mine:
                    one.awaited.end(None, error)
                continue
            for one, aftermath in zip(mine, results, strict=True):
                one.awaited.end(aftermath)
