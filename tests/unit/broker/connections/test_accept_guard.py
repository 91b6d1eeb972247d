"""Promises about connections that are judged when they are accepted: no limit is exceeded, and a flood from one address
keeps no other one out."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from broker.connections.accept_guard import STAYS, AcceptGuard
from broker.connections.listener_limits import ListenerLimits
from broker.connections.shared_connections import BURST_SECONDS, CreationRate, ListenerConnections, SharedConnections
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
    shared.of("BROKER").note(ListenerConnections(5))
    one = guard(shared=shared)
    assert come(one, "a", 2) == [None] * 2, "the listener with the most gives way, when it is looked at"
    assert shared.allowed("BROKER", ListenerConnections(5)) == ListenerConnections(4)
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


def test_the_addresses_of_one_network_of_64_bits_count_as_one() -> None:
    one = guard(replace(LIMITS, connections_max_per_ip=6))
    strangers = [Endpoint(f"2001:db8::{number:x}", 1) for number in range(1, 7)]
    assert [one.came(peer, 0) for peer in strangers] == [STAYS] * 6
    assert one.came(Endpoint("10.0.0.1", 1), 1).cut == strangers[-1]
    few = guard()
    assert "max.connections.per.ip" in [few.came(peer, 0) for peer in strangers][4].limit


def test_a_connection_by_which_somebody_has_logged_in_stays_when_strangers_come() -> None:
    one = guard(replace(LIMITS, connections_max=8, connections_max_per_ip=6))
    assert come(one, "honest", 6) == [None] * 6
    for port in range(6):
        one.proved(Endpoint("honest", port), "User:anna")
    networks = [f"192.0.2.{number}" for number in range(1, 6)]
    assert [come(one, host, 1)[0] for host in networks] == [
        None,
        None,
        *(Endpoint(host, 0) for host in networks[2:]),
    ]
    assert one.statistics().open == 8


def test_a_newcomer_gets_one_of_the_places_that_are_kept_for_those_who_have_still_to_log_in() -> None:
    one = guard(replace(LIMITS, connections_max=8, connections_max_per_ip=8))
    come(one, "tenant", 8)
    for port in range(8):
        one.proved(Endpoint("tenant", port), "User:anna")
    assert come(one, "new", 3) == [Endpoint("tenant", 7), Endpoint("tenant", 6), Endpoint("new", 2)]
    assert one.statistics().open == 8
    for port in range(2):
        one.gone(Endpoint("new", port))
    for port in range(6):
        one.gone(Endpoint("tenant", port))
    assert one.statistics().open == 0 and come(one, "new", 1) == [None]


def test_a_proof_of_a_connection_that_has_gone_counts_for_nothing() -> None:
    one = guard()
    one.proved(Endpoint("a", 1), "User:anna")
    assert one.statistics().open == 0


@pytest.mark.parametrize("seed", range(5))
def test_it_is_always_one_with_the_most_that_gives_way(seed: int) -> None:
    """However they come, prove an identity, and go."""
    rng, limits = random.Random(seed), replace(LIMITS, connections_max=40, connections_max_per_ip=30)
    one = guard(limits)
    others: dict[Endpoint, str] = {}
    proven: dict[Endpoint, str] = {}
    gave_way = 0
    for port in range(3_000):
        if rng.random() < 0.5 or not others:
            peer = Endpoint(f"10.0.0.{rng.randrange(20)}", port)
            before = Counter(others.values())
            before[peer.host] += 1
            cut, others[peer] = one.came(peer, port * 1_000).cut, peer.host
            owner = others.pop(cut, "") if cut is not None else ""
            if owner:
                gave_way += 1
                assert before[owner] == max(before.values()) or owner == peer.host, (owner, before)
            elif cut is not None:
                principals = Counter(proven.values())
                assert principals[proven.pop(cut)] == max(principals.values())
        elif rng.random() < 0.3:
            peer = rng.choice(list(others))
            del others[peer]
            proven[peer] = f"User:{rng.randrange(5)}"
            one.proved(peer, proven[peer])
        else:
            of = rng.choice([some for some in (others, proven) if some])
            peer = rng.choice(list(of))
            del of[peer]
            one.gone(peer)
        assert one.statistics().open == len(others) + len(proven)
    assert gave_way > 50
