"""A broker's coordinator of transactions over real replicas and logs, and leaders of partitions as a test says.

Broker 1 is this one; broker 2 leads topic t. The image says who leads `__transaction_state`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from broker.coordination.image_topics import ImageTopics
from broker.coordination.loading import ShardLoader
from broker.coordination.shard_ports import ShardPorts, ShardState
from broker.coordination.state_topic import StateTopic
from broker.network.request_channel import Request
from broker.replication.durability import Durability
from broker.replication.leader.leader_appends import LeaderAppends
from broker.replication.leader.log_start_commit import LogStartCommit
from broker.replication.partition import Partition
from broker.replication.replica_statistics import Traffic
from broker.transactions.coordinator.coordinator_figures import TransactionFigures
from broker.transactions.coordinator.marker_sender import MarkerSender
from broker.transactions.coordinator.transaction_coordinator import TransactionCoordinator
from broker.transactions.marker_port import MarkerPort
from broker.transactions.transaction_config import TransactionConfig
from broker.transactions.transaction_figures import TransactionCounters
from broker.transactions.transaction_memory import transaction_memory
from broker.transactions.transaction_records import encode_transaction_record, read_transaction_log
from broker.transactions.transaction_shard import TransactionShard
from broker.transactions.transactional_ids import check_transactional_id, partition_of_transactional_id
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.internal_topics import TRANSACTION_STATE
from metadata.records import PartitionChangeRecord, PartitionRecord, Record, RegisterBrokerRecord, TopicRecord
from penstock.backoff import Backoff
from penstock.clock import SystemClock
from penstock.errors import ApiError, InvariantViolation
from penstock.messages.topics import CreateInternalTopicRequest, CreateInternalTopicResponse
from penstock.messages.transactions.markers import (
    MarkedPartitionResult,
    TxnMarker,
    TxnMarkerResult,
    WriteTxnMarkersResponse,
)
from penstock.record.codecs import Codec
from penstock.types import TopicPartition
from storage.log.group_commit import GroupCommit
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import IDS, NOW_NS, THREADS, stop_wait
from tests.support.replicas import PublishedMetadata, Replicas
from tests.support.sinks import CALLER, Sink
from tests.support.storage import open_manager

ME, OTHER = 1, 2
STATE_ID, TOPIC_ID = "S" * 21 + "A", "T" * 21 + "A"


class TransactionBroker:
    """Its coordinator has four partitions; markers for broker 2 are written if `marker_error` is None."""

    def __init__(self, partitions: int = 4) -> None:
        self.partitions = partitions
        self.asked: list[CreateInternalTopicRequest] = []
        self.markers: list[TxnMarker] = []
        self.marker_error: ApiError | None = None
        self.id_error: ApiError | None = None
        self.next_id = 1_000
        self.log_manager = open_manager(LosingFileSystem())
        self.group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        clock, traffic, random = SystemClock(), Traffic(), Random(0)
        log_starts = LogStartCommit(lambda *_: None, THREADS.executor("log-starts", 1))  # type: ignore[arg-type]
        appends = LeaderAppends(Durability(self.group_commit, log_starts, lambda partition: False), traffic, clock)
        self.loader = ShardLoader("transaction-load", read_transaction_log, THREADS, clock.now_ms, lambda: None)
        topics, memory, self.counters = (
            ImageTopics(lambda: self.image),
            transaction_memory(1 << 30),
            TransactionCounters(),
        )

        def make_core(markers: MarkerPort) -> TransactionShard:
            return TransactionShard(TransactionConfig(), markers, memory, self.counters)

        ports = ShardPorts(
            logs=appends,
            loader=self.loader,
            topics=topics,
            clock=clock,
            new_id=IDS.new_id,
            commit_timeout_ms=5_000,
            codec=Codec.NONE,
            make_encode=lambda: encode_transaction_record,
            backoff=Backoff(1, 5, random),
            on_fatal=pytest.fail,
            may_answer=lambda: self.holds_lease,
        )
        self.holds_lease = True
        wanted = CreateInternalTopicRequest(ME, 0, TRANSACTION_STATE, partitions)
        self.sender = MarkerSender(lambda: self.image, self._call, clock, random, pytest.fail)
        topic = StateTopic(
            TRANSACTION_STATE,
            check_transactional_id,
            partition_of_transactional_id,
            lambda: self.image,
            lambda: wanted,
            self._create,
            random,
            pytest.fail,
            lambda broker_id: broker_id != ME or self.holds_lease,
        )
        self.coordinator = TransactionCoordinator(
            ME, topic, topics, ports, make_core, self.sender, self._give_id, random
        )
        self.figures = TransactionFigures(self.coordinator, self.sender, memory, self.counters, self.loader.figures)
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
        delta = MetadataDelta(self.image)
        self._metadata.publish(*records)
        for record in records:
            delta.replay(record)
        self.coordinator.published(delta, self.image)

    async def _create(self, request: CreateInternalTopicRequest) -> CreateInternalTopicResponse:
        self.asked.append(request)
        await asyncio.sleep(0)
        self.make_topic()
        return CreateInternalTopicResponse(STATE_ID, was_made=True)

    def make_topic(self) -> None:
        self.publish(
            TopicRecord(TRANSACTION_STATE, STATE_ID),
            *(PartitionRecord(STATE_ID, n, (ME, OTHER), (ME,), ME) for n in range(self.partitions)),
        )

    def partition(self, number: int) -> Partition:
        found = self.replicas.find(TopicPartition(TRANSACTION_STATE, number))
        if found is None:
            raise InvariantViolation(f"partition {number} is not here")
        return found

    def elect(self, leader_id: int, *numbers: int) -> None:
        isr = (leader_id,)
        self.publish(*(PartitionChangeRecord(STATE_ID, number, isr=isr, leader_id=leader_id) for number in numbers))

    def _give_id(self, answer: Callable[[int | ApiError], None]) -> None:
        self.next_id += 1
        asyncio.get_running_loop().call_soon(answer, self.id_error or self.next_id)

    async def _call(self, broker_id: int, request: Any, timeout_ms: int) -> WriteTxnMarkersResponse:
        assert broker_id == OTHER
        await asyncio.sleep(0)
        if self.marker_error is None:
            self.markers += request.markers
        return WriteTxnMarkersResponse(
            tuple(
                TxnMarkerResult(
                    marker.producer_id,
                    tuple(MarkedPartitionResult(one.partition, self.marker_error) for one in marker.partitions),
                )
                for marker in request.markers
            )
        )

    # -- requests ------------------------------------------------------------------------------------------------------

    def ask(self, body: Any, how: Callable[[Request], None]) -> Request:
        request = Request(type(body).__name__.removesuffix("Request"), body, Sink(), CALLER, NOW_NS, client_id="app")
        try:
            how(request)
        except ApiError as error:
            request.fail(error)
        return request

    def submit(self, body: Any) -> Request:
        return self.ask(body, lambda request: self.coordinator.submit(request, body.transactional_id, body))

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

    async def active(self, shards: int) -> None:
        """Until so many serve."""
        await self.until(lambda: [one.state for one in self.coordinator.shards] == [ShardState.ACTIVE] * shards)

    async def stop(self) -> None:
        await self.coordinator.stop()
        await self.replicas.deletions.close(stop_wait())
        await self.group_commit.close(stop_wait())
