"""One broker's replicas over real logs, wired as in the node, with fakes for what a test has no use for.

`PublishedMetadata` brings them records of metadata through the real publisher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import pytest

from broker.quorum.metadata_publisher import MetadataPublisher
from broker.replication.durability import Durability
from broker.replication.hosting.assignment import Assignment, TopicSettings
from broker.replication.hosting.directory_reports import DirectoryReports
from broker.replication.hosting.replica_parts import ReplicaParts, ReplicaPorts, known_replicas, replica_parts
from broker.replication.hosting.replica_roles import Fetchers
from broker.replication.hosting.role_news import RoleListener
from broker.replication.leader.follower_contacts import FollowerContacts
from broker.replication.leader.isr_upkeep import IsrProposals, IsrUpkeep
from broker.replication.leader.leader_state import ProposedIsr
from broker.replication.leader.log_start_commit import LogStartCommit
from broker.replication.partition import Partition
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import Record
from metadata.registrations import PartitionRegistration
from penstock.clock import Clock
from penstock.messages.nodes.brokers import AssignReplicasToDirsRequest
from penstock.types import LeaderHint, TopicPartition
from storage.disk.dir_threads import OnDone
from storage.disk.log_dir_threads import InLogDir
from storage.log.group_commit import GroupCommit
from storage.log_dirs.log_manager import LogManager
from tests.support.machine import THREADS

LAG_TIME_MS_MAX = 10_000


class Proposals:
    """Records the ISRs that the controller would be asked for."""

    def __init__(self) -> None:
        self.asked: list[frozenset[int]] = []

    def propose(self, partition: Partition, proposed: ProposedIsr) -> None:
        self.asked.append(proposed.ids)


class AtOnce:
    """Does it within the call, so that a test need not wait."""

    busy: frozenset[str] = frozenset()

    def run(self, log_dir: str, work: Callable[[], object], on_done: OnDone) -> None:
        work()
        on_done(None)

    def close(self, given_up: set[str]) -> None:
        """Nothing is under way."""


class NoFetchers:
    """Follows no leader, and says that it follows each."""

    def add(self, partition: Partition, leader_id: int, leader_epoch: int) -> None:
        """Does nothing: the test does not look at fetchers."""

    def remove(self, partitions: list[TopicPartition]) -> None:
        """Does nothing: no fetcher runs."""

    def follows(self, partition: TopicPartition, leader_id: int) -> bool:
        return True


async def _not_called(_request: object) -> object:
    raise AssertionError("no report is sent: nobody has started that")


class Replicas:
    """`parts`, and shortcuts to them. `failed_log_dirs` and `losses` record what the node would be told."""

    def __init__(
        self,
        broker_id: int,
        log_manager: LogManager,
        group_commit: GroupCommit,
        clock: Clock,
        on_fatal: Callable[[BaseException], None] = pytest.fail,
        *,
        proposals: IsrProposals | None = None,
        fetchers: Fetchers | None = None,
        on_log_gone: Callable[[TopicPartition], None] = lambda key: None,
        report: Callable[[AssignReplicasToDirsRequest], Awaitable[Any]] = _not_called,
        creating: InLogDir | None = None,
        role_listeners: Sequence[RoleListener] = (),
    ) -> None:
        """`report` is the controller's side of `directories`, which the test starts."""
        self.clock = clock
        self.failed_log_dirs: list[str] = []
        self.losses = 0
        self.known = known = known_replicas(
            broker_id, log_manager, clock, THREADS, self._lost_one, self._log_dir_failed
        )
        self.make_room: Callable[[Partition], bool] = lambda partition: False
        self.log_starts = LogStartCommit(
            log_manager.checkpoints.commit_log_starts,
            THREADS.executor("log-starts", len(log_manager.checkpoints.log_dirs)),
        )
        isrs = IsrUpkeep(proposals or Proposals(), lambda: known.lost.broker_epoch, LAG_TIME_MS_MAX)
        durability = Durability(group_commit, self.log_starts, lambda partition: self.make_room(partition))
        contacts = FollowerContacts(broker_id, clock.now_ms, LAG_TIME_MS_MAX)
        self.directories = DirectoryReports(
            broker_id, lambda: known.lost.broker_epoch, log_manager.directory_id, report, on_fatal, Random(0)
        )
        ports = ReplicaPorts(
            durability=durability,
            isrs=isrs,
            contacts=contacts,
            fetchers=fetchers or NoFetchers(),
            directories=self.directories,
            on_log_gone=on_log_gone,
            on_fatal=on_fatal,
            role_listeners=role_listeners,
        )
        self.parts: ReplicaParts = replica_parts(known, log_manager, clock, THREADS, ports, creating or AtOnce())
        self.find, self.get = self.parts.hosted.find, self.parts.hosted.get
        self.lost, self.failures, self.refused = known.lost, known.failures, known.refused
        self.to_create, self.deletions = self.parts.creation.to_create, self.parts.creation.deletions
        self.assignments, self.traffic = self.parts.assignments, self.parts.traffic
        self.remove, self.hosts = self.assignments.remove, self.assignments.hosts
        self.brokers_changed = self.assignments.brokers_changed
        self.registered, self.revive_lost = self.parts.revival.registered, self.parts.revival.revive_all
        self.statistics = self.parts.statistics

    async def logs_have_left(self) -> None:
        """Waits until nothing is being deleted or set aside."""
        async with asyncio.timeout(10):
            while self.deletions.busy:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def _lost_one(self) -> None:
        self.losses += 1

    def _log_dir_failed(self, directory: str, error: Exception) -> None:
        self.failed_log_dirs.append(directory)

    def apply(
        self,
        key: TopicPartition,
        topic_id: str,
        state: PartitionRegistration,
        settings: TopicSettings,
        hint: LeaderHint,
    ) -> None:
        """Applies the metadata of one replica of this broker."""
        self.assignments.apply(key, Assignment(topic_id, state, settings, hint))


class PublishedMetadata:
    """The image of a broker with these replicas; `publish` commits records to it."""

    def __init__(self, replicas: Replicas, log_manager: LogManager, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.publisher = MetadataPublisher(replicas.assignments, log_manager, {}, replicas.clock.now_ms, pytest.fail)
        self.image = image
        self.publisher.caught_up(image)

    def publish(self, *records: Record) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(self.image.offset + len(records), 1)
        self.publisher.publish(delta, self.image)

    def take_snapshot(self, *records: Record) -> None:
        """These records alone make the next image, and nobody knows what was in between."""
        whole = MetadataDelta(EMPTY_IMAGE)
        for record in records:
            whole.replay(record)
        before, self.image = self.image, whole.apply(self.image.offset + 100, 1)
        self.publisher.publish(MetadataDelta.between(before, self.image), self.image)
