"""Requests that change the voters, at the leader of real drivers in virtual time: what waits, and what is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from broker.quorum.voter_requests import WAITING_MAX, VoterRequests
from penstock.errors import (
    ApiError,
    DuplicateVoterError,
    InconsistentClusterIdError,
    InvalidRequestError,
    NotControllerError,
    RequestTimedOutError,
    ResourceExhaustedError,
    UnsupportedVersionError,
    VoterNotFoundError,
)
from penstock.messages.repetitions import changed_voters_before
from penstock.messages.voters import (
    AddVoterRequest,
    MakeQuorumDynamicRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterRequest,
)
from penstock.types import Endpoint, ListenerEndpoint
from raft.voters import Voter
from tests.support.raft_cluster import Cluster, Node, wait_until
from tests.support.virtual_time import run_virtual, virtual_clock
from tests.support.voters import disk_of, endpoints_of

Scenario = Callable[[Cluster, Node, VoterRequests], Awaitable[None]]


def requests_of(node: Node) -> VoterRequests:
    return VoterRequests(node.driver, "c", virtual_clock(), Random(7))


def at_leader(scenario: Scenario, observers: int = 1, *, begins_static: bool = False) -> None:
    """Runs a scenario on three voters, at a leader from which everybody has fetched."""

    async def run() -> None:
        async with Cluster(3, observers, has_disks=True, begins_static=begins_static) as cluster:
            leader = await cluster.wait_leader()
            await asyncio.sleep(1)
            await scenario(cluster, leader, requests_of(leader))

    run_virtual(run())


def add(node_id: int, timeout_ms: int = 4_000, **more: Any) -> AddVoterRequest:
    return AddVoterRequest(node_id, disk_of(node_id), endpoints_of(node_id), timeout_ms=timeout_ms, **more)


def remove(node_id: int, timeout_ms: int = 4_000) -> RemoveVoterRequest:
    return RemoveVoterRequest(node_id, disk_of(node_id), timeout_ms=timeout_ms)


def test_voters_are_added_updated_and_removed_and_each_answer_is_of_a_committed_record() -> None:
    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        other = next(node_id for node_id in (1, 2, 3) if node_id != leader.node_id)
        moved = (ListenerEndpoint("CONTROLLER", Endpoint("elsewhere", 9193)),)
        for request, ids in (
            (add(4), (1, 2, 3, 4)),
            (UpdateVoterRequest(4, disk_of(4), moved, cluster_id="c"), (1, 2, 3, 4)),
            (remove(other), tuple(sorted({1, 2, 3, 4} - {other}))),
        ):
            answer = await requests.handle(request)
            assert answer.error is None and 0 <= answer.metadata_offset < leader.driver.high_watermark
            assert leader.driver.voters.ids == ids
        voter = leader.driver.voters.find(4)
        assert voter is not None and voter.endpoints == moved

    at_leader(scenario)


def test_a_newcomer_that_comes_within_the_time_is_added() -> None:
    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        asked = asyncio.ensure_future(requests.handle(add(4)))
        await asyncio.sleep(2)
        assert not asked.done()
        cluster.nodes[4] = Node(cluster, 4)
        await cluster.nodes[4].start()
        assert (await asked).error is None and leader.driver.voters.ids == (1, 2, 3, 4)

    at_leader(scenario, observers=0)


def test_a_newcomer_that_does_not_come_is_answered_in_time_with_the_cores_sentence() -> None:
    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        for timeout_ms in (200, 2_000, 0):
            began_ms = virtual_clock().now_ms()
            answer = await requests.handle(add(4, timeout_ms))
            assert isinstance(answer.error, RequestTimedOutError) and "has not caught up" in answer.error.message
            took_ms = virtual_clock().now_ms() - began_ms
            whole_ms = timeout_ms or 10_000
            assert whole_ms // 2 - 50 <= took_ms < whole_ms, "so that the answer arrives before its caller gives up"

    at_leader(scenario, observers=0)


def test_a_second_change_waits_for_the_first() -> None:
    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        answers = await asyncio.gather(*(requests.handle(add(node_id)) for node_id in (4, 5)))
        assert [answer.error for answer in answers] == [None, None]
        assert leader.driver.voters.ids == (1, 2, 3, 4, 5)

    at_leader(scenario, observers=2)


def test_a_change_without_a_majority_says_that_its_outcome_is_unknown() -> None:
    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        asked = asyncio.ensure_future(requests.handle(add(4, timeout_ms=900)))
        await wait_until(lambda: leader.driver.voters.is_voter(4))
        for node in list(cluster.nodes.values()):
            if node is not leader:
                await node.stop()
        answer = await asked
        assert isinstance(answer.error, RequestTimedOutError) and "the outcome is unknown" in answer.error.message

    at_leader(scenario)


def test_a_voter_that_has_just_died_does_not_count_among_those_that_answer() -> None:
    """The two that would be left, of which one is dead, could commit nothing."""

    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        dead, alive = (node_id for node_id in (1, 2, 3) if node_id != leader.node_id)
        await cluster.nodes[dead].stop()
        answer = await requests.handle(remove(alive))
        assert (
            isinstance(answer.error, RequestTimedOutError) and f"only [{leader.node_id}] answer" in answer.error.message
        )
        assert leader.driver.voters.ids == (1, 2, 3)
        assert (await requests.handle(remove(dead))).error is None
        assert leader.driver.is_leader and leader.driver.voters.ids == tuple(sorted((alive, leader.node_id)))

    at_leader(scenario)


def test_an_answer_may_be_wanted_before_the_commit() -> None:
    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        end = leader.driver.next_offset
        answer = await requests.handle(add(4, ack_when_appended=True))
        assert answer.error is None and answer.metadata_offset == -1
        assert leader.driver.voters.ids == (1, 2, 3, 4) and leader.driver.high_watermark <= end
        await wait_until(lambda: leader.driver.high_watermark > end)

    at_leader(scenario)


def test_a_repeated_change_is_an_error_that_says_that_it_is_so_already() -> None:
    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        other = next(node_id for node_id in (1, 2, 3) if node_id != leader.node_id)
        for request, kind in ((add(4), DuplicateVoterError), (remove(other), VoterNotFoundError)):
            done = await requests.handle(request)
            again = await requests.handle(request)
            assert isinstance(again.error, kind) and again.is_so_already
            assert done.metadata_offset <= again.metadata_offset < leader.driver.high_watermark
            assert changed_voters_before(again).error is None

    at_leader(scenario)


def test_another_disk_of_a_voter_is_an_error_for_repetitions_too() -> None:
    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        other = next(node_id for node_id in (1, 2, 3) if node_id != leader.node_id)
        answer = await requests.handle(replace(add(other), directory_id=disk_of(other, number=9)))
        assert isinstance(changed_voters_before(answer).error, DuplicateVoterError)

    at_leader(scenario)


def test_a_static_quorum_says_how_it_becomes_dynamic_and_does() -> None:
    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        answer = await requests.handle(add(4))
        assert isinstance(answer.error, UnsupportedVersionError) and "penstock quorum make-dynamic" in str(answer.error)
        made = await requests.handle(MakeQuorumDynamicRequest())
        assert made.error is None and leader.driver.voters.is_dynamic
        again = await requests.handle(MakeQuorumDynamicRequest())
        assert isinstance(again.error, InvalidRequestError) and again.is_so_already
        assert (await requests.handle(add(4))).error is None

    at_leader(scenario, begins_static=True)


def test_another_node_than_the_leader_names_the_leader() -> None:
    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        other = next(node for node in cluster.nodes.values() if node is not leader)
        with pytest.raises(NotControllerError) as refused:
            await requests_of(other).handle(add(4))
        assert refused.value.leader is not None and refused.value.leader.leader_id == leader.node_id

    at_leader(scenario)


def test_no_more_changes_wait_than_there_is_room_for() -> None:
    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        answers = await asyncio.gather(*(requests.handle(add(9, timeout_ms=400)) for _ in range(WAITING_MAX + 5)))
        kinds = [type(answer.error) for answer in answers]
        assert (kinds.count(RequestTimedOutError), kinds.count(ResourceExhaustedError)) == (WAITING_MAX, 5)
        assert (await requests.handle(add(4))).error is None

    at_leader(scenario)


def test_a_change_is_in_the_log_of_the_leader(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "broker.quorum.voter_requests")

    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        await requests.handle(add(4))

    at_leader(scenario)
    expected = f"voter 4 with directory id {disk_of(4)} was added: the voters are [1, 2, 3, 4] from now on"
    assert expected in [record.getMessage() for record in caplog.records]


def at(*endpoints: tuple[str, str, int]) -> tuple[ListenerEndpoint, ...]:
    return tuple(ListenerEndpoint(name, Endpoint(host, port)) for name, host, port in endpoints)


GOOD = ("CONTROLLER", "h", 9193)
BAD: dict[str, tuple[VoterRequest, type[ApiError]]] = {
    "another cluster's": (replace(add(4), cluster_id="other"), InconsistentClusterIdError),
    "a long cluster id": (MakeQuorumDynamicRequest("x" * 5_000), InconsistentClusterIdError),
    "no time": (replace(remove(4), timeout_ms=-1), InvalidRequestError),
    "a negative id": (replace(add(4), voter_id=-1), InvalidRequestError),
    "an id of 40 bits": (replace(remove(4), voter_id=1 << 40), InvalidRequestError),
    "no disk": (replace(add(4), directory_id=""), InvalidRequestError),
    "the zero id": (replace(add(4), directory_id="A" * 22), InvalidRequestError),
    "a long disk": (replace(remove(4), directory_id="D" * 5_000), InvalidRequestError),
    "another text of the same bytes": (replace(add(4), directory_id=disk_of(4)[:21] + "h"), InvalidRequestError),
    "a disk with signs": (replace(add(4), directory_id="é" * 22), InvalidRequestError),
    "no listener": (replace(add(4), endpoints=()), InvalidRequestError),
    "no CONTROLLER": (replace(add(4), endpoints=at(("BROKER", "h", 1))), InvalidRequestError),
    "twice the same": (replace(add(4), endpoints=at(GOOD, GOOD)), InvalidRequestError),
    "many listeners": (
        replace(add(4), endpoints=at(GOOD, *((f"L{n}", "h", 1) for n in range(10)))),
        InvalidRequestError,
    ),
    "a bad name": (replace(add(4), endpoints=at(GOOD, ("not this", "h", 1))), InvalidRequestError),
    "port 0": (replace(add(4), endpoints=at(("CONTROLLER", "h", 0))), InvalidRequestError),
    "port 65536": (replace(add(4), endpoints=at(("CONTROLLER", "h", 65_536))), InvalidRequestError),
    "no host": (replace(add(4), endpoints=at(("CONTROLLER", "", 1))), InvalidRequestError),
    "a long host": (replace(add(4), endpoints=at(("CONTROLLER", "h" * 300, 1))), InvalidRequestError),
    "every address": (replace(add(4), endpoints=at(("CONTROLLER", "0.0.0.0", 1))), InvalidRequestError),
    "a host with a space": (replace(add(4), endpoints=at(("CONTROLLER", "a b", 1))), InvalidRequestError),
    "a new address of port 0": (
        UpdateVoterRequest(1, disk_of(1), at(("CONTROLLER", "h", 0)), cluster_id="c"),
        InvalidRequestError,
    ),
    "a voter of no cluster": (
        UpdateVoterRequest(1, disk_of(1), at(("CONTROLLER", "h", 1))),
        InconsistentClusterIdError,
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_in_few_words_and_writes_nothing(what: str) -> None:
    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        request, kind = BAD[what]
        end = leader.driver.next_offset
        answer = await requests.handle(request)
        assert type(answer.error) is kind and len(answer.error.message) < 400
        assert leader.driver.next_offset == end

    at_leader(scenario)


def test_a_voter_that_does_not_answer_at_its_new_address_keeps_the_old_one() -> None:
    asked: list[Voter] = []

    async def nobody(voter: Voter, timeout_ms: int) -> None:
        asked.append(voter)
        raise RequestTimedOutError("nobody answers there")

    async def scenario(cluster: Cluster, leader: Node, requests: VoterRequests) -> None:
        other = next(node_id for node_id in (1, 2, 3) if node_id != leader.node_id)
        before = leader.driver.voters
        doubting = VoterRequests(leader.driver, "c", virtual_clock(), Random(7), nobody)
        moved = UpdateVoterRequest(other, disk_of(other), at(("CONTROLLER", "typo", 9193)), "c", 2_000)
        answer = await doubting.handle(moved)
        assert isinstance(answer.error, RequestTimedOutError) and "nobody answers there" in str(answer.error)
        assert leader.driver.voters == before and asked[0].endpoints == moved.endpoints
        own = replace(moved, voter_id=leader.node_id, directory_id=disk_of(leader.node_id))
        assert (await doubting.handle(own)).error is None, "a leader that has moved knows where it is"

    at_leader(scenario)
