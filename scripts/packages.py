"""The picture of the packages and their arrows: `python -m scripts.packages` writes docs/images/packages.svg.

The layers come from the contract in pyproject.toml, the arrows from the imports of the code, and the captions
from the first line of each package. An arrow that follows from others is left out.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
PACKAGE = REPOSITORY / "src" / "headgate"
PICTURE = REPOSITORY / "docs" / "images" / "packages.svg"

WIDTH, ROW, BOX, GAP, TOP = 820, 62, 46, 12, 16
LEFT, RIGHT = 20, 740
LETTERS = 6.2
"""How wide a letter of a caption is, in pixels, on average."""

STYLE = """\
  <style>
    text { font: 12px system-ui, sans-serif; fill: #1f2933 }
    .name { font-weight: 600; font-size: 13px }
    rect { fill: #f5f7fa; stroke: #9aa5b1 }
    path { fill: none; stroke: #52606d; stroke-width: 1.2; marker-end: url(#head) }
    @media (prefers-color-scheme: dark) {
      text { fill: #e4e7eb } rect { fill: #1f2933; stroke: #616e7c } path { stroke: #9aa5b1 }
    }
  </style>
  <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
    <path d="M0,0 L8,4 L0,8 z" style="marker-end: none; fill: #7b8794; stroke: none"/></marker></defs>
"""


def contracts() -> list[dict[str, Any]]:
    """The import contracts of the project."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    listed: list[dict[str, Any]] = project["tool"]["importlinter"]["contracts"]
    return listed


def layers() -> list[list[str]]:
    """The packages of each layer, top to bottom, as the import contract has them."""
    listed = next(contract["layers"] for contract in contracts() if contract["type"] == "layers")
    return [re.findall(r"\w+", layer) for layer in listed]


def arrows() -> dict[str, set[str]]:
    """Which package imports which, lazily or not, without the arrows that follow from others."""
    found: dict[str, set[str]] = {name: set() for layer in layers() for name in layer}
    for path in PACKAGE.rglob("*.py"):
        importer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if importer in found:
            found[importer] |= {name for name in _imports(path) if name in found and name != importer}
    return {
        name: {
            other for other in others if not any(other in _reached(found, via) for via in others - {other})
        }
        for name, others in found.items()
    }


def _imports(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in for_types and node.module:
            root, _, rest = node.module.partition(".")
            if root == "headgate":
                yield from [rest.partition(".")[0]] if rest else [alias.name for alias in node.names]


def _reached(found: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = found[waiting.pop()] - seen
        seen |= fresh
        waiting.extend(fresh)
    return seen


def caption(name: str) -> str:
    """The first sentence of the docstring of a package, or of a module of the root."""
    path = PACKAGE / name / "__init__.py"
    text = (path if path.exists() else PACKAGE / f"{name}.py").read_text()
    return (ast.get_docstring(ast.parse(text)) or "").splitlines()[0].split(". ")[0]


def picture() -> str:
    """The picture as SVG."""
    rows = layers()
    boxes = {
        name: (LEFT + index * (RIGHT - LEFT + GAP) / len(row), TOP + level * ROW)
        for level, row in enumerate(rows)
        for index, name in enumerate(row)
    }
    widths = {name: (RIGHT - LEFT - (len(row) - 1) * GAP) / len(row) for row in rows for name in row}
    level = {name: number for number, row in enumerate(rows) for name in row}
    lines = [
        _arrow(boxes, widths, one, other, level[other] - level[one])
        for one, others in arrows().items()
        for other in sorted(others)
        if level[other] > level[one]  # packages of one row may import each other: the contract says so
    ]
    drawn = [_box(name, *boxes[name], widths[name]) for name in boxes]
    height = TOP + len(rows) * ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"  <title>The packages of Headgate: each imports only packages below it</title>\n"
        f"{STYLE}{''.join(drawn)}{''.join(lines)}</svg>\n"
    )


def _box(name: str, x: float, y: float, width: float) -> str:
    words = textwrap.shorten(caption(name), int((width - 20) / LETTERS), placeholder=" …")
    return (
        f'  <rect x="{x:g}" y="{y:g}" width="{width:g}" height="{BOX}" rx="5"/>\n'
        f'  <text class="name" x="{x + 10:g}" y="{y + 18:g}">{name}</text>\n'
        f'  <text x="{x + 10:g}" y="{y + 35:g}">{escape(words)}</text>\n'
    )


def _arrow(
    boxes: Mapping[str, tuple[float, float]],
    widths: Mapping[str, float],
    one: str,
    other: str,
    distance: int,
) -> str:
    """An arrow to a box below: straight to the next layer, around the boxes between to one further down."""
    (x1, y1), (x2, y2) = boxes[one], boxes[other]
    if distance == 1:
        middle = max(x1, x2) + min(widths[one], widths[other]) / 2
        return f'  <path d="M{middle:g},{y1 + BOX:g} V{y2 - 1:g}"/>\n'
    bend, start, end = RIGHT + 14 + 16 * distance, x1 + widths[one], x2 + widths[other] + 1
    return (
        f'  <path d="M{start:g},{y1 + BOX / 2:g} C{bend:g},{y1 + BOX:g} {bend:g},{y2:g} '
        f'{end:g},{y2 + BOX / 2:g}"/>\n'
    )


def main() -> None:
    PICTURE.write_text(picture())
    sys.stdout.write(f"wrote {PICTURE.relative_to(REPOSITORY)}\n")


if __name__ == "__main__":
    main()
