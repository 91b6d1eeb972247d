"""The text of `/metrics`: a registry in Prometheus' text format 0.0.4.

A scrape each second of a node with a thousand partitions should take at most 2 % of a processor. The library's encoders
check and sort the labels of every sample, and took three quarters of a scrape's time. This one trusts the names, which
are the node's own, and escapes values only. Not here: timestamps, exemplars, created times, info and state sets, which
no metric of a node has; HTTP (exposition.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from penstock.plain_text import plain_lines

INFINITY = float("inf")


def metrics_text(registry: Collector) -> str:
    """Everything that the registry collects now."""
    return "".join(line for metric in registry.collect() for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    meaning = metric.documentation.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {name} {meaning}\n# TYPE {name} {metric.type}\n"
    for sample in metric.samples:
        yield f"{sample.name}{_labels(sample.labels)} {_number(sample.value)}\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{_escaped(value)}"' for name, value in labels.items()]) + "}"


def _escaped(value: str) -> str:
    if not value.isprintable():  # a client chose its name, and an operator may look at the page in a terminal
        value = plain_lines(value)
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if value in (INFINITY, -INFINITY):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value)) if value == value else "NaN"
