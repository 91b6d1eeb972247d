"""A dashboard as data: rows of panels, each with its queries. Data only; grafana.py makes JSON of it.

The functions build the queries that recur. Every query is limited to the nodes that the variable `$instance` names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NODES = 'instance=~"$instance"'
EACH = "{{instance}}"
QUANTILES = (0.5, 0.95, 0.99)


class Unit(StrEnum):
    """Grafana's names of units."""

    COUNT = "short"
    RECORDS_PER_SECOND = "rowsps"
    BYTES = "bytes"
    BYTES_PER_SECOND = "Bps"
    REQUESTS_PER_SECOND = "reqps"
    OPERATIONS_PER_SECOND = "ops"
    EVENTS_PER_SECOND = "cps"
    SECONDS = "s"
    SHARE = "percentunit"
    PERCENT = "percent"
    FLAG = "bool_yes_no"


@dataclass(frozen=True, slots=True)
class Query:
    """`legend` names each series by its labels."""

    expr: str
    legend: str = EACH


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph over time."""

    title: str
    help: str
    unit: Unit
    queries: tuple[Query, ...]
    may_be_negative: bool = False


@dataclass(frozen=True, slots=True)
class Stat:
    """One number on a colour. Green from `good_from` on and below `red_from`."""

    title: str
    help: str
    query: str
    red_from: int | None = 1
    good_from: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel | Stat, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of the page: the values of one label. Several may be chosen, and all are at first."""

    name: str
    label: str
    values: str
    all_values: str = ".*"
    """The pattern that stands for All."""


INSTANCE = Variable("instance", "Node", "label_values(penstock_quorum_epoch, instance)")


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One file of ops/grafana/dashboards, `name`.json."""

    name: str
    title: str
    help: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = (INSTANCE,)

    @property
    def panels(self) -> tuple[Panel | Stat, ...]:
        return tuple(panel for row in self.rows for panel in row.panels)


def graph(title: str, help: str, unit: Unit, *queries: Query, may_be_negative: bool = False) -> Panel:
    """A panel of these queries."""
    return Panel(title, help, unit, queries, may_be_negative)


def queries_of(panel: Panel | Stat) -> tuple[Query, ...]:
    return (Query(panel.query, ""),) if isinstance(panel, Stat) else panel.queries


def selected(metric: str, where: str = "") -> str:
    """The metric's series of the chosen nodes."""
    return f"{metric}{{{NODES}{',' * bool(where)}{where}}}"


def gauge(metric: str, legend: str = EACH, where: str = "") -> Query:
    """A number of each node."""
    return Query(selected(metric, where), legend)


def rate(metric: str, legend: str = EACH, by: str = "instance", where: str = "") -> Query:
    """A counter's rise in a second."""
    return Query(f"sum by ({by}) (rate({selected(metric, where)}[$__rate_interval]))", legend)


def rise(metric: str, legend: str = EACH, by: str = "instance", where: str = "") -> Query:
    """A counter's rise in the interval of a point: for what is rare."""
    return Query(f"sum by ({by}) (increase({selected(metric, where)}[$__rate_interval]))", legend)


def quantile(share: float, metric: str, legend: str = "", by: str = "", where: str = "") -> Query:
    """The time that this share of a histogram's events did not exceed."""
    buckets = f"sum by ({by}{', ' * bool(by)}le) (rate({selected(metric + '_bucket', where)}[$__rate_interval]))"
    return Query(f"histogram_quantile({share}, {buckets})", f"p{share * 100:g} {legend}".rstrip())


def quantiles(metric: str, legend: str = "", by: str = "", where: str = "") -> tuple[Query, ...]:
    """p50, p95 and p99."""
    return tuple(quantile(share, metric, legend, by, where) for share in QUANTILES)
