"""A short digest of a node's settings: equal on two nodes whose settings are equal, whatever file they come from.

What differs from node to node by its nature is left out: identity, addresses and directories. So the nodes of a cluster
have one digest, and an operator sees at once which node was started with another file.
"""

from __future__ import annotations

import hashlib

from broker.config.config_table import DIRECTORIES, IDENTITY, KEYS, ConfigKey
from broker.config.node_config import NodeConfig

DIGITS = 12
OWN = frozenset(key.name for key in (*IDENTITY, *DIRECTORIES))
"""The keys that are a node's own."""


def settings_digest(config: NodeConfig) -> str:
    """Of every key with its value in force, given or default."""
    lines = sorted(f"{key.name}={_text(config, key)}" for key in KEYS.values() if key.name not in OWN)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]


def _text(config: NodeConfig, key: ConfigKey) -> str:
    value = getattr(config, key.attribute)
    return repr(sorted(value.items()) if isinstance(value, dict) else value)
