"""A broker's coordinator of groups over real replicas and logs: leads come by the metadata, commits by flushes.

Broker 2 is the only other one; its acknowledgements are calls of the test. The controller is a function that publishes
the topic's records.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import pytest

from broker.coordination.image_topics import ImageTopics
from broker.coordination.loading import LOADING_MAX, ShardLoader
from broker.coordination.partition_of import partition_of
from broker.coordination.shard_ports import ShardPorts, ShardState
from broker.coordination.state_topic import StateTopic
from broker.groups.coordinator.group_coordinator import GroupCoordinator, check_group_id
from broker.groups.group_config import GroupConfig
from broker.groups.group_sizes import group_memory
from broker.groups.records.record_log import read_group_records
from broker.groups.records.usual_offsets import UsualOffsetWriter
from broker.groups.shard.group_totals import GroupTotals
from broker.groups.shard.shard import Shard
from broker.network.request_channel import Request
from broker.replication.durability import Durability
from broker.replication.leader.follower_fetch import note_follower_fetch
from broker.replication.leader.leader_appends import LeaderAppends
from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.leader.log_start_commit import LogStartCommit
from broker.replication.partition import Partition
from broker.replication.replica_statistics import Traffic
from broker.transactions.verification.questions import InTransaction, OnVerified, Question
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.internal_topics import CONSUMER_OFFSETS
from metadata.records import PartitionChangeRecord, PartitionRecord, Record, RegisterBrokerRecord, TopicRecord
from penstock.backoff import Backoff
from penstock.clock import SystemClock
from penstock.errors import ApiError, InvariantViolation
from penstock.messages.topics import CreateInternalTopicRequest, CreateInternalTopicResponse
from penstock.record.codecs import Codec
from penstock.types import TopicPartition
from storage.log.group_commit import GroupCommit
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import IDS, NOW_NS, THREADS, stop_wait
from tests.support.replicas import PublishedMetadata, Replicas
from tests.support.sinks import CALLER, Sink
from tests.support.storage import open_manager

ME, OTHER = 1, 2
OFFSETS_ID, TOPIC_ID = "O" * 21 + "A", "T" * 21 + "A"
"""As random bytes are written: the last character stands for four bits."""


class AskedByTests:
    """The questions to coordinators of transactions, which a test answers."""

    def __init__(self) -> None:
        self.open: list[Question] = []
        self.verifies = True

    def ask(
        self, partition: Partition, in_transaction: InTransaction, wait_ms: float, on_verified: OnVerified
    ) -> Question:
        question = Question(partition, in_transaction, on_verified)
        question.begin_attempt()
        self.open.append(question)
        return question

    def needs_to_ask(self, in_transaction: InTransaction) -> bool:
        return self.verifies or not in_transaction.verify_only

    def withdraw(self, question: Question) -> None:
        self.open.remove(question)
        question.close()

    def answer(self, error: ApiError | None = None) -> None:
        """Answers the oldest question."""
        question = self.open.pop(0)
        question.close()
        question.on_verified(error)


class GroupBroker:
    """See the module."""

    def __init__(self, partitions: int = 4, isr: tuple[int, ...] = (ME,)) -> None:
        self.partitions, self.isr = partitions, isr
        self.asked: list[CreateInternalTopicRequest] = []
        self.refusal: ApiError | None = None
        self.log_manager = open_manager(LosingFileSystem())
        self.group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        clock, traffic = SystemClock(), Traffic()
        log_starts = LogStartCommit(lambda *_: None, THREADS.executor("log-starts", 1))  # type: ignore[arg-type]
        self._loader = ShardLoader("group-load", read_group_records, THREADS, clock.now_ms, lambda: None)
        topics, memory = ImageTopics(lambda: self.image), group_memory(1 << 30)
        ports = ShardPorts(
            logs=LeaderAppends(Durability(self.group_commit, log_starts, lambda partition: False), traffic, clock),
            loader=self._loader,
            topics=topics,
            clock=clock,
            new_id=IDS.new_id,
            commit_timeout_ms=5_000,
            codec=Codec.NONE,
            make_encode=lambda: UsualOffsetWriter().encode,
            backoff=Backoff(1, 5, Random(0)),
            on_fatal=pytest.fail,
            may_answer=lambda: self.holds_lease,
        )
        self.holds_lease = True
        wanted = CreateInternalTopicRequest(ME, 0, CONSUMER_OFFSETS, partitions)
        self.verification = AskedByTests()
        topic = StateTopic(
            CONSUMER_OFFSETS,
            check_group_id,
            partition_of,
            lambda: self.image,
            lambda: wanted,
            self._create,
            Random(0),
            pytest.fail,
            lambda broker_id: broker_id != ME or self.holds_lease,
        )
        self.caller = CALLER
        make_core = partial(Shard, GroupConfig(), memory, GroupTotals())
        self.coordinator = GroupCoordinator(ME, topic, topics, ports, make_core, self.verification)
        self.replicas = Replicas(
            ME, self.log_manager, self.group_commit, clock, pytest.fail, role_listeners=(self.coordinator,)
        )
        self._metadata = PublishedMetadata(self.replicas, self.log_manager)
        for broker_id in (ME, OTHER):
            self.publish(RegisterBrokerRecord(broker_id, f"process-{broker_id}", self.image.offset + 1, "h", 9_000))
        self.publish(
            TopicRecord("t", TOPIC_ID), *(PartitionRecord(TOPIC_ID, n, (OTHER,), (OTHER,), OTHER) for n in range(3))
        )

    @property
    def image(self) -> MetadataImage:
        return self._metadata.image

    def publish(self, *records: Record) -> None:
        """Committed metadata: replicas take their roles, and the coordinator hears of it after them."""
        before = self.image
        self._metadata.publish(*records)
        self.coordinator.published(_delta(before, records), self.image)

    async def _create(self, request: CreateInternalTopicRequest) -> CreateInternalTopicResponse:
        self.asked.append(request)
        await asyncio.sleep(0)
        if self.refusal is not None:
            raise self.refusal
        self.make_topic(request.partitions)
        return CreateInternalTopicResponse(OFFSETS_ID, was_made=True)

    def make_topic(self, partitions: int) -> None:
        self.publish(
            TopicRecord(CONSUMER_OFFSETS, OFFSETS_ID),
            *(PartitionRecord(OFFSETS_ID, n, (ME, OTHER), self.isr, ME) for n in range(partitions)),
        )

    def elect(self, leader_id: int, *numbers: int) -> None:
        isr = self.isr if leader_id in self.isr else (leader_id,)
        self.publish(*(PartitionChangeRecord(OFFSETS_ID, number, isr=isr, leader_id=leader_id) for number in numbers))

    def partition(self, number: int) -> Partition:
        found = self.replicas.find(TopicPartition(CONSUMER_OFFSETS, number))
        if found is None:
            raise InvariantViolation(f"partition {number} is not here")
        return found

    def acknowledge(self, number: int) -> None:
        """Broker 2 has all of the partition."""
        partition = self.partition(number)
        end = partition.log.log_end_offset
        epoch = partition.log.epoch_for_offset(end - 1) if end else -1
        leader_epoch = partition.state.leader_epoch
        note_follower_fetch(partition, OTHER, 7, ReplicaPosition(end, epoch), leader_epoch, 1)

    # -- requests ------------------------------------------------------------------------------------------------------

    def ask(self, body: Any, how: Callable[[Request], None]) -> Request:
        request = Request(
            type(body).__name__.removesuffix("Request"), body, Sink(), self.caller, NOW_NS, client_id="app"
        )
        try:
            how(request)
        except ApiError as error:
            request.fail(error)
        return request

    def submit(self, body: Any) -> Request:
        return self.ask(body, lambda request: self.coordinator.submit(request, body.group_id, body))

    def submit_each(self, body: Any) -> Request:
        return self.ask(body, lambda request: self.coordinator.submit_each(request, body))

    def find(self, body: Any) -> Request:
        return self.ask(body, lambda request: self.coordinator.find(request, body))

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def answered(self, request: Request) -> Any:
        """The answer, or the error."""
        await self.until(lambda: request.is_complete)
        return request.error or request.response

    async def active(self) -> None:
        """Until every shard of a partition that is led here serves."""
        await self.until(lambda: len(list(self.coordinator.shards)) == len(self._led()))
        await self.until(lambda: all(shard.state is ShardState.ACTIVE for shard in self.coordinator.shards))

    @asynccontextmanager
    async def loads_held(self) -> AsyncIterator[None]:
        """No load goes on meanwhile."""
        async with AsyncExitStack() as held:
            for _ in range(LOADING_MAX):
                await held.enter_async_context(self._loader.slots)
            yield

    def _led(self) -> list[int]:
        topic = self.image.topic(CONSUMER_OFFSETS)
        return [] if topic is None else [n for n, state in topic.partitions.items() if state.leader_id == ME]

    async def stop(self) -> None:
        await self.coordinator.stop()
        await self.replicas.deletions.close(stop_wait())
        await self.group_commit.close(stop_wait())


def _delta(image: MetadataImage, records: tuple[Record, ...]) -> MetadataDelta:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta
