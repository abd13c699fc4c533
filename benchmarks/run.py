"""Runs the benchmarks: all of them, or some by name.

        make bench                                              all, small sizes, in minutes
        make bench-full                                         all, the sizes of the page, in hours
        .venv/bin/python -m benchmarks.run commit-latency       one of them

Results of a section are saved as soon as it is finished, and the page is rendered again.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.bench import Bench, slug
from benchmarks.harness.environment import CACHE
from benchmarks.harness.record import RESULTS, saved
from benchmarks.harness.workload import Size
from benchmarks.pages.page import PAGE, publish
from benchmarks.pages.part import Part
from benchmarks.workloads import (
    appenders,
    beside,
    commit_latency,
    compaction,
    far_storage,
    limit,
    merges,
    opening,
    planning,
    recovery,
    requests,
    scans,
    strategies,
    upkeep,
)
from benchmarks.workloads.section import Section

SECTIONS: Sequence[Section] = (
    commit_latency.SECTION,
    far_storage.SECTION,
    appenders.SECTION,
    limit.SECTION,
    scans.SECTION,
    planning.SECTION,
    merges.SECTION,
    compaction.SECTION,
    upkeep.SECTION,
    beside.SECTION,
    recovery.SECTION,
    opening.SECTION,
    requests.SECTION,
    strategies.SECTION,
)


def parts(directory: Path) -> list[Part]:
    """The contents of the page: every saved section, in the order of this file."""
    known = saved(directory)
    return [section.part(known[section.name]) for section in SECTIONS if section.name in known]


def measured(section: Section, size: Size, command: str, given: argparse.Namespace) -> Part:
    """Measures a section, saves its results, and renders the page."""
    # Not on a temporary file system in memory, where there is nothing to sync.
    CACHE.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f"{section.name}-", dir=CACHE))
    started = time.monotonic()
    try:
        only = frozenset(given.only) if given.only else None
        bench = Bench(size, place, command, only=only, profile=given.profile, on_spark=not given.no_spark)
        run = section.measure(bench)
        bench.show(f"{section.name}: done in {time.monotonic() - started:.0f} s\n")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    part = section.part(run)
    if only is None and given.profile is None:
        run.save(given.results)
        publish(parts(given.results), given.page)
    return part


def shown(part: Part) -> None:
    """Prints the tables to the terminal."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160)
    for each in part.tables:
        table = Table(title=f"{part.title} {each.title}".strip(), title_justify="left")
        for position, column in enumerate(each.columns):
            table.add_column(column, justify="right" if each.is_figure(position) else "left")
        for row in each.rows:
            table.add_row(*row)
        console.print(table)
    for bar in part.bars:
        style = "green" if bar.holds else "yellow" if bar.measured is None else "bold red"
        console.print(bar.text().replace("**", ""), style=style)


def show_profile(system: str) -> None:
    """Prints the functions that were seen most often in a system, over all its threads."""
    print((CACHE / f"{slug(system)}.profile").read_text())


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sections", nargs="*", help="the names of sections; default: all")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", action="store_true", help="the sizes of the page, which take hours")
    sizes.add_argument("--tiny", action="store_true", help="tiny sizes, to check that it runs")
    parser.add_argument("--no-spark", action="store_true", help="leave out the systems on Spark")
    parser.add_argument(
        "--only", action="append", help="only this system (repeat it for several); saves no results"
    )
    parser.add_argument("--profile", help="profile this system and print the profile; saves no results")
    parser.add_argument("--list", action="store_true", help="list all sections")
    parser.add_argument("--render", action="store_true", help="only render the page, from saved results")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the directory of the results")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    parser = arguments()
    given = parser.parse_args(words)
    names = [section.name for section in SECTIONS]
    if given.list:
        print("\n".join(names))
        return 0
    unknown = sorted(set(given.sections) - set(names))
    if unknown:
        parser.error(f"unknown section {', '.join(unknown)}; choose from {', '.join(names)}")
    if given.render:
        known = parts(given.results)
        if not known:
            parser.error(f"there are no results in {given.results}; measure a section first")
        publish(known, given.page)
        return 0
    # So that a signal that ends this process ends the systems, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    size = Size.FULL if given.full else Size.TINY if given.tiny else Size.SHORT
    wanted = [section for section in SECTIONS if not given.sections or section.name in given.sections]
    failed = [section.name for section in wanted if not _attempted(section, size, given)]
    if failed:
        print(f"these sections failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _attempted(section: Section, size: Size, given: argparse.Namespace) -> bool:
    """Measures a section; a failure does not affect the others."""
    command = {Size.FULL: "make bench-full", Size.SHORT: "make bench", Size.TINY: "--tiny"}[size]
    try:
        part = measured(section, size, command, given)
    except Exception as error:  # noqa: BLE001 - reported, and counted in the exit code
        print(f"{section.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return False
    shown(part)
    if given.profile is not None and (CACHE / f"{slug(given.profile)}.profile").exists():
        show_profile(given.profile)
    return True


if __name__ == "__main__":
    sys.exit(main())
