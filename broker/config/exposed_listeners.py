"""Finds listeners of the nodes themselves that are open to every network of the machine.

Who reaches CONTROLLER or the listener between brokers can act as a node, if they have no TLS, by which nodes show
certificates. A start warns of each (server.py), and so do `penstock node check` and, over DescribeCluster, `penstock
cluster health`. Beside a listener with TLS or log-ins a start is refused, unless a key allows it (security_check.py).
A listener for clients is open as its operator wants it. An address of one network is taken for the nodes' own: what a
firewall lets through to it is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.config.node_config import NodeConfig
from broker.config.security_check import lets_everybody_in, secured_listeners
from metadata.listeners import CONTROLLER_LISTENER
from penstock.messages.cluster import NodeListener
from penstock.types import CLIENT_LISTENER


def node_listeners(config: NodeConfig) -> Iterator[NodeListener]:
    """The listeners of the nodes themselves, where this one listens, by name."""
    of_nodes = {CONTROLLER_LISTENER, config.inter_broker_listener_name} - {CLIENT_LISTENER}
    for name in sorted(of_nodes & set(config.listeners)):
        at = config.listeners[name]
        is_exposed = at.is_every_address and not config.security_protocol(name).is_tls
        yield NodeListener(name, *at, is_exposed)


def exposed_listeners(config: NodeConfig) -> Iterator[str]:
    """One warning for each; with TLS or log-ins at another one, for each that lets everybody in."""
    secured = secured_listeners(config)
    for listener in node_listeners(config):
        if listener.is_exposed:
            yield (
                f"listeners = {listener}: every machine that reaches this one can act as a node of the cluster; give it"
                " TLS (docs/security.md) or an address of the nodes' own network, or let a firewall keep others out"
            )
        elif secured and lets_everybody_in(config, listener.name):
            yield (
                f"{secured[0]} has {config.security_protocol(secured[0])}, but listeners = {listener} asks nobody for"
                " anything (allow.plaintext.node.listeners): who reaches it acts as a node, reads the users'"
                " credentials and makes users; write listener.security.protocol.map ="
                f" {listener.name}:SSL (docs/security.md), or let it listen on a loopback address"
            )
