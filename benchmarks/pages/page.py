"""The page `docs/benchmarks.md`, made of the results that were kept: nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.record import Run
from benchmarks.pages.part import Part, left_out

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = "images/benchmarks"
EXPLANATIONS = Path(__file__).parents[1] / "explanations"

HEADING = """# Benchmarks

Headgate beside what people use today, on one machine and in one run. Made by `{command}` on a machine with
{machine}; the figures as data are in `benchmarks/results/`.

## How to read it

- Every system runs in a process of its own, in the environment that it asks for. In each step the systems take
  turns, and whoever was first in a round is last in the next. All get the same rows, the same codec (zstd) and the
  same number of cores.
- A figure is the median of at least five rounds, after one that warms up, unless its section says otherwise.
  *Warm*: the process has done the same before. *Cold*: the handle has seen nothing of the table.
- After each step the harness compares what the systems answered. A section whose answers differ is not shown.
- `headgate / best peer` below 1 means that Headgate needs less time than the fastest peer on the same engine.
  Parquet on Spark is no peer: it has no transactions, and is the limit of what Spark can do.
- Headgate syncs what it commits; no peer here does. Where that matters, a line says what it costs.
- Lines that begin with a dash under *Promises* must hold. Where a peer is faster by more than 5 %, the section says
  so, and why.

## How to run it

| command | what it does |
|---|---|
| `make bench` | all sections with small sizes, in minutes |
| `make bench-full` | all sections as on this page, in hours |
| `.venv/bin/python -m benchmarks.run scans` | one section; several names for several; `--full` for the sizes of this page |
| `.venv/bin/python -m benchmarks.run --list` | the names of the sections |
| `.venv/bin/python -m benchmarks.run scans --profile "headgate on Spark"` | where the time of a system goes, by function |
| `.venv/bin/python -m benchmarks.run --render` | this page again, from the results that are there |

A section that is finished is kept at once, so a run can be interrupted and the rest be run later. Peers on Spark get
environments of their own under `.bench/`, from PyPI and Maven; where those cannot be reached, their columns say so.
"""


def explanation(section: str, directory: Path = EXPLANATIONS) -> str:
    """What was found out about a section, written by hand."""
    path = directory / f"{section}.md"
    return path.read_text().strip() if path.exists() else ""


def markdown(part: Part, explained: str) -> str:
    """A section of the page."""
    lines = [f"## {part.title}", "", part.text.strip(), ""]
    for table in part.tables:
        lines += [table.markdown(), ""]
    lines += [f"![{picture.title}]({PICTURES}/{name}.svg)\n" for name, picture in part.pictures.items()]
    if part.bars:
        lines += ["**Promises**", "", *(f"- {bar.text()}" for bar in part.bars), ""]
    if part.behind is not None:
        lines += _standing(part)
    if explained:
        lines += [explained, ""]
    missing = left_out(part.run)
    if missing:
        lines += ["Not measured: " + "; ".join(missing) + ".", ""]
    return "\n".join([*lines, _made_by(part.run), ""])


def _standing(part: Part) -> list[str]:
    assert part.behind is not None
    if not part.behind:
        return ["Headgate is the fastest of its engine, or within 5 % of it, in every step.", ""]
    return ["Behind the fastest peer by more than 5 %:", "", *(f"- {one.text()}" for one in part.behind), ""]


def _made_by(run: Run) -> str:
    versions = dict.fromkeys(
        f"{name} {version}" for system in run.systems.values() for name, version in system.versions.items()
    )
    return f"*{run.size}; {', '.join(versions)}; `{run.command}`.*"


def page(parts: Sequence[Part]) -> str:
    """The whole page, of at least one section."""
    first = parts[0].run
    sizes = {part.run.size for part in parts}
    command = "make bench-full" if sizes == {"full"} else "make bench"
    contents = ["## Sections", "", *(f"- [{part.title}](#{_anchor(part.title)})" for part in parts), ""]
    bars = [bar for part in parts for bar in part.bars]
    missed = [f"{part.title}: {bar.text()}" for part in parts for bar in part.bars if not bar.holds]
    summary = [f"{len(bars) - len(missed)} of {len(bars)} promises hold.", ""]
    if missed:
        summary += [*(f"- {text}" for text in missed), ""]
    small = [] if sizes == {"full"} else ["Some sections are of small sizes, as their last lines say.", ""]
    body = [markdown(part, explanation(part.run.section)) for part in parts]
    head = HEADING.format(command=command, machine=first.machine)
    return "\n".join([head, *small, *summary, *contents, *body]).rstrip() + "\n"


def _anchor(title: str) -> str:
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")


def publish(parts: Sequence[Part], path: Path = PAGE) -> None:
    """Writes the page and its pictures."""
    pictures = path.parent / PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    for part in parts:
        for name, picture in part.pictures.items():
            (pictures / f"{name}.svg").write_text(picture.svg())
    path.write_text(page(parts))
