"""Systems that exist only to be measured: they run in the processes of the harness."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.harness.outcome import NotOfferedError, Outcome


class Adder:
    """Answers with sums. `wrong` is added to each of them."""

    def __init__(self, place: str, cores: int, wrong: int = 0, signature: str = "", diary: str = "") -> None:
        self._place, self._wrong, self._signature, self._diary = Path(place), wrong, signature, diary
        self._cores = cores

    def versions(self) -> dict[str, str]:
        return {"adder": "1.0"}

    def add(self, left: int, right: int) -> int:
        self._note("add")
        os.write(1, b"a line that is no answer\n")
        return left + right + self._wrong

    def several(self, count: int) -> Outcome:
        return Outcome(samples=tuple(0.5 for _ in range(count)), seconds=2.0, facts={"process": os.getpid()})

    def refuse(self) -> None:
        raise NotOfferedError("adders do not refuse")

    def fail(self) -> None:
        raise ValueError("broken\non two lines")

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def leave(self) -> None:
        os._exit(3)

    def _note(self, word: str) -> None:
        if self._diary:
            with Path(self._diary).open("a") as diary:
                diary.write(f"{self._signature} {word}\n")
