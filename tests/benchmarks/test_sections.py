"""Every section runs from end to end, with tiny sizes, and without Spark where it can."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import run as command
from tests.servers.s3 import TracedRequest, round_trips

pytestmark = pytest.mark.slow

OURS = {
    "commit-latency": "headgate",
    "far-storage": "headgate, conditional",
    "appenders": "headgate",
    "scans": "headgate",
    "planning": "headgate",
    "merges": "headgate",
    "compaction": "headgate",
    "upkeep": "headgate, compaction on",
    "beside": "headgate, writers and compactors",
    "recovery": "headgate",
    "opening": "headgate",
    "requests": "headgate, conditional",
    "strategies": "local disk: conditional",
}

ON_SPARK_ALONE = {"limit": "headgate on Spark"}
"""Sections that have nothing to measure without it."""


def test_every_section_is_tried_here() -> None:
    assert {section.name for section in command.SECTIONS} == {*OURS, *ON_SPARK_ALONE}


@pytest.mark.parametrize(("section", "ours"), [*OURS.items(), *ON_SPARK_ALONE.items()])
def test_a_section(section: str, ours: str, tmp_path: Path) -> None:
    results, page = tmp_path / "results", tmp_path / "docs" / "page.md"
    words = [section, "--tiny", "--results", str(results), "--page", str(page)]
    assert command.main([*words, *([] if section in ON_SPARK_ALONE else ["--no-spark"])]) == 0
    kept = json.loads((results / f"{section}.json").read_text())
    steps = kept["systems"][ours]["steps"]
    assert any(step["seconds"] for step in steps.values())
    assert kept["systems"][ours]["missing"] is None
    # A peer may not be installed here; one that is must not fail.
    for name, system in kept["systems"].items():
        assert system["missing"] is None or "ModuleNotFoundError" in system["missing"], (name, system)
    assert "## " in page.read_text()


def test_requests_that_wait_for_one_another_are_counted() -> None:
    def request(began: float, ended: float) -> TracedRequest:
        return TracedRequest("PUT", "/key", "", began, ended)

    together = [request(0.0, 1.0), request(0.1, 1.2), request(0.2, 1.1)]
    assert round_trips([]) == 0
    assert round_trips(together) == 1
    assert round_trips([*together, request(1.3, 2.0), request(2.1, 3.0)]) == 3
