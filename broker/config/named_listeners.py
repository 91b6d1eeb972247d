"""Gives each listener the protocol that is named for it, and refuses one that a map with TLS or log-ins leaves out.

    listener.security.protocol.map names it     that protocol
    its name is a protocol's (SSL, SASL_SSL …)  that protocol, as by Kafka's default map; the map may not say otherwise
    neither                                     PLAINTEXT, while no listener of the cluster has TLS or log-ins

Where one listener has TLS or log-ins, a listener that nobody named would stand open beside it, for one forgotten word.
Kafka refuses such a map as well. What only this machine reaches is named too, but for metrics.listener, which has no
log-in anyway. Not here: the files and users that a protocol needs (security_check.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.config.keys.security_keys import METRICS_LISTENER, PROTOCOL_MAP
from broker.config.node_config import NodeConfig
from metadata.listeners import CONTROLLER_LISTENER
from penstock.addresses import is_loopback
from penstock.errors import ConfigError
from penstock.types import SecurityProtocol


def with_named_protocols(
    given: Mapping[str, SecurityProtocol], listeners: Iterable[str]
) -> dict[str, SecurityProtocol]:
    """The map, and the listeners whose own name is a protocol. ConfigError where the map gives one of these another."""
    for name, protocol in given.items():
        if name in SecurityProtocol.__members__ and protocol is not SecurityProtocol[name]:
            raise ConfigError(
                f"{PROTOCOL_MAP}: {name} has {protocol}, but its name promises {name}; give the listener another name,"
                f" like OUTSIDE:{protocol}, or write {name}:{name}"
            )
    by_name = {name: SecurityProtocol[name] for name in listeners if name in SecurityProtocol.__members__}
    return {**by_name, **given}


def check_named(config: NodeConfig) -> None:
    """ConfigError for a listener without a protocol where another one has TLS or log-ins."""
    named = config.listener_security_protocol_map
    locked = sorted(name for name, protocol in named.items() if protocol.is_tls or protocol.is_sasl)
    if not locked:
        return
    here = [*config.listeners, CONTROLLER_LISTENER, *([config.inter_broker_listener_name] * config.is_broker)]
    for name in dict.fromkeys(here):
        if name in named:
            continue
        of_nodes = name in (CONTROLLER_LISTENER, config.inter_broker_listener_name)
        at = (
            f"{name}://{config.listeners[name]}"
            if name in config.listeners
            else f"{name}, to which this node connects,"
        )
        raise _not_named(at, name, "SSL" if of_nodes else "SASL_SSL", f"{locked[0]} has {named[locked[0]]}")
    metrics = config.metrics_listener
    if metrics is not None and METRICS_LISTENER not in named and not is_loopback(metrics.host):
        raise _not_named(
            f"metrics.listener = {metrics}", METRICS_LISTENER, "SSL", f"{locked[0]} has {named[locked[0]]}"
        )


def _not_named(at: str, name: str, wanted: str, because: str) -> ConfigError:
    return ConfigError(
        f"{PROTOCOL_MAP} does not name {at}, though {because}; write {name}:{wanted} there, or {name}:PLAINTEXT if it"
        " is to be open"
    )
