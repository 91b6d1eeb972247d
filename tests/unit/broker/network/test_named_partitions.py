"""Promises of the partitions that requests to leaders name, in both protocols: all are seen before the request
queues."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from broker.config.config import parse_config
from broker.connections.listener_limits import shared_by_clients
from broker.grpc.broker_listeners import ServedListeners
from broker.kafka.connection.named_partitions import METADATA_NAMED_MAX, NAMED, arrivals_of
from broker.kafka.schemas.fetch import FetchRequest, FetchRequestFetchPartition, FetchRequestFetchTopic
from broker.kafka.schemas.groups import offsets as kafka_groups
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
from broker.kafka.schemas.producers import DescribeProducersRequest, DescribeProducersRequestTopicRequest
from broker.kafka.schemas.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from broker.load.busy_time import BusyTimes
from broker.network.listeners import BrokerService
from broker.network.named_partitions import NAMED as OWN_NAMED
from broker.network.named_partitions import Named, NamedPartition, arrivals_first, coordinators_first, named_in
from broker.network.request_channel import Caller, Request, RequestChannel
from broker.network.request_memory import RequestMemory
from metadata.image import EMPTY_IMAGE, TopicImage
from penstock.messages import fetch, offsets, produce
from penstock.messages.groups import offsets as group_offsets
from penstock.messages.security.acls import Need, Operation, ResourceType
from penstock.messages.transactions import producers
from penstock.types import CONSUMER_REPLICA_ID, NO_EPOCH, Endpoint, TopicPartition
from tests.support.machine import NOW_NS
from tests.support.partitions import TOPIC_ID, state

T1 = TopicPartition("t", 1)
READS_GROUP, DELETES_GROUP, DESCRIBES_GROUP = (
    Need(operation, ResourceType.GROUP, "g") for operation in (Operation.READ, Operation.DELETE, Operation.DESCRIBE)
)
WRITES_ID = Need(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "x")
BY_BOTH, BY_NAME = NamedPartition("t", "id", 1), NamedPartition("t", "", 1)
EPOCH = BY_BOTH._replace(leader_epoch=3)
COMMITTED = (group_offsets.OffsetCommitPartition(T1, 5, 3, topic_id="id"),)
OWN: dict[str, tuple[Any, Named]] = {
    "Produce": (
        produce.ProduceRequest(1, 70, [produce.PartitionRecords(T1, "id", b"")]),
        Named(Operation.WRITE, [BY_BOTH], 70),
    ),
    "FetchConsumer": (
        fetch.FetchRequest(CONSUMER_REPLICA_ID, NO_EPOCH, 70, 1, 1, [fetch.FetchPartition(T1, "id", 0, 3)], []),
        Named(Operation.READ, [EPOCH], 70),
    ),
    "ListOffsets": (
        offsets.ListOffsetsRequest((offsets.ListOffsetsPartition(T1, "id", -1, 3),)),
        Named(Operation.DESCRIBE, [EPOCH]),
    ),
    "OffsetForLeaderEpoch": (
        offsets.OffsetForLeaderEpochRequest((offsets.EpochPartition(T1, "id", 2, 3),)),
        Named(Operation.DESCRIBE, [EPOCH]),
    ),
    "DeleteRecords": (
        offsets.DeleteRecordsRequest((offsets.DeleteRecordsPartition(T1, "id", 0),), 70),
        Named(Operation.DELETE, [BY_BOTH], 70),
    ),
    "DescribeProducers": (
        produce.DescribeProducersRequest((produce.DescribeProducersPartition(T1, "id"),)),
        Named(Operation.READ, [BY_BOTH]),
    ),
    "OffsetCommit": (
        group_offsets.OffsetCommitRequest("g", COMMITTED),
        Named(Operation.READ, [BY_BOTH], None, False, (READS_GROUP,)),
    ),
    "OffsetDelete": (
        group_offsets.OffsetDeleteRequest("g", (T1,)),
        Named(Operation.READ, [BY_NAME], None, False, (DELETES_GROUP,)),
    ),
    "TxnOffsetCommit": (
        producers.TxnOffsetCommitRequest("x", "g", 7, 0, COMMITTED),
        Named(Operation.READ, [BY_BOTH], None, False, (READS_GROUP, WRITES_ID)),
    ),
    "AddPartitionsToTxn": (
        producers.AddPartitionsToTxnRequest((producers.TransactionPartitions("x", 7, 0, (T1,)),)),
        Named(Operation.WRITE, [BY_NAME], None, False, (WRITES_ID,)),
    ),
}
KAFKAS: list[tuple[Any, Named]] = [
    (
        ProduceRequest(
            timeout_ms=70, topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1)])]
        ),
        Named(Operation.WRITE, [BY_NAME], 70),
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
        Named(Operation.READ, [NamedPartition("", "id", 1, 3)], 70),
    ),
    (
        ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=1, current_leader_epoch=3)])
            ]
        ),
        Named(Operation.DESCRIBE, [BY_NAME._replace(leader_epoch=3)]),
    ),
    (
        OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic="t", partitions=[OffsetForLeaderPartition(partition=1, current_leader_epoch=3)]
                )
            ]
        ),
        Named(Operation.DESCRIBE, [BY_NAME._replace(leader_epoch=3)]),
    ),
    (
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=1)])], timeout_ms=70
        ),
        Named(Operation.DELETE, [BY_NAME], 70),
    ),
    (
        DescribeProducersRequest(topics=[DescribeProducersRequestTopicRequest(name="t", partition_indexes=[1])]),
        Named(Operation.READ, [BY_NAME]),
    ),
    (
        kafka_groups.OffsetCommitRequest(
            group_id="g",
            topics=[
                kafka_groups.OffsetCommitRequestTopic(
                    topic_id="id",
                    partitions=[kafka_groups.OffsetCommitRequestPartition(partition_index=1, committed_leader_epoch=3)],
                )
            ],
        ),
        Named(Operation.READ, [NamedPartition("", "id", 1)], None, False, (READS_GROUP,)),
    ),
    (
        kafka_groups.OffsetDeleteRequest(
            group_id="g",
            topics=[
                kafka_groups.OffsetDeleteRequestTopic(
                    name="t", partitions=[kafka_groups.OffsetDeleteRequestPartition(partition_index=1)]
                )
            ],
        ),
        Named(Operation.READ, [BY_NAME], None, False, (DELETES_GROUP,)),
    ),
    (
        kafka_groups.OffsetFetchRequest(
            groups=[
                kafka_groups.OffsetFetchRequestGroup(
                    group_id="g",
                    topics=[
                        kafka_groups.OffsetFetchRequestTopics(name="by-name", partition_indexes=[1]),
                        kafka_groups.OffsetFetchRequestTopics(topic_id="id", partition_indexes=[1]),
                    ],
                )
            ]
        ),
        Named(Operation.DESCRIBE, [NamedPartition("", "id", 1)], None, False, (DESCRIBES_GROUP,)),
    ),
    (
        TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=1, committed_leader_epoch=3)],
                )
            ],
        ),
        Named(Operation.READ, [BY_NAME], None, False, (READS_GROUP, WRITES_ID)),
    ),
    (
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[1])],
        ),
        Named(Operation.WRITE, [BY_NAME], None, False, (WRITES_ID,)),
    ),
    (
        AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id="x", topics=[AddPartitionsToTxnTopic(name="t", partitions=[1])]
                )
            ]
        ),
        Named(Operation.WRITE, [BY_NAME], None, False, (WRITES_ID,)),
    ),
]


CONFIG = parse_config(
    {
        "node.id": 1,
        "process.roles": "broker,controller",
        "listeners": ["BROKER://127.0.0.1:9192", "INTERNAL://127.0.0.1:9193", "CONTROLLER://127.0.0.1:9194"],
        "controller.quorum.voters": "1@127.0.0.1:9194",
        "log.dirs": "/nowhere/a",
    }
)


class Arrivals:
    """Notes what is named, and waits until `gate`."""

    def __init__(self) -> None:
        self.named: list[Named] = []
        self.access = asyncio.Event()

    def begin(self, caller: Caller, named: Named, /) -> Awaitable[None] | None:
        self.named.append(named)
        return self._wait()

    async def _wait(self) -> None:
        await self.access.wait()


def request_of(api: str, body: object) -> Request:
    sink: Any = None
    return Request(api, body, sink, Caller(Endpoint("10.0.0.1", 1)), lambda: 0)


def test_every_request_to_a_leader_or_a_coordinator_is_in_both_tables() -> None:
    assert OWN_NAMED.keys() == OWN.keys() and NAMED.keys() == {type(body) for body, _ in KAFKAS}


@pytest.mark.parametrize("api", OWN)
def test_a_request_of_the_nodes_own_names_its_partitions_its_rights_and_its_time(api: str) -> None:
    body, expected = OWN[api]
    named = named_in(request_of(api, body))
    assert named is not None and named._replace(partitions=list(named.partitions)) == expected


def test_a_followers_fetch_names_nothing_because_it_tries_again_by_itself() -> None:
    assert named_in(request_of("FetchFollower", OWN["FetchConsumer"][0])) is None


@pytest.mark.parametrize(("body", "expected"), KAFKAS)
def test_a_request_of_kafkas_names_its_partitions_its_rights_and_its_time(body: Any, expected: Named) -> None:
    named = NAMED[type(body)](body)
    assert named._replace(partitions=list(named.partitions)) == expected


def test_a_broker_waits_at_a_coordinator_and_at_no_leader() -> None:
    async def test() -> None:
        arrivals = Arrivals()
        begin = coordinators_first(arrivals)
        assert begin(request_of("ListOffsets", OWN["ListOffsets"][0])) is None
        waiting = begin(request_of("AddPartitionsToTxn", OWN["AddPartitionsToTxn"][0]))
        assert waiting is not None
        arrivals.access.set()
        await waiting
        assert [named.needs_log for named in arrivals.named] == [False]
        assert coordinators_first(None)(request_of("AddPartitionsToTxn", OWN["AddPartitionsToTxn"][0])) is None

    asyncio.run(test())


def test_metadata_names_partitions_of_known_topics_alone_and_a_limited_number() -> None:
    numbers = {number: state() for number in range(METADATA_NAMED_MAX + 10)}
    topic = TopicImage("t", TOPIC_ID, numbers)
    image = replace(EMPTY_IMAGE, topics_by_name={"t": topic}, topics_by_id={TOPIC_ID: topic})

    async def test() -> None:
        arrivals = Arrivals()
        begin = arrivals_of(arrivals, lambda: image)
        for topics in (None, []):
            assert begin(_call(MetadataRequest(topics=topics))) is None, "of all topics"
        for one in (MetadataRequestTopic(name="t"), MetadataRequestTopic(name=None, topic_id=TOPIC_ID)):
            arrivals.access.set()
            wanted = [MetadataRequestTopic(name="typo"), one]
            waiting = begin(_call(MetadataRequest(topics=wanted)))
            assert waiting is not None
            await waiting
            named = arrivals.named.pop()
            assert named.operation is Operation.DESCRIBE
            assert [number for _, _, number, _ in named.partitions] == list(range(METADATA_NAMED_MAX))

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
        arrivals.access.set()
        await task
        assert prepared == ["FetchFollower", "Produce"]
        assert arrivals_first(None, prepare) is prepare

    asyncio.run(test())


def test_the_listeners_of_clients_wait_for_leaders_too_and_that_of_brokers_for_coordinators_alone() -> None:
    arrivals, memory = Arrivals(), RequestMemory(1 << 20)
    nothing: Any = lambda *given: None  # noqa: E731
    service = BrokerService(
        channel=RequestChannel(1, BusyTimes(NOW_NS), NOW_NS),
        new_session=nothing,
        prepare=nothing,
        client_requests=memory,
        node_requests=memory,
        client_connections_max=100,
        node_connections_max=100,
        shared=shared_by_clients(CONFIG, 100),
        arrivals=arrivals,
    )
    served = ServedListeners(CONFIG, service)
    waits = {}

    async def test() -> None:
        arrivals.access.set()
        for listener in (*served.of_clients, served.of_brokers):
            for api in ("ListOffsets", "AddPartitionsToTxn"):
                waiting = listener.handlers.prepare(request_of(api, OWN[api][0]))
                waits[listener.name, api] = waiting is not None
                if waiting is not None:
                    await waiting

    asyncio.run(test())
    assert waits == {
        ("BROKER", "ListOffsets"): True,
        ("BROKER", "AddPartitionsToTxn"): True,
        ("INTERNAL", "ListOffsets"): False,
        ("INTERNAL", "AddPartitionsToTxn"): True,
    }
