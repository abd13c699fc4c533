"""The code in the documents is run; a page that no longer works fails the build."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.documents.page import LANGUAGES, PAGES, REASONS, Block, blocks, needs_spark, run_page, runs

WITHOUT_SPARK = [page for page in PAGES if runs(page) and not needs_spark(page)]
BLOCKS = [block for page in PAGES for block in blocks(page)]
NOT_RUN = [block for block in BLOCKS if block.reason is not None]
MOST_NOT_RUN = 12


@pytest.mark.parametrize("page", WITHOUT_SPARK, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_every_block_says_what_it_is() -> None:
    assert [str(block) for block in BLOCKS if block.language not in LANGUAGES] == []
    fences = sum(page.read_text().count("\n```") for page in PAGES)
    assert fences == 2 * len(BLOCKS), "a block is written in a way that its test does not find"


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    assert {block.reason for block in NOT_RUN} <= REASONS
    assert len(NOT_RUN) <= MOST_NOT_RUN, [str(block) for block in NOT_RUN]


@pytest.mark.parametrize("block", NOT_RUN, ids=str)
def test_a_block_that_is_not_run_is_one_that_could_be(block: Block) -> None:
    if block.language == "python":
        compile(block.text, str(block.page), "exec")
    else:
        assert block.language == "bash"
        checked = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
