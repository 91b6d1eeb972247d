"""Finds listeners of the nodes themselves that are open to every network of the machine.

Penstock has no authentication: who reaches CONTROLLER or the listener between brokers can act as a node. A start warns
of each (server.py), and so do `penstock node check` and, over DescribeCluster, `penstock cluster health`. A listener
for clients is open as its operator wants it. An address of one network is taken for the nodes' own: what a firewall
lets through to it is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.config.node_config import NodeConfig
from metadata.listeners import CONTROLLER_LISTENER
from penstock.messages.cluster import NodeListener
from penstock.types import CLIENT_LISTENER


def node_listeners(config: NodeConfig) -> Iterator[NodeListener]:
    """The listeners of the nodes themselves, where this one listens, by name."""
    of_nodes = {CONTROLLER_LISTENER, config.inter_broker_listener_name} - {CLIENT_LISTENER}
    for name in sorted(of_nodes & set(config.listeners)):
        at = config.listeners[name]
        yield NodeListener(name, *at, at.is_every_address)


def exposed_listeners(config: NodeConfig) -> Iterator[str]:
    """One warning for each."""
    for listener in node_listeners(config):
        if listener.is_exposed:
            yield (
                f"listeners = {listener}: every machine that reaches this one can act as a node of the cluster; give an"
                " address of the nodes' own network, or let a firewall keep others out"
            )
