"""Draws the dashboards from a Prometheus, where there is no Grafana: `python -m ops.dashboards.draw URL FOLDER`.

One SVG file for each dashboard, with Grafana's places, the last minutes (as UTC), and everything chosen. A line is a
series; the legend has those that rise highest. A panel without data says so.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from ops.dashboards import DASHBOARDS
from ops.dashboards.grafana import COLUMNS, as_json
from ops.dashboards.panels import Dashboard, Unit

WIDTH = 1_500
UNIT_HEIGHT = 30
LEFT, TOP, BOTTOM = 60, 26, 40
POINTS = 120
LEGEND_MAX = 4
LETTER_WIDTH = 7
DECIMAL = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (0, ""))
SCALES = {
    Unit.SECONDS.value: ((86_400, " d"), (3_600, " h"), (60, " min"), (1, " s"), (1e-3, " ms"), (0, " s")),
    Unit.SHARE.value: ((0.01, " %"), (0, "")),
    Unit.PERCENT.value: ((1, " %"), (0, "")),
    Unit.BYTES.value: tuple((factor, f" {letter}B") for factor, letter in DECIMAL),
    Unit.BYTES_PER_SECOND.value: tuple((factor, f" {letter}B/s") for factor, letter in DECIMAL),
    **{
        unit.value: tuple((factor, f" {letter}/s") for factor, letter in DECIMAL)
        for unit in (
            Unit.RECORDS_PER_SECOND,
            Unit.REQUESTS_PER_SECOND,
            Unit.OPERATIONS_PER_SECOND,
            Unit.EVENTS_PER_SECOND,
        )
    },
}
"""By unit, the largest first: a number from this factor on is divided by it, and has this name behind it."""
COLOURS = ("#1f6feb", "#d1242f", "#2da44e", "#bf8700", "#8250df", "#0a7d8c", "#bc4c00", "#57606a")

Ask = Callable[[str], Sequence[Mapping[str, Any]]]
"""The series that a query finds, as Prometheus' API has them: metric, values."""


@dataclass(frozen=True, slots=True)
class Box:
    """A panel's place, in pixels."""

    x: float
    y: float
    width: float
    height: float


def picture(dashboard: Dashboard, ask: Ask) -> str:
    """The SVG text of a dashboard."""
    made = as_json(dashboard)
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in made["panels"]) * UNIT_HEIGHT
    style = "font-family:sans-serif;font-size:11px"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" style="{style}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for panel in made["panels"]:
        place = panel["gridPos"]
        scale = WIDTH / COLUMNS
        box = Box(place["x"] * scale, place["y"] * UNIT_HEIGHT, place["w"] * scale, place["h"] * UNIT_HEIGHT)
        parts += _heading(panel["title"], box) if panel["type"] == "row" else _panel(panel, dashboard, box, ask)
    return "\n".join([*parts, "</svg>", ""])


def filled_in(expression: str, dashboard: Dashboard) -> str:
    """The text with Grafana's variables as if everything was chosen."""
    values = {"__rate_interval": "1m", **{variable.name: variable.all_values for variable in dashboard.variables}}
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], expression)


def _heading(title: str, box: Box) -> list[str]:
    return [f'<text x="8" y="{box.y + 20:.0f}" font-size="15" font-weight="bold">{escape(title)}</text>']


def _panel(panel: Mapping[str, Any], dashboard: Dashboard, box: Box, ask: Ask) -> Iterator[str]:
    frame = f'x="{box.x + 2:.0f}" y="{box.y + 2:.0f}" width="{box.width - 4:.0f}" height="{box.height - 4:.0f}"'
    yield f'<rect {frame} fill="none" stroke="#cccccc"/>'
    yield f'<text x="{box.x + 8:.0f}" y="{box.y + 18:.0f}" font-weight="bold">{escape(panel["title"])}</text>'
    lines = [
        (_legend(target["legendFormat"], series["metric"]), _points(series["values"]))
        for target in panel["targets"]
        for series in ask(filled_in(target["expr"], dashboard))
    ]
    lines = [(legend, points) for legend, points in lines if points]
    if not lines:
        yield f'<text x="{box.x + 8:.0f}" y="{box.y + 50:.0f}" fill="#d1242f">no data</text>'
    elif panel["type"] == "stat":
        value = lines[0][1][-1][1]
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        colour = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]
        yield f'<text x="{box.x + 20:.0f}" y="{box.y + 80:.0f}" font-size="40" fill="{colour}">{value:g}</text>'
    else:
        yield from _graph(lines, box, panel["fieldConfig"]["defaults"]["unit"])


