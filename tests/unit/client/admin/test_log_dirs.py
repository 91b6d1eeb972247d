"""Log dirs of every broker, and how far the replicas are that move; in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import AsyncAdmin, TopicPartition
from penstock.client.admin.log_dir_info import FutureReplicaInfo, LogDirInfo, ReplicaLogInfo
from penstock.client.admin.log_dirs import REPLICAS_MAX, TOPICS_NAMED_MAX, BrokerLogDirs, progress
from penstock.errors import (
    BrokerIdNotRegisteredError,
    ConfigError,
    LogDirNotFoundError,
    NetworkError,
    UnknownServerError,
)
from penstock.messages.metadata import PartitionInfo
from tests.support.client_environment import fake_environment
from tests.support.fake_nodes import FakeNodes
from tests.support.virtual_time import run_virtual

ORDERS = TopicPartition("orders", 0)
ID = "o" * 22
Story = Callable[[FakeNodes, AsyncAdmin], Awaitable[None]]


def run(story: Story) -> None:
    async def main() -> None:
        nodes = FakeNodes({0: 1}, 3)
        bootstrap, environment = ",".join(map(str, nodes.bootstrap)), fake_environment(nodes.network)
        async with AsyncAdmin(bootstrap, environment=environment) as admin:
            await story(nodes, admin)

    run_virtual(main())


def test_every_broker_is_asked_and_one_that_does_not_answer_has_an_error() -> None:
    def has_orders(request: Any, answer: Any) -> None:
        log_dir = answer.log_dirs.add(path="/d", total_bytes=10, usable_bytes=-1)
        log_dir.topics.add(topic="orders", topic_id=ID).replicas.add(partition=0, size_bytes=5, log_end_offset=9)

    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        def refuses(request: Any, answer: Any) -> None:
            raise NetworkError("it stops")

        nodes.cluster.on_describe_log_dirs |= {1: has_orders, 2: refuses}
        nodes.cluster.on_describe_log_dirs[3] = lambda request, answer: setattr(answer, "node_id", 4)
        found = await admin.describe_log_dirs()
        assert sorted(found) == [1, 2, 3]
        (log_dir,) = found[1].log_dirs
        assert (log_dir.path, log_dir.size_bytes, log_dir.usable_bytes) == ("/d", 5, -1)
        assert log_dir.replicas == {ORDERS: ReplicaLogInfo(ID, 5, 0, 9)}
        assert "it stops" in str(found[2].error) and found[2].log_dirs == ()
        assert isinstance(found[3].error, UnknownServerError) and "node 4 answers in place of 3" in str(found[3].error)
        assert sorted(await admin.describe_log_dirs([1])) == [1]
        with pytest.raises(BrokerIdNotRegisteredError, match="broker 9 is not registered; these are: 1, 2, 3"):
            await admin.describe_log_dirs([1, 9])

    run(story)


def test_more_topics_than_a_broker_takes_are_asked_for_as_all() -> None:
    asked: list[int] = []

    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        nodes.cluster.on_describe_log_dirs[1] = lambda request, answer: asked.append(len(request.topics))
        for number in (TOPICS_NAMED_MAX, TOPICS_NAMED_MAX + 1):
            await admin.describe_log_dirs([1], [f"t{i}" for i in range(number)])
        assert asked == [TOPICS_NAMED_MAX, 0]

    run(story)


def test_the_copy_of_a_replica_that_moves_counts_for_nothing() -> None:
    def has_both(request: Any, answer: Any) -> None:
        for path, is_future in (("/a", False), ("/b", True)):
            topic = answer.log_dirs.add(path=path).topics.add(topic="orders", topic_id=ID)
            topic.replicas.add(
                partition=0, size_bytes=5, is_future=is_future, bytes_left=3, offset_lag=2, waits_for="room"
            )

    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        nodes.cluster.on_describe_log_dirs[1] = has_both
        found = (await admin.describe_log_dirs([1]))[1]
        a, b = found.log_dirs
        assert list(a.replicas) == [ORDERS] and not a.coming and not b.replicas
        assert b.coming == {ORDERS: FutureReplicaInfo(ID, 5, 3, 2, "room")}
        assert found.size_of(ORDERS, ID) == 5

    run(story)


def test_a_broker_is_asked_to_move_its_replicas_in_portions() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        wanted = {TopicPartition("t", number): f"/{number % 2}" for number in range(REPLICAS_MAX + 1)}
        results = await admin.alter_replica_log_dirs(2, wanted)
        assert results == dict.fromkeys(wanted)
        assert sorted(nodes.cluster.log_dir_moves) == sorted((2, str(tp), path) for tp, path in wanted.items())

    run(story)


def test_what_a_broker_refuses_or_does_not_say_is_the_replicas_error() -> None:
    def refuses_one(request: Any, answer: Any) -> None:
        del answer.results[1]
        answer.results[0].error.code, answer.results[0].error.message = LogDirNotFoundError.code, "no such dir"

    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        nodes.cluster.on_alter_log_dirs[1] = refuses_one
        other = TopicPartition("orders", 1)
        results = await admin.alter_replica_log_dirs(1, {ORDERS: "/b", other: "/b"})
        assert isinstance(results[ORDERS], LogDirNotFoundError) and isinstance(results[other], UnknownServerError)
        nodes.cluster.on_alter_log_dirs[1] = lambda request, answer: setattr(answer, "node_id", 4)
        with pytest.raises(UnknownServerError, match="node 4 answers in place of 1"):
            await admin.alter_replica_log_dirs(1, {ORDERS: "/b"})
        with pytest.raises(BrokerIdNotRegisteredError, match="broker 9"):
            await admin.alter_replica_log_dirs(9, {ORDERS: "/b"})
        with pytest.raises(ConfigError, match="path of a log dir"):
            await admin.alter_replica_log_dirs(1, {ORDERS: ""})
        assert await admin.alter_replica_log_dirs(1, {}) == {}

    run(story)


def moving(isr: tuple[int, ...] = (1, 2)) -> PartitionInfo:
    return PartitionInfo(0, 1, 5, 5, (1, 2, 3, 4), isr, adding_replicas=(3, 4), removing_replicas=(2,))


def has(size: int, topic_id: str = ID) -> tuple[LogDirInfo, ...]:
    return (LogDirInfo("/d", "", None, -1, -1, {ORDERS: ReplicaLogInfo(topic_id, size, 0, 9)}),)


def test_what_is_left_is_what_the_copies_lack() -> None:
    known = {1: BrokerLogDirs(1, has(100)), 3: BrokerLogDirs(3, has(30)), 4: BrokerLogDirs(4)}
    move = progress({ORDERS: moving()}, {"orders": ID}, known)[ORDERS]
    assert (move.size_bytes, move.left, move.left_bytes) == (100, {3: 70, 4: 100}, 170)
    in_sync = progress({ORDERS: moving(isr=(1, 2, 3))}, {"orders": ID}, known)[ORDERS]
    assert in_sync.left == {4: 100}
    other_topic = progress({ORDERS: moving()}, {"orders": ID}, known | {3: BrokerLogDirs(3, has(30, "x" * 22))})[ORDERS]
    assert other_topic.left == {3: 100, 4: 100}


def test_what_a_broker_does_not_say_is_not_known() -> None:
    silent = BrokerLogDirs(3, error=NetworkError("it is down"))
    known = {1: BrokerLogDirs(1, has(100)), 3: silent, 4: BrokerLogDirs(4, has(200))}
    move = progress({ORDERS: moving()}, {"orders": ID}, known)[ORDERS]
    assert (move.left, move.left_bytes) == ({3: None, 4: 0}, None)
    without_leader = progress({ORDERS: moving()}, {"orders": ID}, {})[ORDERS]
    assert (without_leader.size_bytes, without_leader.left_bytes) == (None, None)
