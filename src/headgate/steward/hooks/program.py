"""A program at work, which can be ended from outside, with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from headgate.steward.hooks.nesting import environment


class Program:
    """One run of a program, in a session and process group of its own.

    `told` is its standard input, `said` takes what it says on both of its outputs.
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
        """Runs it to its end; `code` is how it ended. Whatever keeps it from being started is raised."""
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
        """Ends the whole group, from another thread; one that has not been started will never be.

        Waits for a start that is under way: whoever ends this process next leaves nothing behind.
        """
        with self._starting:
            self._is_over = True
            process = self._process
        # Once it was waited for, its number may be another's.
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
