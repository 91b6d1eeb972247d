"""The chaos run adds up what its nodes count about idempotent producers."""

from __future__ import annotations

from tests.chaos.producer_counts import ProducerCounts

PAGE = """
# TYPE penstock_producer_duplicates_total counter
penstock_producer_duplicates_total 3.0
# TYPE penstock_producer_batches_refused_total counter
penstock_producer_batches_refused_total{why="invalid_producer_epoch"} 1.0
penstock_producer_batches_refused_total{why="out_of_order_sequence_number"} 2.0
# TYPE penstock_producers_refused_total counter
penstock_producers_refused_total 9.0
"""


def test_the_counts_of_all_lives_of_all_nodes_are_added_and_a_dead_node_adds_nothing() -> None:
    counts = ProducerCounts()
    counts.add(PAGE)
    counts.add(PAGE)
    counts.take("http://127.0.0.1:1/metrics")
    assert counts.found == {
        "duplicates_answered": 6,
        "invalid_producer_epoch": 2,
        "out_of_order_sequence_number": 4,
    }
