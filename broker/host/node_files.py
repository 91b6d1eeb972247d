"""Derives each node's configuration from a host's file, checks it, and writes it.

    DIRECTORY/ID/node.toml       the node's configuration, written anew at each start and reload
    DATA_DIRECTORY/ID/data       its log dir

What is derived: id, roles, ports, the rack, the log dir, and that no partition has two replicas on this host. A key of
[node] or [node-ID] wins over it. The nodes must not share a port or a log dir, nor have one that the host's own page
has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from broker.config.config import parse_config_file
from broker.config.endpoint_texts import parse_metrics_listener
from broker.config.node_config import NodeConfig
from broker.host.host_file import HostFile, with_id
from penstock.certs.authority import write_file
from penstock.config_keys import to_toml
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.local_nodes.node_ports import EVERY_ADDRESS, HOST, NodePorts, fixed_ports

PROTOCOLS = "listener.security.protocol.map"
_PAGE = "METRICS:"
_MODE = 0o640


@dataclass(frozen=True, slots=True)
class NodeFile:
    """One node of a host: the file that it gets, and what stands in it."""

    node_id: int
    path: str
    text: str
    config: NodeConfig


def node_files(host: HostFile, *, looks_at_dirs: bool = True) -> tuple[NodeFile, ...]:
    """The files of all nodes, in the order of their ids; ConfigError names what is wrong with which of them."""
    ports = fixed_ports(host.nodes, host.port)
    made = []
    for at, node_id in enumerate(host.node_ids):
        given = {**host.shared, **host.own.get(node_id, {})}
        keys = {**_derived(host, at, node_id, ports[at], given.get("listeners")), **_without_page(given)}
        text = to_toml({_quoted(name): with_id(value, node_id) for name, value in keys.items()})
        path = f"{host.directory}/{node_id}/node.toml"
        try:
            config = parse_config_file(path, text.encode(), looks_at_dirs=looks_at_dirs)
        except ConfigError as error:
            why = str(error).removeprefix(f"{path}: ")
            raise ConfigError(f"{host.path}: node {node_id}: {why}") from None
        made.append(NodeFile(node_id, path, text, config))
    _check_apart(host, made)
    return tuple(made)


def page_config(host: HostFile, first: NodeFile) -> NodeConfig:
    """The configuration of the host's own page: that of the first node, with the listener of the page and its TLS."""
    given = {**host.shared, **host.own.get(first.node_id, {})}
    ports = fixed_ports(host.nodes, host.port)[0]
    keys = {**_derived(host, 0, first.node_id, ports, given.get("listeners")), **given}
    keys["metrics.listener"] = host.metrics_listener
    text = to_toml({_quoted(name): with_id(value, first.node_id) for name, value in keys.items()})
    return parse_config_file(host.path, text.encode(), looks_at_dirs=False)


def write_node_files(files: tuple[NodeFile, ...]) -> None:
    """Writes all files, or leaves all those before them; ConfigError where that cannot be."""
    written: list[tuple[Path, Path]] = []
    try:
        for file in files:
            path = Path(file.path)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                remedy = "give its directory to the user of the service, or change [host] directory"
                raise ConfigError(f"{path.parent}: cannot be made ({error.strerror}); {remedy}") from None
            new = path.with_name(path.name + ".new")
            new.unlink(missing_ok=True)
            write_file(new, file.text.encode(), _MODE)
            written.append((new, path))
        for new, path in written:
            new.replace(path)
    except OSError as error:
        raise ConfigError(f"{error.filename2 or error.filename}: cannot be written ({error.strerror})") from None
    finally:
        for new, _ in written:
            new.unlink(missing_ok=True)


def _derived(host: HostFile, at: int, node_id: int, ports: NodePorts, own_listeners: object) -> dict[str, object]:
    """The keys of a node that come from [host]. A listener that the node's own ones do not have is not advertised."""
    is_controller = at < host.controllers
    for_clients = {"BROKER": ports.broker} | ({"KAFKA": host.kafka_port + at} if host.kafka_port else {})
    open_ports = {**for_clients, "INTERNAL": ports.internal}
    if is_controller:
        open_ports["CONTROLLER"] = ports.controller
    mine = open_ports if own_listeners is None else [name for name in open_ports if f"{name}:" in str(own_listeners)]
    data = host.data_directories[at % len(host.data_directories)]
    return {
        "node.id": node_id,
        "process.roles": ["broker", "controller"] if is_controller else ["broker"],
        "listeners": [f"{name}://{EVERY_ADDRESS}:{port}" for name, port in open_ports.items()],
        "advertised.listeners": [f"{name}://{host.address}:{open_ports[name]}" for name in mine],
        "broker.rack": host.rack,
        "replica.placement.one.per.rack": True,
        "log.dirs": [f"{data}/{node_id}/data"],
        "metrics.listener": f"{HOST}:{ports.metrics}",
    }


def _without_page(given: Mapping[str, object]) -> dict[str, object]:
    """The keys without TLS of the page of metrics: the nodes' own pages are on 127.0.0.1, and the host reads them."""
    value = given.get(PROTOCOLS)
    entries = [one.strip() for one in value.split(",")] if isinstance(value, str) else value
    if not isinstance(entries, list):
        return dict(given)
    return {**given, PROTOCOLS: [one for one in entries if not str(one).startswith(_PAGE)]}


def _quoted(name: str) -> str:
    return f'"{name}"'


def _check_apart(host: HostFile, files: list[NodeFile]) -> None:
    taken: dict[object, str] = {}
    try:
        page = parse_metrics_listener(host.metrics_listener)
    except ConfigError as error:
        raise ConfigError(f"{host.path}: [host] {error}") from None
    if page is not None:
        taken[page.port] = "metrics.listener of [host]"
    for file in files:
        for what, shown in _uses(file.config):
            if what in taken:
                raise ConfigError(
                    f"{host.path}: node {file.node_id} has {shown}, and so has {taken[what]}; give each its own"
                )
            taken[what] = f"node {file.node_id}"


def _uses(config: NodeConfig) -> Iterator[tuple[object, str]]:
    pages = [config.metrics_listener] if config.metrics_listener else []
    for endpoint in (*config.listeners.values(), *pages):
        yield endpoint.port, f"the port {endpoint.port}"
    for path in config.log_dirs:
        yield path, f"the log dir {path}"
