"""Decides where the replicas of new partitions go: striped over the brokers, apart from each other by rack.

The brokers in service are put in an order in which neighbours are in different racks as far as possible. Replica j of
partition i goes to place (start + i + j) mod n of that order. A new topic begins at a random place. New partitions of
an existing topic begin behind the place of its last one. Brokers that hold fewer of the topic's first replicas than
others, such as a broker that joined the cluster later, come first. If racks have different sizes, neighbours may share
one: then a broker is skipped while another rack has no replica of that partition. The first replica, the preferred
leader, is never skipped, so leaders are spread evenly. A broker without a rack is a rack of its own.

A registered broker that is absent (fenced, or shutting down) gets a replica where one in service cannot take its place:
there are too few in service, or the absent one is in a rack that would have no replica otherwise. It is never a first
replica. Such a replica begins outside of the ISR (assignments.py), and is copied when its broker is back. So a cluster
of three makes topics of three replicas while one broker is away, as Kafka's StripedReplicaPlacer does.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest

from metadata.registrations import BrokerRegistration
from penstock.balance.racks import rack_name


def place_replicas(
    brokers: Sequence[BrokerRegistration], partitions: int, replication_factor: int, rng: random.Random
) -> list[tuple[int, ...]]:
    """The replicas of each partition in order of preference; needs 1 <= replication_factor <= len(brokers), and one
    broker in service."""
    order, absent = _orders(brokers)
    start = rng.randrange(len(order))
    return [_replicas_from(order, absent, start + partition, replication_factor) for partition in range(partitions)]


def place_more_replicas(
    brokers: Sequence[BrokerRegistration],
    existing: Sequence[tuple[int, ...]],
    partitions: int,
    replication_factor: int,
    rng: random.Random,
) -> list[tuple[int, ...]]:
    """The replicas of new partitions behind the `existing` ones of the topic; needs the same as `place_replicas`."""
    order, absent = _orders(brokers)
    places = {broker.broker_id: place for place, broker in enumerate(order)}
    firsts = [places[replicas[0]] for replicas in existing if replicas[0] in places]
    counts = Counter(firsts)
    start = firsts[-1] + 1 if firsts else rng.randrange(len(order))
    chosen = islice(_least_led([counts[place] for place in range(len(order))], start), partitions)
    return [_replicas_from(order, absent, place, replication_factor) for place in chosen]


def _least_led(led: list[int], at: int) -> Iterator[int]:
    """Yields places for ever: from `at` on, the next one of those that hold the fewest first replicas. Each place that
    is yielded adds one to its number in `led`."""
    while True:
        least = min(led)
        for place in range(at, at + len(led)):
            if led[place % len(led)] == least:
                led[place % len(led)] += 1
                at = place + 1
                yield place


def _orders(brokers: Sequence[BrokerRegistration]) -> tuple[list[BrokerRegistration], list[BrokerRegistration]]:
    """The order of the brokers in service, and that of the absent ones."""
    order = _interleave_racks([broker for broker in brokers if broker.is_active])
    return order, _interleave_racks([broker for broker in brokers if not broker.is_active])


def _interleave_racks(brokers: Sequence[BrokerRegistration]) -> list[BrokerRegistration]:
    racks: dict[str, list[BrokerRegistration]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.broker_id):
        racks.setdefault(_rack(broker), []).append(broker)
    rounds = zip_longest(*(racks[rack] for rack in sorted(racks)))
    return [broker for broker in chain.from_iterable(rounds) if broker is not None]


def _replicas_from(
    order: list[BrokerRegistration], absent: list[BrokerRegistration], at: int, replication_factor: int
) -> tuple[int, ...]:
    candidates = [*_turned(order, at), *_turned(absent, at)]
    chosen: list[BrokerRegistration] = []
    while len(chosen) < replication_factor:
        used = {_rack(broker) for broker in chosen}
        fresh = (broker for broker in candidates if _rack(broker) not in used)
        best = next(fresh, candidates[0])
        chosen.append(best)
        candidates.remove(best)
    return tuple(broker.broker_id for broker in chosen)


def _turned(order: list[BrokerRegistration], at: int) -> list[BrokerRegistration]:
    """The brokers in this order, begun at a place and gone round."""
    return [order[(at + step) % len(order)] for step in range(len(order))]


def _rack(broker: BrokerRegistration) -> str:
    return rack_name(broker.broker_id, broker.rack)
