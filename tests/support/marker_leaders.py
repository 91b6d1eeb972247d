"""Leaders of partitions that write markers as a test says, and a sender that asks them, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from broker.transactions.coordinator.marker_sender import MarkerSender
from broker.transactions.coordinator.sent_end import SentEnd
from broker.transactions.marker_port import TransactionEnd
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.errors import ApiError, NotLeaderOrFollowerError
from penstock.messages.transactions.markers import (
    MarkedPartitionResult,
    TxnMarker,
    TxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.types import TopicPartition
from tests.support.virtual_time import virtual_clock

BROKERS = (1, 2, 3)
T = [TopicPartition("t", number) for number in range(6)]
Say = Callable[[int, TopicPartition], ApiError | None]


class Leaders:
    """Topic t has six partitions; broker 1 leads 0 and 3, broker 2 leads 1 and 4, broker 3 leads 2 and 5."""

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.calls: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.written: list[tuple[str, TopicPartition]] = []
        """Markers by `producer commit|abort`, each as often as it was written."""
        self.ended: list[str] = []
        self.say: Say = lambda broker_id, partition: None
        self.dead: set[int] = set()
        self.hanging: set[int] = set()
        self.slow: set[TopicPartition] = set()
        self.sender = MarkerSender(lambda: self.image, self.call, virtual_clock(), Random(0), pytest.fail)
        self.publish(
            *(RegisterBrokerRecord(one, f"process-{one}", one, "h", 9_000 + one) for one in BROKERS),
            TopicRecord("t", "t-id"),
            *(PartitionRecord("t-id", n, BROKERS, BROKERS, n % 3 + 1) for n in range(6)),
        )

    def publish(self, *records: Record) -> None:
        before, delta = self.image, MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(before.offset + 1, 1)
        self.sender.published(delta, self.image)

    def elect(self, number: int, leader_id: int) -> None:
        self.publish(PartitionChangeRecord("t-id", number, isr=BROKERS, leader_id=leader_id))

    def delete(self) -> None:
        self.publish(RemoveTopicRecord("t-id"))

    async def call(self, broker_id: int, request: Any, timeout_ms: int) -> Any:
        self.calls.append((broker_id, request))
        await asyncio.sleep(0.002)
        if broker_id in self.dead:
            raise ApiError("the connection broke")
        if broker_id in self.hanging:
            await asyncio.sleep(timeout_ms / 1000)
            raise ApiError("no answer in time")
        if any(one.partition in self.slow for marker in request.markers for one in marker.partitions):
            await asyncio.sleep(5)
        return WriteTxnMarkersResponse(tuple(self._answer(broker_id, marker) for marker in request.markers))

    def _answer(self, broker_id: int, marker: TxnMarker) -> TxnMarkerResult:
        results = []
        for asked in marker.partitions:
            assert asked.topic_id == "t-id" and marker.coordinator_epoch == 5
            state = self.image.partition(*asked.partition)
            error: ApiError | None = None
            if state is None or state.leader_id != broker_id:
                error = NotLeaderOrFollowerError("another leads")
            error = error or self.say(broker_id, asked.partition)
            if error is None:
                what = f"{marker.producer_id} {'commit' if marker.is_committed else 'abort'}"
                self.written.append((what, asked.partition))
            results.append(MarkedPartitionResult(asked.partition, error))
        return TxnMarkerResult(marker.producer_id, tuple(results))

    def sent(self, name: str, *numbers: int, producer_id: int = 7, is_committed: bool = True) -> SentEnd:
        end = TransactionEnd(name, producer_id, 1, is_committed, tuple(T[one] for one in numbers), 2, 1)
        return SentEnd(end, 5, self.sender.stamp_ms(1), virtual_clock().now_ms(), lambda: self.ended.append(name))

    def send(self, name: str, *numbers: int, producer_id: int = 7, is_committed: bool = True) -> SentEnd:
        sent = self.sent(name, *numbers, producer_id=producer_id, is_committed=is_committed)
        self.sender.send(sent)
        return sent
