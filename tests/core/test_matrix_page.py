"""The page about conflicts says what the matrix says."""

from __future__ import annotations

from pathlib import Path

from headgate.core.conflict.matrix import MATRIX
from headgate.core.conflict.matrix_page import page

PAGE = Path(__file__).parents[2] / "docs/conflicts.md"


def test_the_page_is_up_to_date() -> None:
    stale = "run python -m headgate.core.conflict.matrix_page > docs/conflicts.md"
    assert PAGE.read_text() == page(), stale


def test_every_row_is_on_the_page() -> None:
    lines = page().splitlines()
    assert all(any(line.startswith(f"| {row.number} |") for line in lines) for row in MATRIX)
