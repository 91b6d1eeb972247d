"""Finds listeners of the nodes themselves that are open to every network of the machine.

Penstock has no authentication: who reaches CONTROLLER or the listener between brokers can act as a node. A start warns
of each (server.py), and so does `penstock node check`. A listener for clients is open as its operator wants it.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.config.node_config import NodeConfig
from metadata.listeners import CONTROLLER_LISTENER
from penstock.types import CLIENT_LISTENER

EVERY_ADDRESS = ("0.0.0.0", "::")


def exposed_listeners(config: NodeConfig) -> Iterator[str]:
    """One warning for each."""
    of_nodes = {CONTROLLER_LISTENER, config.inter_broker_listener_name} - {CLIENT_LISTENER}
    for name in sorted(of_nodes & set(config.listeners)):
        endpoint = config.listeners[name]
        if endpoint.host in EVERY_ADDRESS:
            yield (
                f"listeners = {name}://{endpoint}: every machine that reaches this one can act as a node of the"
                " cluster; give an address of the nodes' own network, or let a firewall keep others out"
            )
