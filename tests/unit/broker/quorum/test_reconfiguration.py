"""New settings of many replicas come in slices: the loop has its turn in between, and the newest settings win."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from broker.quorum.metadata_publisher import MetadataPublisher
from broker.quorum.reconfiguration import SLICE_MS, Reconfiguration
from metadata.image import EMPTY_IMAGE
from metadata.records import TOPIC_RESOURCE, ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.clock import ManualClock
from penstock.config_keys import ConfigValue
from penstock.errors import InvariantViolation
from storage.log.group_commit import GroupCommit
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS, stop_wait
from tests.support.partitions import TOPIC_ID
from tests.support.replicas import PublishedMetadata, Replicas
from tests.support.storage import open_manager
from tests.support.virtual_time import run_virtual

ME, PARTITIONS = 1, 8
RETENTION, OTHER = "log.retention.ms", "log.segment.bytes"
STEPS_OF_A_SLICE = 4


class Stage:
    """A publisher over real replicas of one topic, and a clock that a test makes slow: each replica takes a part of a
    slice."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log_manager = open_manager(LosingFileSystem())
        self.group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        self.replicas = Replicas(ME, self.log_manager, self.group_commit, self.clock)
        self.metadata = PublishedMetadata(self.replicas, self.log_manager)
        made = (PartitionRecord(TOPIC_ID, number, (ME,), (ME,), ME) for number in range(PARTITIONS))
        self.metadata.publish(TopicRecord("big", TOPIC_ID), *made)
        self.publisher: MetadataPublisher = self.metadata.publisher
        apply = self.replicas.assignments.apply

        def slow(*arguments: object) -> None:
            self.clock.advance(SLICE_MS // STEPS_OF_A_SLICE)
            apply(*arguments)  # type: ignore[arg-type]

        self.replicas.assignments.apply = slow  # type: ignore[method-assign]

    def retentions(self) -> list[int]:
        return [log.config.retention_ms for log in self.log_manager.logs()]

    def defaults(self, values: dict[str, ConfigValue]) -> None:
        self.publisher.defaults_changed(values)

    async def close(self) -> None:
        await self.group_commit.close(stop_wait())


def test_a_value_for_all_brokers_reaches_every_replica_and_the_loop_has_its_turn_in_between() -> None:
    async def scenario() -> None:
        stage = Stage()
        stage.defaults({RETENTION: 7})
        assert stage.retentions().count(7) == STEPS_OF_A_SLICE, "the first slice is over before the call is"
        await asyncio.sleep(60)
        assert stage.retentions() == [7] * PARTITIONS and not len(stage.publisher.reconfiguration)
        await stage.close()

    run_virtual(scenario())


def test_a_value_of_a_topic_comes_in_slices_too() -> None:
    async def scenario() -> None:
        stage = Stage()
        stage.metadata.publish(ConfigRecord(TOPIC_RESOURCE, "big", "retention.ms", "9"))
        assert stage.retentions().count(9) == STEPS_OF_A_SLICE
        await asyncio.sleep(60)
        assert stage.retentions() == [9] * PARTITIONS
        await stage.close()

    run_virtual(scenario())


def test_a_value_that_changes_again_in_between_wins_everywhere() -> None:
    async def scenario() -> None:
        stage = Stage()
        stage.defaults({RETENTION: 7})
        stage.defaults({RETENTION: 8})
        await asyncio.sleep(60)
        assert stage.retentions() == [8] * PARTITIONS
        await stage.close()

    run_virtual(scenario())


def test_a_topic_with_a_value_of_its_own_is_left_alone() -> None:
    async def scenario() -> None:
        stage = Stage()
        stage.metadata.publish(ConfigRecord(TOPIC_RESOURCE, "big", "retention.ms", "9"))
        await asyncio.sleep(60)
        before = stage.clock.now_ms()
        stage.defaults({RETENTION: 7})
        assert stage.clock.now_ms() == before and not len(stage.publisher.reconfiguration)
        stage.defaults({RETENTION: 7, OTHER: 1 << 20})
        await asyncio.sleep(60)
        assert stage.retentions() == [9] * PARTITIONS and stage.log_manager.logs()[0].config.segment_bytes == 1 << 20
        await stage.close()

    run_virtual(scenario())


@pytest.mark.parametrize("ends", ["deleted", "stopped"])
def test_a_topic_that_is_deleted_and_a_node_that_stops_end_it(ends: str) -> None:
    async def scenario() -> None:
        stage = Stage()
        stage.defaults({RETENTION: 7})
        if ends == "deleted":
            stage.metadata.publish(RemoveTopicRecord(TOPIC_ID))
        else:
            stage.publisher.reconfiguration.stop()
        before = stage.clock.now_ms()
        await asyncio.sleep(60)
        assert stage.clock.now_ms() == before and not len(stage.publisher.reconfiguration)
        stage.defaults({RETENTION: 8})
        assert stage.clock.now_ms() == before
        await stage.replicas.deletions.close(stop_wait())
        await stage.close()

    run_virtual(scenario())


def test_what_nobody_expects_ends_the_node_and_nothing_follows() -> None:
    async def scenario() -> None:
        fatal: list[BaseException] = []
        done: list[str] = []
        clock = ManualClock()

        def steps(topic_id: str) -> Iterator[None]:
            clock.advance(SLICE_MS)
            done.append(topic_id)
            yield
            raise InvariantViolation("no such replica")

        reconfiguration = Reconfiguration(steps, clock.now_ms, fatal.append)
        reconfiguration.submit(["a", "b"])
        assert done == ["a"] and len(reconfiguration) == 2 and not fatal
        await asyncio.sleep(60)
        assert [str(error) for error in fatal] == ["no such replica"] and done == ["a"] and not len(reconfiguration)

    run_virtual(scenario())


def test_nothing_is_done_before_the_broker_has_caught_up() -> None:
    stage = open_manager(LosingFileSystem())
    replicas = Replicas(ME, stage, GroupCommit(lambda log_dir, error: None, THREADS), ManualClock())
    publisher = MetadataPublisher(replicas.assignments, stage, {}, ManualClock().now_ms, pytest.fail)
    publisher.defaults_changed({RETENTION: 7})
    assert not len(publisher.reconfiguration) and EMPTY_IMAGE.topics_by_id == {}
