"""A controller keeps its place among the voters: what it asks for, and when it asks for nothing.

The drivers are real, in virtual time; what the leader's node would answer to its calls is made of its own parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from broker.quorum.controller_channel import ControllerChannel
from broker.quorum.voter_requests import VoterRequests
from broker.quorum.voter_upkeep import VoterUpkeep, address_change, join_step
from penstock.errors import ConfigError, DuplicateVoterError, NotControllerError, RequestTimedOutError
from penstock.messages.quorum import DescribeQuorumRequest, QuorumInfo, QuorumReplicaInfo
from penstock.messages.voters import AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest
from penstock.types import Endpoint, ListenerEndpoint
from raft.voters import VOTERS_MAX, Voter
from tests.support.raft_cluster import Cluster, wait_until
from tests.support.virtual_time import run_virtual, virtual_clock
from tests.support.voters import disk_of, endpoints_of, voters_on_disks

RECENT_MS = 2_000
LONG_MS = RECENT_MS + 1
OWN = Voter(4, disk_of(4), endpoints_of(4))


def at(host: str, port: int = 9193) -> tuple[ListenerEndpoint, ...]:
    return (ListenerEndpoint("CONTROLLER", Endpoint(host, port)),)


def replica(node_id: int, caught_up_ms_ago: int = 5, disk: str = "", fetched_ms_ago: int = 1) -> QuorumReplicaInfo:
    found = disk or disk_of(node_id)
    return QuorumReplicaInfo(node_id, 9, fetched_ms_ago, caught_up_ms_ago, found, endpoints_of(node_id))


def seen(*, observer: QuorumReplicaInfo | None = None, voters: tuple[int, ...] = (1, 2, 3), **more: Any) -> QuorumInfo:
    observers = (observer or replica(4),)
    return QuorumInfo(1, 5, 9, tuple(map(replica, voters)), observers, **{"is_dynamic": True, **more})


# -- what is decided ---------------------------------------------------------------------------------------------------


def test_an_observer_that_has_caught_up_asks_to_be_added() -> None:
    assert join_step(OWN, seen(), RECENT_MS, 0) == AddVoterRequest(4, disk_of(4), endpoints_of(4))


@pytest.mark.parametrize(
    "found",
    [
        seen(observer=replica(4, caught_up_ms_ago=0)),
        seen(observer=replica(4, caught_up_ms_ago=RECENT_MS + 1)),
        seen(observer=replica(4, disk=disk_of(4, number=9))),
        seen(observer=replica(5)),
        seen(only_own_view=True),
        seen(is_dynamic=False),
        seen(voters=tuple(range(10, 10 + VOTERS_MAX))),
    ],
)
def test_it_asks_for_nothing_while_that_could_not_be(found: QuorumInfo) -> None:
    assert join_step(OWN, found, RECENT_MS, LONG_MS) is None


@pytest.mark.parametrize("fetched_ms_ago", [-1, RECENT_MS + 1])
def test_the_voter_on_its_former_disk_is_removed_first_and_not_before_it_has_caught_up(fetched_ms_ago: int) -> None:
    former = replica(4, disk=disk_of(4, number=9), fetched_ms_ago=fetched_ms_ago)
    found = replace(seen(), voters=(*seen().voters, former))
    assert join_step(OWN, found, RECENT_MS, LONG_MS) == RemoveVoterRequest(4, disk_of(4, number=9))
    assert join_step(OWN, replace(found, observers=(replica(4, caught_up_ms_ago=0),)), RECENT_MS, LONG_MS) is None


@pytest.mark.parametrize("fetched_ms_ago", [0, RECENT_MS])
def test_a_voter_with_its_id_that_still_fetches_is_another_node_and_stays(fetched_ms_ago: int) -> None:
    other = replica(4, disk=disk_of(4, number=9), fetched_ms_ago=fetched_ms_ago)
    with pytest.raises(DuplicateVoterError, match="two nodes have the id 4; give this one another"):
        join_step(OWN, replace(seen(), voters=(*seen().voters, other)), RECENT_MS, LONG_MS)


def test_a_voter_that_a_new_leader_has_not_heard_of_yet_is_not_taken_for_a_former_disk() -> None:
    unheard = replica(4, disk=disk_of(4, number=9), fetched_ms_ago=-1)
    found = replace(seen(), voters=(*seen().voters, unheard))
    assert join_step(OWN, found, RECENT_MS, 0) is join_step(OWN, found, RECENT_MS, RECENT_MS) is None
    assert join_step(OWN, found, RECENT_MS, LONG_MS) == RemoveVoterRequest(4, disk_of(4, number=9))


def test_a_voter_at_another_address_tells_it_and_at_the_same_one_says_nothing() -> None:
    voters = voters_on_disks(1, 2, 4)
    assert address_change(OWN, voters) is None
    moved = replace(OWN, endpoints=at("elsewhere"))
    assert address_change(moved, voters) == UpdateVoterRequest(4, disk_of(4), at("elsewhere"))


@pytest.mark.parametrize(
    ("own", "voters"),
    [
        (replace(OWN, endpoints=at("elsewhere")), voters_on_disks(1, 2)),
        (replace(OWN, endpoints=at("elsewhere"), directory_id=disk_of(4, number=9)), voters_on_disks(1, 4)),
        (replace(OWN, endpoints=at("127.0.0.1")), voters_on_disks(1, 4)),
        (replace(OWN, endpoints=()), voters_on_disks(1, 4)),
    ],
)
def test_who_is_no_voter_or_has_no_better_address_tells_none(own: Voter, voters: Any) -> None:
    assert address_change(own, voters) is None


# -- the task ----------------------------------------------------------------------------------------------------------


class Channel:
    """The way from any node to the leader of a cluster of drivers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.asked: list[Any] = []
        self.errors: list[Exception] = []

    async def call(self, request: Any, timeout_ms: int) -> Any:
        self.asked.append(request)
        if self.errors:
            raise self.errors.pop()
        leader = self._cluster.leader()
        if leader is None:
            raise NotControllerError("none")
        if not isinstance(request, DescribeQuorumRequest):
            return await VoterRequests(leader.driver, "c", virtual_clock(), Random(1)).handle(request)
        found = leader.driver.describe()
        voters, observers = (
            tuple(
                QuorumReplicaInfo(
                    one.replica_id,
                    one.log_end_offset,
                    -1 if one.last_fetch_ms_ago is None else one.last_fetch_ms_ago,
                    0 if one.last_caught_up_ms_ago is None else max(1, one.last_caught_up_ms_ago),
                    one.directory_id,
                    one.endpoints,
                )
                for one in replicas
            )
            for replicas in (found.voters, found.observers)
        )
        return QuorumInfo(
            found.leader_id, found.leader_epoch, found.high_watermark, voters, observers, is_dynamic=found.is_dynamic
        )


