"""Lays a local cluster out on disk: its ports, its directories, and each node's node.toml.

    DIRECTORY/cluster.json             cluster id, ports and voters, so that a directory can be started again as it was
    DIRECTORY/node-0/node.toml         the node's configuration, written anew at each start
    DIRECTORY/node-0/node.log          everything that its process wrote
    DIRECTORY/node-0/data/             its log.dirs

Node ids are the positions: 0, 1, 2. Only writes files; processes are process.py's.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from penstock.errors import ConfigError
from penstock.ids import system_ids

HOST, EVERY_ADDRESS = "127.0.0.1", "0.0.0.0"
PORT_LOW, PORT_HIGH = 10_000, 32_767
"""Below the kernel's ephemeral ports, so that no outgoing connection takes a port while its node is down."""
CONTROLLER_PORT_STEP = 100
METRICS_PORT_STEP = 200
INTERNAL_PORT_STEP = 300
LOCK = ".lock"
"""The lock file of a log dir, held by the node that uses it (storage/disk/file_names.py)."""
NODES_MAX = 50
"""Positions are added to a base port, and the steps above leave room for so many."""


class NodePorts(NamedTuple):
    """The listeners of one node: clients connect to `broker`, the nodes to each other's `controller` and `internal`."""

    broker: int
    controller: int
    metrics: int
    internal: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A local cluster on disk: its directory, its id, and the ports of each node."""

    directory: Path
    cluster_id: str
    ports: tuple[NodePorts, ...]
    host: str = HOST
    """Under which clients reach the brokers; other than HOST, their listener is on all addresses of the machine."""
    voter_count: int = 0
    """The first nodes are controllers, too, and stay what they are when nodes are added. 0: as many as a new cluster of
    this size has."""

    def grown(self, nodes: int) -> Layout:
        """With so many nodes; those that are new are brokers only. Their ports follow the others if those are fixed."""
        known, first = len(self.ports), self.ports[0].broker
        is_fixed = self.ports == tuple(islice(_ports_from(first), known))
        more = fixed_ports(nodes, first)[known:] if is_fixed else free_ports(nodes - known)
        return replace(self, ports=self.ports + more, voter_count=len(self.voters))

    def node_directory(self, index: int) -> Path:
        return self.directory / f"node-{index}"

    def config_path(self, index: int) -> Path:
        return self.node_directory(index) / "node.toml"

    def log_path(self, index: int) -> Path:
        return self.node_directory(index) / "node.log"

    def data_directory(self, index: int) -> Path:
        return self.node_directory(index) / "data"

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.host}:{ports.broker}" for ports in self.ports)

    @property
    def is_unused(self) -> bool:
        """No node got as far as its data."""
        return not any(self.data_directory(index).exists() for index in range(len(self.ports)))

    @property
    def voters(self) -> tuple[int, ...]:
        return tuple(range(self.voter_count or voters_of(len(self.ports))))

    def node_config(self, index: int) -> dict[str, object]:
        """The keys that only this layout knows: identity, listeners, voters, directories."""
        ports, is_voter = self.ports[index], index in self.voters
        is_open = self.host != HOST
        listeners = [
            f"BROKER://{EVERY_ADDRESS if is_open else HOST}:{ports.broker}",
            f"INTERNAL://{HOST}:{ports.internal}",
        ]
        advertised = {"advertised.listeners": [f"BROKER://{self.host}:{ports.broker}"]} if is_open else {}
        if is_voter:
            listeners.append(f"CONTROLLER://{HOST}:{ports.controller}")
        return {
            "node.id": index,
            "process.roles": ["broker", "controller"] if is_voter else ["broker"],
            "listeners": listeners,
            **advertised,
            "controller.quorum.voters": [f"{voter}@{HOST}:{self.ports[voter].controller}" for voter in self.voters],
            "log.dirs": [str(self.data_directory(index))],
            "metrics.listener": f"{HOST}:{ports.metrics}",
        }

    def node_toml(self, index: int, overrides: Mapping[str, object]) -> str:
        """The node's configuration file, with `overrides` over its own keys."""
        return to_toml({**self.node_config(index), **overrides})

    def require_no_node_runs(self) -> None:
        """ConfigError when a node holds one of the data directories: its files are not ours to write then."""
        for index in range(len(self.ports)):
            path = self.data_directory(index)
            if _is_locked(path / LOCK):
                raise ConfigError(
                    f"{path} is in use by another process (it holds {path / LOCK}); stop the cluster that runs there,"
                    " or give another directory"
                )

    def write(self, configs: Sequence[Mapping[str, object]]) -> None:
        """The directories, each node's node.toml with `configs[i]` over its own, and cluster.json."""
        with self._writable():
            for index, overrides in enumerate(configs):
                self._write_node(index, overrides)
            self._write_state()

    def write_node(self, index: int, config: Mapping[str, object]) -> None:
        """Writes the files of a node that is added; the configurations of the others stay as they are."""
        with self._writable():
            self._write_node(index, config)
            self._write_state()

    def remove_node(self, index: int) -> None:
        """Takes away what `write_node` of a larger layout wrote: the node never ran."""
        shutil.rmtree(self.node_directory(index), ignore_errors=True)
        with self._writable():
            self._write_state()

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = error.filename or self.directory
            raise ConfigError(f"{where}: cannot be written ({error.strerror}); give another directory") from None

    def _write_node(self, index: int, overrides: Mapping[str, object]) -> None:
        self.node_directory(index).mkdir(parents=True, exist_ok=True)
        self.config_path(index).write_text(self.node_toml(index, overrides), encoding="utf-8")

    def _write_state(self) -> None:
        ports = [list(ports) for ports in self.ports]
        state = {"cluster_id": self.cluster_id, "ports": ports, "voters": self.voter_count, "host": self.host}
        _state_path(self.directory).write_text(json.dumps(state), encoding="utf-8")


