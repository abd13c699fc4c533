"""Pictures of results as SVG, written by hand: bars and lines, readable on a light and on a dark page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

WIDTH = 760
COLOURS = ("#2563eb", "#f59e0b", "#10b981", "#8b5cf6", "#ef4444", "#64748b", "#0ea5e9")
STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#334155}.t{font-weight:600;font-size:14px}"
    ".g{stroke:#cbd5e1;stroke-width:1}@media(prefers-color-scheme:dark){text{fill:#cbd5e1}"
    ".g{stroke:#475569}}</style>"
)


@dataclass(frozen=True, slots=True)
class Bars:
    """Groups of bars: for each group the values of some systems. Shorter is better, if `unit` is a time."""

    title: str
    unit: str
    groups: Mapping[str, Mapping[str, float]]

    def svg(self) -> str:
        names = list(dict.fromkeys(name for group in self.groups.values() for name in group))
        longest = max((value for group in self.groups.values() for value in group.values()), default=1.0)
        left, right, height, y = 190, 90, 16, 44
        scale = (WIDTH - left - right) / (longest or 1.0)
        shapes = [_text(8, 20, f"{self.title} ({self.unit})", "t")]
        for label, group in self.groups.items():
            shapes.append(_text(8, y + 12, label, "t"))
            y += 20
            for name, value in group.items():
                width = max(1.0, value * scale)
                colour = COLOURS[names.index(name) % len(COLOURS)]
                shapes.append(_text(left - 8, y + 12, name, anchor="end"))
                shapes.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="12" fill="{colour}"/>')
                shapes.append(_text(left + width + 6, y + 11, _figure(value)))
                y += height
            y += 8
        return _page(shapes, y + 6)


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over a number that grows; `log` for values that differ by orders of magnitude."""

    title: str
    unit: str
    across: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    log: bool = False

    def svg(self) -> str:
        points = [point for line in self.lines.values() for point in line] or [(0.0, 1.0)]
        most_x, values = max(x for x, _ in points) or 1.0, [y for _, y in points]
        low, high = self._range(values)
        left, top, width, height = 70.0, 44.0, WIDTH - 90.0, 240.0

        def place(x: float, value: float) -> tuple[float, float]:
            share = (self._scaled(value) - low) / ((high - low) or 1.0)
            return left + x / most_x * width, top + height * (1 - share)

        shapes = [_text(8, 20, f"{self.title} ({self.unit})", "t")]
        for tick in self._ticks(low, high):
            _, y = place(0, tick)
            shapes.append(f'<line class="g" x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}"/>')
            shapes.append(_text(left - 6, y + 4, _figure(tick), anchor="end"))
        for number, (name, line) in enumerate(self.lines.items()):
            colour = COLOURS[number % len(COLOURS)]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
            shapes.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            at, below = left + number * 165, top + height + 30
            shapes.append(f'<rect x="{at}" y="{below}" width="12" height="12" fill="{colour}"/>')
            shapes.append(_text(at + 18, below + 10, name))
        shapes.append(_text(left, top + height + 18, f"0 {self.across}"))
        shapes.append(_text(left + width, top + height + 18, _figure(most_x), anchor="end"))
        return _page(shapes, top + height + 56)

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-9)) if self.log else value

    def _range(self, values: Sequence[float]) -> tuple[float, float]:
        if not self.log:
            return 0.0, max(values)
        return math.floor(self._scaled(min(values))), math.ceil(self._scaled(max(values)))

    def _ticks(self, low: float, high: float) -> list[float]:
        if self.log:
            return [10.0**power for power in range(round(low), round(high) + 1)]
        return [high * part / 4 for part in range(5)]


Picture: TypeAlias = Bars | Lines


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(text)}</text>'


def _page(shapes: Sequence[str], height: float) -> str:
    box = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {box}>', STYLE, *shapes, "</svg>", ""])


def _figure(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
