"""Where the replicas of a new topic go: striped over the brokers from a random start, apart from each other by rack.

Brokers are put in an order in which neighbours are in different racks as far as possible. Replica j of partition i goes
to place (start + i + j) mod n of that order. If racks have different sizes, neighbours may share one; so a broker is
skipped while another rack has no replica of that partition yet. The first replica, the preferred leader, is never
skipped, so leaders are spread evenly. A broker without a rack is a rack of its own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain, zip_longest

from metadata.registrations import BrokerRegistration


def place_replicas(
    brokers: Sequence[BrokerRegistration], partitions: int, replication_factor: int, rng: random.Random
) -> list[tuple[int, ...]]:
    """The replicas of each partition in order of preference; needs 1 <= replication_factor <= len(brokers)."""
    order = _interleave_racks(brokers)
    start = rng.randrange(len(order))
    return [_replicas_from(order, start + partition, replication_factor) for partition in range(partitions)]


def _interleave_racks(brokers: Sequence[BrokerRegistration]) -> list[BrokerRegistration]:
    racks: dict[str, list[BrokerRegistration]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.broker_id):
        racks.setdefault(_rack(broker), []).append(broker)
    rounds = zip_longest(*(racks[rack] for rack in sorted(racks)))
    return [broker for broker in chain.from_iterable(rounds) if broker is not None]


def _replicas_from(order: list[BrokerRegistration], at: int, replication_factor: int) -> tuple[int, ...]:
    candidates = [order[(at + step) % len(order)] for step in range(len(order))]
    chosen: list[BrokerRegistration] = []
    while len(chosen) < replication_factor:
        used = {_rack(broker) for broker in chosen}
        fresh = (broker for broker in candidates if _rack(broker) not in used)
        best = next(fresh, candidates[0])
        chosen.append(best)
        candidates.remove(best)
    return tuple(broker.broker_id for broker in chosen)


def _rack(broker: BrokerRegistration) -> str:
    return f"rack {broker.rack}" if broker.rack else f"broker {broker.broker_id}"
