"""The node processes of one cluster and the layout in which they run: started, grown and ended.

A start chooses free ports, and another process may take one of them before it is used. A cluster that never ran is then
made anew with others; later its voters are on its disks, and the start is refused. While the cluster is open its ports
are held, so that no other cluster is given those of a node that is down. What a test asks for and does to the
nodes is in cluster.py, one process in process.py, ports and configuration files in layout.py.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from penstock.errors import ConfigError, PenstockError
from penstock.local_nodes.node_process import NodeFailedError, NodeProcess, wait_all_ready
from penstock.node import node_command
from penstock.testing.inquiries import Reached
from penstock.testing.layout import NODES_MAX, Layout, new_layout, stored_layout
from penstock.testing.leftovers import new_directory, remove
from penstock.testing.ports import HeldPorts

PORT_ATTEMPTS = 4
"""How often free ports are chosen: between the choice of a free port and its use another process may take it."""


class NodeSet:
    """Nodes 0…n-1; none of them before `start` and after `end`."""

    def __init__(
        self,
        configs: Sequence[dict[str, object]],
        directory: Path | None,
        *,
        port: int | None,
        host: str | None,
        kafka_ports: tuple[int, ...] | None,
        start_timeout_s: float,
        is_secure: bool = False,
    ) -> None:
        """`directory`: None for a temporary one, which is removed in the end."""
        self._configs = list(configs)
        self._directory = directory
        self._port, self._host, self._kafka_ports = port, host, kafka_ports
        self._start_timeout_s = start_timeout_s
        self._is_secure = is_secure
        self._nodes: list[NodeProcess] = []
        self._layout: Layout | None = None
        self._ports = HeldPorts()

    def __len__(self) -> int:
        return len(self._configs)

    def __iter__(self) -> Iterator[NodeProcess]:
        return iter(self._nodes)

    def __repr__(self) -> str:
        return f"NodeSet({self.described})"

    @property
    def described(self) -> str:
        """The processes, or how many there will be."""
        return repr(self._nodes) if self._nodes else f"{len(self)} nodes, not open"

    @property
    def is_open(self) -> bool:
        return bool(self._nodes)

    @property
    def layout(self) -> Layout:
        """Directories and ports; PenstockError while the cluster is not open."""
        if self._layout is None:
            raise PenstockError("the cluster is not open; use it in a with statement")
        return self._layout

    @property
    def reached(self) -> Reached:
        secured = self.layout.secured
        return Reached(self.layout.bootstrap, {} if secured is None else secured.client_options)

    def __getitem__(self, index: int) -> NodeProcess:
        nodes = self._nodes if self.layout else []
        if not 0 <= index < len(nodes):
            raise ValueError(f"there is no node {index}: the cluster has the nodes 0 to {len(nodes) - 1}")
        return nodes[index]

    def planned_configs(self, directory: Path) -> list[tuple[Path, str]]:
        """The configuration files that a start in this directory would write, with their paths."""
        layout = self._stored_layout(directory) or self._new_layout(directory)
        return [(layout.config_path(n), layout.node_toml(n, own)) for n, own in enumerate(self._configs)]

    def start(self) -> None:
        """Starts every node, all at once, and returns when all are ready. A start that failed leaves nothing in a new
        directory."""
        is_new = self._directory is not None and not self._directory.exists()
        try:
            self._start_with_retries()
        except BaseException:
            layout = self._layout
            self.end(gently=False)
            if is_new and layout is not None and layout.is_unused:
                shutil.rmtree(layout.directory, ignore_errors=True)
            raise

    def add(self, config: Mapping[str, object]) -> int:
        """Adds a node, a broker and no controller, and returns its index when it is ready. It has the keys of the last
        node, and over them those of `config`."""
        index, before = len(self), self.layout
        if index == NODES_MAX:
            raise ConfigError(f"the cluster has {NODES_MAX} nodes, which is the most")
        own = {**self._configs[-1], **config}
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            layout = before.grown(index + 1)
            self._ports.hold(layout.ports)
            layout.write_node(index, own)
            node = _process(layout, index)
            try:
                node.spawn()
                wait_all_ready([node], self._start_timeout_s)
                break
            except BaseException as error:
                node.kill()
                before.remove_node(index)
                if attempts_left == 0 or not _is_port_in_use(error):
                    raise
        self._configs.append(own)
        self._nodes.append(node)
        if self._kafka_ports is not None:
            self._kafka_ports = (*self._kafka_ports, layout.ports[index].kafka)
        self._layout = layout
        return index

    def wait_ready(self, timeout_s: float | None = None) -> None:
        wait_all_ready(self._nodes, self._start_timeout_s if timeout_s is None else timeout_s)

    def stop_all(self, timeout_s: float) -> list[int | None]:
        """SIGTERM to every node at once, awaited; returns the exit code of each."""
        for node in self._nodes:
            node.begin_stop()
        return [node.wait_exit(timeout_s) for node in self._nodes]

    def end(self, *, gently: bool, timeout_s: float = 0.0) -> None:
        """No node runs afterwards; a temporary directory is gone."""
        try:
            if gently:
                self.stop_all(timeout_s)
        finally:
            self._kill_all()
            self._ports.release()
            self._nodes = []
            if self._directory is None and self._layout is not None:
                remove(self._layout.directory)
            self._layout = None

    def _start_with_retries(self) -> None:
        directory = self._directory or new_directory()
        stored = self._stored_layout(directory)
        # Only a cluster that never ran may be made anew with other ports: later its voters are on its disks.
        attempts_left = PORT_ATTEMPTS if stored is None and self._port is None else 1
        while True:
            attempts_left -= 1
            self._start_all(stored or self._new_layout(directory))
            try:
                return self.wait_ready()
            except NodeFailedError as error:
                if attempts_left == 0 or not _is_port_in_use(error):
                    raise
            self._kill_all()
            self._ports.release()
            for index in range(len(self)):
                shutil.rmtree(self.layout.node_directory(index))

    def _stored_layout(self, directory: Path) -> Layout | None:
        stored = stored_layout(directory, len(self), self._port, self._host)
        if stored is None:
            return None
        if stored.is_secure != self._is_secure:
            has = "is secured" if stored.is_secure else "is not secured"
            raise ConfigError(f"{directory}: holds a cluster that {has}; open it as it is, or give another directory")
        return self._with_kafka_ports(stored)

    def _new_layout(self, directory: Path) -> Layout:
        return self._with_kafka_ports(
            new_layout(directory, len(self), self._port, self._host, is_secure=self._is_secure)
        )

    def _with_kafka_ports(self, layout: Layout) -> Layout:
        return layout if self._kafka_ports is None else layout.with_kafka_ports(self._kafka_ports)

    def _start_all(self, layout: Layout) -> None:
        layout.require_no_node_runs()  # BEFORE its configuration is written over
        self._layout = layout
        self._ports.hold(layout.ports)
        layout.write(self._configs)
        self._nodes = [_process(layout, index) for index in range(len(self))]
        format_secured(layout)
        for node in self._nodes:
            node.spawn()

    def _kill_all(self) -> None:
        for node in self._nodes:
            node.kill()


def check_node_count(nodes: object, node_configs: Sequence[object], kafka_ports: Sequence[int] | None) -> None:
    """ConfigError for a number of nodes that cannot be, or that does not fit what is given for each."""
    if isinstance(nodes, bool) or not isinstance(nodes, int) or not 1 <= nodes <= NODES_MAX:
        raise ConfigError(f"nodes = {nodes!r}: must be a whole number from 1 to {NODES_MAX}")
    if len(node_configs) not in (0, nodes):
        raise ConfigError(f"node_configs: has {len(node_configs)} entries for {nodes} nodes; give one for each")
    if kafka_ports is not None and len(kafka_ports) != nodes:
        raise ConfigError(f"kafka_ports: has {len(kafka_ports)} entries for {nodes} nodes; give one for each")


def format_secured(layout: Layout) -> None:
    """Gives the controllers of a secured cluster that never ran their first user. Any other node formats itself when it
    starts."""
    if layout.secured is None or not layout.is_unused:
        return
    options = ["--cluster-id", layout.cluster_id]
    options += [part for user in layout.secured.first_user for part in ("--add-scram", user)]
    commands = [node_command("format", "--config", str(layout.config_path(n)), *options) for n in layout.voters]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for command in commands]
    said = [process.communicate()[1] for process in running]
    for index, process, text in zip(layout.voters, running, said, strict=True):
        if process.returncode:
            raise NodeFailedError(f"node {index} was not formatted: {text.decode('utf-8', 'replace').strip()}")


def _process(layout: Layout, index: int) -> NodeProcess:
    return NodeProcess(f"node {index}", layout.config_path(index), layout.log_path(index), layout.cluster_id)


def _is_port_in_use(error: BaseException) -> bool:
    return isinstance(error, NodeFailedError) and "in use" in str(error)
