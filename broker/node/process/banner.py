"""The first lines of a node's log: what was started, with which settings, on which directories and addresses."""

from __future__ import annotations

from collections.abc import Iterator

from broker.config.config_digest import settings_digest
from broker.config.config_variables import shown_source
from broker.config.listener_facts import listener_facts, metrics_facts
from broker.config.node_config import NodeConfig
from metadata.listeners import CONTROLLER_LISTENER


def banner(config: NodeConfig, config_path: str, version: str, runtime: str, pid: int) -> Iterator[str]:
    """One fact a line; `runtime` is the interpreter and the system."""
    yield f"penstock {version}: node {config.node_id} ({', '.join(sorted(config.roles))}) starts; pid {pid}, {runtime}"
    given = len(config.given)
    yield f"configuration {shown_source(config_path)}: {given} keys given, settings digest {settings_digest(config)}"
    log_dirs = ", ".join(config.log_dirs)
    yield f"log dirs {log_dirs}; the metadata log is in {config.metadata_log_dir}; flush.policy {config.flush_policy}"
    for name, endpoint in sorted(config.listeners.items()):
        advertised = config.advertised_listeners[name]
        other = f" (advertised as {advertised})" if advertised != endpoint else ""
        yield f"listener {name}://{endpoint}{other} {listener_facts(config, name)}"
    yield f"metrics {metrics_facts(config)}"
    yield f"{_quorum(config)}; rack {config.broker_rack or 'none'}"


def _quorum(config: NodeConfig) -> str:
    """The way to the controllers that the configuration gives."""
    voters = f"voters {config.first_voters.listed(CONTROLLER_LISTENER)}"
    if not config.first_voters.voters:
        voters = "voters: those of the metadata log"
        voters += ", which this controller joins by itself" if config.controller_quorum_auto_join_enable else ""
    servers = ", ".join(map(str, config.controller_quorum_bootstrap_servers))
    return f"{voters}; bootstrap servers {servers}" if servers else voters
