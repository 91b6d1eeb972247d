"""Voters that change while drivers run: the future of a change, and the quorum as it is described."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.errors import DuplicateVoterError, NotControllerError, RequestTimedOutError, UnsupportedVersionError
from raft.voter_changes import AddVoter, NameDirectories, RemoveVoter
from raft.voters import Voter
from tests.support.raft_cluster import Cluster, wait_until
from tests.support.virtual_time import run_virtual
from tests.support.voters import disk_of, endpoints_of


def with_cluster(
    test: Callable[[Cluster], Awaitable[None]], count: int = 3, observers: int = 1, *, begins_static: bool = False
) -> None:
    async def run() -> None:
        async with Cluster(count, observers, has_disks=True, begins_static=begins_static) as cluster:
            await test(cluster)

    run_virtual(run())


def new_voter(node_id: int) -> AddVoter:
    return AddVoter(Voter(node_id, disk_of(node_id), endpoints_of(node_id)))


def test_a_change_is_answered_with_the_offset_of_its_record_once_that_is_committed() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        await leader.driver.propose([b"a"])
        await asyncio.sleep(1)
        expected = leader.driver.next_offset
        added = leader.driver.change_voters(new_voter(4))
        assert leader.driver.voters.ids == (1, 2, 3, 4) and not added.done(), "it counts before it is committed"
        assert await added == expected < leader.driver.high_watermark
        await wait_until(lambda: all(node.driver.voters.ids == (1, 2, 3, 4) for node in cluster.nodes.values()))

    with_cluster(scenario)


def test_only_the_leader_changes_voters_and_a_refusal_writes_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        await asyncio.sleep(1)
        other = next(node for node in cluster.nodes.values() if node is not leader)
        with pytest.raises(NotControllerError) as refused:
            other.driver.change_voters(new_voter(4))
        assert refused.value.leader is not None and refused.value.leader.leader_id == leader.node_id
        end = leader.driver.next_offset
        with pytest.raises(DuplicateVoterError):
            leader.driver.change_voters(new_voter(other.node_id))
        assert leader.driver.next_offset == end and leader.driver.voters.ids == (1, 2, 3)

    with_cluster(scenario)


def test_a_change_whose_leader_is_lost_has_an_unknown_outcome() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        await asyncio.sleep(1)
        change = leader.driver.change_voters(new_voter(4))
        await leader.power_cut()
        with pytest.raises(NotControllerError, match="the outcome is unknown"):
            await change

    with_cluster(scenario)


def test_a_leader_that_removes_itself_answers_and_another_leads() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        await asyncio.sleep(1)
        offset = await leader.driver.change_voters(RemoveVoter(leader.node_id, disk_of(leader.node_id)))
        successor = await cluster.wait_leader(but_not=leader.node_id)
        assert successor.driver.high_watermark > offset and leader.node_id not in successor.driver.voters.ids
        await wait_until(lambda: leader.node_id in [one.replica_id for one in successor.driver.describe().observers])

    with_cluster(scenario)


def test_the_description_has_the_disk_of_each_node_and_the_addresses_of_voters() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        await asyncio.sleep(1)
        found = leader.driver.describe()
        assert found.is_dynamic
        assert [(one.replica_id, one.directory_id, one.endpoints) for one in found.voters] == [
            (node_id, disk_of(node_id), endpoints_of(node_id)) for node_id in (1, 2, 3)
        ]
        assert [(one.replica_id, one.directory_id, one.endpoints) for one in found.observers] == [(4, disk_of(4), ())]
        own = cluster.nodes[4].driver.describe()
        assert [one.replica_id for one in own.voters] == [1, 2, 3]
        assert [(one.replica_id, one.directory_id) for one in own.observers] == [(4, disk_of(4))]

    with_cluster(scenario)


def test_a_static_quorum_describes_the_disks_that_it_has_heard_of_and_is_made_dynamic() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        await asyncio.sleep(1)
        found = leader.driver.describe()
        assert not found.is_dynamic and [one.directory_id for one in found.voters] == list(map(disk_of, (1, 2, 3)))
        with pytest.raises(UnsupportedVersionError, match="make the quorum dynamic first"):
            leader.driver.change_voters(new_voter(4))
        await leader.driver.change_voters(NameDirectories())
        assert leader.driver.describe().is_dynamic
        await asyncio.sleep(1)
        await leader.driver.change_voters(new_voter(4))

    with_cluster(scenario, begins_static=True)


def test_a_newcomer_that_has_not_fetched_is_asked_to_come_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.wait_leader()
        await asyncio.sleep(1)
        with pytest.raises(RequestTimedOutError, match="has not caught up"):
            leader.driver.change_voters(AddVoter(Voter(5, disk_of(5), endpoints_of(5))))

    with_cluster(scenario)