def new_layout(directory: Path, nodes: int, port: int | None, host: str | None = None) -> Layout:
    """A cluster that does not exist yet: with fixed ports from `port` on, or free ones."""
    ports = free_ports(nodes) if port is None else fixed_ports(nodes, port)
    return Layout(directory, system_ids().new_id(), ports, host or HOST)


def voters_of(nodes: int) -> int:
    """How many nodes of a new cluster are controllers: all of 1, 3 or 5, because an even one more would only make the
    majority larger."""
    return nodes if nodes in (1, 3, 5) else 1 if nodes == 2 else 3


def stored_nodes(directory: Path) -> int | None:
    """How many nodes the cluster has that `directory` holds from an earlier start; None where there is none."""
    state = _read_state(_state_path(directory))
    return None if state is None else len(state.ports)


def stored_layout(directory: Path, nodes: int, port: int | None, host: str | None = None) -> Layout | None:
    """The cluster that `directory` holds from an earlier start, if any. Its id stays, and so do its ports and host
    unless given. With more nodes than it had, it has grown by brokers."""
    state = _read_state(_state_path(directory))
    if state is None:
        return None
    known = len(state.ports)
    if nodes < known:
        remedy = f"ask for {known} or more, or give another directory"
        raise ConfigError(f"{directory}: holds a cluster of {known} nodes, not {nodes}; {remedy}")
    ports = state.ports if port is None else fixed_ports(known, port)
    layout = Layout(directory, state.cluster_id, ports, host or state.host, state.voter_count)
    return layout if nodes == known else layout.grown(nodes)


class _State(NamedTuple):
    cluster_id: str
    ports: tuple[NodePorts, ...]
    voter_count: int
    host: str


def _read_state(path: Path) -> _State | None:
    """None where no cluster was ever started."""
    if not path.exists():
        return None
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        ports = tuple(_stored_ports([int(port) for port in entry]) for entry in state["ports"])
        return _State(str(state["cluster_id"]), ports, int(state.get("voters", 0)), str(state.get("host", HOST)))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: damaged ({error}); restore it, or give another directory") from None


def _stored_ports(ports: list[int]) -> NodePorts:
    """Three are of a directory from before nodes listened for each other apart from clients."""
    return NodePorts(*ports, *([ports[0] + INTERNAL_PORT_STEP] if len(ports) == 3 else []))


def fixed_ports(nodes: int, port: int) -> tuple[NodePorts, ...]:
    """Brokers from `port` on, controllers 100 above, metrics 200 above, the brokers' own listeners 300 above."""
    if not 1 <= port <= 65_535 - INTERNAL_PORT_STEP - nodes:
        raise ConfigError(f"port {port}: out of range; must be from 1 to {65_535 - INTERNAL_PORT_STEP - nodes}")
    return tuple(islice(_ports_from(port), nodes))


def _ports_from(port: int) -> Iterator[NodePorts]:
    for p in count(port):
        yield NodePorts(p, p + CONTROLLER_PORT_STEP, p + METRICS_PORT_STEP, p + INTERNAL_PORT_STEP)


def free_ports(nodes: int) -> tuple[NodePorts, ...]:
    """Ports on which no process listens now, drawn at random so that two test runs hardly meet."""
    draw = random.SystemRandom()
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < len(NodePorts._fields) * nodes:
            probe = held.enter_context(socket.socket())
            port = draw.randint(PORT_LOW, PORT_HIGH)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            found.append(port)
    step = len(NodePorts._fields)
    return tuple(NodePorts(*found[at : at + step]) for at in range(0, len(found), step))


def to_toml(config: Mapping[str, object]) -> str:
    """Flat names and values as a configuration file; JSON's numbers, booleans and lists are TOML's."""
    return "".join(f"{name} = {_toml_value(value)}\n" for name, value in config.items())


def _toml_value(value: object) -> str:
    """JSON's strings are TOML's but for two things: TOML takes no pair of surrogates for a letter (an emoji), and no
    bare DEL. ConfigError for what no TOML file can hold: bytes of a path that are no UTF-8."""
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ConfigError(f"{value!a}: is not valid UTF-8, so no configuration file can name it; choose another")
    return text


def _state_path(directory: Path) -> Path:
    return directory / "cluster.json"


def _is_locked(path: Path) -> bool:
    """True if another process holds the lock file; to look is to hold it for a moment."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # no node was ever here, or it is not ours to read: the start says so
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(fd)
    return False
