"""The harness's side of a worker: starts the process, sends requests, and ends it when its time is over."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from benchmarks.harness.worker import PROFILE

ROOT = Path(__file__).parents[2]
START_SECONDS = 300.0
"""How long a system may take to start: a JVM, and a Spark session."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a step: its time and answer, or the reason for none in `missing` (empty if obvious)."""

    seconds: float = 0.0
    cpu: float = 0.0
    answer: Any = None
    samples: tuple[float, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    missing: str | None = None


class StoppedError(Exception):
    """The process is gone: it was killed after its time limit, or it ended itself."""


class Process:
    """A worker in a process of its own. Not thread-safe."""

    def __init__(self, python: str, log: Path, profile: Path | None = None) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_import_paths())}
        if profile is not None:
            environment[PROFILE] = str(profile)
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [python, "-m", "benchmarks.harness.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=environment,
                # A process group of its own, so that stopping it stops its JVM, too.
                start_new_session=True,
            )

    def make(self, system: str, adapter: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Creates a system in the process; returns the versions of its parts."""
        told = self._ask({"make": adapter, "system": system, "arguments": dict(arguments)}, START_SECONDS)
        if "error" in told or "not_offered" in told:
            raise StoppedError(told.get("error") or told["not_offered"])
        return dict(told["versions"])

    def call(
        self,
        system: str,
        operation: str,
        arguments: Mapping[str, Any],
        limit_seconds: float,
        *,
        timed: bool = True,
    ) -> Reply:
        """Runs an operation. If it takes longer than the limit, it is ended together with the process."""
        question = {
            "system": system,
            "operation": operation,
            "arguments": dict(arguments),
            "timed": timed,
        }
        told = self._ask(question, limit_seconds)
        missing = told.get("not_offered", told.get("error"))
        if missing is not None:
            return Reply(missing=missing.partition("\n")[0][:300])
        return Reply(told["seconds"], told["cpu"], told["answer"], tuple(told["samples"]), told["facts"])

    def begin(self, system: str, operation: str, arguments: Mapping[str, Any]) -> None:
        """Starts an operation that does not end by itself."""
        self._send({"system": system, "operation": operation, "arguments": dict(arguments)})

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kills the process and everything that it started."""
        if self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._close()

    def end(self) -> None:
        """Lets the process end by itself."""
        if not self.is_running:
            self._close()
            return
        self._pipe(self._process.stdin).close()
        try:
            self._process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.end()
        else:
            self.kill()

    def _ask(self, question: Mapping[str, Any], limit_seconds: float) -> dict[str, Any]:
        self._send(question)
        answers = self._pipe(self._process.stdout)
        ready, _, _ = select.select([answers], [], [], limit_seconds)
        if not ready:
            self.kill()
            raise StoppedError(f"more than {limit_seconds:g} s")
        line = answers.readline()
        if not line:
            self.kill()
            raise StoppedError(f"the process ended; the last it said: {self._last_words()}")
        told: dict[str, Any] = json.loads(line)
        return told

    def _send(self, question: Mapping[str, Any]) -> None:
        requests = self._pipe(self._process.stdin)
        try:
            requests.write(json.dumps(question).encode() + b"\n")
            requests.flush()
        except (BrokenPipeError, ValueError) as error:
            raise StoppedError(f"the process is gone: {self._last_words()}") from error

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "nothing"

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()

    def _pipe(self, pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe


def _import_paths() -> list[str]:
    """The worker's import paths: this repository, and those of this process."""
    given = os.environ.get("PYTHONPATH", "")
    return [str(ROOT), *(given.split(os.pathsep) if given else [])]
