"""Lays a local cluster out on disk: its ports, its directories, and each node's node.toml.

    DIRECTORY/cluster.json             cluster id, ports and voters, so that a directory can be started again as it was
    DIRECTORY/node-0/node.toml         the node's configuration, written anew at each start
    DIRECTORY/node-0/node.log          everything that its process wrote
    DIRECTORY/node-0/data/             its log.dirs
    DIRECTORY/security/                certificates and a password, if it is secured (penstock/certs/secured.py)

Node ids are the positions: 0, 1, 2. Only writes files; processes are process.py's.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from penstock.certs.secured import OF_NODES, Secured
from penstock.config_keys import to_toml
from penstock.errors import ConfigError
from penstock.ids import system_ids
from penstock.lazy_dataclass import dataclass
from penstock.testing.ports import (
    EVERY_ADDRESS,
    HOST,
    INTERNAL_PORT_STEP,
    NodePorts,
    fixed_ports,
    free_ports,
    more_ports,
)

STORED_PORTS = 4
"""The ports of a node in cluster.json. The one for Kafka's clients stands apart: an older release reads the others."""
LOCK = ".lock"
"""The lock file of a log dir, held by the node that uses it (storage/disk/file_names.py)."""
NODES_MAX = 50
"""The most nodes of a cluster. Positions are added to a base port, and the steps between the kinds of ports have no
place for more."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A local cluster on disk: its directory, its id, and the ports of each node."""

    directory: Path
    cluster_id: str
    ports: tuple[NodePorts, ...]
    host: str = HOST
    """The name or address under which clients reach the brokers. With another one than HOST, their listener is on all
    addresses of the machine."""
    voter_count: int = 0
    """The first nodes are controllers, too, and stay what they are when nodes are added. 0: as many as a new cluster of
    this size has."""
    is_secure: bool = False
    """TLS, users and ACLs (penstock/certs/secured.py)."""

    def grown(self, nodes: int) -> Layout:
        """The layout with `nodes` nodes; new nodes are brokers only. Their ports follow the others if those are
        fixed."""
        return replace(self, ports=more_ports(self.ports, nodes), voter_count=len(self.voters))

    def with_kafka_ports(self, kafka_ports: Sequence[int]) -> Layout:
        """The layout with these ports for Kafka's clients, one a node; 0: that node has no such listener."""
        ports = (node._replace(kafka=kafka) for node, kafka in zip(self.ports, kafka_ports, strict=True))
        return replace(self, ports=tuple(ports))

    def node_directory(self, index: int) -> Path:
        return self.directory / f"node-{index}"

    def config_path(self, index: int) -> Path:
        return self.node_directory(index) / "node.toml"

    def log_path(self, index: int) -> Path:
        return self.node_directory(index) / "node.log"

    def data_directory(self, index: int) -> Path:
        return self.node_directory(index) / "data"

    @property
    def secured(self) -> Secured | None:
        """The files that secure it; None for an open cluster."""
        return Secured(self.directory / "security") if self.is_secure else None

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.host}:{ports.broker}" for ports in self.ports)

    @property
    def kafka_bootstrap(self) -> str:
        """The bootstrap addresses for Kafka's clients; "" where no node has a listener for them."""
        return ",".join(f"{self.host}:{ports.kafka}" for ports in self.ports if ports.kafka)

    @property
    def listening_address(self) -> str:
        """The address of the listeners for clients."""
        return HOST if self.host == HOST else EVERY_ADDRESS

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
        for_clients = {"BROKER": ports.broker} | ({"KAFKA": ports.kafka} if ports.kafka else {})
        listeners = [f"{name}://{self.listening_address}:{port}" for name, port in for_clients.items()]
        listeners.append(f"INTERNAL://{HOST}:{ports.internal}")
        there = [f"{name}://{self.host}:{port}" for name, port in for_clients.items()]
        if is_voter:
            listeners.append(f"CONTROLLER://{HOST}:{ports.controller}")
        secured = self.secured
        names = [listener.partition(":")[0] for listener in listeners]
        return {
            "node.id": index,
            "process.roles": ["broker", "controller"] if is_voter else ["broker"],
            "listeners": listeners,
            **({} if self.listening_address == HOST else {"advertised.listeners": there}),
            "controller.quorum.voters": [f"{voter}@{HOST}:{self.ports[voter].controller}" for voter in self.voters],
            "log.dirs": [str(self.data_directory(index))],
            "metrics.listener": f"{HOST}:{ports.metrics}",
            **({} if secured is None else secured.node_keys(index, [*names, *OF_NODES], tuple(for_clients))),
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
            self._write_secured()
            for index, overrides in enumerate(configs):
                self._write_node(index, overrides)
            self._write_state()

    def write_node(self, index: int, config: Mapping[str, object]) -> None:
        """Writes the files of a node that is added; the configurations of the others stay as they are."""
        with self._writable():
            self._write_secured()
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

    def _write_secured(self) -> None:
        if self.secured is not None:
            self.secured.write(self.cluster_id, self.bootstrap)

    def _write_node(self, index: int, overrides: Mapping[str, object]) -> None:
        self.node_directory(index).mkdir(parents=True, exist_ok=True)
        if self.secured is not None:
            self.secured.write_node(index, self.host)
        self.config_path(index).write_text(self.node_toml(index, overrides), encoding="utf-8")

    def _write_state(self) -> None:
        state = {
            "cluster_id": self.cluster_id,
            "ports": [list(ports[:STORED_PORTS]) for ports in self.ports],
            "kafka_ports": [ports.kafka for ports in self.ports],
            "voters": self.voter_count,
            "host": self.host,
            **({"secure": True} if self.is_secure else {}),
        }
        _state_path(self.directory).write_text(json.dumps(state), encoding="utf-8")


def new_layout(
    directory: Path, nodes: int, port: int | None, host: str | None = None, *, is_secure: bool = False
) -> Layout:
    """A cluster that does not exist yet: with fixed ports from `port` on, or free ones."""
    ports = free_ports(nodes) if port is None else fixed_ports(nodes, port)
    return Layout(directory, system_ids().new_id(), ports, host or HOST, is_secure=is_secure)


def voters_of(nodes: int) -> int:
    """How many nodes of a new cluster are controllers: all of 1, 3 or 5, because an even one more would only make the
    majority larger."""
    return nodes if nodes in (1, 3, 5) else 1 if nodes == 2 else 3


def stored_nodes(directory: Path) -> int | None:
    """How many nodes the cluster has that `directory` holds from an earlier start; None without such a cluster."""
    state = _read_state(_state_path(directory))
    return None if state is None else len(state.ports)


def is_stored_secure(directory: Path) -> bool | None:
    """True if the cluster of an earlier start is secured; None without such a cluster."""
    state = _read_state(_state_path(directory))
    return None if state is None else state.is_secure


def stored_kafka_ports(directory: Path) -> tuple[int, ...] | None:
    """The ports for Kafka's clients of an earlier start, 0 for no port. None without an earlier start, or if it was by
    a release without such listeners."""
    state = _read_state(_state_path(directory))
    return None if state is None or not state.knows_kafka else tuple(ports.kafka for ports in state.ports)


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
    layout = Layout(
        directory=directory,
        cluster_id=state.cluster_id,
        ports=ports,
        host=host or state.host,
        voter_count=state.voter_count,
        is_secure=state.is_secure,
    )
    return layout if nodes == known else layout.grown(nodes)


class _State(NamedTuple):
    cluster_id: str
    ports: tuple[NodePorts, ...]
    voter_count: int
    host: str
    knows_kafka: bool
    is_secure: bool


def _read_state(path: Path) -> _State | None:
    """The state of an earlier start; None if no cluster was ever started there."""
    if not path.exists():
        return None
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        kafka = [int(port) for port in state.get("kafka_ports", [0] * len(state["ports"]))]
        ports = tuple(
            _stored_ports([int(port) for port in entry], port)
            for entry, port in zip(state["ports"], kafka, strict=True)
        )
        voters, host = int(state.get("voters", 0)), str(state.get("host", HOST))
        return _State(
            cluster_id=str(state["cluster_id"]),
            ports=ports,
            voter_count=voters,
            host=host,
            knows_kafka="kafka_ports" in state,
            is_secure=bool(state.get("secure")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: damaged ({error}); restore it, or give another directory") from None


def _stored_ports(ports: list[int], kafka: int) -> NodePorts:
    """Three are of a directory from before nodes listened for each other apart from clients."""
    broker, controller, metrics, *internal = ports
    return NodePorts(broker, controller, metrics, internal[0] if internal else broker + INTERNAL_PORT_STEP, kafka)


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
