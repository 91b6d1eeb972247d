"""Draws the rows of benchmarks/tuning.py as SVG, by matplotlib (extra `plots`). The same rows give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.errors import MissingDependencyError

try:
    import matplotlib
except ImportError as error:
    raise MissingDependencyError("matplotlib is not installed; pip install 'penstock[plots]'") from error

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "penstock", "svg.fonttype": "none", "font.size": 9})

import matplotlib.pyplot as plt  # noqa: E402  the backend is chosen first

Rows = Sequence[dict[str, Any]]


class Bars(NamedTuple):
    """One panel: a group of bars for each row."""

    title: str
    fields: tuple[str, ...]


PANELS = {
    "keys": (
        Bars("records/s", ("acks_one_per_s", "acks_all_per_s")),
        Bars("idle share of the busiest node", ("handler_idle", "network_idle")),
        Bars("changes of ISRs", ("isr_shrinks", "isr_expands")),
        Bars("one record to its ack, ms", ("ack_ms",)),
    ),
    "flush": (
        Bars("records/s", ("acks_one_per_s", "acks_all_per_s")),
        Bars("one record to its ack, ms", ("ack_ms",)),
    ),
    "memory": (Bars("resident memory, MiB", ("empty_mib", "written_mib")),),
}


def draw(story: str, rows: Rows, folder: Path) -> Iterator[Path]:
    """One picture: the panels of the story, side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    panels = PANELS[story]
    height = 0.9 + 0.42 * len(rows)
    figure, axes = plt.subplots(1, len(panels), figsize=(5 + 2.6 * len(panels), height), sharey=True, squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        _bars(axis, panel, rows)
    axes[0][0].set_yticks(range(len(rows)), [row["row"] for row in rows])
    axes[0][0].invert_yaxis()
    figure.tight_layout()
    path = folder / f"tuning-{story}.svg"
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    path.write_text("".join(f"{line.rstrip()}\n" for line in path.read_text().splitlines()))
    yield path


def _bars(axis: Any, panel: Bars, rows: Rows) -> None:
    width = 0.8 / len(panel.fields)
    for at, field in enumerate(panel.fields):
        places = [row + (at - (len(panel.fields) - 1) / 2) * width for row in range(len(rows))]
        axis.barh(places, [row[field] for row in rows], width, label=field.replace("_", " "))
    axis.set_title(panel.title)
    axis.locator_params(axis="x", nbins=5)
    if len(panel.fields) > 1:
        axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.5 / len(rows)), ncols=len(panel.fields))
