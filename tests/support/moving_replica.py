"""One broker with two log dirs and one partition, which a test moves between them (KIP-113)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from broker.jobs.log_dir_moves.log_dir_moves import LogDirMoves
from broker.jobs.log_dir_moves.move_table import MoveTable
from broker.jobs.scheduler import Scheduler
from broker.node.parts.replication import make_log_dir_moves
from broker.replication.follower.follower_log import truncate_to
from broker.replication.hosting.assignment import TopicSettings
from broker.replication.leader.record_deletion import delete_below
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import Partition
from metadata.registrations import PartitionRegistration
from penstock.clock import ManualClock
from penstock.errors import ApiError
from penstock.messages.nodes.brokers import AssignedReplica, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from penstock.types import TopicPartition
from storage.log.group_commit import GroupCommit
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.meta_properties import format_directory
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.machine import IDS, THREADS, machine, stop_wait
from tests.support.partitions import NOBODY, PARTITION, batch
from tests.support.replicas import NoFetchers, Replicas
from tests.support.storage import TOPIC_ID, read_all

ME = 1
CONFIG = LogConfig(segment_bytes=1_000, index_interval_bytes=100)


class Watched(NoFetchers):
    """Says when a partition is held, or has its role again: it is fetched no more."""

    def __init__(self) -> None:
        self._is_held = asyncio.Event()

    def remove(self, partitions: list[TopicPartition]) -> None:
        self._is_held.set()

    async def next(self) -> None:
        self._is_held.clear()
        await self._is_held.wait()


class StepByStep(MoveThrottle):
    """Lets a few batches pass at a time, and calls `meddle` after each with how many steps there were."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.meddle: Callable[[int], None] = lambda step: None

    def room(self, now_ms: int) -> int:
        return 300

    def spend(self, size_bytes: int, now_ms: int) -> None:
        super().spend(size_bytes, now_ms)
        self.steps += 1
        self.meddle(self.steps)


class Controller:
    """Records where replicas are, as it is told; `refuses` raises its refusal, or waits."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.news = asyncio.Event()
        self.refuses: Callable[[], Awaitable[None]] | None = None

    async def assign(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        if self.refuses is not None:
            await self.refuses()
        self.reported += [held.log_dir for held in request.replicas]
        self.news.set()
        named = [(held.topic_id, number) for held in request.replicas for number in held.partitions]
        return AssignReplicasToDirsResponse(tuple(AssignedReplica(*replica) for replica in named))


@dataclass
class Stage:
    """One broker with two log dirs, and one partition."""

    path: Path
    fs: FaultyFileSystem
    clock: ManualClock
    manager: LogManager
    replicas: Replicas
    moves: LogDirMoves
    throttle: StepByStep
    fetchers: Watched
    controller: Controller

    @property
    def dirs(self) -> tuple[str, str]:
        return str(self.path / "a"), str(self.path / "b")

    @property
    def partition(self) -> Partition:
        return self.replicas.get(PARTITION, TOPIC_ID)

    @property
    def is_held(self) -> bool:
        replica = self.replicas.parts.hosted.replica(PARTITION)
        return replica is not None and replica.held is not None

    @property
    def here(self) -> str:
        return Path(self.partition.log.log_dir).name

    @property
    def other(self) -> str:
        a, b = self.dirs
        return b if self.partition.log.log_dir == a else a

    def host(self, leader: int = ME, epoch: int = 5, partition_epoch: int = 0, topic_id: str = TOPIC_ID) -> None:
        replicas = (ME,) if leader == ME else (ME, leader)
        logs = self.manager.table.logs.named(PARTITION).values()
        place = self.manager.directory_id(next((log.log_dir for log in logs), self.dirs[0]))
        directories = (place, "x")[: len(replicas)]
        registration = PartitionRegistration(
            topic_id, 0, replicas, replicas, leader, epoch, partition_epoch, directories=directories
        )
        self.replicas.apply(PARTITION, topic_id, registration, TopicSettings(CONFIG, 1), NOBODY)

    def write(self, *values: bytes) -> None:
        """Each is a batch."""
        for value in values:
            self.partition.append_as_leader(batch(value), 1, 1, self.clock.wall_ms())
        self.partition.log.flush()
        self.partition.flushed(self.partition.log.flushed_offset)

    def truncate_to(self, offset: int) -> None:
        """As its leader's history asks."""
        truncate_to(self.partition, offset)

    def delete_below(self, offset: int) -> None:
        delete_below(self.partition, offset)

    def values(self) -> list[bytes]:
        return [value for _, value in read_all(self.partition.log)]

    async def alter(self, path: str, key: TopicPartition = PARTITION) -> ApiError | None:
        return (await self.moves.alter({key: path}))[key]

    async def run(self) -> None:
        for log_dir in self.manager.checkpoints.log_dirs:
            await self.moves.run(log_dir)

    def names(self) -> list[str]:
        """The partition's directories, without the unique part of the names."""
        found = (path.name for one in self.dirs for path in Path(one).glob("t-0*"))
        return sorted("t-0" + name.rpartition("-")[2].join(("-", "")) if "." in name else name for name in found)


@asynccontextmanager
async def stage(path: Path) -> AsyncIterator[Stage]:
    fs, clock = FaultyFileSystem(), ManualClock()
    for name in ("a", "b"):
        if not (path / name).exists():
            format_directory(fs, str(path / name), "cluster", ME, IDS.new_id())
    manager = LogManager.open([path / "a", path / "b"], LogManagerConfig(ME, log_config=CONFIG), machine(fs, clock))
    group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
    fetchers, throttle, controller = Watched(), StepByStep(), Controller()
    table = MoveTable(manager)
    replicas = Replicas(
        ME,
        manager,
        group_commit,
        clock,
        fetchers=fetchers,
        on_log_gone=table.give_up,
        report=controller.assign,
    )
    scheduler = Scheduler(clock, THREADS, lambda error: None)
    moves = make_log_dir_moves(
        manager,
        table,
        replicas.parts,
        fetchers=fetchers,
        directories=replicas.directories,
        on_log_gone=lambda key: None,
        scheduler=scheduler,
        throttle=throttle,
        clock=clock,
        threads=THREADS,
    )
    replicas.directories.calls.start()
    yield Stage(path, fs, clock, manager, replicas, moves, throttle, fetchers, controller)
    moves.stop()
    await replicas.directories.calls.stop()
    await scheduler.stop(stop_wait())
    moves.close()
    await replicas.deletions.close(stop_wait())
    await group_commit.close(stop_wait())
    manager.close(clean=True, broker_epoch=1)


def played(path: Path, story: Callable[[Stage], Awaitable[None]]) -> None:
    async def scenario() -> None:
        async with stage(path) as made:
            made.host()
            await story(made)

    asyncio.run(scenario())
