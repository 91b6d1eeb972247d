"""Promises of the partitions that requests to leaders name, at both doors: all are seen before the request queues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from broker.kafka.connection.named_partitions import NAMED, TOLD_MAX, arrivals_of
from broker.kafka.schemas.fetch import FetchRequest, FetchRequestFetchPartition, FetchRequestFetchTopic
from broker.kafka.schemas.metadata import MetadataRequest, MetadataRequestTopic
from broker.kafka.schemas.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from broker.kafka.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.network.named_partitions import OPERATIONS, Named, NamedPartition, arrivals_first, named_in
from broker.network.request_channel import Caller, Request
from metadata.image import EMPTY_IMAGE, TopicImage
from penstock.messages import fetch, offsets, produce
from penstock.messages.security.acls import Operation
from penstock.types import CONSUMER_REPLICA_ID, NO_EPOCH, Endpoint, TopicPartition
from tests.support.partitions import TOPIC_ID, state

T1 = TopicPartition("t", 1)
OWN: dict[str, tuple[Any, int | None, int]] = {
    "Produce": (produce.ProduceRequest(1, 70, [produce.PartitionRecords(T1, "id", b"")]), 70, NO_EPOCH),
    "FetchConsumer": (
        fetch.FetchRequest(CONSUMER_REPLICA_ID, NO_EPOCH, 70, 1, 1, [fetch.FetchPartition(T1, "id", 0, 3)], []),
        70,
        3,
    ),
    "ListOffsets": (offsets.ListOffsetsRequest((offsets.ListOffsetsPartition(T1, "id", -1, 3),)), None, 3),
    "OffsetForLeaderEpoch": (offsets.OffsetForLeaderEpochRequest((offsets.EpochPartition(T1, "id", 2, 3),)), None, 3),
    "DeleteRecords": (offsets.DeleteRecordsRequest((offsets.DeleteRecordsPartition(T1, "id", 0),), 70), 70, NO_EPOCH),
}
KAFKAS: list[tuple[Any, NamedPartition, int | None]] = [
    (
        ProduceRequest(
            timeout_ms=70, topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1)])]
        ),
        NamedPartition("t", "", 1),
        70,
    ),
    (
        FetchRequest(
            max_wait_ms=70,
            topics=[
                FetchRequestFetchTopic(
                    topic_id="id", partitions=[FetchRequestFetchPartition(partition=1, current_leader_epoch=3)]
                )
            ],
        ),
        NamedPartition("", "id", 1, 3),
        70,
    ),
    (
        ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=1, current_leader_epoch=3)])
            ]
        ),
        NamedPartition("t", "", 1, 3),
        None,
    ),
    (
        OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic="t", partitions=[OffsetForLeaderPartition(partition=1, current_leader_epoch=3)]
                )
            ]
        ),
        NamedPartition("t", "", 1, 3),
        None,
    ),
    (
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=1)])], timeout_ms=70
        ),
        NamedPartition("t", "", 1),
        70,
    ),
]


class Arrivals:
    """Notes what is named, and waits until `gate`."""

    def __init__(self) -> None:
        self.named: list[Named] = []
        self.gate = asyncio.Event()

    def begin(self, caller: Caller, named: Named, /) -> Awaitable[None] | None:
        self.named.append(named)
        return self._wait()

    async def _wait(self) -> None:
        await self.gate.wait()


def request_of(api: str, body: object) -> Request:
    sink: Any = None
    return Request(api, body, sink, Caller(Endpoint("10.0.0.1", 1)), lambda: 0)


def test_every_request_to_a_leader_is_in_both_tables() -> None:
    assert OPERATIONS.keys() == OWN.keys() and NAMED.keys() == {type(body) for body, _, _ in KAFKAS}


@pytest.mark.parametrize("api", OWN)
def test_a_request_of_the_nodes_own_names_its_partitions_by_topic_and_id(api: str) -> None:
    body, timeout_ms, epoch = OWN[api]
    named = named_in(request_of(api, body))
    assert named is not None and (named.operation, named.timeout_ms) == (OPERATIONS[api], timeout_ms)
    assert list(named.partitions) == [NamedPartition("t", "id", 1, epoch)]
    assert named_in(request_of("FetchFollower", body)) is None, "a follower tries again by itself"


@pytest.mark.parametrize(("body", "partition", "timeout_ms"), KAFKAS)
def test_a_request_of_kafkas_names_its_partitions_by_name_or_id(
    body: Any, partition: NamedPartition, timeout_ms: int | None
) -> None:
    named = NAMED[type(body)](body)
    assert (list(named.partitions), named.timeout_ms) == ([partition], timeout_ms)


def test_metadata_names_partitions_of_known_topics_alone_and_a_limited_number() -> None:
    numbers = {number: state() for number in range(TOLD_MAX + 10)}
    topic = TopicImage("t", TOPIC_ID, numbers)
    image = replace(EMPTY_IMAGE, topics_by_name={"t": topic}, topics_by_id={TOPIC_ID: topic})

    async def test() -> None:
        arrivals = Arrivals()
        begin = arrivals_of(arrivals, lambda: image)
        for topics in (None, []):
            assert begin(_call(MetadataRequest(topics=topics))) is None, "of all topics"
        for one in (MetadataRequestTopic(name="t"), MetadataRequestTopic(name=None, topic_id=TOPIC_ID)):
            arrivals.gate.set()
            wanted = [MetadataRequestTopic(name="typo"), one]
            waiting = begin(_call(MetadataRequest(topics=wanted)))
            assert waiting is not None
            await waiting
            named = arrivals.named.pop()
            assert named.operation is Operation.DESCRIBE
            assert [part.partition for part in named.partitions] == list(range(TOLD_MAX))

    asyncio.run(test())


def _call(body: object) -> Request:
    call: Any = type("Call", (), {"body": body})()
    return request_of("Metadata", call)


def test_what_is_prepared_for_a_request_is_prepared_after_its_wait() -> None:
    async def test() -> None:
        arrivals, prepared = Arrivals(), list[str]()

        def prepare(request: Request) -> None:
            prepared.append(request.api)

        begin = arrivals_first(arrivals, prepare)
        assert begin(request_of("FetchFollower", None)) is None and prepared == ["FetchFollower"]
        waiting = begin(request_of("Produce", OWN["Produce"][0]))
        assert waiting is not None
        task = asyncio.ensure_future(waiting)
        await asyncio.sleep(0)
        assert prepared == ["FetchFollower"]
        arrivals.gate.set()
        await task
        assert prepared == ["FetchFollower", "Produce"]
        assert arrivals_first(None, prepare) is prepare

    asyncio.run(test())
