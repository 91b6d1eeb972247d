"""Promises of DeleteRecords: nothing is answered as deleted that a crash, or another leader, could bring back."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from broker.apis.delete_records import PARTITIONS_MAX, TIMEOUT_MS_MAX, DeleteRecordsApi
from broker.network.request_channel import Request
from broker.replication.hosting.assignment import TopicSettings
from broker.replication.leader.follower_fetch import note_follower_fetch
from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.partition import Partition
from metadata.internal_topics import CONSUMER_OFFSETS
from penstock.clock import ManualClock
from penstock.errors import (
    ApiError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    RequestTimedOutError,
    UnknownTopicIdError,
)
from penstock.messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResult,
)
from penstock.types import METADATA_TOPIC, TopicPartition
from storage.log.group_commit import GroupCommit
from storage.log_dirs.log_manager import LogManager
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import NOW_NS, THREADS, stop_wait
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, batch, flush, state
from tests.support.replicas import Replicas
from tests.support.sinks import CALLER
from tests.support.storage import SMALL, log_named, open_manager

EPOCHS = {1: 101, 2: 102, 3: 103}
RECORDS = 20
WALL_MS = 1_700_000_000_000


class Node:
    """Broker 1, which leads the partition for 2 and 3; `ask` is a request whose answer may be awaited."""

    def __init__(self, fs: LosingFileSystem, manager: Replicas, log_manager: LogManager) -> None:
        self.fs, self.log_manager = fs, log_manager
        self.manager = manager
        self.partition: Partition = manager.get(PARTITION, TOPIC_ID)
        self.api = DeleteRecordsApi(manager.parts.hosted, manager.parts.durability.make_log_start_durable)
        self._answered = asyncio.Event()

    def response_ready(self, request: Request) -> None:
        self._answered.set()

    def ask(self, *partitions: tuple[TopicPartition, int], timeout_ms: int = 60_000) -> Request:
        body = DeleteRecordsRequest(
            tuple(DeleteRecordsPartition(key, TOPIC_ID, offset) for key, offset in partitions), timeout_ms
        )
        request = Request("DeleteRecords", body, self, CALLER, NOW_NS)
        self.api.handle(request, body)
        return request

    async def answer(self, request: Request) -> list[DeleteRecordsResult]:
        async with asyncio.timeout(60):
            while not request.is_complete:
                self._answered.clear()
                await self._answered.wait()
        assert isinstance(request.response, DeleteRecordsResponse)
        return list(request.response.partitions)

    async def checkpoint_written(self) -> None:
        """Everything that was asked for until now is durable here."""
        written = asyncio.Event()
        self.manager.parts.durability.make_log_start_durable(self.partition, lambda error: written.set())
        async with asyncio.timeout(60):
            await written.wait()

    def fetched(self, replica_id: int, log_start_offset: int) -> None:
        """The follower has every record, and reports where its log starts."""
        position = ReplicaPosition(RECORDS, 5, log_start_offset)
        note_follower_fetch(self.partition, replica_id, EPOCHS[replica_id], position, 5, now_ms=1)


@asynccontextmanager
async def running(
    isr: tuple[int, ...], active: tuple[int, ...], fs: LosingFileSystem | None = None
) -> AsyncIterator[Node]:
    fs = fs or LosingFileSystem()
    log_manager = open_manager(fs)
    group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
    manager = Replicas(1, log_manager, group_commit, ManualClock())
    manager.brokers_changed(EPOCHS, frozenset(active))
    manager.apply(PARTITION, TOPIC_ID, state(isr=isr), TopicSettings(SMALL, 1), NOBODY)
    partition = manager.get(PARTITION, TOPIC_ID)
    for number in range(RECORDS):
        partition.append_as_leader(batch(b"%d" % number), -1, 0, WALL_MS)
    flush(partition)
    node = Node(fs, manager, log_manager)
    for replica in isr:
        if replica != 1:
            node.fetched(replica, 0)
    yield node
    await manager.log_starts.close(stop_wait())
    await group_commit.close(stop_wait())
    log_manager.close(clean=False)


def run(
    scenario: Callable[[Node], Awaitable[None]],
    isr: tuple[int, ...] = (1, 2, 3),
    active: tuple[int, ...] = (1, 2, 3),
) -> None:
    async def main() -> None:
        async with running(isr, active) as node:
            assert node.partition.high_watermark == RECORDS
            await scenario(node)

    asyncio.run(main())


def test_a_deletion_is_answered_when_every_live_replica_has_reported_it() -> None:
    async def scenario(node: Node) -> None:
        request = node.ask((PARTITION, 7))
        assert node.partition.log.log_start_offset == 7, "here it is read no more from now on"
        await node.checkpoint_written()
        node.fetched(2, 7)
        assert not request.is_complete, "replica 3 still has the records"
        node.fetched(3, 9)
        (result,) = await node.answer(request)
        assert (result.error, result.low_watermark) == (None, 7)
        assert len(node.partition.deletions) == 0

    run(scenario)


def test_deleted_records_do_not_come_back_after_a_crash_of_the_leader() -> None:
    async def scenario(node: Node) -> None:
        request = node.ask((PARTITION, 7))
        for replica in (2, 3):
            node.fetched(replica, 7)
        await node.answer(request)
        survivor = log_named(open_manager(node.fs.after_crash()), PARTITION)
        assert survivor is not None and survivor.log_start_offset == 7

    run(scenario)


def test_nothing_is_answered_before_the_leaders_own_log_start_is_durable() -> None:
    async def scenario(node: Node) -> None:
        request = node.ask((PARTITION, 7))
        for replica in (2, 3):
            node.fetched(replica, 7)
        assert not request.is_complete
        await node.answer(request)

    run(scenario)


def test_a_disk_that_refuses_the_checkpoint_makes_no_promise() -> None:
    async def scenario(node: Node) -> None:
        node.fs.fail_on["rename"] = errno.EIO
        request = node.ask((PARTITION, 7))
        for replica in (2, 3):
            node.fetched(replica, 7)
        (result,) = await node.answer(request)
        assert isinstance(result.error, KafkaStorageError)
        node.fs.fail_on.clear()

    run(scenario)


def test_a_replica_that_does_not_live_is_not_waited_for() -> None:
    async def scenario(node: Node) -> None:
        request = node.ask((PARTITION, 7))
        node.fetched(2, 7)
        await node.checkpoint_written()
        assert not request.is_complete, "replica 3 is in service"
        node.manager.brokers_changed(EPOCHS, frozenset({1, 2}))
        (result,) = await node.answer(request)
        assert (result.error, result.low_watermark) == (None, 7)

    run(scenario, isr=(1, 2))


def test_a_member_of_the_isr_is_waited_for_even_when_it_is_said_to_be_gone() -> None:
    async def scenario(node: Node) -> None:
        request = node.ask((PARTITION, 7))
        node.fetched(2, 7)
        await node.checkpoint_written()
        node.manager.brokers_changed(EPOCHS, frozenset({1, 2}))
        assert not request.is_complete, "it could be elected"
        node.manager.apply(PARTITION, TOPIC_ID, state(partition_epoch=1, isr=(1, 2)), TopicSettings(SMALL, 1), NOBODY)
        (result,) = await node.answer(request)
        assert result.error is None

    run(scenario)


def test_a_deletion_that_is_late_is_said_to_be_so_and_forgotten() -> None:
    async def scenario(node: Node) -> None:
        request = node.ask((PARTITION, 7), timeout_ms=0)
        (result,) = await node.answer(request)
        assert isinstance(result.error, RequestTimedOutError)
        await node.checkpoint_written()
        assert len(node.partition.deletions) == 0

    run(scenario)


def test_a_time_out_of_0_waits_for_no_other_replica_but_for_the_brokers_own_disk() -> None:
    """Clients send it to be answered at once: what needs no other replica is done, and not late."""

    async def scenario(node: Node) -> None:
        for offset in (7, 9):
            (result,) = await node.answer(node.ask((PARTITION, offset), timeout_ms=0))
            assert (result.error, result.low_watermark) == (None, offset)

    run(scenario, isr=(1,), active=(1,))


def test_a_leader_that_is_leader_no_more_says_so() -> None:
    async def scenario(node: Node) -> None:
        request = node.ask((PARTITION, 7))
        await node.checkpoint_written()
        node.partition.become_follower(state(leader_id=2, leader_epoch=6), NOBODY)
        (result,) = await node.answer(request)
        assert isinstance(result.error, NotLeaderOrFollowerError)

    run(scenario)


def test_a_leader_that_lost_its_role_during_the_checkpoint_says_so() -> None:
    async def scenario(node: Node) -> None:
        request = node.ask((PARTITION, 7))
        node.partition.become_follower(state(leader_id=2, leader_epoch=6), NOBODY)
        (result,) = await node.answer(request)
        assert isinstance(result.error, NotLeaderOrFollowerError)

    run(scenario)


def test_what_is_deleted_already_succeeds_with_the_present_low_watermark() -> None:
    async def scenario(node: Node) -> None:
        for offset, expected in ((-1, RECORDS), (3, RECORDS), (0, RECORDS)):
            (result,) = await node.answer(node.ask((PARTITION, offset)))
            assert (result.error, result.low_watermark) == (None, expected)

    run(scenario, isr=(1,), active=(1,))


def test_a_new_leader_that_does_not_know_the_high_watermark_yet_says_so() -> None:
    async def scenario(node: Node) -> None:
        node.partition.append_as_leader(batch(b"not committed"), 1, 0, WALL_MS)
        node.partition.become_leader(state(leader_epoch=6), 1)
        for offset in (-1, RECORDS + 1):
            (result,) = await node.answer(node.ask((PARTITION, offset)))
            assert isinstance(result.error, OffsetNotAvailableError)

    run(scenario)


@pytest.mark.parametrize("offset", [-2, RECORDS + 1, 2**62])
def test_an_offset_out_of_range_is_told_with_both_bounds_and_deletes_nothing(offset: int) -> None:
    async def scenario(node: Node) -> None:
        (result,) = await node.answer(node.ask((PARTITION, offset)))
        assert isinstance(result.error, OffsetOutOfRangeError)
        assert (result.error.log_start_offset, result.error.log_end_offset) == (0, RECORDS)
        assert node.partition.log.log_start_offset == 0

    run(scenario)


BAD_PARTITIONS: dict[str, tuple[TopicPartition, type[ApiError]]] = {
    "unknown": (TopicPartition("t", 9), UnknownTopicIdError),
    "negative": (TopicPartition("t", -1), UnknownTopicIdError),
    "no name": (TopicPartition("", 0), UnknownTopicIdError),
    "the metadata log": (TopicPartition(METADATA_TOPIC, 0), InvalidTopicError),
    "the offsets of groups": (TopicPartition(CONSUMER_OFFSETS, 0), InvalidTopicError),
}


@pytest.mark.parametrize("row", BAD_PARTITIONS)
def test_a_bad_partition_has_its_own_error_and_the_others_go_on(row: str) -> None:
    bad, error = BAD_PARTITIONS[row]

    async def scenario(node: Node) -> None:
        first, second = await node.answer(node.ask((bad, 0), (PARTITION, 7)))
        assert isinstance(first.error, error) and first.partition == bad
        assert (second.error, second.low_watermark) == (None, 7)

    run(scenario, isr=(1,), active=(1,))


def test_a_partition_that_is_named_twice_is_refused_the_second_time() -> None:
    async def scenario(node: Node) -> None:
        first, second = await node.answer(node.ask((PARTITION, 7), (PARTITION, 9)))
        assert first.low_watermark == 7 and isinstance(second.error, InvalidRequestError)

    run(scenario, isr=(1,), active=(1,))


@pytest.mark.parametrize(
    ("policy", "allowed"), [("compact", False), ("delete,compact", True), ("compact,delete", True), ("", True)]
)
def test_a_topic_that_is_only_compacted_does_not_let_records_be_deleted(policy: str, allowed: bool) -> None:
    async def scenario(node: Node) -> None:
        node.partition.log.update_config(replace(SMALL, cleanup_policy=policy))
        (result,) = await node.answer(node.ask((PARTITION, 7)))
        assert (result.error is None) if allowed else isinstance(result.error, PolicyViolationError)
        assert node.partition.log.log_start_offset == (7 if allowed else 0)

    run(scenario, isr=(1,), active=(1,))


@pytest.mark.parametrize(
    ("count", "timeout_ms", "says"),
    [
        (0, 0, "names 0 partitions"),
        (PARTITIONS_MAX + 1, 0, f"names {PARTITIONS_MAX + 1} partitions"),
        (1, -1, "timeout_ms is -1"),
        (1, TIMEOUT_MS_MAX + 1, "timeout_ms"),
    ],
)
def test_a_bad_request_is_refused_as_a_whole(count: int, timeout_ms: int, says: str) -> None:
    async def scenario(node: Node) -> None:
        asked = [(TopicPartition("t", number), 7) for number in range(count)]
        with pytest.raises(InvalidRequestError, match=says):
            node.ask(*asked, timeout_ms=timeout_ms)
        assert node.partition.log.log_start_offset == 0

    run(scenario)


def test_as_many_partitions_as_are_allowed_are_answered_one_by_one() -> None:
    async def scenario(node: Node) -> None:
        asked = [(TopicPartition("t", number), 7) for number in range(PARTITIONS_MAX)]
        first, *others = await node.answer(node.ask(*asked))
        assert first.low_watermark == 7
        assert len(others) == PARTITIONS_MAX - 1
        assert all(isinstance(result.error, UnknownTopicIdError) for result in others)

    run(scenario, isr=(1,), active=(1,))


def test_a_replica_that_still_has_what_was_deleted_does_not_join_the_isr() -> None:
    async def scenario(node: Node) -> None:
        node.manager.lost.registered(EPOCHS[1])
        await node.answer(node.ask((PARTITION, 7)))
        node.manager.brokers_changed(EPOCHS, frozenset({1, 2}))
        node.fetched(2, 0)
        leading = node.partition.leading
        assert leading is not None and leading.proposed is None
        node.fetched(2, 7)
        assert leading.proposed is not None and leading.proposed.ids == {1, 2}

    run(scenario, isr=(1,), active=(1,))
