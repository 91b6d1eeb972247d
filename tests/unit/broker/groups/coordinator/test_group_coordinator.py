"""Promises of the coordinator on one broker, over real replicas and logs: whose a group is, what moves, what stays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.coordination.partition_of import partition_of
from broker.coordination.shard_ports import ShardState
from broker.groups.coordinator.group_coordinator import GROUP_ID_CHARACTERS_MAX
from metadata.records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    InvalidGroupIdError,
    InvalidReplicationFactorError,
    NotCoordinatorError,
)
from penstock.messages.groups.classic_protocol import JoinGroupProtocol, JoinGroupRequest
from penstock.messages.groups.consumer_protocol import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from penstock.messages.groups.coordinators import FindCoordinatorRequest
from penstock.messages.groups.listing import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from penstock.messages.groups.offsets import (
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from penstock.record.builder import build_batch
from penstock.types import TopicPartition
from storage.append.append_origin import COORDINATOR
from tests.support.group_broker import ME, OFFSETS_ID, OTHER, TOPIC_ID, GroupBroker

MEMBER = "m" * 22
GROUPS = tuple(f"group-{number}" for number in range(8))
"""Two of them are in each of 4 partitions."""


def commit(group_id: str, offset: int, topic: str = "t") -> OffsetCommitRequest:
    return OffsetCommitRequest(group_id, (OffsetCommitPartition(TopicPartition(topic, 0), offset),))


def fetch(*group_ids: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(tuple(OffsetFetchGroup(one, (TopicPartition("t", 0),)) for one in group_ids))


def join(group_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id, MEMBER, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("t", "new"), owned_partitions=()
    )


def run(scenario: Callable[[GroupBroker], Awaitable[None]], *, has_topic: bool = True, **fields: object) -> None:
    async def main() -> None:
        broker = GroupBroker(**fields)  # type: ignore[arg-type]
        broker.coordinator.start()
        if has_topic:
            broker.make_topic(broker.partitions)
            await broker.active()
        try:
            await scenario(broker)
        finally:
            await broker.stop()

    asyncio.run(main())


async def commit_all(broker: GroupBroker) -> None:
    for number, group_id in enumerate(GROUPS):
        answer = await broker.answered(broker.submit(commit(group_id, number)))
        assert isinstance(answer, OffsetCommitResponse), answer


def test_the_topic_is_made_when_a_group_needs_it_and_asked_for_once() -> None:
    async def scenario(broker: GroupBroker) -> None:
        requests = [broker.find(FindCoordinatorRequest(GROUPS)) for _ in range(3)]
        for request in requests:
            errors = [found.error for found in request.response.coordinators]  # type: ignore[attr-defined]
            assert all(isinstance(error, CoordinatorNotAvailableError) for error in errors)
        assert isinstance(broker.submit(commit("g", 1)).error, CoordinatorNotAvailableError)
        await broker.until(lambda: broker.asked)
        await broker.active()
        found = broker.find(FindCoordinatorRequest(("g", ""))).response.coordinators  # type: ignore[attr-defined]
        assert (found[0].node_id, found[0].error) == (ME, None) and isinstance(found[1].error, InvalidGroupIdError)
        assert len(broker.asked) == 1

    run(scenario, has_topic=False)


def test_a_refusal_is_told_and_the_next_need_asks_again() -> None:
    async def scenario(broker: GroupBroker) -> None:
        broker.refusal = InvalidReplicationFactorError("replication factor 3: only 1 broker lives")
        broker.find(FindCoordinatorRequest(("g",)))
        await broker.until(lambda: len(broker.asked) == 1)
        await asyncio.sleep(0.01)
        (found,) = broker.find(FindCoordinatorRequest(("g",))).response.coordinators  # type: ignore[attr-defined]
        assert isinstance(found.error, CoordinatorNotAvailableError) and "only 1 broker lives" in str(found.error)
        broker.refusal = None
        await broker.until(lambda: len(broker.asked) >= 2)
        await broker.active()

    run(scenario, has_topic=False)


def test_a_group_of_another_broker_is_found_there_and_refused_here() -> None:
    async def scenario(broker: GroupBroker) -> None:
        await commit_all(broker)
        broker.elect(OTHER, 0, 1)
        broker.publish(PartitionChangeRecord(OFFSETS_ID, 2, leader_id=-1))
        await broker.until(lambda: len(list(broker.coordinator.shards)) == 1)
        response = broker.find(FindCoordinatorRequest(GROUPS)).response
        for found in response.coordinators:  # type: ignore[attr-defined]
            number = partition_of(found.key, 4)
            answer = await broker.answered(broker.submit(commit(found.key, 100)))
            if number == 3:
                assert found.node_id == ME and isinstance(answer, OffsetCommitResponse)
                continue
            assert isinstance(answer, NotCoordinatorError) and f"__consumer_offsets-{number}" in str(answer)
            if number == 2:
                assert isinstance(found.error, CoordinatorNotAvailableError)
            else:
                assert found.node_id == OTHER

    run(scenario)


def test_state_is_that_of_the_log_after_a_lead_came_back() -> None:
    async def scenario(broker: GroupBroker) -> None:
        await commit_all(broker)
        broker.elect(OTHER, *range(4))
        await broker.until(lambda: not list(broker.coordinator.shards))
        async with broker.loads_held():
            broker.elect(ME, *range(4))
            await broker.until(lambda: list(broker.coordinator.shards))
            assert isinstance(broker.submit(commit("group-0", 9)).error, CoordinatorLoadInProgressError)
        await broker.active()
        answer = await broker.answered(broker.submit_each(fetch(*GROUPS)))
        assert [group.partitions[0].offset for group in answer.groups] == list(range(8)), "in the order asked"

    run(scenario)


def test_a_request_for_many_groups_has_every_groups_own_answer() -> None:
    async def scenario(broker: GroupBroker) -> None:
        await commit_all(broker)
        lost = partition_of("group-1", 4)
        broker.elect(OTHER, lost)
        await broker.until(lambda: len(list(broker.coordinator.shards)) == 3)
        long = "x" * (GROUP_ID_CHARACTERS_MAX + 1)
        ids = (*GROUPS, "group-2", long, "none")
        answer = await broker.answered(broker.submit_each(DescribeGroupsRequest(ids)))
        assert [group.group_id for group in answer.groups] == list(ids)
        for group in answer.groups:
            if group.group_id == long:
                assert isinstance(group.error, InvalidGroupIdError)
            elif partition_of(group.group_id, 4) == lost:
                assert isinstance(group.error, NotCoordinatorError)
            elif group.group_id == "none":
                assert isinstance(group.error, GroupIdNotFoundError)
            else:
                assert group.error is None and group.state == "Empty"
        here = {group for group in GROUPS if partition_of(group, 4) != lost}
        listed = await broker.answered(broker.submit_each(ListGroupsRequest()))
        assert {group.group_id for group in listed.groups} == here
        deleted = await broker.answered(broker.submit_each(DeleteGroupsRequest(GROUPS)))
        assert {group.group_id for group in deleted.groups if group.error is None} == here
        assert (await broker.answered(broker.submit_each(ListGroupsRequest()))).groups == ()

    run(scenario)


def test_a_list_of_a_broker_without_groups_is_empty_and_of_one_that_loads_an_error() -> None:
    async def scenario(broker: GroupBroker) -> None:
        assert (await broker.answered(broker.submit_each(ListGroupsRequest()))).groups == ()
        broker.make_topic(broker.partitions)
        await broker.active()
        await commit_all(broker)
        broker.elect(OTHER, 0)
        await broker.until(lambda: len(list(broker.coordinator.shards)) == 3)
        async with broker.loads_held():
            broker.elect(ME, 0)
            await broker.until(lambda: len(list(broker.coordinator.shards)) == 4)
            answer = await broker.answered(broker.submit_each(ListGroupsRequest()))
            assert isinstance(answer, CoordinatorLoadInProgressError), "a part of the list would be taken for all of it"
        await broker.active()

    run(scenario, has_topic=False)


def test_a_list_leaves_out_the_groups_that_nobody_can_read() -> None:
    async def scenario(broker: GroupBroker) -> None:
        await commit_all(broker)
        damaged = build_batch([b"\x00\x03"], keys=[b"\x00\x01\x00\x01g"], timestamps_ms=0)
        broker.partition(0).append_as_leader(damaged, 1, 0, 0, COORDINATOR)
        broker.elect(OTHER, 0)
        await broker.until(lambda: len(list(broker.coordinator.shards)) == 3)
        broker.elect(ME, 0)
        await broker.until(lambda: any(shard.state is ShardState.FAILED for shard in broker.coordinator.shards))
        listed = await broker.answered(broker.submit_each(ListGroupsRequest()))
        assert {group.group_id for group in listed.groups} == {one for one in GROUPS if partition_of(one, 4) != 0}
        of_it = next(one for one in GROUPS if partition_of(one, 4) == 0)
        answer = await broker.answered(broker.submit(commit(of_it, 1)))
        assert isinstance(answer, CoordinatorNotAvailableError) and "offset 3" in str(answer)

    run(scenario)


def test_acks_of_all_replicas_are_waited_for_and_a_lost_lead_is_an_error() -> None:
    async def scenario(broker: GroupBroker) -> None:
        number = partition_of("g", 4)
        done = broker.submit(commit("g", 1))
        await broker.until(lambda: broker.partition(number).log.flushed_offset == 2)
        await asyncio.sleep(0.01)
        assert not done.is_complete, "the follower does not have it"
        broker.acknowledge(number)
        assert isinstance(await broker.answered(done), OffsetCommitResponse)
        lost = broker.submit(commit("g", 2))
        await broker.until(lambda: broker.partition(number).log.log_end_offset == 3)
        broker.elect(OTHER, number)
        answer = await broker.answered(lost)
        assert isinstance(answer, CoordinatorNotAvailableError) and not answer.nothing_written

    run(scenario, isr=(ME, OTHER))


def test_a_member_hears_of_a_topic_that_was_made_later_and_offsets_of_a_deleted_one_go() -> None:
    async def scenario(broker: GroupBroker) -> None:
        joined = await broker.answered(broker.submit(join("g")))
        assert isinstance(joined, ConsumerGroupHeartbeatResponse) and joined.assignment is not None
        assert [one.topic_id for one in joined.assignment] == [TOPIC_ID]
        new_id = "N" * 21 + "A"
        broker.publish(TopicRecord("new", new_id), PartitionRecord(new_id, 0, (OTHER,), (OTHER,), OTHER))
        assert new_id in await _next_assignment(broker, joined.member_epoch)
        answer = await broker.answered(broker.submit(commit("simple", 7)))
        assert isinstance(answer, OffsetCommitResponse)
        broker.publish(RemoveTopicRecord(TOPIC_ID))
        await broker.until(lambda: sum(shard.core.statistics().offsets for shard in broker.coordinator.shards) == 0)

    run(scenario)


async def _next_assignment(broker: GroupBroker, epoch: int) -> list[str]:
    """The topic ids that the member is told the next time."""
    async with asyncio.timeout(60):
        while True:
            beat = ConsumerGroupHeartbeatRequest("g", MEMBER, epoch)
            answer = await broker.answered(broker.submit(beat))
            assert isinstance(answer, ConsumerGroupHeartbeatResponse), answer
            if answer.assignment is not None:
                return [one.topic_id for one in answer.assignment]
            await asyncio.sleep(0.001)


def test_a_stop_answers_whoever_waits_and_whoever_comes() -> None:
    async def scenario(broker: GroupBroker) -> None:
        protocol = (JoinGroupProtocol("range", b""),)
        waits = broker.submit(
            JoinGroupRequest("g", 10_000, 60_000, "", "consumer", protocol, requires_known_member_id=False)
        )
        assert not waits.is_complete
        await broker.coordinator.stop()
        assert isinstance(waits.error, NotCoordinatorError)
        assert isinstance(broker.submit(commit("g", 1)).error, NotCoordinatorError)
        broker.elect(ME, *range(4))
        await asyncio.sleep(0.01)
        assert not list(broker.coordinator.shards), "it leads no more once it is stopped"

    run(scenario)


def test_a_deleted_topic_takes_every_group_along_and_is_made_anew() -> None:
    async def scenario(broker: GroupBroker) -> None:
        await commit_all(broker)
        broker.publish(RemoveTopicRecord(OFFSETS_ID))
        await broker.until(lambda: not list(broker.coordinator.shards))
        assert isinstance(broker.submit(commit("g", 1)).error, CoordinatorNotAvailableError)
        await broker.until(lambda: broker.asked)

    run(scenario)


@pytest.mark.parametrize(
    ("group_id", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("orders", None),
        ("polygenelubricants", 0),
        ("grün", None),
        ("\N{GRINNING FACE}", None),
    ],
)
def test_a_group_has_the_partition_that_kafka_gives_it(group_id: str, hashed: int | None) -> None:
    """The hash is Java's, over UTF-16, without its sign; \"polygenelubricants\" has the most negative one."""
    units = group_id.encode("utf-16-be")
    expected = 0
    for at in range(0, len(units), 2):
        expected = expected * 31 + int.from_bytes(units[at : at + 2], "big")
    expected &= 0x7FFF_FFFF
    assert hashed in (None, expected)
    assert [partition_of(group_id, count) for count in (1, 50, 7)] == [expected % 1, expected % 50, expected % 7]
