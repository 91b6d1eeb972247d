"""Promises about connections that are judged when they are accepted: no limit is exceeded, and a flood from one address
keeps no other one out."""

from __future__ import annotations

from dataclasses import replace

from broker.connections.accept_guard import STAYS, AcceptGuard
from broker.connections.listener_limits import ListenerLimits
from broker.connections.shared_connections import BURST_SECONDS, CreationRate, SharedConnections
from penstock.types import Endpoint

LIMITS = ListenerLimits(1 << 20, 1 << 20, 1_000, 6, 4, 1_000)


def guard(limits: ListenerLimits = LIMITS, shared: SharedConnections | None = None, name: str = "KAFKA") -> AcceptGuard:
    return AcceptGuard(limits, (shared or SharedConnections(100, CreationRate(1_000))).of(name))


def come(one: AcceptGuard, host: str, count: int, first: int = 0) -> list[Endpoint | None]:
    """The connections that had to go, one after the other."""
    return [one.came(Endpoint(host, port), 0).cut for port in range(first, first + count)]


def test_an_address_has_no_more_connections_than_it_may() -> None:
    one = guard()
    assert come(one, "a", 5) == [None] * 4 + [Endpoint("a", 4)]
    assert "max.connections.per.ip=4" in one.came(Endpoint("a", 9), 0).limit
    one.gone(Endpoint("a", 0))
    assert come(one, "a", 1, first=5) == [None]
    assert one.statistics().open == 4 and one.statistics().cut_over_limit == 2


def test_an_address_with_few_connections_gets_in_at_the_cost_of_the_one_with_the_most() -> None:
    one = guard()
    assert come(one, "flood", 4) + come(one, "other", 2) == [None] * 6
    assert come(one, "new", 3) == [Endpoint("flood", 3), Endpoint("flood", 2), Endpoint("new", 2)]
    assert one.statistics().open == 6, "the third would only have changed places"
    one.gone(Endpoint("flood", 3))
    assert one.statistics().open == 6, "it did not count any more"
    assert one.came(Endpoint("flood", 9), 0).cut == Endpoint("flood", 9), "the flood gets nothing back"


def test_listeners_share_what_they_have_together() -> None:
    shared = SharedConnections(6, CreationRate(1_000))
    shared.of("BROKER").note(5)
    one = guard(shared=shared)
    assert come(one, "a", 2) == [None] * 2, "the listener with the most gives way, when it is looked at"
    assert shared.allowed("BROKER", 5) == 4
    assert come(one, "b", 2) == [None, Endpoint("b", 1)], "but not below an equal share"


def test_new_connections_in_a_second_are_limited() -> None:
    one = guard(replace(LIMITS, connections_max=1_000, connections_max_per_ip=1_000, creation_rate_max=1))
    assert come(one, "a", BURST_SECONDS + 2)[-3:] == [None, Endpoint("a", 10), Endpoint("a", 11)]
    assert one.statistics().cut_over_rate == 2
    assert one.came(Endpoint("a", 20), 1_000) == STAYS


def test_a_connection_that_never_counted_takes_nothing_away() -> None:
    one = guard()
    come(one, "a", 5)
    one.gone(Endpoint("a", 4))
    one.gone(Endpoint("stranger", 1))
    assert one.statistics().open == 4
