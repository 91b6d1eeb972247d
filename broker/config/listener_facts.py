"""Tells what each listener of a node speaks and whom it lets in: for the log of a start and `penstock node check`.

Names do not say it: PLAINTEXT may speak gRPC, and a listener that is not in listener.security.protocol.map lets
everybody in. Not here: whether that is wise (exposed_listeners.py, idle_keys.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.config.keys.security_keys import METRICS_LISTENER, ClientAuth
from broker.config.node_config import NodeConfig
from metadata.listeners import CONTROLLER_LISTENER
from penstock.types import ListenerType


def listener_lines(config: NodeConfig) -> Iterator[str]:
    """A line for each listener, metrics.listener last."""
    for name, endpoint in sorted(config.listeners.items()):
        yield f"{name}://{endpoint} {listener_facts(config, name)}"
    if config.metrics_listener is not None:
        yield f"metrics {metrics_facts(config)}"


def listener_facts(config: NodeConfig, name: str) -> str:
    """The protocol that the listener speaks, its security, and what a client must show."""
    speaks = "Kafka's protocol" if config.listener_type(name) is ListenerType.KAFKA else "gRPC"
    return f"speaks {speaks}, {_lock(config, name)}"


def metrics_facts(config: NodeConfig) -> str:
    """The address of metrics.listener, and what a client must show there."""
    if config.metrics_listener is None:
        return "at no address"
    return f"at {config.metrics_listener}, {_lock(config, METRICS_LISTENER)}"


def _lock(config: NodeConfig, name: str) -> str:
    protocol = config.security_protocol(name)
    shows = []
    if protocol.is_tls and config.tls(name).client_auth is not ClientAuth.NONE:
        may = "may show" if config.tls(name).client_auth is ClientAuth.REQUESTED else "show"
        shows.append(f"{'nodes' if name in _of_nodes(config) else 'clients'} {may} certificates")
    if protocol.is_sasl:
        shows.append("users log in")
    return f"{protocol}: {' and '.join(shows) or 'nobody is asked who they are'}"


def _of_nodes(config: NodeConfig) -> tuple[str, str]:
    return CONTROLLER_LISTENER, config.inter_broker_listener_name
