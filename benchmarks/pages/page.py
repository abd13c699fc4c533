"""Renders the page `docs/benchmarks.md` from saved results: nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.record import Run
from benchmarks.pages.part import Part, left_out

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = "images/benchmarks"
EXPLANATIONS = Path(__file__).parents[1] / "explanations"

HEADING = Path(__file__).with_name("heading.md")
"""The text before all sections: how to read and to run the benchmarks."""


def explanation(section: str, directory: Path = EXPLANATIONS) -> str:
    """The findings about a section, written by hand."""
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
        told = "In every step, Headgate is the fastest system on the same engine, or at most 5 % slower."
        return [told, ""]
    return ["Slower than the fastest peer by over 5 %:", "", *(f"- {one.text()}" for one in part.behind), ""]


def _made_by(run: Run) -> str:
    versions = dict.fromkeys(
        f"{name} {version}" for system in run.systems.values() for name, version in system.versions.items()
    )
    rounds = run.parameters.get("rounds")
    counted = "" if rounds is None else f" {rounds} round{'s' if rounds > 1 else ''};"
    return f"*{run.size};{counted} {', '.join(versions)}; `{run.command}`.*"


def page(parts: Sequence[Part]) -> str:
    """The whole page, with at least one section."""
    first = parts[0].run
    sizes = {part.run.size for part in parts}
    command = "make bench-full" if sizes == {"full"} else "make bench"
    contents = ["## Sections", "", *(f"- [{part.title}](#{_anchor(part.title)})" for part in parts), ""]
    bars = [bar for part in parts for bar in part.bars]
    missed = [f"{part.title}: {bar.text()}" for part in parts for bar in part.bars if not bar.holds]
    summary = [f"{len(bars) - len(missed)} of {len(bars)} promises hold.", ""]
    if missed:
        summary += [*(f"- {text}" for text in missed), ""]
    small = [] if sizes == {"full"} else ["Some sections have small sizes; their last lines say so.", ""]
    body = [markdown(part, explanation(part.run.section)) for part in parts]
    head = HEADING.read_text().format(command=command, machine=first.machine)
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
