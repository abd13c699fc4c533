"""The pages of the reference are those that the code makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts.reference.pages import DIRECTORY, PAGES
from scripts.reference.settings import ENVIRONMENT, OTHERS_OF_TABLES, SPARK

import headgate as hg
from tests.documents.page import REPOSITORY


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_not_stale(name: str) -> None:
    assert (DIRECTORY / name).read_text() == PAGES[name](), "run make reference"


def test_no_other_page_is_there() -> None:
    assert {page.name for page in DIRECTORY.iterdir()} == set(PAGES)


def test_every_public_name_is_in_the_reference() -> None:
    pages = (DIRECTORY / "api.md").read_text() + (DIRECTORY / "errors.md").read_text()
    named = set(re.findall(r"^#+ ([\w.]+)$", pages, re.MULTILINE))
    assert {*hg.__all__, *hg.hooks.__all__} - named - {"__version__", "hooks", "HeadgateError"} == set()
    assert {"Lake.open", "Table.merge", "Transaction.commit", "Merge.when_matched_update"} <= named


def test_every_property_that_the_code_asks_for_is_in_the_reference() -> None:
    page = (DIRECTORY / "settings.md").read_text()
    shape = re.compile(
        r'"((?:write|conflict|clustering|compaction|retention|commit|history|headgate\.view)\.[a-z._-]+)"'
    )
    source = "\n".join(path.read_text() for path in (REPOSITORY / "src/headgate").rglob("*.py"))
    asked = {name for name in shape.findall(source) if not name.endswith((".json", ".toml", ".py"))}
    assert "write.target-file-size-bytes" in asked
    assert [name for name in sorted(asked) if name not in page] == []


def test_what_the_page_of_settings_says_of_other_names_is_in_the_code() -> None:
    source = "\n".join(path.read_text() for path in (REPOSITORY / "src/headgate").rglob("*.py"))
    for name in (*(row[0] for row in SPARK), "HEADGATE_CONFIG"):
        assert name in source
    assert len(OTHERS_OF_TABLES) == len({row[0] for row in OTHERS_OF_TABLES})
    assert len(ENVIRONMENT) == len({row[0] for row in ENVIRONMENT})


def test_every_environment_variable_that_a_guide_names_is_in_the_reference() -> None:
    page = (DIRECTORY / "settings.md").read_text()
    guides = "\n".join(guide.read_text() for guide in (REPOSITORY / "docs").glob("*.md"))
    named = set(re.findall(r"\bHEADGATE_[A-Z_]+", guides))
    assert "HEADGATE_MOUNTS_ALLOW" in named
    assert [name for name in sorted(named) if name not in page] == []


def test_nothing_of_this_machine_is_in_the_reference() -> None:
    for page in DIRECTORY.iterdir():
        text = page.read_text()
        assert str(REPOSITORY) not in text
        assert str(Path.home()) + "/" not in text
        assert " at 0x" not in text
