"""The ports of a machine's nodes: those of a kind follow each other, and the kinds are a hundred apart.

Not here: free ports for a local cluster (penstock/testing/ports.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import NamedTuple

from penstock.errors import ConfigError

HOST, EVERY_ADDRESS = "127.0.0.1", "0.0.0.0"
PORT_MAX = 65_535
CONTROLLER_PORT_STEP = 100
METRICS_PORT_STEP = 200
INTERNAL_PORT_STEP = 300
KAFKA_PORT_STEP = 400


class NodePorts(NamedTuple):
    """The listeners of one node: clients connect to `broker`, Kafka's clients to `kafka` (0: no such listener), the
    nodes to each other's `controller` and `internal`."""

    broker: int
    controller: int
    metrics: int
    internal: int
    kafka: int = 0


def fixed_ports(nodes: int, port: int) -> tuple[NodePorts, ...]:
    """Brokers from `port` on, controllers 100 above, metrics 200, the brokers' own listeners 300, Kafka's clients 400
    above."""
    last = PORT_MAX - KAFKA_PORT_STEP - nodes
    if not 1 <= port <= last:
        raise ConfigError(f"port {port}: out of range; must be from 1 to {last}")
    return tuple(islice(_ports_from(port), nodes))


def _ports_from(port: int) -> Iterator[NodePorts]:
    for p in count(port):
        steps = (CONTROLLER_PORT_STEP, METRICS_PORT_STEP, INTERNAL_PORT_STEP, KAFKA_PORT_STEP)
        yield NodePorts(p, *(p + step for step in steps))
