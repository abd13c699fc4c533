"""Commands of the demo: shown as a user types them, and run for real, with their output."""

from __future__ import annotations

import shlex
import subprocess
import sys

from rich.console import Console
from rich.text import Text

from headgate.errors import InternalError

_PROGRAM = "from headgate.cli import main; main()"


def run(console: Console, *words: str) -> None:
    """Runs `headgate` with these arguments, and shows the command and its output."""
    line = f"headgate {shlex.join(words)}"
    console.print(Text(f"$ {line}", "bold"))
    done = subprocess.run([sys.executable, "-c", _PROGRAM, *words], capture_output=True, text=True)
    console.print(Text(done.stdout.rstrip()), soft_wrap=True)
    if done.returncode:
        raise InternalError(
            f"headgate {shlex.join(words)} ended with {done.returncode}: {done.stderr[-2000:]}"
        )