def _points(values: Sequence[Sequence[Any]]) -> list[tuple[float, float]]:
    points = [(float(at), float(value)) for at, value in values]
    return [point for point in points if math.isfinite(point[1])]


def _legend(form: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form)


def _graph(lines: Sequence[tuple[str, Sequence[tuple[float, float]]]], box: Box, unit: str) -> Iterator[str]:
    every = [point for _, points in lines for point in points]
    first, last = min(at for at, _ in every), max(at for at, _ in every)
    low, high = min(0.0, *(value for _, value in every)), max(value for _, value in every)
    wide, tall = box.width - LEFT - 12, box.height - TOP - BOTTOM

    def place(at: float, value: float) -> str:
        x = box.x + LEFT + (at - first) / ((last - first) or 1) * wide
        y = box.y + TOP + tall - (value - low) / ((high - low) or 1) * tall
        return f"{x:.1f},{y:.1f}"

    when = " to ".join(time.strftime("%H:%M:%S", time.gmtime(at)) for at in (first, last))
    yield f'<text x="{box.x + box.width - 12:.0f}" y="{box.y + 18:.0f}" text-anchor="end" fill="#57606a">{when}</text>'
    for value in (low, high):
        y = float(place(first, value).split(",")[1])
        yield f'<text x="{box.x + 6:.0f}" y="{y + 4:.0f}" fill="#57606a">{_shown(value, unit)}</text>'
        yield f'<path d="M{box.x + LEFT:.0f},{y:.1f} h{wide:.0f}" stroke="#eeeeee"/>'
    letters = int(box.width / 2 / LETTER_WIDTH)
    highest_first = sorted(lines, key=lambda line: max(value for _, value in line[1]), reverse=True)
    for number, (legend, points) in enumerate(highest_first):
        colour = COLOURS[number % len(COLOURS)]
        for run in _runs(points):
            yield f'<polyline points="{" ".join(place(*point) for point in run)}" fill="none" stroke="{colour}"/>'
        if number < LEGEND_MAX:
            x, y = box.x + 8 + number % 2 * box.width / 2, box.y + box.height - 22 + number // 2 * 13
            yield f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}">{escape(legend[:letters])}</text>'


def _runs(points: Sequence[tuple[float, float]]) -> Iterator[Sequence[tuple[float, float]]]:
    """The parts of a line between its gaps: nothing is drawn while a node was down."""
    step = min((later[0] - earlier[0] for earlier, later in pairwise(points)), default=0)
    starts = [0, *(n for n in range(1, len(points)) if points[n][0] - points[n - 1][0] > 1.5 * step), len(points)]
    for start, end in pairwise(starts):
        yield points[start:end]


def _shown(value: float, unit: str) -> str:
    factor, name = next(step for step in SCALES.get(unit, DECIMAL) if abs(value) >= step[0])
    return f"{value / (factor or 1):.3g}{name}"


def asker(url: str, minutes: float) -> Ask:
    """Asks this Prometheus for the last minutes."""
    end = time.time()
    window = {"start": end - minutes * 60, "end": end, "step": max(1, minutes * 60 / POINTS)}

    def ask(expression: str) -> Sequence[Mapping[str, Any]]:
        asked = urllib.parse.urlencode({"query": expression, **window})
        with urllib.request.urlopen(f"{url}/api/v1/query_range?{asked}", timeout=30) as answer:
            found: Sequence[Mapping[str, Any]] = json.load(answer)["data"]["result"]
        return found

    return ask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of Prometheus: http://localhost:9090")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=15)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    ask = asker(args.url.rstrip("/"), args.minutes)
    for dashboard in DASHBOARDS:
        (args.folder / f"{dashboard.name}.svg").write_text(picture(dashboard, ask), encoding="utf-8")


if __name__ == "__main__":
    main()
