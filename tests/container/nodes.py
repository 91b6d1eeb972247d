"""Nodes in containers: their variables, their volumes, and the waits of an operator."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.ids import system_ids
from penstock.testing.ports import HOST, NodePorts, free_ports
from tests.container.podman import Done, Podman
from tests.support.waiting import wait_until

READY_S = 120.0
STOP_S = 60


@dataclass(slots=True)
class Nodes:
    """A cluster of so many brokers, each a controller too. A node's volume outlives its containers."""

    podman: Podman
    image: str
    count: int
    ports: Sequence[NodePorts] = ()
    cluster_id: str = field(default_factory=lambda: system_ids().new_id())

    def __post_init__(self) -> None:
        self.ports = self.ports or free_ports(self.count)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{ports.broker}" for ports in self.ports)

    def name(self, node: int) -> str:
        return f"node-{self.count}-{node}"

    def variables(self, node: int) -> dict[str, str]:
        """The same for every start of the node: all controllers begin together, whoever is there first."""
        ports = self.ports[node]
        listeners = {"BROKER": ports.broker, "INTERNAL": ports.internal, "CONTROLLER": ports.controller}
        controllers = ",".join(f"{HOST}:{one.controller}" for one in self.ports)
        return {
            "PENSTOCK_CLUSTER_ID": self.cluster_id,
            "PENSTOCK_FIRST_START": "together",
            "PENSTOCK_NODE_ID": str(node),
            "PENSTOCK_PROCESS_ROLES": "broker,controller",
            "PENSTOCK_LISTENERS": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items()),
            "PENSTOCK_METRICS_LISTENER": f"{HOST}:{ports.metrics}",
            "PENSTOCK_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": controllers,
            "PENSTOCK_CONTROLLER_QUORUM_AUTO_JOIN_ENABLE": "true",
            "PENSTOCK_DEFAULT_REPLICATION_FACTOR": str(self.count),
            "PENSTOCK_MIN_INSYNC_REPLICAS": str(min(2, self.count)),
        }

    def start(self, node: int, image: str = "", command: Sequence[str] = ()) -> None:
        """A new container on the node's volume."""
        name = self.name(node)
        done = self.podman.run(image or self.image, self.variables(node), *command, name=name, volume=name)
        if done.code:
            raise RuntimeError(f"{self.name(node)} was not run: {done.err}")

    def refused(self, node: int, volume: str = "", **more: str) -> Done:
        """The end of a container that must refuse to start."""
        variables = self.variables(node) | {f"PENSTOCK_{name}": text for name, text in more.items()}
        return self.podman.run(self.image, variables, volume=volume or self.name(node))

    def ended(self, node: int) -> str:
        """The last line of a container that ends by itself."""
        self.start(node)
        self.podman.exit_code(self.name(node))
        said = self.log(node).strip().rpartition("\n")[2]
        self.podman.must("rm", self.name(node))
        return said

    def stop(self, node: int, grace_s: int = STOP_S) -> tuple[int, float]:
        """The exit code of a stop that then removes the container, and its seconds."""
        began = time.monotonic()
        self.podman.must("stop", "--time", str(grace_s), self.name(node))
        code, took = self.podman.exit_code(self.name(node)), time.monotonic() - began
        self.podman.must("rm", self.name(node))
        return code, round(took, 2)

    def kill(self, node: int) -> None:
        self.podman.must("kill", "--signal", "KILL", self.name(node))
        self.podman.exit_code(self.name(node))
        self.podman.must("rm", self.name(node))

    def log(self, node: int) -> str:
        done = self.podman.do("logs", self.name(node))
        return done.out + done.err

    def answers(self, node: int, page: str) -> bool:
        """True if a page of the node's probes has the status 200."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.ports[node].metrics}/{page}", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def wait(self, page: str, nodes: Iterable[int]) -> float:
        """Seconds until the page is good on each of the nodes."""
        began, left = time.monotonic(), list(nodes)
        try:
            wait_until(lambda: all(self.answers(node, page) for node in left), READY_S)
        except TimeoutError as error:
            error.add_note("\n".join(self.log(node)[-2000:] for node in left if not self.answers(node, page)))
            raise
        return round(time.monotonic() - began, 2)