CLUSTER_ID = "c"
Scenario = Callable[[Cluster, Channel, Callable[..., VoterUpkeep]], Awaitable[None]]


def staged(scenario: Scenario, observers: int = 1, *, begins_static: bool = False) -> None:
    async def run() -> None:
        async with Cluster(3, observers, has_disks=True, begins_static=begins_static) as cluster:
            await cluster.wait_leader()
            channel, made = Channel(cluster), list[VoterUpkeep]()

            def upkeep(node_id: int, own: Voter | None = None, *, joins: bool = True) -> VoterUpkeep:
                """That of one node, which has heard of the leader."""
                node, voter = cluster.nodes[node_id], own or Voter(node_id, disk_of(node_id), endpoints_of(node_id))

                def fatal(error: BaseException) -> None:
                    raise error

                made.append(
                    VoterUpkeep(
                        node.driver,
                        cast(ControllerChannel, channel),
                        lambda: voter,
                        Random(2),
                        cluster_id=CLUSTER_ID,
                        joins=joins,
                        recent_ms=RECENT_MS,
                        on_fatal=fatal,
                    )
                )
                made[-1].leader_changed(node.driver.leader_and_epoch[0])
                return made[-1]

            await asyncio.sleep(1)
            await scenario(cluster, channel, upkeep)
            for each in made:
                await each.stop()

    run_virtual(run())


def ids(cluster: Cluster) -> tuple[int, ...]:
    leader = cluster.leader()
    return () if leader is None else leader.driver.voters.ids


def test_an_observer_joins_by_itself_and_then_asks_no_more() -> None:
    async def scenario(cluster: Cluster, channel: Channel, upkeep: Callable[..., VoterUpkeep]) -> None:
        upkeep(4)
        await wait_until(lambda: ids(cluster) == (1, 2, 3, 4))
        await asyncio.sleep(5)
        asked = len(channel.asked)
        await asyncio.sleep(30)
        assert len(channel.asked) == asked

    staged(scenario)


def test_an_observer_that_is_not_to_join_asks_nobody() -> None:
    async def scenario(cluster: Cluster, channel: Channel, upkeep: Callable[..., VoterUpkeep]) -> None:
        upkeep(4, joins=False)
        await asyncio.sleep(30)
        assert channel.asked == [] and ids(cluster) == (1, 2, 3)

    staged(scenario)


