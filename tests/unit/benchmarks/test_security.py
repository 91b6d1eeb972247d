"""The table of the benchmark of security: ratios are of one turn, the goals of the rates alone, and noise is named."""

from __future__ import annotations

from typing import Any

from benchmarks.security import ACLS, PLAIN, TLS, table

SEND, LATENCY = "send, own client", "latency, own client"


def row(system: str, turn: int, work: str = SEND, **figures: float) -> dict[str, Any]:
    return {"system": system, "turn": turn, "work": work, **figures}


def line_of(title: str, rows: list[dict[str, Any]]) -> str:
    return next(line for line in table(rows) if line.startswith(title))


def test_a_ratio_is_the_median_of_those_within_a_turn() -> None:
    rates = {PLAIN: (100.0, 200.0, 400.0), TLS: (80.0, 120.0, 400.0)}
    rows = [row(name, turn, records_per_s=rate) for name, found in rates.items() for turn, rate in enumerate(found, 1)]
    assert line_of("send, own client, records_per_s", rows).endswith("0.800 ±0.148  ≥ 0.7× met, within the noise")


def test_a_goal_far_from_the_ratios_is_decided() -> None:
    rates = {PLAIN: (100.0, 200.0, 400.0), TLS: (79.0, 160.0, 322.0)}
    rows = [row(name, turn, records_per_s=rate) for name, found in rates.items() for turn, rate in enumerate(found, 1)]
    assert line_of("send, own client, records_per_s", rows).endswith("≥ 0.7× met")


def test_acls_alone_may_cost_two_parts_of_a_hundred() -> None:
    rows = [row(PLAIN, 1, records_per_s=100.0), row(ACLS, 1, records_per_s=97.0)]
    assert line_of("send, own client, records_per_s", rows).endswith("≥ 0.98× MISSED")


def test_latencies_and_processor_time_have_no_goal() -> None:
    rows = [row(name, 1, LATENCY, p50_ms=1.0, p99_ms=2.0) for name in (PLAIN, TLS)]
    rows += [row(name, 1, nodes_cpu_us=3.0) for name in (PLAIN, TLS)]
    for title in ("latency, own client, p50_ms", "send, own client, nodes_cpu_us"):
        assert line_of(title, rows).endswith("1.000 ±nan")
