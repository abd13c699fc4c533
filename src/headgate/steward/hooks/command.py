"""The action `command`: runs a program with the event as JSON on its standard input."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

from headgate.core.secrets import clean_text, without_secrets
from headgate.errors import HookFailedError, InvalidInputError
from headgate.model.commit_event import CommitEvent
from headgate.steward.hooks.deadline import checked_seconds, within
from headgate.steward.hooks.program import Program

TAIL_BYTES = 65_536
"""How much of the output is read: more than is kept, so that no secret is cut before it is recognised."""
TAIL_CHARACTERS = 600


@dataclass(frozen=True, slots=True)
class Command:
    """Runs a program: a list of arguments, of which the first is the program. No shell is involved.

    It gets the event as one line of JSON on standard input, and the environment and directory of this
    process. Any exit code but 0 is a failure, of which the end of the output is kept. After `timeout_seconds`
    it is killed, with everything that it started and that is still in its process group; so it is when the
    commit is interrupted. It does not get a Ctrl-C of the terminal itself.
    """

    arguments: Sequence[str]
    timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        checked_seconds(self.timeout_seconds)
        if isinstance(self.arguments, str):
            raise InvalidInputError(
                "a command is a list of arguments, not a text: no shell is there to take it apart",
                "write it as ['program', 'argument', …]",
            )
        object.__setattr__(self, "arguments", _checked(self.arguments))

    def run(self, event: CommitEvent) -> None:
        # Files, not pipes: a program need not read its input, and one that it leaves behind may keep its
        # output open for ever.
        with TemporaryFile() as told, TemporaryFile() as said:
            told.write(event.encode() + b"\n")
            told.seek(0)
            code = self._ended(Program(self.arguments, told, said), said)
            if code:
                how = f"failed with exit code {code}" if code > 0 else f"was killed by signal {-code}"
                raise HookFailedError(f"{self._program} {how}{_tail(said)}")

    def describe(self) -> str:
        return f"runs {' '.join(without_secrets(self.arguments))}"

    @property
    def _program(self) -> str:
        return without_secrets(self.arguments)[0]

    def _ended(self, program: Program, said: IO[bytes]) -> int | None:
        def kill() -> str:
            program.kill()
            return f"{self._program} was killed{_tail(said)}"

        try:
            within(self.timeout_seconds, program.run, on_late=kill)
        except FileNotFoundError as error:
            raise HookFailedError(f"there is no program {self._program}", "install it, or name it") from error
        except OSError as error:
            raise HookFailedError(f"{self._program} cannot be run: {error.strerror or error}") from error
        return program.code


def _checked(arguments: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(arguments, Sequence) or not all(isinstance(each, str) for each in arguments):
        raise InvalidInputError("a command is a list of texts", "write it as ['program', 'argument', …]")
    if not arguments or not arguments[0]:
        raise InvalidInputError("a command needs a program", "write it as ['program', 'argument', …]")
    if any("\0" in argument for argument in arguments):
        raise InvalidInputError("an argument of a command has a NUL character")
    return tuple(arguments)


def _tail(said: IO[bytes]) -> str:
    """The end of the output, without secrets."""
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - TAIL_BYTES))
    text = clean_text(said.read().decode(errors="backslashreplace")).strip()
    cut = text if len(text) <= TAIL_CHARACTERS else f"…{text[-TAIL_CHARACTERS:]}"
    return f": {cut}" if cut else ""
