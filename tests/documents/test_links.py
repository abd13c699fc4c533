"""Links between the documents lead somewhere, and what the documents speak of exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from headgate.cli.app import app
from tests.documents.page import PAGES, REPOSITORY

SITE = REPOSITORY / "mkdocs.yml"
DOCS = REPOSITORY / "docs"
OUTSIDE = {REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")}


def prose(page: Path) -> str:
    """The text of a page without its code."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What `#…` in a link can name: its headings, in the way of GitHub and of the site."""
    found = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_page_and_to_a_heading(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        assert other.exists(), f"links to {target}"
        if anchor:
            assert anchor in anchors(other), f"links to {target}"


@pytest.mark.parametrize("page", [page for page in PAGES if page not in OUTSIDE], ids=lambda page: page.name)
def test_pages_of_the_site_link_to_files_outside_of_it_by_their_address(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", prose(page)):
        if "://" not in target:
            assert (page.parent / target).resolve().is_relative_to(DOCS), f"links to {target}"


@pytest.mark.parametrize("picture", sorted(DOCS.rglob("*.svg")), ids=lambda path: path.name)
def test_pictures_are_shown_and_fetch_nothing(picture: Path) -> None:
    text = picture.read_text()
    assert "url(http" not in text.replace(" ", "")
    assert "<script" not in text
    shown = [page for page in PAGES if f"{picture.parent.name}/{picture.name}" in page.read_text()]
    assert shown, "no page shows it"


def test_every_page_is_in_the_navigation_and_the_other_way_round() -> None:
    listed = [*_leaves(yaml.safe_load(SITE.read_text())["nav"])]
    assert len(listed) == len(set(listed))
    assert {DOCS / name for name in listed} == set(PAGES) - OUTSIDE


def _leaves(nav: Any) -> Iterator[str]:
    match nav:
        case str():
            yield nav
        case list():
            for entry in nav:
                yield from _leaves(entry)
        case dict():
            for entry in nav.values():
                yield from _leaves(entry)


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
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
