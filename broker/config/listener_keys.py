"""The keys of one listener: listener.name.<its name in small letters>.<key>, as in Kafka (KIP-612).

    listener.name.outside.max.connections = 500

Type and range are those of the key without the prefix. Not here: what a node does with the values
(broker/connections/listener_limits.py).
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from broker.config.keys.config_table import KEYS
from broker.config.keys.security_keys import METRICS_LISTENER, OF_METRICS
from broker.config.keys.security_keys import OF_ONE_LISTENER as SECURITY_OF_ONE_LISTENER
from broker.config.node_config import ListenerOverrides
from metadata.listeners import CONTROLLER_LISTENER
from penstock.config_keys import ConfigKey
from penstock.errors import ConfigError

PREFIX = "listener.name."
LIMITS = ("max.connections", "max.connection.creation.rate", "connections.max.idle.ms")
OF_ONE_LISTENER = (*LIMITS, *SECURITY_OF_ONE_LISTENER)


def is_listener_key(name: str) -> bool:
    """True if it is one of these keys, of whichever listener."""
    listener, _, key = name.removeprefix(PREFIX).partition(".")
    return name.startswith(PREFIX) and bool(listener) and key in OF_ONE_LISTENER


def near_listener_key(name: str) -> str:
    """The key that was probably meant by one that begins as these do; "" if none is near."""
    listener, _, key = name.removeprefix(PREFIX).partition(".")
    near = difflib.get_close_matches(key, OF_ONE_LISTENER, n=1, cutoff=0.8) if name.startswith(PREFIX) else []
    return f"{PREFIX}{listener}.{near[0]}" if near else ""


def listener_keys(given: Collection[str], listeners: Collection[str], inter_broker: str) -> dict[str, ConfigKey]:
    """The rows of the keys of this kind that are given; ConfigError for one of a listener that is not there. A node
    shows its certificate at the other nodes' listeners, too."""
    of_nodes = (CONTROLLER_LISTENER, inter_broker)
    found: dict[str, ConfigKey] = {}
    for name in filter(is_listener_key, given):
        listener, _, key = name.removeprefix(PREFIX).partition(".")
        if listener != listener.lower():
            raise ConfigError(f"{name}: write the listener in small letters: {PREFIX}{listener.lower()}.{key}")
        if listener.upper() == METRICS_LISTENER and listener.upper() not in listeners:
            if key not in OF_METRICS:
                raise ConfigError(f"{name}: metrics.listener has no such key; it has {', '.join(OF_METRICS)}")
        elif listener.upper() not in listeners and not (listener.upper() in of_nodes and key not in LIMITS):
            known = ", ".join(f"{PREFIX}{one.lower()}.{key}" for one in sorted(listeners))
            raise ConfigError(f"{name}: listeners has no {listener.upper()}; add it there, or write {known}")
        found[name] = replace(KEYS[key], name=name)
    return found


def overrides_by_listener(values: Mapping[str, Any]) -> dict[str, ListenerOverrides]:
    """The overrides by listener, from the checked values of its keys."""
    found: dict[str, ListenerOverrides] = {}
    for name, value in values.items():
        listener, _, key = name.removeprefix(PREFIX).partition(".")
        if key not in LIMITS:
            continue
        before = found.get(listener.upper(), ListenerOverrides())
        found[listener.upper()] = replace(before, **{key.replace(".", "_"): value})
    return found


def security_by_listener(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The checked values of the keys of security, by listener and attribute."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        listener, _, key = name.removeprefix(PREFIX).partition(".")
        if key in SECURITY_OF_ONE_LISTENER:
            found.setdefault(listener.upper(), {})[key.replace(".", "_")] = value
    return found
