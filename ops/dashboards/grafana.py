"""A dashboard as Grafana's JSON. Grafana places nothing by itself, so every panel gets a place here.

A row holds stats first, then graphs. Those of a row are spread evenly over its lines, and share the width of a line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from ops.dashboards.panels import Dashboard, Panel, Row, Stat, Variable, queries_of

SCHEMA_VERSION = 39
COLUMNS = 24
GRAPHS_IN_A_LINE, GRAPH_HEIGHT = 3, 8
STATS_IN_A_LINE, STAT_HEIGHT = 6, 4
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def text_of(dashboard: Dashboard) -> str:
    """The file of a dashboard."""
    return json.dumps(as_json(dashboard), indent=1, ensure_ascii=False) + "\n"


def as_json(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "uid": f"penstock-{dashboard.name}",
        "title": f"Penstock: {dashboard.title}",
        "description": dashboard.help,
        "tags": ["penstock"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": SCHEMA_VERSION,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource(), *map(_variable, dashboard.variables)]},
        "annotations": {"list": []},
        "links": [_link()],
        "panels": list(_panels(dashboard.rows)),
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "type": "query",
        "label": variable.label,
        "datasource": DATASOURCE,
        "query": {"query": variable.values, "refId": "A"},
        "includeAll": True,
        "allValue": variable.all_values,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }


def _link() -> dict[str, Any]:
    """To the other dashboards, with the same time range."""
    return {
        "title": "Penstock",
        "type": "dashboards",
        "icon": "external link",
        "tooltip": "",
        "tags": ["penstock"],
        "asDropdown": True,
        "targetBlank": False,
        "includeVars": False,
        "keepTime": True,
    }


def _panels(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    number, y = 0, 0
    for row in rows:
        number += 1
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        y += 1
        for line, height in _lines(row):
            for index, panel in enumerate(line):
                number += 1
                x, end = (COLUMNS * border // len(line) for border in (index, index + 1))
                place = {"x": x, "y": y, "w": end - x, "h": height}
                yield {"id": number, **_panel(panel), "gridPos": place}
            y += height


def _lines(row: Row) -> Iterator[tuple[Sequence[Panel | Stat], int]]:
    for kind, most, height in ((Stat, STATS_IN_A_LINE, STAT_HEIGHT), (Panel, GRAPHS_IN_A_LINE, GRAPH_HEIGHT)):
        found = [panel for panel in row.panels if isinstance(panel, kind)]
        lines = math.ceil(len(found) / most)
        for line in range(lines):
            yield found[line * len(found) // lines : (line + 1) * len(found) // lines], height


def _panel(panel: Panel | Stat) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "expr": query.expr, "legendFormat": query.legend, "datasource": DATASOURCE}
        for index, query in enumerate(queries_of(panel))
    ]
    common = {"title": panel.title, "description": panel.help, "datasource": DATASOURCE, "targets": targets}
    return {**common, **(_stat(panel) if isinstance(panel, Stat) else _graph(panel))}


def _graph(panel: Panel) -> dict[str, Any]:
    floor = {} if panel.may_be_negative else {"min": 0}
    style = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": False}
    return {
        "type": "timeseries",
        "fieldConfig": {"defaults": {"unit": panel.unit.value, **floor, "custom": style}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def _stat(panel: Stat) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "red" if panel.good_from else "green", "value": None}]
    if panel.good_from:
        steps.append({"color": "green", "value": panel.good_from})
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    defaults = {"unit": "short", "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    return {
        "type": "stat",
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "background",
        },
    }
