"""Brokers and controllers in processes of their own, of a quorum whose voters change."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.config_keys import to_toml
from penstock.local_nodes.node_process import NodeProcess, wait_all_ready
from penstock.node import node_command
from penstock.testing.cluster import TEST_CONFIG
from penstock.testing.ports import HOST, NodePorts, free_ports

BROKERS, CONTROLLERS = 3, 5
START_S, COMMAND_S = 60.0, 120.0


@dataclass(slots=True)
class Fleet:
    """The processes: nodes 0 to 2 are brokers, 3 to 7 controllers. Each broker has a listener for Kafka's clients."""

    directory: Path
    ports: Sequence[NodePorts] = field(default_factory=lambda: free_ports(BROKERS + CONTROLLERS))
    cluster_id: str = ""
    nodes: dict[int, NodeProcess] = field(default_factory=dict)
    config: Callable[[int], Mapping[str, object]] = lambda node: {}
    """More keys of a node."""
    disks: dict[int, Path] = field(default_factory=dict)
    """The disks of nodes that have one for their data alone."""

    @property
    def controllers(self) -> range:
        return range(BROKERS, BROKERS + CONTROLLERS)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self.ports[node].broker}" for node in range(BROKERS))

    @property
    def kafka_bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self.ports[node].kafka}" for node in range(BROKERS))

    def data(self, node: int) -> Path:
        return self.disks.get(node, self.directory / f"node-{node}") / "data"

    def address(self, node: int) -> str:
        """A controller's, for the others."""
        return f"{HOST}:{self.ports[node].controller}"

    def directory_id(self, node: int) -> str:
        """By the file of the disk that it has now."""
        lines = (self.data(node) / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))

    def voter(self, node: int) -> str:
        """As the commands name it."""
        return f"{node}@{self.address(node)}:{self.directory_id(node)}"

    def make(self, node: int) -> None:
        """Its folder and its configuration."""
        ports, is_broker = self.ports[node], node < BROKERS
        of_broker = {"BROKER": ports.broker, "INTERNAL": ports.internal, "KAFKA": ports.kafka}
        listeners = [f"{name}://{HOST}:{port}" for name, port in of_broker.items()]
        config = {
            **TEST_CONFIG,
            "default.replication.factor": BROKERS,
            "min.insync.replicas": 2,
            "metadata.log.max.snapshot.interval.ms": 5_000,
            "node.id": node,
            "process.roles": ["broker" if is_broker else "controller"],
            "listeners": listeners if is_broker else [f"CONTROLLER://{HOST}:{ports.controller}"],
            "controller.quorum.bootstrap.servers": [self.address(each) for each in self.controllers],
            "log.dirs": [str(self.data(node))],
            **self.config(node),
        }
        home = self.directory / f"node-{node}"
        home.mkdir(parents=True, exist_ok=True)
        (home / "node.toml").write_text(to_toml(config))

    def format(self, node: int, *how: str) -> None:
        """Formats a controller's disk."""
        config = self.directory / f"node-{node}" / "node.toml"
        given = ["--cluster-id", self.cluster_id] if self.cluster_id else []
        command = node_command("format", "--config", str(config), *given, *how)
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_S)
        lines = (self.data(node) / "meta.properties").read_text().splitlines()
        self.cluster_id = next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))

    def start(self, *numbers: int) -> None:
        """Returns when all of them are ready."""
        for node in numbers:
            home = self.directory / f"node-{node}"
            name, config = f"node-{node}", home / "node.toml"
            self.nodes.setdefault(node, NodeProcess(name, config, home / "node.log", self.cluster_id)).spawn()
        wait_all_ready([self.nodes[node] for node in numbers], START_S)

    def empty(self, node: int) -> None:
        """A crash, after which the disk is another one."""
        self.nodes[node].kill()
        shutil.rmtree(self.data(node))
        self.format(node, "--join")
        self.start(node)

    @contextmanager
    def running(self) -> Iterator[Fleet]:
        try:
            yield self
        finally:
            for process in self.nodes.values():
                process.kill()
