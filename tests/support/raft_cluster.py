"""Real drivers, a few in one loop of virtual time, with disks that can be slow and nodes that can lose their power."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from random import Random
from typing import Any

from raft.config import RaftConfig
from raft.driver.driver import RaftDriver
from raft.driver.protocols import LoadedSnapshot, RaftLog
from raft.quorum_state import ElectionState, Forgotten
from tests.support.raft_fakes import InlineExecutor, MemoryLog, MemoryNetwork, MemoryStore, values_of
from tests.support.virtual_time import virtual_clock
from tests.support.voters import disk_of, voters_of, voters_on_disks


class SlowDisk(Executor):
    """Runs each call after a random few milliseconds of virtual time; what it writes is there only then."""

    def __init__(self, random: Random, max_ms: int) -> None:
        self._random = random
        self._max_ms = max_ms

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        asyncio.get_running_loop().call_later(self._random.randint(1, self._max_ms) / 1000, run)
        return future


class Recorder:
    """A listener that remembers everything it was told."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.next_offset = 0
        self.leaders: list[tuple[int, int]] = []

    def on_snapshot(self, snapshot: LoadedSnapshot) -> None:
        assert isinstance(snapshot.contents, tuple)
        assert list(snapshot.contents[: len(self.values)]) == self.values, "a snapshot changes what was committed"
        self.values, self.next_offset = list(snapshot.contents), snapshot.snapshot_id.end_offset

    def on_committed(self, base_offset: int, records: bytes) -> None:
        assert base_offset == self.next_offset
        values = values_of(records)
        self.values += values
        self.next_offset += len(values)

    def on_leader_change(self, leader_id: int, epoch: int) -> None:
        self.leaders.append((leader_id, epoch))

    @property
    def own_values(self) -> list[bytes]:
        return [
            value for value in self.values if not value.startswith((b'{"type":"LeaderChange"', b'{"type":"Voters"'))
        ]


class Node:
    """One driver with its fakes; it can stop, start again and lose its power."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.cluster = cluster
        self.lives = 0
        self.node_id = node_id
        self.log: Any = MemoryLog()
        self.store = MemoryStore()
        self.recorder = Recorder()
        self.fatal: list[BaseException] = []
        self.driver = self._new_driver()

    def _new_driver(self) -> RaftDriver:
        has_disks, ids = self.cluster.has_disks, self.cluster.voters
        config = RaftConfig(
            "c",
            self.node_id,
            voters_on_disks(*ids) if has_disks and not self.cluster.begins_static else voters_of(*ids),
            directory_id=disk_of(self.node_id) if has_disks else "",
            election_timeout_ms=200,
            fetch_timeout_ms=600,
        )
        driver = RaftDriver(
            config,
            self.log,
            self.store,
            self.cluster.network.transport(self.node_id),
            virtual_clock(),
            Random(self.node_id * 1_000 + self.lives),
            self.cluster.executor,
            self.fatal.append,
        )
        driver.subscribe(self.recorder)
        return driver

    async def start(self) -> None:
        await self.driver.start()
        self.cluster.network.handlers[self.node_id] = self.driver.handle

    async def stop(self) -> None:
        await self.driver.stop()
        self.cluster.network.handlers.pop(self.node_id, None)

    async def restart(self) -> None:
        """Stop in good order and start again."""
        await self.stop()
        self._reborn()
        await self.start()

    async def power_cut(self) -> None:
        """Ends the node at once and does not start it again: what was not fsynced is gone."""
        self.cluster.network.handlers.pop(self.node_id, None)
        dead = self.driver
        dead._started()._fail(RuntimeError("power cut"))
        self._reborn()
        await dead.stop()

    def keep_log(self, log: RaftLog) -> None:
        """Before the start: its log is this one, which does not know how to lose anything."""
        self.log = log
        self.driver = self._new_driver()

    def lose_everything(self) -> None:
        """Between two lives: the disk was replaced, and the next start notices."""
        self.log = MemoryLog()
        self.store = MemoryStore(ElectionState(forgotten=Forgotten.VOTES))
        self.driver = self._new_driver()

    def _reborn(self) -> None:
        self.lives += 1
        self.log = self.log.crash()
        self.store = MemoryStore(self.store.state)
        self.recorder = Recorder()
        self.driver = self._new_driver()


class Cluster:
    def __init__(
        self,
        count: int = 3,
        observers: int = 0,
        executor: Executor | None = None,
        *,
        has_disks: bool = False,
        begins_static: bool = False,
    ) -> None:
        """With `has_disks` each node tells the id of its disk, and the voters are disks from the beginning, or, if it
        `begins_static`, once the quorum was made dynamic."""
        self.has_disks, self.begins_static = has_disks, begins_static
        self.network = MemoryNetwork()
        self.executor = executor or InlineExecutor()
        self.voters = tuple(range(1, count + 1))
        self.nodes = {node_id: Node(self, node_id) for node_id in range(1, count + observers + 1)}

    async def __aenter__(self) -> Cluster:
        for node in self.nodes.values():
            await node.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes.values():
            await node.stop()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert left == []

    def leader(self) -> Node | None:
        leaders = [node for node in self.nodes.values() if node.driver.is_leader]
        return max(leaders, key=lambda node: node.driver.leader_and_epoch[1]) if leaders else None

    async def wait_leader(self, but_not: int = -1) -> Node:
        await wait_until(lambda: (leader := self.leader()) is not None and leader.node_id != but_not)
        leader = self.leader()
        assert leader is not None
        return leader


async def wait_until(condition: Callable[[], bool], timeout_ms: int = 20_000) -> None:
    """Let virtual time pass until the condition holds."""
    deadline_ms = virtual_clock().now_ms() + timeout_ms
    while not condition():
        assert virtual_clock().now_ms() < deadline_ms, "it did not come true in time"
        await asyncio.sleep(0.005)
