"""The first lines of a node's log: what was started, with which settings, on which directories and addresses."""

from __future__ import annotations

from collections.abc import Iterator

from broker.config.config_digest import settings_digest
from broker.config.node_config import NodeConfig


def banner(config: NodeConfig, config_path: str, version: str, runtime: str, pid: int) -> Iterator[str]:
    """One fact a line; `runtime` is the interpreter and the system."""
    yield f"penstock {version}: node {config.node_id} ({', '.join(sorted(config.roles))}) starts; pid {pid}, {runtime}"
    given = len(config.given)
    yield f"configuration {config_path}: {given} keys given, settings digest {settings_digest(config)}"
    log_dirs = ", ".join(config.log_dirs)
    yield f"log dirs {log_dirs}; the metadata log is in {config.metadata_log_dir}; flush.policy {config.flush_policy}"
    listeners = [f"{name}://{endpoint}" + _about(config, name) for name, endpoint in sorted(config.listeners.items())]
    yield f"listeners {', '.join(listeners)}; metrics at {config.metrics_listener or 'no address'}"
    voters = ", ".join(f"{voter}@{endpoint}" for voter, endpoint in sorted(config.voters.items()))
    yield f"voters {voters}; rack {config.broker_rack or 'none'}"


def _about(config: NodeConfig, name: str) -> str:
    advertised, facts = config.advertised_listeners[name], []
    if advertised != config.listeners[name]:
        facts.append(f"advertised as {advertised}")
    if name in config.kafka_listeners:
        facts.append("speaks Kafka's protocol")
    return f" ({', '.join(facts)})" if facts else ""
