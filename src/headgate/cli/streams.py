"""Standard output and standard error: any text can be written, and a closed pipe is not a failure."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TextIO

FAILED, INTERRUPTED = 1, 130


def run(command: Callable[[], object]) -> int:
    """Runs a command that ends with `SystemExit`, flushes its output, and returns its exit code.

    If the output cannot be written (a full disk), the code is 1, with a message. If the reader has closed the
    pipe (after `| head`), the command ends quietly and keeps the exit code that it had by then.
    """
    _prepare()
    code = 0
    try:
        code = _code_of(command)
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up(sys.stdout)
    except OSError as error:
        _give_up(sys.stdout)
        sys.stderr.write(f"headgate: cannot write the output: {error.strerror or error}\n")
        code = code or FAILED
    return code


def end(code: int) -> NoReturn:
    """Ends the process; at once after a Ctrl-C, because running threads of libraries would abort it."""
    if code != INTERRUPTED:
        sys.exit(code)
    sys.stderr.flush()
    os._exit(code)


def _code_of(command: Callable[[], object]) -> int:
    try:
        command()
    except SystemExit as ended:
        # Typer and rich end the program themselves when the pipe is closed, and report a failure.
        if isinstance(ended.__context__, BrokenPipeError):
            raise ended.__context__ from None
        return ended.code if isinstance(ended.code, int) else FAILED if ended.code else 0
    return 0


def _prepare() -> None:
    """Makes both streams accept any text: characters that their encoding lacks are escaped."""
    # A process that was started with a closed stream has None.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _nowhere() -> io.TextIOWrapper:
    return Path(os.devnull).open("w", encoding="utf-8")


def _give_up(stream: TextIO) -> None:
    # Python flushes the stream when it exits, and would report the error again.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
