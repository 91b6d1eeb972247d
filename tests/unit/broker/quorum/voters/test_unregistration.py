"""Controllers that are forgotten, at the leader of real drivers in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.quorum.voters.unregistration import unregister_controller
from penstock.errors import ControllerIdNotRegisteredError, NotControllerError, PolicyViolationError
from penstock.messages.repetitions import changed_voters_before
from penstock.messages.voters import UnregisterControllerRequest
from raft.voter_changes import RemoveVoter
from tests.support.raft_cluster import Cluster, Node
from tests.support.virtual_time import run_virtual
from tests.support.voters import disk_of

OBSERVER = 4
AWAY_S = 2  # longer than the fetch time-out of these nodes


def at_leader(scenario: Callable[[Cluster, Node], Awaitable[None]]) -> None:
    """Runs a scenario on three voters and an observer, at a leader from which all have fetched."""

    async def run() -> None:
        async with Cluster(3, 1, has_disks=True) as cluster:
            leader = await cluster.wait_leader()
            await asyncio.sleep(1)
            await scenario(cluster, leader)

    run_virtual(run())


def known(leader: Node) -> set[int]:
    return {one.replica_id for one in leader.driver.describe().observers}


def test_an_observer_is_forgotten_once_it_is_away_and_known_again_when_it_fetches() -> None:
    async def scenario(cluster: Cluster, leader: Node) -> None:
        request = UnregisterControllerRequest(OBSERVER)
        running = unregister_controller(leader.driver, request)
        assert isinstance(running.error, PolicyViolationError) and "runs" in running.error.message
        assert known(leader) == {OBSERVER}

        await cluster.nodes[OBSERVER].stop()
        await asyncio.sleep(AWAY_S)
        sent_end = leader.driver.sent_end_besides(OBSERVER, "a process")
        assert unregister_controller(leader.driver, request).error is None
        assert known(leader) == set()
        assert leader.driver.sent_end_besides(OBSERVER, "a process") >= sent_end, "what it may have is not forgotten"

        again = unregister_controller(leader.driver, request)
        assert isinstance(again.error, ControllerIdNotRegisteredError) and again.is_so_already
        assert changed_voters_before(again).error is None, "a repetition after a lost answer is a success"

        await cluster.nodes[OBSERVER].restart()
        await asyncio.sleep(1)
        assert known(leader) == {OBSERVER}

    at_leader(scenario)


def test_a_voter_is_not_forgotten_until_it_is_removed() -> None:
    async def scenario(cluster: Cluster, leader: Node) -> None:
        other = next(node_id for node_id in (1, 2, 3) if node_id != leader.node_id)
        await cluster.nodes[other].stop()
        await asyncio.sleep(AWAY_S)
        for voter in (other, leader.node_id):
            refused = unregister_controller(leader.driver, UnregisterControllerRequest(voter))
            assert isinstance(refused.error, PolicyViolationError) and "remove-voter" in refused.error.message
            assert not refused.is_so_already
        await leader.driver.change_voters(RemoveVoter(other, disk_of(other)))
        assert known(leader) == {OBSERVER, other}
        assert unregister_controller(leader.driver, UnregisterControllerRequest(other)).error is None
        assert known(leader) == {OBSERVER}

    at_leader(scenario)


def test_ids_that_nobody_has_are_refused_and_another_node_names_the_leader() -> None:
    async def scenario(cluster: Cluster, leader: Node) -> None:
        for node_id in (9, -1, -(2**31), 2**31 - 1):
            refused = unregister_controller(leader.driver, UnregisterControllerRequest(node_id))
            assert isinstance(refused.error, ControllerIdNotRegisteredError)
        other = next(node for node in cluster.nodes.values() if node is not leader)
        with pytest.raises(NotControllerError) as refusal:
            unregister_controller(other.driver, UnregisterControllerRequest(OBSERVER))
        assert refusal.value.leader is not None and refusal.value.leader.leader_id == leader.node_id

    at_leader(scenario)
