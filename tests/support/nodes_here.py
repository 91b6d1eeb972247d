"""Whole nodes inside the test's process, on file systems with faults and with clocks that can be set.

    with NodesHere(tmp_path, nodes=3) as nodes, nodes.fs[0].failing("fdatasync", "/d1/", errno.EIO):

They are the same `Node` that a process runs, in one event loop of one thread, with real ports and the machine's disk;
clients reach them like any cluster. Each node has `log_dirs` directories d0, d1, …; d0 has the metadata log. A node
with a fatal error is not stopped before the end: `fatal` has the error. For processes and signals use penstock.testing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from broker.config.config import load_config
from broker.node.commands.format import format_node
from broker.node.environment import Environment
from broker.node.node import Node
from broker.node.system_environment import system_environment
from broker.quorum.metadata_log import METADATA_LOG_CONFIG, METADATA_PARTITION
from penstock.clock import SystemClock
from penstock.testing.cluster import TEST_CONFIG
from penstock.testing.layout import Layout, new_layout
from penstock.types import TopicPartition
from storage.disk.file_system import OsFileSystem
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.loop_ends import end_tasks
from tests.support.machine import IDS

START_TIMEOUT_S = 60.0
T = TypeVar("T")


class MovableClock(SystemClock):
    """The machine's clock, with a calendar that a test may set."""

    def __init__(self) -> None:
        self.wall_shift_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.wall_shift_ms

    def set_wall(self, wall_ms: int) -> None:
        """Sets the calendar to `wall_ms`; time goes on from there."""
        self.wall_shift_ms = wall_ms - super().wall_ms()


class NodesHere:
    """Nodes 0…n-1; start with `with`."""

    def __init__(
        self, directory: Path, nodes: int = 1, log_dirs: int = 1, config: Mapping[str, object] | None = None
    ) -> None:
        self._layout = new_layout(directory, nodes, None)
        self._log_dirs = log_dirs
        self._config = {**TEST_CONFIG, "default.replication.factor": nodes, **(config or {})}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nodes-here")
        self.fs = [FaultyFileSystem() for _ in range(nodes)]
        self.clocks = [MovableClock() for _ in range(nodes)]
        self.nodes: list[Node] = []

    def __enter__(self) -> NodesHere:
        own = [{"log.dirs": [str(path) for path in self.log_dirs(index)]} for index in range(len(self.fs))]
        self._layout.write([{**self._config, **log_dirs} for log_dirs in own])
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(START_TIMEOUT_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for work in (self._stop(), end_tasks()):
            asyncio.run_coroutine_threadsafe(work, self._loop).result(START_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        for index in range(len(self.fs)):
            config = load_config(str(self._layout.config_path(index)))
            format_node(config, self._layout.cluster_id, OsFileSystem(), IDS)
            manager_config = LogManagerConfig(config.node_id, config_for=_config_of_found_log)
            environment = self._environment(index)
            log_manager = LogManager.open(config.log_dirs, manager_config, environment.machine())
            self.nodes.append(Node(config, log_manager, environment))
        await asyncio.gather(*(node.start() for node in self.nodes))
        await asyncio.gather(*(node.wait_ready() for node in self.nodes))

    def _environment(self, index: int) -> Environment:
        return replace(system_environment(), clock=self.clocks[index], file_system=self.fs[index])

    async def _stop(self) -> None:
        await asyncio.gather(*(node.stop() for node in self.nodes))

    # -- what a test needs ---------------------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def bootstrap(self) -> str:
        return self._layout.bootstrap

    def log_dirs(self, index: int) -> list[Path]:
        """The log dirs of one node."""
        return [self._layout.node_directory(index) / f"d{number}" for number in range(self._log_dirs)]

    def ask(self, question: Callable[[], T]) -> T:
        """Asks on the nodes' loop; returns the answer."""

        async def answer() -> T:
            return question()

        return asyncio.run_coroutine_threadsafe(answer(), self._loop).result(START_TIMEOUT_S)

    def fatal(self, index: int) -> BaseException | None:
        """The error that ended a node, if one did."""
        node = self.nodes[index]
        return self.ask(lambda: node.fatal.result() if node.fatal.done() else None)

    def __repr__(self) -> str:
        return f"NodesHere({self.nodes})"


def _config_of_found_log(topic_partition: TopicPartition) -> LogConfig:
    return METADATA_LOG_CONFIG if topic_partition == METADATA_PARTITION else LogConfig()
