"""The action `command`: runs a program with the event as JSON on its standard input."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

from headgate.core.input.secrets import clean_text, without_secrets
from headgate.errors import HookFailedError, InvalidInputError
from headgate.model.commit_event import CommitEvent
from headgate.steward.hooks.deadline import checked_seconds, within
from headgate.steward.hooks.nesting import environment

TAIL_BYTES = 65_536
"""How much of the output is read: more than is stored, so that no secret is cut before it is recognised."""
TAIL_CHARACTERS = 600


@dataclass(frozen=True, slots=True)
class Command:
    """Runs a program without a shell. `arguments` is a list whose first item is the program.

    The program gets the event as one line of JSON on standard input, and the environment and working
    directory of this process. Any exit code but 0 is a failure; the error contains the end of the output.
    After `timeout_seconds`, or if the commit is interrupted, the program is killed with all processes in its
    process group. It does not receive a Ctrl-C of the terminal.
    """

    arguments: Sequence[str]
    timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        checked_seconds(self.timeout_seconds)
        if isinstance(self.arguments, str):
            raise InvalidInputError(
                "a command must be a list of arguments, not a string, because no shell parses it",
                "write it as ['program', 'argument', …]",
            )
        object.__setattr__(self, "arguments", _checked(self.arguments))

    def run(self, event: CommitEvent) -> None:
        # Files, not pipes: the program need not read its input, and a process that it leaves behind may keep
        # its output open forever.
        with TemporaryFile() as told, TemporaryFile() as said:
            told.write(event.encode() + b"\n")
            told.seek(0)
            code = self._run_program(Program(self.arguments, told, said), said)
            if code:
                how = f"failed with exit code {code}" if code > 0 else f"was killed by signal {-code}"
                raise HookFailedError(f"{self._program} {how}{_tail(said)}")

    def describe(self) -> str:
        return f"runs {' '.join(without_secrets(self.arguments))}"

    @property
    def _program(self) -> str:
        return without_secrets(self.arguments)[0]

    def _run_program(self, program: Program, said: IO[bytes]) -> int | None:
        def kill() -> str:
            program.kill()
            return f"{self._program} was killed{_tail(said)}"

        try:
            within(self.timeout_seconds, program.run, on_late=kill)
        except FileNotFoundError as error:
            raise HookFailedError(
                f"the program {self._program} does not exist", "install it, or correct the name"
            ) from error
        except OSError as error:
            raise HookFailedError(f"cannot run {self._program}: {error.strerror or error}") from error
        return program.code


def _checked(arguments: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(arguments, Sequence) or not all(isinstance(each, str) for each in arguments):
        raise InvalidInputError(
            "a command must be a list of strings", "write it as ['program', 'argument', …]"
        )
    if not arguments or not arguments[0]:
        raise InvalidInputError("a command needs a program", "write it as ['program', 'argument', …]")
    if any("\0" in argument for argument in arguments):
        raise InvalidInputError("an argument of the command contains a NUL character", "remove it")
    return tuple(arguments)


def _tail(said: IO[bytes]) -> str:
    """The end of the output, without secrets."""
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - TAIL_BYTES))
    text = clean_text(said.read().decode(errors="backslashreplace")).strip()
    cut = text if len(text) <= TAIL_CHARACTERS else f"…{text[-TAIL_CHARACTERS:]}"
    return f": {cut}" if cut else ""


class Program:
    """One run of a program, in a session and process group of its own.

    `told` is its standard input; `said` receives its standard output and standard error.
    """

    def __init__(self, arguments: Sequence[str], told: IO[bytes], said: IO[bytes]) -> None:
        self._arguments = arguments
        self._told = told
        self._said = said
        self._starting = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self.code: int | None = None

    def run(self) -> None:
        """Runs it to its end; `code` is its exit code. Raises if it cannot be started."""
        with self._starting:
            if self._is_over:
                return
            self._process = subprocess.Popen(
                self._arguments,
                stdin=self._told,
                stdout=self._said,
                stderr=subprocess.STDOUT,
                env=environment(),
                start_new_session=True,
            )
        self.code = self._process.wait()

    def kill(self) -> None:
        """Kills the whole process group, from another thread; prevents the start if it has not happened yet.

        Waits for a start in progress, so that no process is left behind if this one ends next.
        """
        with self._starting:
            self._is_over = True
            process = self._process
        # After the process was waited for, its id may belong to another one.
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
