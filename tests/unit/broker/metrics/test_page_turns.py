"""The limits of connections to the operators' pages, without a socket: no network keeps another one out."""

from __future__ import annotations

from broker.metrics.page_turns import (
    CONNECTIONS_MAX,
    NETWORK_TURN_MS,
    NETWORKS_KEPT,
    OF_NETWORK_MAX,
    TURN_MS,
    PageTurns,
)
from penstock.types import Endpoint


def test_a_network_has_so_many_connections_and_no_more() -> None:
    turns = PageTurns()
    strangers = [Endpoint(f"2001:db8::{number:x}", 1) for number in range(OF_NETWORK_MAX + 1)]
    assert [turns.came(peer, 0) for peer in strangers] == [None] * OF_NETWORK_MAX + [strangers[-1]]
    assert turns.came(Endpoint("10.0.0.1", 1), 0) is None
    turns.gone(strangers[0])
    assert turns.came(strangers[-1], 0) is None


def test_where_all_places_are_taken_a_network_with_few_gets_one() -> None:
    turns = PageTurns()
    for number in range(CONNECTIONS_MAX):
        turns.came(Endpoint(f"192.0.2.{number % 8}", number), 0)
    cut = turns.came(Endpoint("10.0.0.1", 1), 0)
    assert cut is not None and cut.host.startswith("192.0.2.")


def test_a_network_that_asks_without_end_waits_and_another_one_does_not() -> None:
    turns = PageTurns()
    waits = [turns.wait_of_network_ms(f"2001:db8::{number:x}", 1_000) for number in range(5)]
    assert waits == [number * NETWORK_TURN_MS for number in range(5)]
    assert turns.wait_of_network_ms("10.0.0.1", 1_000) == 0
    assert turns.wait_of_network_ms("2001:db8::1", 1_000 + 5 * NETWORK_TURN_MS) == 0


def test_all_networks_together_have_a_turn_every_few_milliseconds() -> None:
    turns = PageTurns()
    assert [turns.wait_ms(1_000) for _ in range(3)] == [0, TURN_MS, 2 * TURN_MS]
    assert turns.wait_ms(2_000) == 0


def test_turns_of_connections_that_are_cut_keep_nobody_waiting() -> None:
    """Many come, get a turn and are cut for others before they have it."""
    turns = PageTurns()
    for number in range(10 * CONNECTIONS_MAX):
        turns.wait_of_network_ms("10.0.0.1", 1_000)
        turns.wait_ms(1_000 + number // 10)
    assert turns.wait_ms(1_200) <= CONNECTIONS_MAX * TURN_MS
    assert turns.wait_of_network_ms("10.0.0.1", 1_000) <= OF_NETWORK_MAX * NETWORK_TURN_MS


def test_networks_that_have_had_their_turn_are_forgotten() -> None:
    turns = PageTurns()
    for number in range(3 * NETWORKS_KEPT):
        turns.wait_of_network_ms(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", number * NETWORK_TURN_MS)
    assert len(turns._next_of) <= NETWORKS_KEPT + 1
