"""Draws lines over time as an SVG text: panels one below the other, which share the time axis.

Pure: no file is written here, and no library draws. Browsers, editors and documents show SVG.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from penstock.lazy_dataclass import dataclass

WIDTH, PANEL_HEIGHT = 860, 240
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 34, 30
"""Room around the lines: for the numbers, and for the title of a panel."""
TICKS = 5
STYLE = "font-family:sans-serif;font-size:12px;fill:#333"
LINE = "#1f6feb"
GRID = "#ddd"


@dataclass(frozen=True, slots=True)
class Panel:
    """One line: its title and its points (seconds, value)."""

    title: str
    points: Sequence[tuple[float, float]]


def plot(title: str, panels: Sequence[Panel]) -> str:
    """The whole picture."""
    height = TOP + PANEL_HEIGHT * len(panels)
    seconds = max((x for panel in panels for x, _ in panel.points), default=1.0) or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" style="{STYLE}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" style="font-size:15px">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, TOP + number * PANEL_HEIGHT, seconds)
    return "\n".join([*parts, "</svg>", ""])


def nice_step(span: float) -> float:
    """A step of 1, 2 or 5 times a power of ten that divides `span` into at most TICKS parts."""
    raw = max(span, 1e-9) / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * (1 - 1e-9))


def _panel(panel: Panel, top: int, seconds: float) -> list[str]:
    highest = max((y for _, y in panel.points), default=1.0) or 1.0
    step = nice_step(highest)
    limit = math.ceil(highest / step - 1e-9) * step
    y_zero, y_top = top + PANEL_HEIGHT - BOTTOM, top + TOP

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + x / seconds * (WIDTH - LEFT - RIGHT), y_zero - y / limit * (y_zero - y_top)

    parts = [f'<text x="{LEFT}" y="{top + 22}">{escape(panel.title)}</text>']
    for tick in range(round(limit / step) + 1):
        _, y = at(0, tick * step)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick * step:,.10g}</text>')
    second = nice_step(seconds)
    for tick in range(int(seconds / second + 1e-9) + 1):
        x, _ = at(tick * second, 0)
        parts.append(f'<text x="{x:.1f}" y="{y_zero + 18}" text-anchor="middle">{tick * second:.10g} s</text>')
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in panel.points))
    parts.append(f'<polyline points="{line}" fill="none" stroke="{LINE}" stroke-width="2"/>')
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{LINE}"/>' for x, y in (at(*p) for p in panel.points)]
    return parts