def test_a_controller_on_a_new_disk_takes_the_place_of_its_former_one() -> None:
    async def scenario(cluster: Cluster, channel: Channel, upkeep: Callable[..., VoterUpkeep]) -> None:
        leader = await cluster.wait_leader()
        former = replace(OWN, directory_id=disk_of(4, number=9))
        leader.driver.core.leadership.replicas.add_observer(4, disk_of(4, number=9)).last_caught_up_ms = (  # type: ignore[union-attr]
            virtual_clock().now_ms()
        )
        await VoterRequests(leader.driver, "c", virtual_clock(), Random(1)).handle(
            AddVoterRequest(4, former.directory_id or "", former.endpoints)
        )
        assert ids(cluster) == (1, 2, 3, 4)
        upkeep(4)
        await asyncio.sleep(RECENT_MS / 1000)
        assert all(isinstance(request, DescribeQuorumRequest) for request in channel.asked), "the leader may be new"
        await wait_until(lambda: (found := leader.driver.voters.find(4)) is not None and found == OWN)
        changes = [request for request in channel.asked if not isinstance(request, DescribeQuorumRequest)]
        assert [type(request) for request in changes] == [RemoveVoterRequest, AddVoterRequest]

    staged(scenario)


def test_a_voter_that_an_operator_removes_stays_an_observer_until_the_next_start() -> None:
    async def scenario(cluster: Cluster, channel: Channel, upkeep: Callable[..., VoterUpkeep]) -> None:
        leader = await cluster.wait_leader()
        node_id = next(node_id for node_id in (1, 2, 3) if node_id != leader.node_id)
        upkeep(node_id)
        await asyncio.sleep(10)
        await channel.call(RemoveVoterRequest(node_id, disk_of(node_id)), 1_000)
        await asyncio.sleep(60)
        assert node_id not in ids(cluster)
        upkeep(node_id)
        await wait_until(lambda: node_id in ids(cluster))

    staged(scenario)


def test_a_voter_tells_its_new_address_and_so_does_the_leader() -> None:
    async def scenario(cluster: Cluster, channel: Channel, upkeep: Callable[..., VoterUpkeep]) -> None:
        leader = await cluster.wait_leader()
        for node_id in (1, 2, 3):
            upkeep(node_id, Voter(node_id, disk_of(node_id), at(f"moved-{node_id}")), joins=False)
        await wait_until(
            lambda: leader.driver.voters.listed("CONTROLLER") == "1@moved-1:9193, 2@moved-2:9193, 3@moved-3:9193"
        )

    staged(scenario)


def test_errors_are_asked_again_within_two_seconds_and_no_more_often_than_it_looks() -> None:
    async def scenario(cluster: Cluster, channel: Channel, upkeep: Callable[..., VoterUpkeep]) -> None:
        channel.errors = [RequestTimedOutError("busy") for _ in range(20)]
        upkeep(4)
        await wait_until(lambda: ids(cluster) == (1, 2, 3, 4), timeout_ms=60_000)
        assert 20 < len(channel.asked) <= 24

    staged(scenario)


def test_errors_without_an_end_cost_a_request_a_second_at_most() -> None:
    async def scenario(cluster: Cluster, channel: Channel, upkeep: Callable[..., VoterUpkeep]) -> None:
        channel.errors = [RequestTimedOutError("busy") for _ in range(1_000)]
        upkeep(4)
        await asyncio.sleep(60)
        assert 20 <= len(channel.asked) <= 60

    staged(scenario)


def test_a_static_quorum_has_no_such_task() -> None:
    async def scenario(cluster: Cluster, channel: Channel, upkeep: Callable[..., VoterUpkeep]) -> None:
        found = upkeep(4)
        await asyncio.sleep(30)
        assert channel.asked == [] and "not begun" in repr(found)

    staged(scenario, begins_static=True)


def test_a_controller_whose_address_is_of_no_use_says_so_and_runs(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        def own() -> Voter:
            raise ConfigError("advertised.listeners: nobody can connect to host '0.0.0.0'")

        class Quorum:
            voters, leader_and_epoch, has_committed_voters = voters_on_disks(1), (1, 1), True

        found = VoterUpkeep(
            Quorum(),
            cast(ControllerChannel, None),
            own,
            Random(1),
            cluster_id=CLUSTER_ID,
            joins=True,
            recent_ms=1,
            on_fatal=lambda error: None,
        )
        found.leader_changed(1)
        await found.stop()

    run_virtual(run())
    assert "this controller cannot be a voter: advertised.listeners" in caplog.text
