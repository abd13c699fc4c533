"""A profiler that samples all threads: the top function of each stack, a few hundred times per second.

The profiler of the standard library sees only the calling thread, but Headgate decodes and sends in others.
Waiting threads are not counted. Standard library only: it runs in the environment of a system.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

EVERY_SECONDS = 0.002
WAITING = frozenset({"threading.py", "queue.py", "selectors.py", "socket.py"})
"""Files whose functions only wait when they are on top of a stack."""
WAITING_IN = frozenset({"_work", "run", "sleep", "<genexpr>"})
"""Functions of `host.py` that wait in C code, which has no frame of its own."""


class Sampler:
    """Counts functions: those on top of a stack (`own`), and those anywhere in one (`whole`)."""

    def __init__(self) -> None:
        self.own: Counter[str] = Counter()
        self.whole: Counter[str] = Counter()
        self.samples = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Samples while the block runs."""
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def _watch(self, over: threading.Event) -> None:
        mine = threading.get_ident()
        while not over.is_set():
            for thread, frame in sys._current_frames().items():
                if thread != mine:
                    self._count(frame)
            time.sleep(EVERY_SECONDS)

    def _count(self, top: FrameType) -> None:
        if _waits(top):
            return
        self.samples += 1
        self.own[_name(top)] += 1
        seen = set()
        frame: FrameType | None = top
        while frame is not None:
            seen.add(_name(frame))
            frame = frame.f_back
        self.whole.update(seen)

    def report(self, lines: int = 25) -> str:
        """The shares of the samples, largest first."""
        if not self.samples:
            return "nothing was seen at work"
        parts = []
        for title, counts in (("of its own", self.own), ("with what it calls", self.whole)):
            parts.append(f"time {title}, of {self.samples} samples")
            parts += [f"{100 * n / self.samples:5.1f} %  {name}" for name, n in counts.most_common(lines)]
        return "\n".join(parts)


def _waits(frame: FrameType) -> bool:
    return Path(frame.f_code.co_filename).name in WAITING or (
        frame.f_code.co_name in WAITING_IN and frame.f_code.co_filename.endswith("headgate/system/host.py")
    )


def _name(frame: FrameType) -> str:
    code = frame.f_code
    return f"{'/'.join(Path(code.co_filename).parts[-2:])}:{code.co_name}"
