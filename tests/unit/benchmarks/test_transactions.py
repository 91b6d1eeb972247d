"""The table of the benchmark of transactions: ours beside Kafka by either client, and committed beside uncommitted."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.broker_goals import print_table
from benchmarks.transactions import NODES, comparisons


def row(system: str, figures: dict[str, float]) -> dict[str, Any]:
    return {"system": system, "nodes": NODES, "pair": 0, "row": "figures", "figures": figures}


def line_of(title: str, printed: str) -> str:
    return next(line for line in printed.splitlines() if line.strip().startswith(title))


def test_both_clients_of_ours_stand_beside_the_one_of_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    ours = row("penstock", {"rate-10-kafka": 30.0, "rate-10-penstock": 15.0})
    print_table([ours, row("kafka", {"rate-10-kafka": 20.0})], [NODES], comparisons)
    printed = capsys.readouterr().out
    assert line_of("transactions/s of 10 ", printed).split()[-4:] == ["1.5", "≥", "1×", "met"]
    assert line_of("transactions/s of 10, own client", printed).split()[-4:] == ["0.75", "≥", "1×", "MISSED"]


def test_committed_reads_stand_beside_uncommitted_ones_of_the_same_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("penstock", {"read-kafka": 96.0}), row("read_uncommitted", {"read-kafka": 100.0})]
    print_table([*rows, row("kafka", {"read-kafka": 50.0})], [NODES], comparisons)
    printed = capsys.readouterr().out
    assert line_of("read committed/s, confluent-kafka", printed).split()[-1] == "1.92"
    assert line_of("read committed, confluent-kafka", printed).split()[-1] == "MISSED"
