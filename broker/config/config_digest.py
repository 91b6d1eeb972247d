"""Compares settings: by a short digest, or key by key.

The digests of two nodes are equal if their settings are, whatever file they come from. What differs from node to node
by its nature is left out: identity, addresses, directories and log levels. So the nodes of a cluster have one digest,
and an operator sees at once which node was started with another file.
"""

from __future__ import annotations

import hashlib

from broker.config.keys.config_table import DIRECTORIES, IDENTITY, KEYS, LOGGER
from broker.config.keys.security_keys import FILE_ATTRIBUTES, FILE_KEYS
from broker.config.listener_keys import is_listener_key
from broker.config.node_config import NodeConfig
from penstock.config_keys import ConfigKey

DIGITS = 12
OF_CONTROLLERS = frozenset({"controller.quorum.auto.join.enable"})
"""Keys that a broker cannot have."""
OWN = frozenset(key.name for key in (*IDENTITY, *DIRECTORIES, *LOGGER)) | FILE_KEYS | OF_CONTROLLERS
"""The keys that are a node's own."""


def settings_digest(config: NodeConfig) -> str:
    """Digest of every key with its value in force, given or default."""
    lines = [f"{key.name}={_text(config, key)}" for key in KEYS.values() if key.name not in OWN]
    lines += [f"{name}={limits}" for name, limits in config.listener_limits.items()]
    lines += [
        f"{listener}.{name}={value}"
        for listener, values in config.listener_security.items()
        for name, value in values.items()
        if name not in FILE_ATTRIBUTES
    ]
    lines.sort()
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]


def changed_keys(before: NodeConfig, after: NodeConfig) -> list[str]:
    """The keys whose value in force differs."""
    changed = [key.name for key in KEYS.values() if _text(before, key) != _text(after, key)]
    of_listeners = sorted(filter(is_listener_key, {*before.given, *after.given}))
    return changed + [name for name in of_listeners if before.given.get(name) != after.given.get(name)]


def _text(config: NodeConfig, key: ConfigKey) -> str:
    value = getattr(config, key.attribute)
    return repr(
        sorted(value.items() if isinstance(value, dict) else value) if isinstance(value, dict | frozenset) else value
    )
