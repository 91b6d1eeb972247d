"""Broker 1 for tests of plans that read: real partitions, metadata made by hand, and the real handlers.

A plan is performed without a request path or a network: each thing that it asks is given to the handler of its API, and
its answer takes the plan on, now or later. The answer in Kafka's terms is encoded and decoded again, in the version
that was asked in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.apis.fetch import FetchApi
from broker.apis.fetch_sessions.fetch_session import FetchSession
from broker.apis.list_offsets import ListOffsetsApi
from broker.apis.offset_for_leader_epoch import OffsetForLeaderEpochApi
from broker.kafka.api_row import ApiRow
from broker.kafka.parts import PlanParts
from broker.kafka.plan import PAUSE, Ask, Asked, ConnectionMemory, Plan
from broker.network.client_names import ClientNames
from broker.network.failed_requests import FailedRequests
from broker.network.named_sessions import ID_MAX, NamedSessions
from broker.network.request_channel import Caller, Request
from broker.replication.hosting.hosted_partitions import unknown_partition
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import Partition
from metadata.image import MetadataImage, TopicImage
from metadata.registrations import BrokerRegistration, PartitionRegistration
from penstock.clock import ManualClock
from penstock.errors import ApiError
from penstock.ids import RandomIds
from penstock.types import Endpoint, LeaderHint, ListenerEndpoint, TopicPartition
from tests.support.kafka_rows import READING, rows_over
from tests.support.machine import NOW_NS
from tests.support.memory import unlimited
from tests.support.partitions import batch, flush, make_log
from tests.support.readers import leaders_alone
from tests.support.sinks import CALLER
from tests.support.stepped_io import SteppedIo
from tests.unit.broker.kafka.apis.admin_node import received

NODE_ID, LISTENER, EPOCH = 1, "KAFKA", 5
WALL_MS = 1_700_000_000_000


class ReadingNode:
    """See the module. `slots`: of the cache of sessions."""

    def __init__(self, directory: Path, slots: int = 10, eviction_ms: int = 120_000) -> None:
        self._directory = directory
        self.clock = ManualClock()
        self.ids = RandomIds(Random(7))
        self.image = MetadataImage(brokers={n: _broker(n) for n in (1, 2)})
        self.hosted: dict[TopicPartition, Partition] = {}
        self.readers = leaders_alone()
        self.memory: Callable[[str], Any] = lambda host: unlimited()
        self.asks: list[Ask] = []
        random = Random(1)
        config = SimpleNamespace(node_id=NODE_ID)
        self._fail = FailedRequests(pytest.fail).fail
        service = SimpleNamespace(
            permissions=None,
            cluster_id="cluster-1",
            names=ClientNames(),
            image=lambda: self.image,
            new_session=self._new_session,
            named_sessions=NamedSessions(
                partial(self._new_session, is_stream=False), slots, eviction_ms, lambda: random.randint(1, ID_MAX)
            ),
            channel=SimpleNamespace(now_ns=lambda: self.clock.now_ms() * 1_000_000),
        )
        self.rows = {row.name: row for row in rows_over(PlanParts(cast(Any, config), cast(Any, service)), *READING)}

    def _new_session(self, host: str, *, is_stream: bool = True) -> FetchSession:
        memory, io, throttle = self.memory(host), SteppedIo(), MoveThrottle()
        counted: Callable[..., None] = lambda *_: None  # noqa: E731
        return FetchSession(
            self.get,
            self.clock,
            1 << 20,
            counted,
            memory,
            self._fail,
            io,
            throttle,
            self.readers,
            is_stream=is_stream,
        )

    # -- topics --------------------------------------------------------------------------------------------------------

    def create(self, name: str, partitions: int = 1, leader_id: int = NODE_ID) -> str:
        """A topic whose partitions have the leader as their only replica; returns its id."""
        topic_id = self.ids.new_id()
        states = {
            n: PartitionRegistration(topic_id, n, (leader_id,), (leader_id,), leader_id, EPOCH, 0)
            for n in range(partitions)
        }
        self._publish(TopicImage(name, topic_id, states))
        for n, state in states.items() if leader_id == NODE_ID else ():
            key = TopicPartition(name, n)
            log = make_log(self._directory / topic_id, partition=key, topic_id=topic_id)
            self.hosted[key] = Partition(NODE_ID, log, 0, 1)
            self.hosted[key].become_leader(state, 0)
        return topic_id

    def delete(self, name: str) -> None:
        for key in [key for key in self.hosted if key.topic == name]:
            gone = self.hosted.pop(key)
            gone.stop(unknown_partition(NODE_ID, key, gone.topic_id, hosted_id=None, assigned_id=None, why_lost=None))
        self.hide(name)

    def hide(self, name: str) -> TopicImage:
        """The metadata does not have the topic (yet)."""
        topics = dict(self.image.topics_by_name)
        topic = topics.pop(name)
        self.image = _with_topics(self.image, topics)
        return topic

    def show(self, topic: TopicImage) -> None:
        self._publish(topic)

    def _publish(self, topic: TopicImage) -> None:
        self.image = _with_topics(self.image, {**self.image.topics_by_name, topic.name: topic})

    def move(self, name: str, leader_id: int) -> None:
        """Partition 0 is led elsewhere from now on."""
        topic = self.image.topics_by_name[name]
        state = PartitionRegistration(topic.topic_id, 0, (leader_id, 1), (leader_id,), leader_id, EPOCH + 1, 1)
        self._publish(TopicImage(name, topic.topic_id, {**topic.partitions, 0: state}))
        broker = self.image.brokers[leader_id]
        hint = LeaderHint(leader_id, EPOCH + 1, broker.endpoint, topic.topic_id, broker.listeners)
        self.hosted[TopicPartition(name, 0)].become_follower(state, hint)

    def follow(self, name: str, follower_id: int) -> None:
        """A follower of partition 0 is in sync, and has all of it."""
        partition = self.hosted[TopicPartition(name, 0)]
        both, epoch = (NODE_ID, follower_id), partition.state.leader_epoch
        partition.become_leader(PartitionRegistration(partition.topic_id, 0, both, both, NODE_ID, epoch, 1), 0)
        end = partition.log.log_end_offset
        assert partition.leading is not None
        partition.leading.note_fetch(follower_id, 0, end, end, 0)
        partition.leading.followers[follower_id].log_start_offset = 0

    def get(self, partition: TopicPartition, topic_id: str) -> Partition:
        found = self.hosted.get(partition)
        if found is None or found.topic_id != topic_id:
            hosted_id = None if found is None else found.topic_id
            raise unknown_partition(NODE_ID, partition, topic_id, hosted_id=hosted_id, assigned_id=None, why_lost=None)
        return found

    def produce(self, name: str, *values: bytes, partition: int = 0) -> bytes:
        """Committed records, in one batch, which is returned as the log has it."""
        at = self.hosted[TopicPartition(name, partition)]
        start = at.log.log_end_offset
        at.append_as_leader(batch(*values), -1, 0, WALL_MS)
        flush(at)
        found = at.log.reader.read(start, 1 << 20)
        return found.records

    # -- requests ------------------------------------------------------------------------------------------------------

    def ask(self, body: Any, version: int, connection: ConnectionMemory | None = None) -> Exchange:
        name = type(body).__name__.removesuffix("Request")
        caller = Caller(CALLER.peer, LISTENER)
        return Exchange(self, self.rows[name], Asked(version, caller, "", connection or ConnectionMemory()), body)

    def handle(self, request: Request) -> None:
        handlers: dict[str, Callable[[Request, Any], None]] = {
            "FetchConsumer": FetchApi(lambda: {}, "cluster-1").handle,
            "ListOffsets": ListOffsetsApi(cast(Any, self), SteppedIo(), self._fail, lambda: 0).handle,
            "OffsetForLeaderEpoch": OffsetForLeaderEpochApi(cast(Any, self)).handle,
        }
        try:
            handlers[request.api](request, request.body)
        except ApiError as error:
            request.fail(error)


class Exchange:
    """A request and its answer, once it is there. The sink of what its plan asks."""

    def __init__(self, node: ReadingNode, row: ApiRow, asked: Asked, body: Any) -> None:
        self._node, self._row, self._asked, self._body = node, row, asked, body
        self._plan: Plan = row.plan(asked, body)
        self._answer: Any = None
        self.request: Request | None = None
        self._step(lambda: next(self._plan))

    @property
    def answer(self) -> Any:
        """The answer as a client of that version reads it."""
        assert self._answer is not None, "it waits"
        return received(self._answer, self._asked.version)

    @property
    def written(self) -> Any:
        """The answer before it is encoded."""
        return self._answer

    @property
    def is_answered(self) -> bool:
        return self._answer is not None

    def abandon(self) -> None:
        """The connection is gone."""
        if self.request is not None:
            self.request.abandoned()
        self._plan.close()

    def _step(self, step: Callable[[], Ask]) -> None:
        try:
            ask = step()
            while ask is PAUSE:
                ask = next(self._plan)
        except StopIteration as ended:
            self._answer = ended.value
            return
        except ApiError as error:
            assert self._row.failed is not None
            self._answer = self._row.failed(self._asked, self._body, error)
            return
        self._node.asks.append(ask)
        self.request = Request(ask.api, ask.body, self, self._asked.caller, NOW_NS, ask.session)
        self._node.handle(self.request)

    def response_ready(self, request: Request) -> None:
        error = request.error
        if error is not None:
            self._step(lambda: self._plan.throw(error))
        else:
            request.encoded(lambda answer: self._step(lambda: self._plan.send(answer)))
        request.dropped()

    def part_ready(self, request: Request) -> None:
        """No request here is answered in parts."""


def _broker(broker_id: int) -> BrokerRegistration:
    at = ListenerEndpoint(LISTENER, Endpoint(f"kafka-{broker_id}", 9092))
    return BrokerRegistration(
        broker_id, "i", 100 + broker_id, f"host-{broker_id}", 9192, "rack", False, False, (), listeners=(at,)
    )


def _with_topics(image: MetadataImage, topics: dict[str, TopicImage]) -> MetadataImage:
    by_id = {topic.topic_id: topic for topic in topics.values()}
    return MetadataImage(image.offset + 1, brokers=image.brokers, topics_by_id=by_id, topics_by_name=topics)
