"""The limits of each listener of a node, from its configuration: connections, new ones in a second, silence.

The listeners for clients share what max.connections, max.connection.creation.rate and a quarter of the file descriptors
allow. The listeners for brokers and for the quorum have shares of their own, which no client can use up. What
listener.name.<name>.… sets holds for that listener besides. Pure. Not here: which connections are cut
(connection_guard.py).
"""

from __future__ import annotations

from broker.config.node_config import NodeConfig
from broker.connections.connection_guard import ConnectionGuard
from broker.connections.shared_connections import CreationRate, SharedConnections
from penstock.config_keys import INT32_MAX
from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """The limits of one listener."""

    message_bytes_max: int
    request_bytes_max: int
    idle_ms_max: int
    connections_max: int
    connections_max_per_ip: int
    write_stall_ms_max: int
    creation_rate_max: int = INT32_MAX

    def guard(self, name: str, shared: SharedConnections | None = None) -> ConnectionGuard:
        """The guard of the listener of that name; `shared`: what it has together with others."""
        return ConnectionGuard(
            self.connections_max,
            self.connections_max_per_ip,
            self.write_stall_ms_max,
            CreationRate(self.creation_rate_max),
            shared.of(name) if shared is not None else None,
        )


def listener_limits(config: NodeConfig, listener: str, descriptors_share: int) -> ListenerLimits:
    """The limits by the configuration, and never more connections than the process has descriptors for."""
    own = config.overrides(listener)
    connections_max = min(config.max_connections, descriptors_share, _or(own.max_connections, INT32_MAX))
    return ListenerLimits(
        message_bytes_max=config.socket_request_max_bytes,
        request_bytes_max=config.queued_max_request_bytes,
        idle_ms_max=_or(own.connections_max_idle_ms, config.connections_max_idle_ms),
        connections_max=connections_max,
        connections_max_per_ip=min(config.max_connections_per_ip, connections_max),
        write_stall_ms_max=config.connections_max_write_stall_ms,
        creation_rate_max=_or(own.max_connection_creation_rate, INT32_MAX),
    )


def shared_by_clients(config: NodeConfig, descriptors_share: int) -> SharedConnections:
    """The limits that the listeners for clients have together."""
    return SharedConnections(
        min(config.max_connections, descriptors_share), CreationRate(config.max_connection_creation_rate)
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
