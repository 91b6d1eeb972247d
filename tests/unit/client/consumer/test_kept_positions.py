"""A position that a program kept is taken again only in the topic that it is of; a consumer and its records give such
positions. In virtual time.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import AsyncConsumer, Position, TopicPartition
from penstock.client.consumer.consumer_record import ConsumerRecord
from penstock.errors import LogTruncationError, TopicRecreatedError, UnknownTopicOrPartitionError
from penstock.record.builder import build_batch
from tests.support.client_environment import fake_environment
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual

T0 = TopicPartition(TOPIC, 0)
POLICIES = ["earliest", "latest", "none"]


class Stage:
    """One partition of ten records."""

    def __init__(self) -> None:
        self.nodes = FakeNodes({0: 1}, 2, records=10)

    def consumer(self, policy: str = "none", **options: Any) -> AsyncConsumer:
        options = {"auto_offset_reset": policy, **options}
        bootstrap = [str(endpoint) for endpoint in self.nodes.bootstrap]
        return AsyncConsumer(bootstrap, environment=fake_environment(self.nodes.network), **options)

    async def kept(self, count: int = 10) -> Position:
        """The position of a reader that has read so many records."""
        async with self.consumer() as consumer:
            await consumer.assign([T0])
            await consumer.seek(T0, 0)
            records = await consumer.poll(timeout_ms=1_000, max_records=count)
            position = await consumer.position(T0)
            assert position == records[-1].position and position == count
            return position

    def remake(self, records: int) -> None:
        self.nodes.make_anew({0: 1})  # ten again
        self.append(records - 10)

    def append(self, count: int) -> None:
        self.nodes.cluster.append(TOPIC, 0, build_batch([b"new %d" % n for n in range(count)], timestamps_ms=0))


def played(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        await story(Stage())

    run_virtual(run())


@pytest.mark.parametrize("policy", POLICIES)
def test_reading_goes_on_at_a_kept_position(policy: str) -> None:
    async def story(stage: Stage) -> None:
        position = Position.parse(str(await stage.kept(4)))
        assert position == Position(stage.nodes.topic_id, 4, 0)
        async with stage.consumer(policy) as consumer:
            await consumer.assign([T0])
            await consumer.seek(T0, position)
            assert await consumer.position(T0) == position
            assert [r.offset for r in await consumer.poll(timeout_ms=1_000)] == list(range(4, 10))

    played(story)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_position_of_a_topic_that_was_made_anew_is_refused_by_the_seek(policy: str) -> None:
    async def story(stage: Stage) -> None:
        position = await stage.kept()
        stage.remake(15)  # offset 10 exists in the new topic, too
        async with stage.consumer(policy) as consumer:
            await consumer.assign([T0])
            before = await consumer.position(T0) if policy != "none" else None
            with pytest.raises(TopicRecreatedError) as refused:
                await consumer.seek(T0, position)
            assert (refused.value.expected_id, refused.value.found_id) == (position.topic_id, stage.nodes.topic_id)
            if before is not None:
                assert await consumer.position(T0) == before, "it stands where it stood"
            await consumer.seek(T0, 0)
            assert len(await consumer.poll(timeout_ms=1_000)) == 15

    played(story)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_client_that_has_not_heard_of_the_new_topic_tells_at_the_first_poll(policy: str) -> None:
    async def story(stage: Stage) -> None:
        position = await stage.kept()
        async with stage.consumer(policy) as consumer:
            await consumer.assign([T0])
            stage.remake(15)
            await consumer.seek(T0, position)
            with pytest.raises(TopicRecreatedError, match=f"its id is {stage.nodes.topic_id}, not {position.topic_id}"):
                await consumer.poll(timeout_ms=10_000)
            with pytest.raises(TopicRecreatedError):  # again, until a seek
                await consumer.poll(timeout_ms=10_000)

    played(story)


def test_a_topic_that_is_made_anew_after_reading_went_on_is_the_policys_matter() -> None:
    async def story(stage: Stage) -> None:
        position = await stage.kept(4)
        async with stage.consumer("earliest") as consumer:
            await consumer.assign([T0])
            await consumer.seek(T0, position)
            assert len(await consumer.poll(timeout_ms=1_000)) == 6
            stage.remake(15)
            stage.nodes.cluster.grow()
            assert [r.offset for r in await consumer.poll(timeout_ms=10_000)] == list(range(15))
            assert (await consumer.position(T0)).topic_id == stage.nodes.topic_id

    played(story)


def test_a_position_of_a_topic_that_this_client_has_not_heard_of_yet_is_waited_for() -> None:
    async def story(stage: Stage) -> None:
        async with stage.consumer() as behind:
            await behind.assign([T0])
            stage.remake(15)
            position = await stage.kept(4)
            await behind.seek(T0, position)
            assert len(await behind.poll(timeout_ms=1_000)) == 11

    played(story)


def test_a_position_in_a_log_that_was_truncated_since_is_told() -> None:
    async def story(stage: Stage) -> None:
        position = await stage.kept(10)
        stage.nodes.cluster.truncate(TOPIC, 0, 0)
        stage.append(15)
        async with stage.consumer() as consumer:
            await consumer.assign([T0])
            await consumer.seek(T0, position)
            with pytest.raises(LogTruncationError) as raised:
                await consumer.poll(timeout_ms=10_000)
            assert raised.value.position == 10

    played(story)


def test_a_deleted_topic_is_named() -> None:
    async def story(stage: Stage) -> None:
        position = await stage.kept()
        async with stage.consumer() as consumer:
            await consumer.assign([T0])
            stage.nodes.cluster.delete_topic(TOPIC)
            await consumer._core.cluster.refresh()
            with pytest.raises(UnknownTopicOrPartitionError, match="was the topic deleted"):
                await consumer.seek(T0, position)
            with pytest.raises(UnknownTopicOrPartitionError, match="was the topic deleted"):
                await consumer.seek(T0, 5)
                await consumer.position(T0)

    played(story)


def test_each_record_has_the_leader_epoch_in_which_it_was_written() -> None:
    async def story(stage: Stage) -> None:
        for node in (2, 1):
            stage.nodes.elect(0, node)
            stage.append(3)
        async with stage.consumer("earliest") as consumer:
            await consumer.assign([T0])
            records = await consumer.poll(timeout_ms=1_000)
            assert [r.position.leader_epoch for r in records] == [0] * 10 + [1] * 3 + [2] * 3
            assert [r.position.offset for r in records] == list(range(1, 17))
            assert {r.position.topic_id for r in records} == {stage.nodes.topic_id}
            assert await consumer.position(T0) == records[-1].position
            await consumer.seek(T0, records[11].position)
            assert [r.offset for r in await consumer.poll(timeout_ms=1_000)] == [12, 13, 14, 15]

    played(story)


def test_a_record_is_the_same_with_its_position_after_it_was_pickled_or_copied() -> None:
    async def story(stage: Stage) -> None:
        async with stage.consumer("earliest") as consumer:
            await consumer.assign([T0])
            record = (await consumer.poll(timeout_ms=1_000))[0]
        assert isinstance(record, ConsumerRecord) and repr(record).startswith("ConsumerRecord(topic='t', partition=0")
        for twin in (pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record), record._replace()):
            assert twin == record and twin.position == record.position == Position(stage.nodes.topic_id, 1, 0)
            assert type(twin) is type(record)

    played(story)


def test_what_is_no_position_is_refused_with_what_to_write() -> None:
    async def story(stage: Stage) -> None:
        by_hand = ConsumerRecord(TOPIC, 0, 4, 0, 0, None, b"", ())
        assert by_hand.position == Position("", 5, -1)
        async with stage.consumer() as consumer:
            await consumer.assign([T0])
            with pytest.raises(ValueError, match="is of no topic"):
                await consumer.seek(T0, by_hand.position)
            with pytest.raises(TypeError, match=r"write Position\.parse\('id:5:0'\)"):
                await consumer.seek(T0, "id:5:0")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="leave out leader_epoch"):
                await consumer.seek(T0, Position("id", 5), 3)

    played(story)
