"""Puts the rows of benchmarks/broker.py side by side: medians with their spread, ratios pair by pair, and the goals.

Pure but for printing. A ratio is taken within each pair, because a machine drifts between pairs; the median of the
ratios counts, and beside it stand the smallest and the largest. A goal stands at a ratio at three nodes; every other
comparison is shown without one. Where the peer's row is missing the ratio is, too.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Row = Mapping[str, Any]
Key = tuple[str, int, str, int]
"""System, nodes, figure, bytes (0 where they do not matter)."""
ByPair = dict[int, float]

BEFORE_AT_LEAST = 0.95
"""No rate of ours may fall below this part of what an earlier version does in the same run."""


IDEMPOTENT_AT_LEAST = 0.97
IDEMPOTENT_LATENCY_AT_MOST = 1.1
"""Latency with idempotence, divided by the latency of producers without it."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Our figure against a peer's; `at_least` or `at_most` is the goal of the ratio at three nodes."""

    title: str
    ours: str
    theirs: str
    size: int = 0
    at_least: float | None = None
    at_most: float | None = None


def comparisons(peer: str) -> list[Comparison]:
    """Every line of the table of one peer."""
    if peer == "before":
        return _before()
    if peer == "not-idempotent":
        return _not_idempotent()
    fsync = peer == "kafka-fsync"
    lines = []
    for size in (100, 1024):
        goal = 1.0 if size == 100 else None
        lines += [
            Comparison(f"produce {size} B, send", "send", "send", size, at_least=goal),
            Comparison(f"produce {size} B, send_many", "send_many", "send", size, at_least=goal),
            Comparison(f"consume {size} B, records", "poll", "poll", size, at_least=goal),
            Comparison(f"consume {size} B, Arrow", "poll_arrow", "poll", size, at_least=goal),
        ]
    return [
        *lines,
        Comparison("send to ack p50, ms", "p50_ms", "p50_ms", 100),
        Comparison("send to ack p99, ms", "p99_ms", "p99_ms", 100, at_most=0.1 if fsync else 1.0),
        Comparison("start to ready, s", "ready_s", "ready_s", at_most=1 / 3),
        Comparison("memory at start, MiB", "start_rss_mib", "start_rss_mib", at_most=1 / 4),
        Comparison("memory after load, MiB", "after_rss_mib", "after_rss_mib", at_most=1 / 4),
        Comparison("idle, share of a core", "idle_share", "idle_share", at_most=1.0),
    ]


def _before() -> list[Comparison]:
    rates = [
        Comparison(f"{work} {size} B, {how}", how, how, size, at_least=BEFORE_AT_LEAST)
        for size in (100, 1024)
        for work, how in (("produce", "send"), ("produce", "send_many"), ("consume", "poll"), ("consume", "poll_arrow"))
    ]
    costs = [
        Comparison("send to ack p50, ms", "p50_ms", "p50_ms", 100, at_most=1 / BEFORE_AT_LEAST),
        Comparison("send to ack p99, ms", "p99_ms", "p99_ms", 100),
        Comparison("start to ready, s", "ready_s", "ready_s"),
        Comparison("memory at start, MiB", "start_rss_mib", "start_rss_mib"),
        Comparison("memory after load, MiB", "after_rss_mib", "after_rss_mib"),
        Comparison("idle, share of a core", "idle_share", "idle_share"),
    ]
    return rates + costs


def _not_idempotent() -> list[Comparison]:
    rates = [
        Comparison(f"produce {size} B, {how}", how, how, size, at_least=IDEMPOTENT_AT_LEAST)
        for size in (100, 1024)
        for how in ("send", "send_keyed", "send_many")
    ]
    return [
        *rates,
        Comparison("send to ack p50, ms", "p50_ms", "p50_ms", 100, at_most=IDEMPOTENT_LATENCY_AT_MOST),
        Comparison("send to ack p99, ms", "p99_ms", "p99_ms", 100, at_most=IDEMPOTENT_LATENCY_AT_MOST),
        Comparison("memory after load, MiB", "after_rss_mib", "after_rss_mib"),
    ]


GOAL_NODES = 3
PEERS = ("kafka", "kafka-fsync", "before", "not-idempotent", "read_uncommitted")


