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
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from penstock.errors import ConfigError, PenstockError
from penstock.testing import inquiries
from penstock.testing.layout import NODES_MAX, Layout, new_layout, stored_layout
from penstock.testing.leftovers import new_directory, remove, sweep
from penstock.testing.ports import HOST
from penstock.testing.process import STOP_TIMEOUT_S, NodeFailedError, NodeProcess, wait_all_ready

START_TIMEOUT_S = 60.0
"""For a whole cluster on a busy machine; one node on an idle one needs less than a second."""
PORT_ATTEMPTS = 4
"""Between the choice of a free port and its use another process may take it."""

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
    and is started again as it was left; without it there is a temporary one. `port` fixes the ports (brokers from
    there on, controllers 100, metrics 200, the brokers' own listeners 300 and Kafka's clients 400 above); without it
    they are free ones. `kafka_ports` are those for Kafka's clients instead, one a node; 0: that node has none.
    `host` is a name or address of this machine under which clients of other machines reach the brokers, which then
    listen on all addresses; the nodes reach each other on 127.0.0.1.
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
        node_configs: Sequence[Mapping[str, object]] = (),
        defaults: Mapping[str, object] = TEST_CONFIG,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self._nodes: list[NodeProcess] = []  # BEFORE anything is refused: a failed test shows the repr
        self._configs: list[dict[str, object]] = []
        self._layout: Layout | None = None
        if isinstance(nodes, bool) or not isinstance(nodes, int) or not 1 <= nodes <= NODES_MAX:
            raise ConfigError(f"nodes = {nodes!r}: must be a whole number from 1 to {NODES_MAX}")
        if len(node_configs) not in (0, nodes):
            raise ConfigError(f"node_configs: has {len(node_configs)} entries for {nodes} nodes; give one for each")
        if kafka_ports is not None and len(kafka_ports) != nodes:
            raise ConfigError(f"kafka_ports: has {len(kafka_ports)} entries for {nodes} nodes; give one for each")
        replicas = {"default.replication.factor": min(3, nodes), "min.insync.replicas": 2 if nodes >= 3 else 1}
        common = {**replicas, **defaults, **(config or {})}
        self._configs = [{**common, **own} for own in (node_configs or [{}] * nodes)]
        self._given_directory = None if directory is None else Path(directory).absolute()
        self._port = port
        self._start_timeout_s = start_timeout_s
        self._host = host
        self._kafka_ports = None if kafka_ports is None else tuple(kafka_ports)
        self._pid = os.getpid()  # of the process that opened it: a forked child must not end what is its parent's

    def __repr__(self) -> str:
        return f"Cluster({self._nodes or f'{len(self._configs)} nodes, not open'})"

    def __len__(self) -> int:
        return len(self._configs)

    def __enter__(self) -> Cluster:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> Cluster:
        """Starts every node, all at once, and returns when all are ready."""
        if self._nodes:
            raise PenstockError("the cluster is open already; close it first")
        self._pid = os.getpid()
        if self._given_directory is None:
            sweep()
        atexit.register(self.close)
        is_new = self._given_directory is not None and not self._given_directory.exists()
        try:
            self._open_with_retries()
        except BaseException:
            layout = self._layout
            self._end(gently=False)
            if is_new and layout is not None and layout.is_unused:  # a start that failed leaves nothing behind
                shutil.rmtree(layout.directory, ignore_errors=True)
            raise
        return self

    def close(self) -> None:
        """Ends every node: cleanly if the data is kept, at once if it is thrown away.

        In a forked child of the process that opened the cluster it does nothing, and neither does the end of a `with`.
        """
        self._end(gently=self._given_directory is not None)

    def planned_configs(self) -> list[tuple[Path, str]]:
        """The configuration files that a start would write, with their paths; nothing is written. ConfigError without a
        directory of its own: that is made by the start."""
        if self._given_directory is None:
            raise ConfigError("directory is not given; what a temporary one gets is decided by the start")
        layout = self._stored_layout(self._given_directory) or self._new_layout(self._given_directory)
        return [(layout.config_path(n), layout.node_toml(n, own)) for n, own in enumerate(self._configs)]

    # -- what a client needs -------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, with commas."""
        return self._open_layout().bootstrap

    @property
    def kafka_bootstrap(self) -> str:
        """host:port of every broker for Kafka's clients, with commas; "" where no node has a listener for them."""
        return self._open_layout().kafka_bootstrap

    @property
    def cluster_id(self) -> str:
        return self._open_layout().cluster_id

    def endpoint(self, index: int) -> str:
        """host:port of one broker."""
        layout = self._open_layout()
        return f"{layout.host}:{layout.ports[index].broker}"

    def metrics_url(self, index: int) -> str:
        """Where Prometheus finds one node."""
        return f"http://{HOST}:{self._open_layout().ports[index].metrics}/metrics"

    def directory(self, index: int) -> Path:
        """The log dir of one node."""
        return self._open_layout().data_directory(index)

    def config_path(self, index: int) -> Path:
        """The configuration file of one node."""
        return self._open_layout().config_path(index)

    def log_path(self, index: int) -> Path:
        """The file with what one node wrote to stdout and stderr."""
        return self._open_layout().log_path(index)

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
        return inquiries.create_topic(self.bootstrap, name, partitions, replication_factor, config)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The running node that leads the partition; waits for an election that is under way."""
        return inquiries.wait_leader(self.bootstrap, topic, partition, self.is_running, self._start_timeout_s)

    def controller(self) -> int:
        """The running node that is the active controller; waits for an election that is under way."""
        return inquiries.wait_controller(self.bootstrap, self.is_running, self._start_timeout_s)

    def wait_in_sync(self, topic: str | None = None, timeout_s: float | None = None) -> None:
        """Returns when every replica of the topic, or of all topics, is in sync."""
        inquiries.wait_in_sync(self.bootstrap, topic, self._start_timeout_s if timeout_s is None else timeout_s)

    def pid(self, index: int) -> int:
        """The process id of one running node."""
        return self._node(index).pid

    def is_running(self, index: int) -> bool:
        """True if one node's process lives; a paused one does."""
        return self._node(index).is_running

    def exit_code(self, index: int) -> int | None:
        """The exit code of one node's last process; None while it runs. Negative: the signal that ended it."""
        return self._node(index).exit_code

    # -- what a test does to it ----------------------------------------------------------------------------------------

    def kill(self, index: int) -> None:
        """SIGKILL: a crash."""
        self._node(index).kill()

    def stop(self, index: int, timeout_s: float = STOP_TIMEOUT_S) -> int | None:
        """SIGTERM: a clean stop, awaited; returns the exit code."""
        self._node(index).begin_stop()
        return self._node(index).wait_exit(timeout_s)

    def stop_all(self, timeout_s: float = STOP_TIMEOUT_S) -> list[int | None]:
        """SIGTERM to every node at once, awaited; returns the exit code of each."""
        for node in self._nodes:
            node.begin_stop()
        return [node.wait_exit(timeout_s) for node in self._nodes]

    def start(self, index: int, *options: str, wait: bool = True) -> None:
        """Starts a node that was killed or stopped, on its old directory and ports; with more options of `node start`,
        such as "--lost-log-dirs"."""
        self._node(index).spawn(*options)
        if wait:
            self.wait_ready()

    def add_node(self, config: Mapping[str, object] | None = None) -> int:
        """Adds a node to the running cluster, a broker and no controller, and returns its index when it is ready. It
        has the keys of the last node, and over them those of `config`."""
        index, before = len(self), self._open_layout()
        if index == NODES_MAX:
            raise ConfigError(f"the cluster has {NODES_MAX} nodes, which is the most")
        own = {**self._configs[-1], **(config or {})}
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            layout = before.grown(index + 1)
            layout.write_node(index, own)
            node = self._process(layout, index)
            try:
                node.spawn()
                wait_all_ready([node], self._start_timeout_s)
                break
            except BaseException as error:
                node.kill()
                before.remove_node(index)
                if attempts_left == 0 or not isinstance(error, NodeFailedError) or "in use" not in str(error):
                    raise
        self._configs.append(own)
        self._nodes.append(node)
        if self._kafka_ports is not None:
            self._kafka_ports = (*self._kafka_ports, layout.ports[index].kafka)
        self._layout = layout
        return index

    def pause(self, index: int) -> None:
        """SIGSTOP: the node stands still, its connections stay open."""
        self._node(index).pause()

    def resume(self, index: int) -> None:
        """SIGCONT."""
        self._node(index).resume()

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
        """Within the block the node is dead, by SIGKILL; afterwards it is started, and all replicas are in sync."""
        self.kill(index)
        try:
            yield
        finally:
            self.heal()

    @contextmanager
    def paused(self, index: int) -> Iterator[None]:
        """Within the block the node stands still, with its connections open; afterwards it goes on, and all replicas
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
        wait_all_ready(self._nodes, self._start_timeout_s if timeout_s is None else timeout_s)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _open_with_retries(self) -> None:
        directory = self._given_directory or new_directory()
        stored = self._stored_layout(directory)
        # Only a cluster that never ran may be made anew with other ports: later its voters are on its disks.
        attempts_left = PORT_ATTEMPTS if stored is None and self._port is None else 1
        while True:
            attempts_left -= 1
            self._start_all(stored or self._new_layout(directory))
            try:
                return self.wait_ready()
            except NodeFailedError as error:
                if attempts_left == 0 or "in use" not in str(error):
                    raise
            self._kill_all()
            for index in range(len(self)):
                shutil.rmtree(self._open_layout().node_directory(index))

    def _stored_layout(self, directory: Path) -> Layout | None:
        stored = stored_layout(directory, len(self), self._port, self._host)
        return None if stored is None else self._with_kafka_ports(stored)

    def _new_layout(self, directory: Path) -> Layout:
        return self._with_kafka_ports(new_layout(directory, len(self), self._port, self._host))

    def _with_kafka_ports(self, layout: Layout) -> Layout:
        return layout if self._kafka_ports is None else layout.with_kafka_ports(self._kafka_ports)

    def _start_all(self, layout: Layout) -> None:
        layout.require_no_node_runs()  # BEFORE its configuration is written over
        self._layout = layout
        layout.write(self._configs)
        self._nodes = [self._process(layout, index) for index in range(len(self))]
        for node in self._nodes:
            node.spawn()

    def _process(self, layout: Layout, index: int) -> NodeProcess:
        return NodeProcess(f"node {index}", layout.config_path(index), layout.log_path(index), layout.cluster_id)

    def _kill_all(self) -> None:
        for node in self._nodes:
            node.kill()

    def _end(self, *, gently: bool) -> None:
        if self._pid != os.getpid():
            return
        atexit.unregister(self.close)
        try:
            if gently:
                self.stop_all()
        finally:
            self._kill_all()
            self._nodes = []
            if self._given_directory is None and self._layout is not None:
                remove(self._layout.directory)
            self._layout = None

    def _open_layout(self) -> Layout:
        if self._layout is None:
            raise PenstockError("the cluster is not open; use it in a with statement")
        return self._layout

    def _node(self, index: int) -> NodeProcess:
        self._open_layout()
        if not 0 <= index < len(self._nodes):
            raise ValueError(f"there is no node {index}: the cluster has the nodes 0 to {len(self._nodes) - 1}")
        return self._nodes[index]
