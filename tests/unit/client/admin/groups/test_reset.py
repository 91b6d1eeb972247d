"""Committed offsets are moved: to the ends, to offsets, by records, to a time; never out of a log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock import AsyncAdmin, TopicPartition
from penstock.errors import NonEmptyGroupError, UnknownTopicOrPartitionError
from penstock.messages.groups.listing import GroupMember
from penstock.record.builder import build_batch
from tests.support.client_environment import fake_environment
from tests.support.fake_nodes import TOPIC, FakeNodes
from tests.support.virtual_time import run_virtual

Story = Callable[[FakeNodes, AsyncAdmin], Awaitable[None]]
P0, P1 = (TopicPartition(TOPIC, number) for number in range(2))


def run(story: Story) -> None:
    """Ten records in each partition; P0 begins at 2; the group g has committed 5 and 7."""

    async def main() -> None:
        nodes = FakeNodes({0: 1, 1: 2}, 2)
        for at in range(10):
            for partition in (0, 1):
                nodes.cluster.append(TOPIC, partition, build_batch([b"x"], timestamps_ms=100 * at))
        nodes.cluster.delete_below(TOPIC, 0, 2)
        nodes.cluster.groups.make("g", 2)
        nodes.cluster.groups.commit("g", P0, 5)
        nodes.cluster.groups.commit("g", P1, 7)
        bootstrap, environment = ",".join(map(str, nodes.bootstrap)), fake_environment(nodes.network)
        async with AsyncAdmin(bootstrap, environment=environment) as admin:
            await story(nodes, admin)

    run_virtual(main())


ROWS: dict[str, tuple[dict[str, Any], tuple[int, int], tuple[int, int]]] = {
    "earliest": ({"to": "earliest"}, (2, 0), (2, 0)),
    "latest": ({"to": "latest"}, (10, 10), (10, 10)),
    "where it is": ({"to": "current"}, (5, 7), (5, 7)),
    "an offset": ({"to": 4}, (4, 4), (4, 4)),
    "an offset before the log": ({"to": 0}, (2, 0), (0, 0)),
    "an offset behind the log": ({"to": 99}, (10, 10), (99, 99)),
    "each its own": ({"to": {P0: 3, P1: 6}}, (3, 6), (3, 6)),
    "forward": ({"shift_by": 4}, (9, 10), (9, 11)),
    "back": ({"shift_by": -4}, (2, 3), (1, 3)),
    "back before everything": ({"shift_by": -6}, (2, 1), (-1, 1)),
    "a time": ({"to_time_ms": 350}, (4, 4), (4, 4)),
    "a time behind the last record": ({"to_time_ms": 10_000}, (10, 10), (10, 10)),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_reset_goes_to_the_nearest_offset_that_the_log_has(row: str) -> None:
    target, after, wanted = ROWS[row]

    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        dry = await admin.reset_group_offsets("g", **target, dry_run=True)
        assert not [api for _, api, _ in nodes.cluster.groups.asked if api == "OffsetCommit"]
        done = await admin.reset_group_offsets("g", **target)
        assert done == dry and list(done) == [P0, P1]
        assert [one.before and one.before.offset for one in done.values()] == [5, 7]
        assert tuple(one.offset for one in done.values()) == after
        assert tuple(one.wanted for one in done.values()) == wanted
        assert tuple(one.offset for one in (await admin.group_offsets("g")).values()) == after

    run(story)


def test_only_the_named_partitions_are_moved_and_a_new_group_is_made() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        await admin.reset_group_offsets("g", [P1], to="earliest")
        assert [one.offset for one in (await admin.group_offsets("g")).values()] == [5, 0]
        done = await admin.reset_group_offsets("new", [P0], to="latest")
        assert done[P0].before is None and (await admin.group_offsets("new"))[P0].offset == 10
        done = await admin.reset_group_offsets("new", [P0, P1], to="current")
        assert {tp: one.offset for tp, one in done.items()} == {P0: 10, P1: 10}
        assert await admin.reset_group_offsets("another", to="latest") == {}

    run(story)


def test_nothing_is_moved_while_somebody_reads_or_a_partition_is_not_known() -> None:
    async def story(nodes: FakeNodes, admin: AsyncAdmin) -> None:
        groups = nodes.cluster.groups
        gone = TopicPartition("gone", 0)
        with pytest.raises(UnknownTopicOrPartitionError, match="gone-0 does not exist"):
            await admin.reset_group_offsets("g", [P0, gone], to="earliest")
        with pytest.raises(ValueError, match="t-1: group 'new' has committed no offset that could be shifted"):
            await admin.reset_group_offsets("new", [P1], shift_by=1)
        with pytest.raises(ValueError, match="has no offset for t-1"):
            await admin.reset_group_offsets("g", [P0, P1], to={P0: 1})
        groups.make("g", 2, GroupMember("m-anna", client_id="anna", client_host="/10.0.0.1"))
        for dry_run in (True, False):
            with pytest.raises(NonEmptyGroupError, match="group 'g' is not empty: it has 1 member: m-anna"):
                await admin.reset_group_offsets("g", to="earliest", dry_run=dry_run)
        assert not [api for _, api, _ in groups.asked if api == "OffsetCommit"]

    run(story)
