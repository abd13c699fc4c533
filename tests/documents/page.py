"""Pages of the documentation as programs: every code block of a page is run, in the order in which it stands.

The blocks of a page are one session in one empty directory: Python keeps its names from block to block, and
shell commands see the files that the blocks above them made. What a block is, its language says:

| language | what is done with it |
|---|---|
| `python` | run, in this process |
| `bash` | run, line by line; a command of ours in this process |
| `console` | lines that begin with `$ ` are run, and what they print must be what follows; `…` is any text |
| `toml` | read; one with hooks is read as a `headgate.toml` |
| `json` | read |
| `text` | nothing: a drawing, or what a program said |

A block below `<!-- not run: reason -->` is only checked for its syntax. Reasons are few: see `REASONS`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headgate as hg
from tests.cli.program import run as run_command

REPOSITORY = Path(__file__).parent.parent.parent
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    REPOSITORY / "ARCHITECTURE.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
REASONS = frozenset(
    {
        "needs a cluster",
        "needs a cloud account",
        "installs from PyPI, as .ci/run does",
        "runs for minutes, as .ci/run does",
    }
)
"""Why a block may stand in a page without being run."""

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^>]+?) -->\n+)?"
    r"(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_SHELL_SYNTAX = re.compile(r"[|><$;&]")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code in a page. `line` is where it stands; `reason` why it is not run, if it is not."""

    page: Path
    line: int
    language: str
    text: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            page,
            text.count("\n", 0, found.start("text")) + 1,
            found["language"],
            re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            found["reason"],
        )
        for found in _BLOCK.finditer(text)
    ]


def runs(page: Path) -> bool:
    return any(block.reason is None and block.language in _RUN for block in blocks(page))


def needs_spark(page: Path) -> bool:
    """Whether a block that is run starts Spark, or asks the session that runs."""
    words = ("session()", "headgate sql", "--materialized", "headgate refresh", "--spark")
    return any(word in block.text for block in blocks(page) if block.reason is None for word in words)


def run_page(page: Path) -> None:
    """Runs the blocks of a page in the current directory, which is empty."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.reason is None and block.language in _RUN:
            _RUN[block.language](block, names)


def _python(block: Block, names: dict[str, Any]) -> None:
    # The lines of the page, so that a traceback leads there.
    code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")
    exec(code, names)


def _bash(block: Block, _: dict[str, Any]) -> None:
    for command in commands(block.text):
        shell(command, block)


def _console(block: Block, _: dict[str, Any]) -> None:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _newline, expected = part.partition("\n")
        said = shell(command, block)
        pattern = re.escape(expected.strip()).replace("…", ".*")
        assert re.fullmatch(pattern, said.strip(), re.DOTALL), f"{block}: $ {command}\n{said}"


def _toml(block: Block, _: dict[str, Any]) -> None:
    if "hooks" in tomllib.loads(block.text):
        file = Path("page.toml")
        file.write_text(block.text)
        assert hg.hooks.load(file), block
        file.unlink()


def _json(block: Block, _: dict[str, Any]) -> None:
    json.loads(block.text)


_RUN = {"python": _python, "bash": _bash, "console": _console, "toml": _toml, "json": _json}
LANGUAGES = frozenset({*_RUN, "text"})


def commands(text: str) -> list[str]:
    """The commands of a shell block: comments left out, lines that end in a backslash joined."""
    joined = text.replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def shell(command: str, block: Block) -> str:
    """What a command printed; fails if it did. Commands of ours are run in this process."""
    words = shlex.split(command, comments=True)
    if words[0] == "headgate" and "./lake" in words and words[1] != "init" and not Path("lake").exists():
        hg.Lake.init("lake")
    if words[0] == "headgate" and not _SHELL_SYNTAX.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", command)):
        result = run_command(*words[1:])
        assert result.exit_code == 0, f"{block}: $ {command}\n{result.output}"
        return result.output
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = ["bash", "-euo", "pipefail", "-c", command]
    ended = subprocess.run(script, capture_output=True, text=True, env=environment, timeout=120)
    assert ended.returncode == 0, f"{block}: $ {command}\n{ended.stdout}{ended.stderr}"
    return ended.stdout