def by_pair(rows: Iterable[Row]) -> dict[Key, ByPair]:
    """Each figure by the pair it was measured in; where it was measured several times there, the median."""
    found: dict[Key, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for figure, value in figures(row).items():
            found[row["system"], row["nodes"], figure, row.get("bytes", 0)][row["pair"]].append(value)
    return {
        key: {pair: statistics.median(values) for pair, values in by_pair.items()} for key, by_pair in found.items()
    }


def figures(row: Row) -> dict[str, float]:
    """The figures of one row that the table shows."""
    kind = row["row"]
    if kind == "figures":
        return dict(row.get("figures", {}))
    if kind in ("produce", "consume"):
        found = {row["how"]: row["records_per_s"]} if "records_per_s" in row else {}
        return found | ({f"{row['how']}-cpu": row["cpu_us"]} if found and "cpu_us" in row else {})
    if kind == "serial":
        return {"serial_ms": row["p50_ms"]} if "p50_ms" in row else {}
    if kind == "latency":
        return {name: row[name] for name in ("p50_ms", "p99_ms") if row.get(name) is not None}
    if kind == "start":
        return {"ready_s": row["ready_s"], "start_rss_mib": row["rss_mib"]}
    if kind == "idle":
        return {"idle_share": row["idle_share"]}
    return {"after_rss_mib": row["rss_mib"]} if kind == "after" else {}


def ratios(ours: ByPair, theirs: ByPair) -> list[float]:
    """Ours to theirs, for each pair that has both."""
    return [ours[pair] / theirs[pair] for pair in sorted(ours.keys() & theirs.keys()) if theirs[pair]]


def goals_at_three(peer: str, nodes: int) -> list[Comparison]:
    """The lines of the whole comparison; its goals stand at one number of nodes."""
    lines = comparisons(peer)
    return lines if nodes == GOAL_NODES else [replace(line, at_least=None, at_most=None) for line in lines]


def print_table(
    rows: Sequence[Row], nodes: Iterable[int], lines: Callable[[str, int], list[Comparison]] = goals_at_three
) -> None:
    """One block for each number of nodes and each peer; ours alone where there is no peer."""
    found = by_pair(rows)
    measured = {row["system"] for row in rows}
    for count in nodes:
        for peer in [peer for peer in PEERS if peer in measured] or ["kafka"]:
            _print_block(found, count, peer, lines(peer, count))


def _print_block(found: Mapping[Key, ByPair], count: int, peer: str, lines: Iterable[Comparison]) -> None:
    heading = f"{count} node{'s' if count > 1 else ''} beside {peer}"
    print(f"\n{heading:36} {'ours':>24} {peer:>24} {'ratio':>20}  goal")
    for line in lines:
        ours = found.get(("penstock", count, line.ours, line.size))
        if not ours:
            continue
        theirs = found.get((peer, count, line.theirs, line.size), {})
        pairs = ratios(ours, theirs)
        goal = verdict(line, statistics.median(pairs) if pairs else None)
        columns = f"{spread(ours.values()):>24} {spread(theirs.values()):>24} {spread(pairs):>20}"
        print(f"  {line.title:34} {columns}  {goal}".rstrip())


def verdict(line: Comparison, ratio: float | None) -> str:
    """The goal, and whether the ratio meets it."""
    if line.at_least is None and line.at_most is None:
        return ""
    goal = f"≥ {line.at_least:g}×" if line.at_least is not None else f"≤ {line.at_most:.3g}×"
    if ratio is None:
        return f"{goal} (no peer)"
    met = ratio >= line.at_least if line.at_least is not None else ratio <= (line.at_most or 0)
    return f"{goal} {'met' if met else 'MISSED'}"


def spread(values: Iterable[float]) -> str:
    """The median, and behind it the smallest and the largest where there are several."""
    found = sorted(values)
    if not found:
        return "-"
    middle = _number(statistics.median(found))
    return middle if len(found) == 1 else f"{middle} ({_number(found[0])}-{_number(found[-1])})"


def _number(value: float) -> str:
    return f"{value / 1000:,.0f}k" if value >= 10_000 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
