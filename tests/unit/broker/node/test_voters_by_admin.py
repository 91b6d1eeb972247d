"""Whole nodes whose voters are changed by an administrator's client, by way of any broker, and by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from broker.node.node import Node
from penstock import AsyncAdmin
from penstock.errors import DuplicateVoterError, UnsupportedVersionError, VoterNotFoundError
from raft.voters import Voter
from tests.support.memory_cluster import MemoryCluster, run_in_memory

AUTO_JOIN = {"controller.quorum.auto.join.enable": True}


async def until(true: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within a minute")


def admin_of(cluster: MemoryCluster, index: int | None = None) -> AsyncAdmin:
    """A client that knows all brokers, or one alone."""
    bootstrap = cluster.bootstrap() if index is None else str(cluster.endpoint(index))
    return AsyncAdmin(bootstrap, environment=cluster.clients())


def ids_at(node: Node) -> tuple[int, ...]:
    return node.quorum.raft.voters.ids


def directory_id(voter: Voter) -> str:
    assert voter.directory_id is not None
    return voter.directory_id


def address(voter: Voter) -> str:
    return str(voter.endpoints[0].endpoint)


def test_an_administrator_makes_the_quorum_dynamic_and_changes_its_voters_by_any_broker() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format()
        await cluster.start()
        leader_id = cluster.nodes[0].leader_id
        other = next(index for index in (0, 1, 2) if index != leader_id)
        async with admin_of(cluster, other) as admin:
            voter = cluster.voter(other)
            with pytest.raises(UnsupportedVersionError, match="penstock quorum make-dynamic"):
                await admin.remove_voter(other, directory_id(voter))
            await admin.make_quorum_dynamic()
            found = await admin.describe_quorum()
            assert found.is_dynamic
            assert [one.directory_id for one in found.voters] == [directory_id(cluster.voter(n)) for n in range(3)]
            with pytest.raises(DuplicateVoterError):
                await admin.add_voter(other, directory_id(voter), address(voter))
            await admin.remove_voter(other, directory_id(voter))
            assert [ids_at(node) for node in cluster.nodes] == [tuple({0, 1, 2} - {other})] * 3, "all have heard of it"
            with pytest.raises(VoterNotFoundError):
                await admin.remove_voter(other, directory_id(voter))
            found = await admin.describe_quorum()
            assert [(one.node_id, one.directory_id) for one in found.observers] == [(other, directory_id(voter))]
            await admin.add_voter(other, directory_id(voter), address(voter))
            assert [ids_at(node) for node in cluster.nodes] == [(0, 1, 2)] * 3
        await cluster.stop()

    run_in_memory(11, story)


def test_the_leader_is_removed_by_a_broker_of_its_own_node() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0, 1, 2)
        await cluster.start()
        leader_id = cluster.nodes[0].leader_id
        async with admin_of(cluster, leader_id) as admin:
            await admin.remove_voter(leader_id, directory_id(cluster.voter(leader_id)))
            await until(lambda: all(node.leader_id not in (-1, leader_id) for node in cluster.nodes))
            assert leader_id not in [one.node_id for one in (await admin.describe_quorum()).voters]
            await admin.create_topic("after", 1, 3)
        await cluster.stop()

    run_in_memory(12, story)


def test_a_controller_on_a_new_disk_takes_its_former_place_by_itself_where_it_may() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0, 1, 2)
        await cluster.start()
        before = cluster.nodes[0].quorum.raft.voters
        await cluster.stop(1)
        cluster.replace_disk(2)
        await cluster.start()
        assert not before.names(2, cluster.voter(2).directory_id)
        await until(lambda: all(node.quorum.raft.voters.find(2) == cluster.voter(2) for node in cluster.nodes))
        assert [ids_at(node) for node in cluster.nodes] == [(0, 1, 2)] * 3
        await cluster.stop()

    run_in_memory(13, story, config=AUTO_JOIN)


def test_without_the_key_it_stays_an_observer() -> None:
    async def story(cluster: MemoryCluster) -> None:
        cluster.format_dynamic(0, 1)
        await cluster.start()
        await asyncio.sleep(30)
        assert [ids_at(node) for node in cluster.nodes] == [(0, 1)] * 3
        await cluster.stop()

    run_in_memory(14, story)
