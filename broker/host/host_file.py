"""Reads a host's file: how many nodes the machine has, what they share, and what is a node's own.

    [host]           nodes, first.node.id, address, … (HOST_KEYS)
    [node]           keys of every node, as in a node's own file; {id} in a text is the node's id
    [node-ID]        keys of one node alone; they win over [node]

Names are checked here; the values of nodes' keys are checked as those of a node's own file, once they are put together
(node_files.py). A mistake is one ConfigError that names file, key and remedy.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from broker.config.config_file import config_values, read_config_file
from penstock.config_keys import ConfigValue
from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.local_nodes.node_ports import CONTROLLER_PORT_STEP, KAFKA_PORT_STEP, PORT_MAX
from penstock.local_nodes.node_process import SOCKET_PATH_BYTES_MAX
from penstock.plain_text import one_line

NODES_MAX: Final = CONTROLLER_PORT_STEP
"""The ports of a kind are so far from those of the next."""
NODE_ID_MAX: Final = 2**31 - 1
DEFAULT_DIRECTORY: Final = "/var/lib/penstock/host"
ID_PLACE: Final = "{id}"
DERIVED: Final = frozenset({"node.id", "process.roles", "broker.rack", "listeners", "advertised.listeners"})
"""The keys that [node] may not have: every node has its own."""
_OWN: Final = re.compile(r"node-([0-9]{1,10})\.(.+)")


@dataclass(frozen=True, slots=True)
class HostFile:
    """A host's file, read and checked by itself."""

    path: str
    nodes: int
    first_node_id: int
    address: str
    """The name by which clients and the nodes of other hosts reach this one."""
    rack: str
    port: int
    kafka_port: int
    """0: no listener for Kafka's clients."""
    controllers: int
    """The first nodes are controllers, too."""
    directory: str
    data_directories: tuple[str, ...]
    metrics_listener: str
    shared: Mapping[str, object] = field(repr=False)
    own: Mapping[int, Mapping[str, object]] = field(repr=False)

    @property
    def node_ids(self) -> range:
        return range(self.first_node_id, self.first_node_id + self.nodes)

    @property
    def control_socket(self) -> str:
        return f"{self.directory}/control"


def load_host_file(path: str, hostname: Callable[[], str] = socket.gethostname) -> HostFile:
    """The host of this file; ConfigError begins with the file's name."""
    values = config_values(path, read_config_file(path))
    try:
        return _host_file(path, values, hostname)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _host_file(path: str, values: Mapping[str, object], hostname: Callable[[], str]) -> HostFile:
    host, shared, own = _parts(values)
    nodes = _whole(host, "nodes", None, 1, NODES_MAX)
    first = _whole(host, "first.node.id", 1, 0, NODE_ID_MAX - NODES_MAX)
    port = _whole(host, "port", 9192, 1, PORT_MAX - KAFKA_PORT_STEP - NODES_MAX)
    kafka_port = _whole(host, "kafka.port", 9092, 0, PORT_MAX - NODES_MAX)
    address = _text(host, "address", hostname())
    directory = _absolute(_text(host, "directory", DEFAULT_DIRECTORY), "directory")
    read = HostFile(
        path=path,
        nodes=nodes,
        first_node_id=first,
        address=address,
        rack=_text(host, "rack", address),
        port=port,
        kafka_port=kafka_port,
        controllers=_whole(host, "controllers", 1, 0, nodes),
        directory=directory,
        data_directories=tuple(_absolute(one, "data.directories") for one in _texts(host, "data.directories"))
        or (directory,),
        metrics_listener=_text(host, "metrics.listener", "", may_be_empty=True),
        shared=shared,
        own=own,
    )
    _check_ids(read)
    if len(os.fsencode(read.control_socket)) > SOCKET_PATH_BYTES_MAX:
        longest = SOCKET_PATH_BYTES_MAX - len("/control")
        raise ConfigError(
            f"[host] directory = {directory!r}: has more than {longest} bytes, too many for a socket's path"
        )
    return read


