"""The page: made of what was kept, and nothing else."""

from __future__ import annotations

import statistics
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from benchmarks.harness.dataset import changed, made
from benchmarks.harness.record import MOST_SAMPLES, Measured, Run, SystemRun, saved, thinned
from benchmarks.pages.page import page, publish
from benchmarks.pages.part import Bar, Part, Table, behind, left_out, medians
from benchmarks.pages.picture import Bars, Lines

from benchmarks import run as command


def example() -> Run:
    """Headgate is slower in one step, and a system is missing."""
    run = Run("scans", "tiny", "2 cores and 24 GiB of memory", "make bench", {"rows": 10, "rounds": 3})
    times = {"headgate": (1.0, 3.0), "delta-rs": (2.0, 2.0)}
    for name, (scan, write) in times.items():
        steps = {
            "full scan": Measured([scan, scan + 1, scan - 0.5], [0.1] * 3, answer=10),
            "write": Measured([write], [0.2], facts={"files": 2}),
        }
        run.systems[name] = SystemRun("in process", {name: "1.2.3"}, steps)
    run.systems["pyiceberg"] = SystemRun("in process", missing="ModuleNotFoundError: pyiceberg")
    return run


def test_a_run_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    run = example()
    run.save(tmp_path)
    assert saved(tmp_path) == {"scans": run}
    assert run.median("headgate", "full scan") == 1.0
    assert run.ratio("headgate", "delta-rs", "full scan") == 0.5
    assert run.ratio("headgate", "pyiceberg", "full scan") is None


def test_ratios_of_rounds_are_not_the_ratio_of_medians() -> None:
    """A machine that slows down in the middle of a run slows both sides of a ratio."""
    run = example()
    for name, seconds in (("headgate", [1.0, 1.1, 4.0, 4.0, 4.4]), ("delta-rs", [1.0, 1.0, 1.0, 4.0, 4.0])):
        run.systems[name].steps["write"] = Measured(seconds)
    assert run.ratio("headgate", "delta-rs", "write") == 4.0
    assert run.paired_quartiles("headgate", "delta-rs", "write") == pytest.approx((1.1, 1.0, 1.1))
    assert run.paired_quartiles("headgate", "pyiceberg", "write") == (None, None, None)
    assert run.paired_quartiles("headgate", "nobody", "write") == (None, None, None)


def test_of_many_samples_so_many_are_kept_that_quantiles_stay() -> None:
    many = [float(number) for number in range(10_000, 0, -1)]
    few = thinned(many)
    assert len(few) == MOST_SAMPLES
    assert (few[0], few[-1]) == (1.0, 10_000.0)
    assert abs(statistics.median(few) - statistics.median(many)) < 50
    assert thinned([3.0, 1.0]) == [3.0, 1.0]


def test_where_a_peer_is_faster_is_said() -> None:
    (found,) = behind(example(), {"in process": "headgate"})
    assert found.text() == "write (in process): 1.50 times the time of delta-rs"


def test_what_is_left_out_is_said() -> None:
    assert left_out(example()) == ["pyiceberg: ModuleNotFoundError: pyiceberg"]


def test_a_table_of_medians_has_the_ratio_to_the_best_peer() -> None:
    (table,) = medians(example(), {"in process": "headgate"})
    assert table.rows[0] == ("full scan", "1.00", "2.00", "–", "0.50")
    assert "|---|---:|---:|---|---:|" in table.markdown()


def test_the_page_has_promises_explanations_and_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explanations = tmp_path / "explanations"
    explanations.mkdir()
    (explanations / "scans.md").write_text("Because of the disk.\n")
    monkeypatch.setattr("benchmarks.pages.page.explanation.__defaults__", (explanations,))
    run = example()
    part = Part(
        run,
        "Reading",
        "All rows.",
        medians(run, {"in process": "headgate"}),
        (Bar("scan", 0.5, 1.0), Bar("write", 1.5, 1.0), Bar("other", None, 1.0)),
        {"scans": Bars("Scan", "s", {"full scan": {"headgate": 1.0}})},
        behind(run, {"in process": "headgate"}),
    )
    publish([part], tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "1 of 3 promises hold." in text
    assert "- write: 1.50, at most 1.00 — **missed**" in text
    assert "- other: not measured (at most 1.00)" in text
    assert "Because of the disk." in text
    assert "*tiny; 3 rounds; headgate 1.2.3, delta-rs 1.2.3; `make bench`.*" in text
    assert "![Scan](images/benchmarks/scans.svg)" in text
    assert (tmp_path / "images/benchmarks/scans.svg").exists()


@pytest.mark.parametrize(
    "picture",
    [
        Bars("a < b", "ms", {"group & co": {"one": 1.0, "two": 2000.0}, "empty": {}}),
        Lines("growth", "ms", "commits", {"one": [(1, 0.5), (100, 40.0)], "two": []}, log=True),
        Lines("growth", "ms", "commits", {"one": [(1, 0.0), (2, 3.0)]}),
        Lines("nothing", "ms", "commits", {}),
    ],
)
def test_pictures_are_well_formed(picture: Bars | Lines) -> None:
    drawn = ET.fromstring(picture.svg())
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    texts = [node.text for node in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert f"{picture.title} ({picture.unit})" in texts


def test_a_column_of_figures_stands_to_the_right() -> None:
    table = Table(("name", "ms", "note"), [("one", "1,000.5", "1 put"), ("two", "–", "")])
    assert [table.is_figure(position) for position in range(3)] == [False, True, False]


def test_the_data_is_the_same_for_everybody() -> None:
    rows = made(0, 1000, 1000)
    assert rows.equals(made(0, 1000, 1000))
    sums = rows["amount"].to_pylist()
    assert sum(sums) == sum(reversed(sums)), "amounts add up exactly in whatever order"
    changes = changed(rows, 10, 1000)
    new = [number for number in changes["id"].to_pylist() if number >= 1000]
    assert (changes.num_rows, len(new)) == (100, 10)


def test_an_unknown_section_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        command.main(["no-such-section"])
    assert raised.value.code == 2
    assert "unknown section no-such-section" in capsys.readouterr().err


def test_the_kept_page_is_that_of_the_kept_results() -> None:
    """Whoever changes how results are shown runs `python -m benchmarks.run --render`."""
    from benchmarks.harness.record import RESULTS
    from benchmarks.pages.page import PAGE

    parts = command.parts(RESULTS)
    assert parts
    assert PAGE.read_text() == page(parts)
