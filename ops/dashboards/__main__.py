"""Writes the dashboards' files, and removes those that are no longer made: `python -m ops.dashboards`."""

from __future__ import annotations

from pathlib import Path

from ops.dashboards import DASHBOARDS
from ops.dashboards.grafana import text_of

FOLDER = Path(__file__).resolve().parents[1] / "grafana" / "dashboards"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = {f"{dashboard.name}.json": text_of(dashboard) for dashboard in DASHBOARDS}
    for path in FOLDER.glob("*.json"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