def _parts(
    values: Mapping[str, object],
) -> tuple[dict[str, object], dict[str, object], dict[int, dict[str, object]]]:
    """The keys of the host, of every node, and of single nodes. ConfigError for a key of none of them."""
    host: dict[str, object] = {}
    shared: dict[str, object] = {}
    own: dict[int, dict[str, object]] = {}
    for name, value in values.items():
        kind, _, key = name.partition(".")
        found = _OWN.fullmatch(name)
        if kind == "host" and key in HOST_KEYS:
            host[key] = value
        elif kind == "node" and key:
            if key in DERIVED:
                raise ConfigError(f"[node] {key}: every node has its own; it comes from [host], or stands in [node-ID]")
            shared[key] = value
        elif found:
            own.setdefault(int(found[1]), {})[found[2]] = value
        else:
            raise ConfigError(
                f"{one_line(name)[:64]}: no key of a host's file; [host] has {', '.join(HOST_KEYS)};"
                " keys of nodes stand in [node], or in [node-ID]"
            )
    return host, shared, own


def _check_ids(read: HostFile) -> None:
    for node_id in read.own:
        if node_id not in read.node_ids:
            ids = read.node_ids
            raise ConfigError(f"[node-{node_id}]: this host has the nodes {ids[0]} to {ids[-1]}; correct the id")
    if ID_PLACE in read.rack:
        raise ConfigError(f"[host] rack = {read.rack!r}: all nodes of a host have one rack; leave {ID_PLACE} out")
    if "{" in read.address or any(letter in read.address for letter in ' ,/:"'):
        raise ConfigError(f"[host] address = {read.address!r}: must be one name or IPv4 address of this machine")
    ranges = [range(read.port + step, read.port + step + read.nodes) for step in range(0, KAFKA_PORT_STEP, 100)]
    if read.kafka_port and any(read.kafka_port + at in ports for ports in ranges for at in range(read.nodes)):
        raise ConfigError(f"[host] kafka.port = {read.kafka_port}: meets the ports from {read.port} on; choose another")


def with_id(value: object, node_id: int) -> object:
    """The value with the node's id where its texts have {id}."""
    if isinstance(value, str):
        return value.replace(ID_PLACE, str(node_id))
    return [with_id(one, node_id) for one in value] if isinstance(value, list) else value


# -- values ------------------------------------------------------------------------------------------------------------


def _whole(host: Mapping[str, object], key: str, default: int | None, least: int, most: int) -> int:
    value = host.get(key, default)
    if value is None:
        raise ConfigError(f"[host] {key}: must be given, from {least} to {most}")
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"[host] {key} = {value!r}: must be a whole number from {least} to {most}")
    return value


def _text(host: Mapping[str, object], key: str, default: str, *, may_be_empty: bool = False) -> str:
    value = host.get(key, default)
    if not isinstance(value, str) or not (value.strip() or may_be_empty):
        raise ConfigError(f"[host] {key} = {value!r}: must be a text in quotes")
    return value.strip()


def _texts(host: Mapping[str, object], key: str) -> list[str]:
    value = host.get(key, [])
    texts = [one.strip() for one in value.split(",")] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(one, str) and one for one in texts):
        raise ConfigError(f"[host] {key} = {value!r}: must be a list of texts")
    return texts


def _absolute(path: str, key: str) -> str:
    if not path.startswith("/"):
        raise ConfigError(f"[host] {key} = {path!r}: must be an absolute path")
    return path.rstrip("/") or "/"


HOST_KEYS: Final[Mapping[str, tuple[ConfigValue | None, str]]] = {
    "nodes": (None, f"How many nodes run here, 1 to {NODES_MAX}; about one for each processor."),
    "first.node.id": (1, "The id of the first node; the others follow. No other node of the cluster has one of these."),
    "address": ("the machine's name", "The name or address by which clients and other hosts reach this machine."),
    "rack": ("the address", "The `broker.rack` of all nodes."),
    "port": (
        9192,
        "The first broker's port; those of the others follow. Controllers are 100 above, the nodes' own pages of"
        " metrics 200 (on 127.0.0.1), brokers among themselves 300.",
    ),
    "kafka.port": (9092, "The first port for Kafka's clients; 0: none."),
    "controllers": (1, "So many of the nodes, from the first on, are controllers, too. 0 to all."),
    "directory": (
        DEFAULT_DIRECTORY,
        "The nodes' files, `ID/node.toml`, and the socket of `penstock host`.",
    ),
    "data.directories": (
        "the directory",
        "Where the log dirs are, `ID/data`: one entry a disk. The nodes take them in turn, so a disk that fails costs"
        " some of the nodes, and not all.",
    ),
    "metrics.listener": ("", "host:port of the one page with the metrics of all nodes; empty for none."),
}
"""The keys of [host]: default (None: required), and meaning."""
