"""Whole nodes in one event loop of virtual time: no socket, no thread, no file, and one seed for everything.

    async def story(cluster: MemoryCluster) -> ...:
        await cluster.start()
        ...
    run_in_memory(seed, story, nodes=3)

They are the `Node`s that a process runs, each with an environment of its own: a disk in memory that can lose unsynced
writes, threads that are steps, ids and randomness from the seed, and the network of `memory_network.py`. The seed draws
how long each step and each message takes, up to STEP_SECONDS and MESSAGE_SECONDS.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, cast

from broker.config.config import parse_config
from broker.config.node_config import NodeConfig
from broker.node.environment import Environment
from broker.node.format import format_node
from broker.node.node import Node
from broker.node.open_log_dirs import open_log_dirs
from penstock.ids import RandomIds
from penstock.testing.cluster import TEST_CONFIG
from penstock.testing.layout import Layout, fixed_ports
from penstock.types import Endpoint
from tests.support.losing_fs import LosingFileSystem
from tests.support.memory_network import MemoryNetwork
from tests.support.stepped_threads import SteppedThreads
from tests.support.virtual_time import run_virtual, virtual_clock

T = TypeVar("T")
STEP_SECONDS, MESSAGE_SECONDS = 0.0005, 0.001


class MemoryCluster:
    """Nodes 0…n-1, each with a disk that outlives them."""

    def __init__(self, seed: int, nodes: int, config: Mapping[str, object]) -> None:
        self.random = random.Random(seed)
        ids = RandomIds(random.Random(self.random.getrandbits(64)))
        self._layout = Layout(Path("/memory"), ids.new_id(), fixed_ports(nodes, 9192))
        self._config = {**TEST_CONFIG, "default.replication.factor": nodes, **config}
        self.network = MemoryNetwork(self._drawn(MESSAGE_SECONDS))
        self.disks = [LosingFileSystem() for _ in range(nodes)]
        self.outside: frozenset[int] = frozenset()
        """The nodes that have a listener OUTSIDE besides, which they advertise under another address than they have."""
        self.threads: list[SteppedThreads] = []
        self.nodes: list[Node] = []

    def _drawn(self, seconds_max: float) -> Callable[[], float]:
        source = random.Random(self.random.getrandbits(64))
        return lambda: source.uniform(0, seconds_max)

    def config(self, index: int) -> NodeConfig:
        values = {**self._config, **self._layout.node_config(index)}
        if index in self.outside:
            values["listeners"] = [*cast(list[str], values["listeners"]), f"OUTSIDE://127.0.0.1:{9_700 + index}"]
            values["advertised.listeners"] = [f"OUTSIDE://node-{index}.outside:9093"]
        return parse_config(values)

    def environment(self, index: int) -> Environment:
        """Makes the environment of a process of this node that starts now."""
        loop, seconds = asyncio.get_running_loop(), self._drawn(STEP_SECONDS)
        threads = SteppedThreads(
            random.Random(self.random.getrandbits(64)), lambda step: loop.call_later(seconds(), step)
        )
        self.threads.append(threads)
        return Environment(
            clock=virtual_clock(),
            random=random.Random(self.random.getrandbits(64)),
            ids=RandomIds(random.Random(self.random.getrandbits(64))),
            file_system=self.disks[index],
            threads=threads,
            transport=self.network.transport,
            doors=self.network.doors(),
            descriptors_max=4096,
            processors=2,
            thread_times=lambda: {},
            idle_processors=lambda: {},
        )

    def format(self) -> None:
        """Formats every disk for its node."""
        for index, disk in enumerate(self.disks):
            config = self.config(index)
            _make_parents(disk, config.log_dirs)
            ids = RandomIds(random.Random(self.random.getrandbits(64)))
            format_node(config, self._layout.cluster_id, disk, ids)

    async def start(self, count: int | None = None) -> None:
        """Starts so many more nodes, or all, on what their disks hold, and waits until they are in service."""
        first = len(self.nodes)
        for index in range(first, len(self.disks) if count is None else first + count):
            config, environment = self.config(index), self.environment(index)
            log_manager = open_log_dirs(config, environment, lambda progress: None)
            self.nodes.append(Node(config, log_manager, environment))
        await asyncio.gather(*(node.start() for node in self.nodes[first:]))
        await asyncio.gather(*(node.wait_ready() for node in self.nodes[first:]))

    async def stop(self, count: int | None = None) -> None:
        """Stops so many nodes in order, the last ones, or all."""
        first = 0 if count is None else len(self.nodes) - count
        await asyncio.gather(*(node.stop() for node in self.nodes[first:]))
        del self.nodes[first:]

    async def cut_power(self) -> None:
        """Ends all nodes at once; of the writes that were not synced, each disk keeps those that the seed draws."""
        self.disks = [disk.after_crash(random.Random(self.random.getrandbits(64))) for disk in self.disks]
        await _end_tasks()
        self.nodes.clear()
        self.network.forget_listeners()

    def endpoint(self, index: int) -> Endpoint:
        """The address at which clients reach a node."""
        return self.config(index).listener("BROKER")


async def _end_tasks() -> None:
    """Cancels every other task, and the tasks that these begin while they end."""
    while others := [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def _make_parents(disk: LosingFileSystem, log_dirs: tuple[str, ...]) -> None:
    for path in log_dirs:
        for parent in reversed(Path(path).parents):
            if not disk.exists(str(parent)):
                disk.mkdir(str(parent))
                disk.fsync_dir(str(parent.parent))


def run_in_memory(
    seed: int,
    story: Callable[[MemoryCluster], Awaitable[T]],
    nodes: int = 3,
    config: Mapping[str, object] = MappingProxyType({}),
) -> T:
    """Run a story in a cluster of its own, to its end; `config` has dotted names."""

    async def main() -> T:
        try:
            return await story(MemoryCluster(seed, nodes, config))
        finally:
            await _end_tasks()

    return run_virtual(main())
