"""A real cluster on this machine, for tests: node processes with their own directories and ports.

    with Cluster(nodes=3, config={"log.segment.bytes": 1048576}) as cluster:
        producer = Producer(cluster.bootstrap)
        topic = cluster.topic(partitions=6)
        with cluster.down(0):
            producer.send(topic, b"two nodes are enough").result()

No Docker, no JVM, no mocks: the same processes that a server runs, with time-outs that suit a test. Every node is
controller and broker (beyond 1, 3 or 5 nodes some are brokers only); node i has node.id i, so that
`cluster.kill(leader_id)` means what it says. Nothing outlives the process that made it. `penstock dev` is this class
with a directory and ports that stay.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from penstock.certs.secured import Secured
from penstock.errors import ConfigError, PenstockError
from penstock.local_nodes.node_process import STOP_TIMEOUT_S
from penstock.testing import inquiries
from penstock.testing.leftovers import sweep
from penstock.testing.node_set import NodeSet, check_node_count
from penstock.testing.ports import HOST, NodePorts

START_TIMEOUT_S = 60.0
"""The time limit for a whole cluster on a busy machine; one node on an idle one needs less than a second."""
TEST_CONFIG: dict[str, object] = {
    # Quick to notice a death, but not so quick that two busy cores look like one.
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1500,
    "broker.heartbeat.interval.ms": 200,
    "broker.session.timeout.ms": 2000,
    "replica.lag.time.max.ms": 3000,
    "group.initial.rebalance.delay.ms": 0,
    "num.io.threads": 4,
}


class Cluster:
    """Nodes 0…n-1 as processes; starts with `with` or `open()`, ends with it or `close()`. Not thread-safe.

    `config` has Kafka's dotted names and goes to every node, `node_configs[i]` to node i. `directory` keeps the data
    and is started again as it was left; without it there is a temporary one. `port` fixes the ports (brokers from there
    on, controllers 100, metrics 200, the brokers' own listeners 300 and Kafka's clients 400 above); without it they are
    free ones. `kafka_ports` are those for Kafka's clients instead, one a node; 0: that node has none. `host` is a name
    or address of this machine under which clients of other machines reach the brokers, which then listen on all
    addresses; the nodes reach each other on 127.0.0.1. With `secure` there are TLS, users and ACLs: `client_options`
    make a client the user `admin`, which has every right.
    """

    def __init__(
        self,
        nodes: int = 1,
        config: Mapping[str, object] | None = None,
        directory: str | os.PathLike[str] | None = None,
        *,
        port: int | None = None,
        host: str | None = None,
        kafka_ports: Sequence[int] | None = None,
        secure: bool = False,
        node_configs: Sequence[Mapping[str, object]] = (),
        defaults: Mapping[str, object] = TEST_CONFIG,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        check_node_count(nodes, node_configs, kafka_ports)
        replicas = {"default.replication.factor": min(3, nodes), "min.insync.replicas": 2 if nodes >= 3 else 1}
        common = {**replicas, **defaults, **(config or {})}
        configs = [{**common, **own} for own in (node_configs or [{}] * nodes)]
        self._directory = None if directory is None else Path(directory).absolute()
        self._start_timeout_s = start_timeout_s
        self._nodes = NodeSet(
            configs,
            self._directory,
            port=port,
            host=host,
            kafka_ports=None if kafka_ports is None else tuple(kafka_ports),
            start_timeout_s=start_timeout_s,
            is_secure=secure,
        )
        self._pid = os.getpid()  # of the process that opened it: a forked child must not end what is its parent's

    def __repr__(self) -> str:
        nodes = getattr(self, "_nodes", None)  # None in one that was refused: a failed test shows its repr
        return f"Cluster({nodes.described if nodes is not None else '0 nodes, not open'})"

    def __len__(self) -> int:
        return len(self._nodes)

    def __enter__(self) -> Cluster:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> Cluster:
        """Starts every node, all at once, and returns when all are ready."""
        if self._nodes.is_open:
            raise PenstockError("the cluster is open already; close it first")
        self._pid = os.getpid()
        if self._directory is None:
            sweep()
        atexit.register(self.close)
        try:
            self._nodes.start()
        except BaseException:
            atexit.unregister(self.close)
            raise
        return self

    def close(self) -> None:
        """Ends every node: cleanly if the data is kept, at once if it is thrown away.

        In a forked child of the process that opened the cluster it does nothing, and neither does the end of a `with`.
        """
        if self._pid == os.getpid():
            atexit.unregister(self.close)
            self._nodes.end(gently=self._directory is not None, timeout_s=STOP_TIMEOUT_S)

    def planned_configs(self) -> list[tuple[Path, str]]:
        """The configuration files that a start would write, with their paths; nothing is written. ConfigError without a
        directory of its own: that is made by the start."""
        if self._directory is None:
            raise ConfigError("directory is not given; what a temporary one gets is decided by the start")
        return self._nodes.planned_configs(self._directory)

    # -- what a client needs -------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, with commas."""
        return self._nodes.layout.bootstrap

    @property
    def kafka_bootstrap(self) -> str:
        """host:port of every broker for Kafka's clients, with commas; "" where no node has a listener for them."""
        return self._nodes.layout.kafka_bootstrap

    @property
    def client_options(self) -> dict[str, str]:
        """A client is `admin` with them: `Admin(cluster.bootstrap, **cluster.client_options)`. {} without `secure`."""
        return {} if self.secured is None else self.secured.client_options

    @property
    def secured(self) -> Secured | None:
        """The files for clients of a secured cluster."""
        return self._nodes.layout.secured

    @property
    def cluster_id(self) -> str:
        return self._nodes.layout.cluster_id

    def endpoint(self, index: int) -> str:
        """host:port of one broker."""
        return f"{self._nodes.layout.host}:{self.ports(index).broker}"

    def ports(self, index: int) -> NodePorts:
        """The ports on which one node listens."""
        return self._nodes.layout.ports[index]

    def metrics_url(self, index: int) -> str:
        """The address at which Prometheus finds one node."""
        return f"http://{HOST}:{self.ports(index).metrics}/metrics"

    def directory(self, index: int) -> Path:
        """The log dir of one node."""
        return self._nodes.layout.data_directory(index)

    def config_path(self, index: int) -> Path:
        """The configuration file of one node."""
        return self._nodes.layout.config_path(index)

    def log_path(self, index: int) -> Path:
        """The file with what one node wrote to stdout and stderr."""
        return self._nodes.layout.log_path(index)

    def log_tails(self) -> list[tuple[str, str]]:
        """The last lines of each node's log, with a title; none of a cluster that is not open."""
        return [(f"{node.name}, {node.log_path}", "\n".join(node.last_log_lines())) for node in self._nodes]

    def topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        replication_factor: int = -1,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Creates a topic and returns its name: without one, a name that no other test has. -1: min(3, nodes)."""
        return inquiries.create_topic(self._nodes.reached, name, partitions, replication_factor, config)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The running node that leads the partition; waits for an election that is under way."""
        return inquiries.wait_leader(self._nodes.reached, topic, partition, self.is_running, self._start_timeout_s)

    def controller(self) -> int:
        """The running node that is the active controller; waits for an election that is under way."""
        return inquiries.wait_controller(self._nodes.reached, self.is_running, self._start_timeout_s)

    def wait_in_sync(self, topic: str | None = None, timeout_s: float | None = None) -> None:
        """Returns when every replica of the topic, or of all topics, is in sync."""
        inquiries.wait_in_sync(self._nodes.reached, topic, self._start_timeout_s if timeout_s is None else timeout_s)

    def pid(self, index: int) -> int:
        """The process id of one running node."""
        return self._nodes[index].pid

    def is_running(self, index: int) -> bool:
        """True if one node's process lives; a paused one does."""
        return self._nodes[index].is_running

    def exit_code(self, index: int) -> int | None:
        """The exit code of one node's last process; None while it runs. Negative: the signal that ended it."""
        return self._nodes[index].exit_code

    # -- what a test does to it ----------------------------------------------------------------------------------------

    def kill(self, index: int) -> None:
        """SIGKILL: a crash."""
        self._nodes[index].kill()

    def stop(self, index: int, timeout_s: float = STOP_TIMEOUT_S) -> int | None:
        """SIGTERM: a clean stop, awaited; returns the exit code."""
        self._nodes[index].begin_stop()
        return self._nodes[index].wait_exit(timeout_s)

    def stop_all(self, timeout_s: float = STOP_TIMEOUT_S) -> list[int | None]:
        """SIGTERM to every node at once, awaited; returns the exit code of each."""
        return self._nodes.stop_all(timeout_s)

    def start(self, index: int, *options: str, wait: bool = True) -> None:
        """Starts a node that was killed or stopped, on its old directory and ports; with more options of `node start`,
        such as "--lost-log-dirs"."""
        self._nodes[index].spawn(*options)
        if wait:
            self.wait_ready()

    def add_node(self, config: Mapping[str, object] | None = None) -> int:
        """Adds a node to the running cluster, a broker and no controller, and returns its index when it is ready. It
        has the keys of the last node, and over them those of `config`."""
        return self._nodes.add(config or {})

    def pause(self, index: int) -> None:
        """SIGSTOP: the node stands still, its connections stay open."""
        self._nodes[index].pause()

    def resume(self, index: int) -> None:
        """SIGCONT."""
        self._nodes[index].resume()

    def restart(self, index: int) -> None:
        """A clean stop and a start."""
        self.stop(index)
        self.start(index)

    def kill_leader(self, topic: str, partition: int = 0) -> int:
        """Kills the node that leads the partition, and returns which one that was."""
        leader = self.leader(topic, partition)
        self.kill(leader)
        return leader

    @contextmanager
    def down(self, index: int) -> Iterator[None]:
        """Keeps the node dead within the block, by SIGKILL; afterwards it is started, and all replicas are in sync."""
        self.kill(index)
        try:
            yield
        finally:
            self.heal()

    @contextmanager
    def paused(self, index: int) -> Iterator[None]:
        """Keeps the node still within the block, with its connections open; afterwards it goes on, and all replicas
        are in sync."""
        self.pause(index)
        try:
            yield
        finally:
            self.heal()

    def heal(self) -> None:
        """Resumes every node that stands still, starts every one that is down, and waits until all are in sync."""
        for node in self._nodes:
            if node.is_paused:
                node.resume()
            elif not node.is_running:
                node.spawn()
        self.wait_ready()
        self.wait_in_sync()

    def wait_ready(self, timeout_s: float | None = None) -> None:
        """Returns when every node that was started is ready; the error of one that is not has the tail of its log."""
        self._nodes.wait_ready(timeout_s)
