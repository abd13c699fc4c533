"""Examples and code blocks in the documents are run; a page that no longer works fails the build."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from headgate.cli.app import app

REPOSITORY = Path(__file__).parent.parent
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def headgate_commands(page: Path) -> list[str]:
    lines = "\n".join(blocks(page, "bash")).splitlines()
    return [line for line in lines if line.startswith("headgate ")]


def run_python(page: Path, directory: Path) -> None:
    script = "\n".join(blocks(page, "python"))
    result = subprocess.run([sys.executable, "-c", script], cwd=directory, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def run_shell(page: Path, directory: Path) -> None:
    commands = headgate_commands(page)
    if not (directory / "lake").exists():
        commands.insert(0, "headgate init ./lake")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = "set -e\n" + "\n".join(commands)
    result = subprocess.run(
        ["bash", "-c", script], cwd=directory, capture_output=True, text=True, env=environment
    )
    assert result.returncode == 0, result.stderr


RUNNABLE = [page for page in PAGES if blocks(page, "python") or headgate_commands(page)]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_python_first_then_the_shell(page: Path, tmp_path: Path) -> None:
    run_python(page, tmp_path)
    run_shell(page, tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    result = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_links_between_documents_lead_somewhere() -> None:
    for page in [*PAGES, REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "ARCHITECTURE.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    for page in [*PAGES, REPOSITORY / "CONTRIBUTING.md"]:
        for used in re.findall(r"\bmake ([a-z]+)\b", " ".join(re.findall(r"`[^`\n]+`", page.read_text()))):
            assert used in targets, f"{page.name} speaks of make {used}"


def commands(group: Any, words: str) -> Iterator[tuple[str, str]]:
    """Every command with each of its options, also those of groups inside groups."""
    for name, definition in getattr(group, "commands", {}).items():
        command = f"{words} {name}"
        yield command, command
        yield from commands(definition, command)
        for parameter in definition.params:
            for option in (*parameter.opts, *parameter.secondary_opts):
                if option.startswith("--") and option != "--help":
                    yield command, option


def test_every_command_and_option_is_documented() -> None:
    page = (REPOSITORY / "docs/cli.md").read_text()
    known = [*commands(typer.main.get_group(app), "headgate")]
    assert ("headgate hooks retry", "--config") in known
    assert [(command, words) for command, words in known if words not in page] == []
