"""Runs commands on a new lake, and saves the terminal output as SVG in docs/screens: `make screens`."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
from pathlib import Path

import pyarrow as pa
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

import headgate as hg
from headgate.cli import output
from headgate.cli.app import app
from headgate.system.host import SystemHost

DIRECTORY = Path(__file__).parent.parent.parent / "docs" / "screens"
WIDTH = 104
SCREENS = {
    "init": ("headgate init ./lake",),
    "log": ("headgate log ./lake --limit 6", "headgate tables ./lake"),
    "mistakes": ("headgate show ./lake sales.order", "headgate read ./lake sales.orders --where 'amount <'"),
    "read": (
        "headgate read ./lake sales.orders",
        "headgate read ./lake sales.orders --version 2",
        "headgate fsck ./lake --deep",
    ),
}
"""The pictures by name, with the commands that each shows."""


# Rich's frame loads its font from another host; every machine has a monospaced font.
_FRAME = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, monospace", "monospace"
)


class _Terminal(io.StringIO):
    """Standard output that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class _Laptop(SystemHost):
    """The machine in the pictures."""

    def user(self) -> str:
        return "ann"

    def name(self) -> str:
        return "laptop"


def main() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        for name, commands in SCREENS.items():
            _picture(name, commands)
            if name == "init":
                _fill(hg.Lake.open("lake", host=_Laptop()))


def _fill(lake: hg.Lake) -> None:
    """Creates the contents of the pictures: a few commits of several programs."""
    orders = lake.create_table("sales.orders", "id BIGINT, customer STRING, amount DOUBLE")
    orders.append(
        pa.table({"id": [1, 2], "customer": ["ann", "bob"], "amount": [9.5, 12.0]}), args=["loader", "monday"]
    )
    with lake.transaction(["nightly"], app=("nightly", 1)) as tx:
        tx.table("sales.orders").update({"amount": "amount * 2"}, where="customer = 'ann'")
        tx.create_table("sales.totals", "amount DOUBLE").append(pa.table({"amount": [31.0]}))
    orders.delete("customer = 'bob'", args=["forget", "bob"])
    lake.tag("end-of-month")


def _picture(name: str, commands: tuple[str, ...]) -> None:
    screen = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for command in commands:
        screen.print(Text.assemble(("$ ", "bold green"), command))
        screen.print(Text.from_ansi(_shown(command)))
    # Without this, the id would be random and the picture would change each time.
    svg = screen.export_svg(title="headgate", unique_id=f"headgate-{name}", code_format=_FRAME)
    (DIRECTORY / f"{name}.svg").write_text(svg)


def _shown(command: str) -> str:
    """The terminal output of a command, in colours, without the name of this machine."""
    terminal, errors = _Terminal(), io.StringIO()
    original = output.console
    output.console = lambda *, stderr=False: Console(  # noqa: ARG005 - nothing shown here goes there
        file=terminal, width=WIDTH, force_terminal=True, color_system="truecolor", highlight=False
    )
    try:
        with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(errors):
            app(shlex.split(command)[1:])
    except SystemExit:
        pass
    finally:
        output.console = original
    shown = terminal.getvalue() + errors.getvalue()
    return shown.replace(os.getcwd(), "/home/ann").rstrip()  # noqa: PTH109


if __name__ == "__main__":
    main()
