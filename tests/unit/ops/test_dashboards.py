"""Promises of the dashboards' files: they are current, Grafana can read them, and no panel lies on another."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest

from ops.dashboards import DASHBOARDS
from ops.dashboards.__main__ import FOLDER
from ops.dashboards.draw import SCALES, picture
from ops.dashboards.grafana import COLUMNS, as_json, text_of
from ops.dashboards.panels import Dashboard, Row, Stat, Unit, graph, queries_of

PANEL_FIELDS = {"id", "type", "title", "description", "gridPos", "datasource", "targets", "fieldConfig", "options"}
QUERIES_MAX = 26
"""A query is named by one letter."""

each = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.name)


def test_the_files_are_what_the_source_says() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    wanted = {f"{dashboard.name}.json": text_of(dashboard) for dashboard in DASHBOARDS}
    assert written == wanted, "python -m ops.dashboards"


@each
def test_a_panel_has_what_grafana_requires_of_it_and_says_what_it_shows(dashboard: Dashboard) -> None:
    made = as_json(dashboard)
    panels = [panel for panel in made["panels"] if panel["type"] != "row"]
    assert len(panels) == len(dashboard.panels) and made["schemaVersion"] >= 39 and made["uid"] and made["title"]
    assert all(panel.keys() == PANEL_FIELDS and panel["title"] and panel["description"] for panel in panels)
    assert len({panel["id"] for panel in made["panels"]}) == len(made["panels"])
    titles = [panel.title for row in dashboard.rows for panel in row.panels]
    assert len(titles) == len(set(titles))
    assert all(1 <= len(queries_of(panel)) <= QUERIES_MAX for panel in dashboard.panels)
    assert all(
        len({query.legend for query in queries_of(panel)}) == len(queries_of(panel)) for panel in dashboard.panels
    )


@each
def test_no_panel_lies_on_another_or_outside(dashboard: Dashboard) -> None:
    places = [panel["gridPos"] for panel in as_json(dashboard)["panels"]]
    assert all(place["x"] + place["w"] <= COLUMNS for place in places)
    assert not [pair for pair in combinations(places, 2) if _overlap(*pair)]


@each
def test_grafanas_own_types_know_every_field(dashboard: Dashboard) -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="grafana-foundation-sdk is not installed")
    made = as_json(dashboard)
    assert not list(_lost(made, _through_grafanas_types(made)))


def test_grafanas_own_types_do_not_know_a_misspelt_field() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="grafana-foundation-sdk is not installed")
    made = as_json(DASHBOARDS[0])
    graph = next(panel for panel in made["panels"] if panel["type"] == "timeseries")
    graph["options"]["legend"]["placment"] = "bottom"
    graph["fieldConfig"]["defaults"]["custom"]["lineWidht"] = 1
    made["timzone"] = "browser"
    lost = {path.rsplit(".", 1)[-1] for path in _lost(made, _through_grafanas_types(made))}
    assert lost == {"placment", "lineWidht", "timzone"}


def test_a_picture_has_a_line_for_each_series_and_says_where_there_is_no_data() -> None:
    series = {"metric": {"instance": "a<b"}, "values": [[0, "1"], [1, "NaN"], [2, "5"]]}
    asked: list[str] = []

    def ask(expression: str) -> list[dict[str, Any]]:
        asked.append(expression)
        return [series] if "penstock_leaders" in expression else []

    cluster = next(dashboard for dashboard in DASHBOARDS if dashboard.name == "cluster")
    drawn = picture(cluster, ask)
    assert drawn.count("<polyline") == 1 and "a&lt;b" in drawn and "NaN" not in drawn
    assert drawn.count("no data") == len(cluster.panels) - 1
    assert not [expression for expression in asked if "$" in expression]


def test_a_line_has_a_gap_where_its_node_was_down() -> None:
    cluster = next(dashboard for dashboard in DASHBOARDS if dashboard.name == "cluster")
    series = {"metric": {}, "values": [[at, "6"] for at in (0, 2, 4, 20, 22)]}
    drawn = picture(cluster, lambda expression: [series] if "penstock_leaders" in expression else [])
    assert [line.count(",") for line in re.findall(r'<polyline points="(.*?)"', drawn)] == [3, 2]


def test_a_picture_names_units_the_highest_lines_and_the_colour_of_a_number() -> None:
    node = next(dashboard for dashboard in DASHBOARDS if dashboard.name == "node")
    many = [{"metric": {"api": f"api-{n}"}, "values": [[0, "0"], [60, f"{n * 1e6}"]]} for n in range(6)]
    drawn = picture(node, lambda expression: many if "penstock_request_bytes_total" in expression else [])
    assert ">5 MB/s<" in drawn and ">0 B/s<" in drawn and ">00:00:00 to 00:01:00<" in drawn
    assert [f"api-{n}" in drawn for n in range(6)] == [False, False, True, True, True, True]
    cluster = next(dashboard for dashboard in DASHBOARDS if dashboard.name == "cluster")
    down = [{"metric": {}, "values": [[0, "1"]]}]
    drawn = picture(cluster, lambda expression: down if "bool 0" in expression and "up{" in expression else [])
    assert 'fill="red">1<' in drawn
    assert all(steps[-1][0] == 0 for steps in SCALES.values()), "every number has a name"


def test_the_panels_of_a_row_are_spread_evenly_over_its_lines() -> None:
    row = Row(
        "r", tuple(Stat(f"s{n}", "h", "q") for n in range(7)) + tuple(graph(f"g{n}", "h", Unit.COUNT) for n in range(4))
    )
    panels = as_json(Dashboard("d", "d", "d", (row,)))["panels"][1:]
    assert [panel["gridPos"]["w"] for panel in panels] == [8, 8, 8, 6, 6, 6, 6, 12, 12, 12, 12]


def _through_grafanas_types(made: dict[str, Any]) -> Any:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard as GrafanasDashboard

    register_default_plugins()
    return json.loads(JSONEncoder().encode(GrafanasDashboard.from_json(made)))


def _lost(before: Any, after: Any, path: str = "") -> Any:
    """The paths of the fields that did not come through, or came through as something else. Empty ones may go."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name in after:
                yield from _lost(value, after[name], f"{path}.{name}")
            elif value not in (None, [], {}):
                yield f"{path}.{name}"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _lost(one, other, f"{path}[{index}]")
    elif before != after:
        yield path


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not (beside or above)
