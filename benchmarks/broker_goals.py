"""Puts the rows of benchmarks/broker.py side by side: medians, ratios ours to Kafka's, and the goals, met or missed.

Pure but for printing. A goal stands at a ratio of one figure at one number of nodes; every other comparison is shown
without one. Where Kafka's row is missing the ratio is, too.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
Key = tuple[str, int, str, int]
"""System, nodes, figure, bytes (0 where they do not matter)."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Our figure against theirs; `at_least` or `at_most` is the goal of the ratio at three nodes."""

    title: str
    ours: str
    theirs: str
    size: int = 0
    peer: str = "kafka"
    at_least: float | None = None
    at_most: float | None = None


def comparisons() -> list[Comparison]:
    """Every line of the table, for one number of nodes."""
    lines = []
    for size in (100, 1024):
        goal = size == 100
        lines += [
            Comparison(f"produce {size} B, send", "send", "send", size, at_least=1.0 if goal else None),
            Comparison(f"produce {size} B, send_many", "send_many", "send", size, at_least=1.5 if goal else None),
            Comparison(f"consume {size} B, records", "poll", "poll", size, at_least=3.0 if goal else None),
            Comparison(f"consume {size} B, Arrow", "poll_arrow", "poll", size, at_least=6.0 if goal else None),
        ]
    return [
        *lines,
        Comparison("send to ack p50, ms", "p50_ms", "p50_ms", 100),
        Comparison("send to ack p99, ms", "p99_ms", "p99_ms", 100, at_most=1.0),
        Comparison("send to ack p50 / Kafka fsync, ms", "p50_ms", "p50_ms", 100, "kafka-fsync"),
        Comparison("send to ack p99 / Kafka fsync, ms", "p99_ms", "p99_ms", 100, "kafka-fsync", at_most=0.1),
        Comparison("start to ready, s", "ready_s", "ready_s", at_most=1 / 3),
        Comparison("memory at start, MiB", "start_rss_mib", "start_rss_mib", at_most=1 / 4),
        Comparison("memory after load, MiB", "after_rss_mib", "after_rss_mib", at_most=1 / 4),
        Comparison("idle, share of a core", "idle_share", "idle_share", at_most=1.0),
    ]


GOAL_NODES = 3


def medians(rows: Iterable[Row]) -> dict[Key, float]:
    """The median of each figure over all rounds."""
    found: dict[Key, list[float]] = defaultdict(list)
    for row in rows:
        for figure, value in figures(row).items():
            found[row["system"], row["nodes"], figure, row.get("bytes", 0)].append(value)
    return {key: statistics.median(values) for key, values in found.items()}


def figures(row: Row) -> dict[str, float]:
    """The figures of one row that the table shows."""
    kind = row["row"]
    if kind in ("produce", "consume"):
        return {row["how"]: row["records_per_s"]} if "records_per_s" in row else {}
    if kind == "latency":
        return {name: row[name] for name in ("p50_ms", "p99_ms") if row.get(name) is not None}
    if kind == "start":
        return {"ready_s": row["ready_s"], "start_rss_mib": row["rss_mib"]}
    if kind == "idle":
        return {"idle_share": row["idle_share"]}
    return {"after_rss_mib": row["rss_mib"]} if kind == "after" else {}


def print_table(rows: Iterable[Row], nodes: Iterable[int]) -> None:
    """One block for each number of nodes."""
    found = medians(rows)
    for count in nodes:
        print(f"\n{count} node{'s' if count > 1 else ''}: {'':24} {'ours':>12} {'Kafka':>12} {'ratio':>8}  goal")
        for line in comparisons():
            ours = found.get(("penstock", count, line.ours, line.size))
            theirs = found.get((line.peer, count, line.theirs, line.size))
            if ours is None:
                continue
            ratio = ours / theirs if theirs else None
            print(
                f"  {line.title:34} {_number(ours):>12} {_number(theirs):>12} {_number(ratio):>8}"
                f"  {verdict(line, ratio) if count == GOAL_NODES else ''}".rstrip()
            )


def verdict(line: Comparison, ratio: float | None) -> str:
    """The goal, and whether the ratio meets it."""
    if line.at_least is None and line.at_most is None:
        return ""
    goal = f"≥ {line.at_least:g}×" if line.at_least is not None else f"≤ {line.at_most:.2g}×"
    if ratio is None:
        return f"{goal} (no Kafka)"
    met = ratio >= line.at_least if line.at_least is not None else ratio <= (line.at_most or 0)
    return f"{goal} {'met' if met else 'MISSED'}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
