"""The process in which systems are measured: reads requests as lines of JSON, and answers in lines of JSON.

Standard library only, since it runs in the environment of the system. Anything that a system prints goes to
standard error: standard output is only for answers.

    python -m benchmarks.harness.worker
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

from benchmarks.harness.outcome import NotOfferedError, Outcome
from benchmarks.harness.sampling import Sampler

PROFILE = "HEADGATE_BENCH_PROFILE"
"""The file for the report on all timed operations, if it is set."""


class Worker:
    """The systems of this process, by the names that the harness gave them."""

    def __init__(self) -> None:
        self._systems: dict[str, Any] = {}
        self._sampler = Sampler() if os.environ.get(PROFILE) else None

    def answer(self, call: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._answered(call)
        except NotOfferedError as reason:
            return {"not_offered": str(reason)}
        except Exception as error:  # noqa: BLE001 - reported to the harness, which decides
            traceback.print_exc()
            return {"error": f"{type(error).__name__}: {error}"}

    def _answered(self, call: dict[str, Any]) -> dict[str, Any]:
        if "make" in call:
            module, _, name = call["make"].partition(":")
            made = getattr(importlib.import_module(module), name)(**call["arguments"])
            self._systems[call["system"]] = made
            return {"versions": made.versions()}
        system = self._systems[call["system"]]
        operation = getattr(system, call["operation"], None)
        if operation is None:
            raise NotOfferedError
        if call.get("timed"):
            self._tidied()
        return self._timed(system, operation, call)

    def _timed(self, system: Any, operation: Any, call: dict[str, Any]) -> dict[str, Any]:
        sampler = self._sampler if call.get("timed") else None
        busy = getattr(system, "cpu_seconds", time.process_time)
        with nullcontext() if sampler is None else sampler.watching():
            cpu_before, started = busy(), time.perf_counter()
            found = operation(**call["arguments"])
            seconds, cpu = time.perf_counter() - started, busy() - cpu_before
        outcome = found if isinstance(found, Outcome) else Outcome(found)
        told = outcome.to_json()
        return {**told, "seconds": seconds if outcome.seconds is None else outcome.seconds, "cpu": cpu}

    def _tidied(self) -> None:
        """Cleans up, so that a step does not pay for garbage or unwritten data of the step before."""
        gc.collect()
        os.sync()

    def end(self) -> None:
        for system in self._systems.values():
            stop = getattr(system, "stop", None)
            if stop is not None:
                stop()
        if self._sampler is not None:
            Path(os.environ[PROFILE]).write_text(self._sampler.report() + "\n")


def main() -> int:
    answers = _own_output()
    worker = Worker()
    for line in sys.stdin:
        answers.write(json.dumps(worker.answer(json.loads(line))) + "\n")
        answers.flush()
    worker.end()
    return 0


def _own_output() -> TextIO:
    """The original standard output; from now on, anything that is printed goes to standard error."""
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return own


if __name__ == "__main__":
    sys.exit(main())
