"""The layout: a box for each replica, brokers by racks, and a bound for large clusters."""

from __future__ import annotations

from penstock.console.pictures.layout_picture import (
    BROKERS_MAX,
    ROWS_MAX,
    LayoutBroker,
    LayoutRow,
    LayoutView,
    layout_svg,
)

BROKERS = [LayoutBroker(3, "b"), LayoutBroker(1, "a"), LayoutBroker(2, "a", is_fenced=True)]


def test_each_replica_is_a_box_that_says_what_it_is() -> None:
    rows = [LayoutRow("orders-0", 1, (1, 2, 3), (1, 3), adding=(3,))]
    layout = LayoutView.of(BROKERS, rows)
    assert [broker.broker_id for broker in layout.brokers] == [1, 2, 3]
    text = layout_svg(layout)
    assert "orders-0: broker 1 leads" in text
    assert "orders-0: broker 2 is not in sync" in text
    assert "orders-0: broker 3 is in sync, and comes" in text
    assert text.count('class="replica ') == 3
    assert "Not all replicas are in sync: orders-0." in text
    assert '<text x="246" y="40" text-anchor="middle" class="label bad">2</text>' in text


def test_an_empty_topic_is_a_picture_too() -> None:
    assert "All replicas are in sync" in layout_svg(LayoutView.of([], []))


def test_a_large_cluster_is_cut_to_what_can_be_read_and_trouble_comes_first() -> None:
    rows = [LayoutRow(f"t-{n}", n % 100, (n % 100,), (n % 100,)) for n in range(12_000)]
    rows[9_000] = LayoutRow("ill", 7, (7, 8), (7,))
    layout = LayoutView.of([LayoutBroker(n) for n in range(100)], rows)
    assert (len(layout.rows), layout.rows_left_out) == (ROWS_MAX, 12_000 - ROWS_MAX)
    assert (len(layout.brokers), layout.brokers_left_out) == (BROKERS_MAX, 100 - BROKERS_MAX)
    assert layout.rows[0].label == "ill"
    assert len(layout_svg(layout)) < 30_000
