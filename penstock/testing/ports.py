"""Chooses the ports of a local cluster's nodes: fixed ones from a first one on, or free ones drawn at random.

A free port is only looked at, so another process may take it before the node does; from the start of the cluster on it
is held (HeldPorts), also while its node is down. Not here: where the choice is kept (layout.py), and what happens when
a node does not get its port (node_set.py, and `penstock dev`).
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress

from penstock.errors import ConfigError
from penstock.local_nodes.node_ports import EVERY_ADDRESS as EVERY_ADDRESS
from penstock.local_nodes.node_ports import HOST as HOST
from penstock.local_nodes.node_ports import INTERNAL_PORT_STEP as INTERNAL_PORT_STEP
from penstock.local_nodes.node_ports import PORT_MAX as PORT_MAX
from penstock.local_nodes.node_ports import NodePorts as NodePorts
from penstock.local_nodes.node_ports import fixed_ports as fixed_ports

PORT_LOW, PORT_HIGH = 10_000, 32_767
"""The range of ports to choose from, below the kernel's ephemeral ports: so no outgoing connection takes a port while
its node is down."""


def more_ports(ports: Sequence[NodePorts], nodes: int) -> tuple[NodePorts, ...]:
    """The given ports and more of their kind, for `nodes` nodes. A new node has a port for Kafka's clients if a given
    node has."""
    known, first = len(ports), ports[0].broker
    fixed = fixed_ports(known, first)
    is_fixed = [node._replace(kafka=0) for node in ports] == [node._replace(kafka=0) for node in fixed]
    more = fixed_ports(nodes, first)[known:] if is_fixed else free_ports(nodes - known)
    if not any(node.kafka for node in ports):
        more = tuple(node._replace(kafka=0) for node in more)
    return (*ports, *more)


def free_ports(nodes: int) -> tuple[NodePorts, ...]:
    """Ports on which no process listens now, drawn at random so that two test runs hardly meet."""
    draw = random.SystemRandom()
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < len(NodePorts._fields) * nodes:
            probe = held.enter_context(socket.socket())
            port = draw.randint(PORT_LOW, PORT_HIGH)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            found.append(port)
    step = len(NodePorts._fields)
    return tuple(NodePorts(*found[at : at + step]) for at in range(0, len(found), step))


class HeldPorts:
    """The ports of a cluster, kept for its nodes: no `free_ports` of any process of this machine gives them out while a
    node is down.

    A socket is bound to each and never listens. A process that sets SO_REUSEADDR, as a node does, can bind beside it
    and listen; the kernel refuses any other process (socket(7)).
    """

    def __init__(self) -> None:
        self._sockets: dict[int, socket.socket] = {}

    def hold(self, ports: Sequence[NodePorts]) -> None:
        """Holds these ports. A port that is held already stays so. A port that another process has is left out: its
        node says so."""
        for port in {port for node in ports for port in node if port} - self._sockets.keys():
            held = socket.socket()
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                held.bind((HOST, port))
            except OSError:
                held.close()
                continue
            self._sockets[port] = held

    def release(self) -> None:
        for held in self._sockets.values():
            with suppress(OSError):
                held.close()
        self._sockets.clear()


def free_kafka_ports(wanted: Iterable[int], ports: Sequence[NodePorts], address: str) -> tuple[int, ...]:
    """The port for Kafka's clients of each node: the wanted one, or the next one on which nobody listens and that no
    node has for anything else; 0 stays 0. ConfigError if no such port is left."""
    taken = {port for node in ports for port in node._replace(kafka=0)}
    found = []
    for first in wanted:
        candidates = range(first, PORT_MAX + 1) if first else ()
        port = next((p for p in candidates if p not in taken and is_free(address, p)), 0)
        if first and not port:
            raise ConfigError(f"no port from {first} to {PORT_MAX} is free for Kafka's clients")
        taken.add(port)
        found.append(port)
    return tuple(found)


def is_free(address: str, port: int) -> bool:
    """True if a node could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a node has it: TIME_WAIT is no bar
        try:
            probe.bind((address, port))
            probe.listen(1)  # two may bind with SO_REUSEADDR, but only one may listen
        except OSError:
            return False
    return True
