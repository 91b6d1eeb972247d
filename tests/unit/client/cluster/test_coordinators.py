"""Coordinators of groups: found once, asked again when they move or load, left when they hang; in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.coordinators import IDS_PER_CALL_MAX, Coordinators
from penstock.client.options.config import admin_config
from penstock.client.wire.connection import Connection
from penstock.errors import (
    ApiError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    InvalidRequestError,
    NotCoordinatorError,
    TimedOutError,
    UnknownMemberIdError,
    UnknownServerError,
)
from penstock.messages.groups.coordinators import FindCoordinatorRequest, FindCoordinatorResponse, FoundCoordinator
from penstock.messages.groups.group_apis import DESCRIBE_GROUPS, OFFSET_COMMIT
from penstock.messages.groups.listing import DescribedGroup, DescribeGroupsRequest
from penstock.messages.groups.offsets import OffsetCommitRequest
from tests.support.client_environment import fake_environment
from tests.support.fake_nodes import FakeNodes
from tests.support.late_answers import cut_off_after
from tests.support.virtual_time import run_virtual

Story = Callable[[FakeNodes, ClusterClient, Coordinators], Awaitable[None]]
LATER_MS = 60_000


def run(story: Story) -> None:
    async def main() -> None:
        nodes = FakeNodes({0: 1}, 3)
        cluster = ClusterClient(nodes.bootstrap, admin_config({}), fake_environment(nodes.network))
        await cluster.wait_ready()
        try:
            await story(nodes, cluster, Coordinators(cluster))
        finally:
            await cluster.close()

    run_virtual(main())


async def described(connection: Connection, named: Sequence[str], left_ms: int) -> Mapping[str, str | ApiError]:
    answer = await connection.call(DESCRIBE_GROUPS, DescribeGroupsRequest(tuple(named)), left_ms)
    return {group.group_id: group.error or group.state for group in answer.groups}


def asked(nodes: FakeNodes, api: str) -> list[int]:
    return [node for node, name, _ in nodes.cluster.groups.asked if name == api]


def deadline(cluster: ClusterClient, in_ms: int = LATER_MS) -> int:
    return cluster.clock.now_ms() + in_ms


def test_groups_are_put_together_by_coordinator_and_found_once() -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient, coordinators: Coordinators) -> None:
        groups = nodes.cluster.groups
        for number in range(6):
            groups.make(f"g{number}", 1 + number % 3)
        wanted = [*(f"g{number}" for number in range(6)), "none"]
        for _ in range(2):
            found = await coordinators.ask_each(wanted, described, deadline(cluster))
            assert list(found) == wanted
            assert [found[f"g{number}"] for number in range(6)] == ["Empty"] * 6
            assert isinstance(found["none"], GroupIdNotFoundError)
        assert len(asked(nodes, "FindCoordinator")) == 1
        assert sorted(asked(nodes, "DescribeGroups")) == [1, 1, 2, 2, 3, 3]

    run(story)


def test_more_groups_than_a_call_takes_are_asked_in_several() -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient, coordinators: Coordinators) -> None:
        wanted = [f"g{number}" for number in range(2 * IDS_PER_CALL_MAX + 1)]
        for group_id in wanted:
            nodes.cluster.groups.make(group_id, 2)
        assert list(await coordinators.ask_each(wanted, described, deadline(cluster))) == wanted
        sizes = [len(r.group_ids) for _, name, r in nodes.cluster.groups.asked if name == "DescribeGroups"]
        assert sorted(sizes) == [1, IDS_PER_CALL_MAX, IDS_PER_CALL_MAX]

    run(story)


def test_a_group_that_moves_is_found_again_and_the_others_are_not_asked_twice() -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient, coordinators: Coordinators) -> None:
        groups = nodes.cluster.groups
        groups.make("stays", 1)
        groups.make("moves", 1)
        await coordinators.ask_each(("stays", "moves"), described, deadline(cluster))
        groups.at["moves"] = 2
        groups.asked.clear()
        found = await coordinators.ask_each(("stays", "moves"), described, deadline(cluster))
        assert found == {"stays": "Empty", "moves": "Empty"}
        named = [(node, r.group_ids) for node, name, r in groups.asked if name == "DescribeGroups"]
        assert named == [(1, ("stays", "moves")), (2, ("moves",))]

    run(story)


@pytest.mark.parametrize("error", [CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError])
def test_a_coordinator_that_cannot_answer_yet_is_asked_again(error: type[ApiError]) -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient, coordinators: Coordinators) -> None:
        nodes.cluster.groups.make("g", 2)
        nodes.cluster.groups.refusals["OffsetCommit"].extend([error("soon"), error("soon")])
        await coordinators.ask(OFFSET_COMMIT, OffsetCommitRequest("g", ()), deadline(cluster))
        finds = 1 if error is CoordinatorLoadInProgressError else 3
        assert asked(nodes, "OffsetCommit") == [2, 2, 2] and len(asked(nodes, "FindCoordinator")) == finds

    run(story)


def test_the_last_error_is_told_at_the_deadline_and_a_final_one_at_once() -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient, coordinators: Coordinators) -> None:
        groups = nodes.cluster.groups
        groups.make("g", 2)
        groups.refusals["OffsetCommit"].extend(CoordinatorLoadInProgressError("it loads") for _ in range(1_000))
        began_ms = cluster.clock.now_ms()
        with pytest.raises(CoordinatorLoadInProgressError, match="it loads"):
            await coordinators.ask(OFFSET_COMMIT, OffsetCommitRequest("g", ()), deadline(cluster, 5_000))
        assert 3_000 < cluster.clock.now_ms() - began_ms <= 5_000
        groups.refusals["OffsetCommit"].clear()
        groups.refusals["OffsetCommit"].append(UnknownMemberIdError("a stranger"))
        began_ms = cluster.clock.now_ms()
        with pytest.raises(UnknownMemberIdError, match="a stranger"):
            await coordinators.ask(OFFSET_COMMIT, OffsetCommitRequest("g", ()), deadline(cluster))
        assert cluster.clock.now_ms() - began_ms < 100

    run(story)


def test_why_a_coordinator_refused_is_told_when_the_deadline_cuts_the_last_attempt_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient, coordinators: Coordinators) -> None:
        nodes.cluster.groups.refusals["OffsetCommit"].append(CoordinatorLoadInProgressError("the disk is full"))
        cut_off_after(1, OFFSET_COMMIT, monkeypatch)
        with pytest.raises(CoordinatorLoadInProgressError, match=r"^the disk is full; the last .* is late$") as raised:
            await coordinators.ask(OFFSET_COMMIT, OffsetCommitRequest("g", ()), deadline(cluster, 5_000))
        assert not raised.value.nothing_written
        with pytest.raises(TimedOutError, match=r"did not answer in time: .* is late"):
            await coordinators.ask(OFFSET_COMMIT, OffsetCommitRequest("g", ()), deadline(cluster, 5_000))

    run(story)


def test_a_coordinator_that_hangs_is_left_once_another_one_is_named() -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient, coordinators: Coordinators) -> None:
        groups = nodes.cluster.groups
        groups.make("g", 2)
        await coordinators.ask_each(("g",), described, deadline(cluster))
        nodes.hang(2)
        groups.at["g"] = 3
        began_ms = cluster.clock.now_ms()
        assert await coordinators.ask_each(("g",), described, deadline(cluster)) == {"g": "Empty"}
        assert cluster.clock.now_ms() - began_ms < 3_000
        assert await coordinators.node_of("g", deadline(cluster)) == 3

    run(story)


def test_a_coordinator_that_hangs_and_stays_is_waited_for_until_the_deadline() -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient, coordinators: Coordinators) -> None:
        nodes.cluster.groups.make("g", 2)
        nodes.hang(2)
        with pytest.raises(TimedOutError, match="the coordinator of group 'g' did not answer in time"):
            await coordinators.ask(OFFSET_COMMIT, OffsetCommitRequest("g", ()), deadline(cluster, 10_000))

    run(story)


def cut_off(nodes: FakeNodes, node_id: int, error: ApiError | None = None) -> None:
    """That node is cut off from the others: it takes itself for the coordinator of everything, or tells the error."""
    before = nodes.cluster.groups._find_coordinator

    def find(asked_id: int, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        if asked_id != node_id:
            return before(asked_id, request)  # type: ignore[no-any-return]
        answer = FoundCoordinator("", node_id) if error is None else FoundCoordinator("", error=error)
        return FindCoordinatorResponse(tuple(replace(answer, key=key) for key in request.keys))

    nodes.cluster.groups._find_coordinator = find  # type: ignore[method-assign]


@pytest.mark.parametrize("deposed", [1, 2, 3])
def test_a_broker_that_takes_itself_for_the_coordinator_and_is_none_is_not_believed_again(deposed: int) -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient, coordinators: Coordinators) -> None:
        nodes.cluster.groups.make("g", 1 + deposed % 3)
        cut_off(nodes, deposed)
        coordinators.learn("g", deposed)
        began_ms = cluster.clock.now_ms()
        assert await coordinators.ask_each(("g",), described, deadline(cluster)) == {"g": "Empty"}
        assert cluster.clock.now_ms() - began_ms < 1_000
        assert deposed not in asked(nodes, "FindCoordinator")

    run(story)


@pytest.mark.parametrize("deposed", [1, 2, 3])
def test_a_broker_that_knows_of_no_coordinator_is_not_asked_twice_in_a_row(deposed: int) -> None:
    async def story(nodes: FakeNodes, cluster: ClusterClient, coordinators: Coordinators) -> None:
        nodes.cluster.groups.make("g", 1 + deposed % 3)
        cut_off(nodes, deposed, CoordinatorNotAvailableError("it may be deposed"))
        assert await coordinators.ask_each(("g",), described, deadline(cluster)) == {"g": "Empty"}
        assert asked(nodes, "FindCoordinator").count(deposed) <= 1

    run(story)


def test_a_client_that_knows_one_address_learns_of_others_where_that_one_knows_of_no_coordinator() -> None:
    async def main() -> None:
        nodes = FakeNodes({0: 1}, 3)
        nodes.cluster.groups.make("g", 2)
        cut_off(nodes, 1, CoordinatorNotAvailableError("it may be deposed"))
        first = nodes.bootstrap[:1]
        cluster = ClusterClient(first, admin_config({}), fake_environment(nodes.network))
        try:
            coordinators = Coordinators(cluster)
            assert await coordinators.ask_each(("g",), described, deadline(cluster)) == {"g": "Empty"}
        finally:
            await cluster.close()

    run_virtual(main())


def test_an_answer_without_a_group_is_no_answer_for_it() -> None:
    async def nothing(connection: Connection, named: Sequence[str], left_ms: int) -> Mapping[str, DescribedGroup]:
        return {}

    async def refuses(connection: Connection, named: Sequence[str], left_ms: int) -> Mapping[str, DescribedGroup]:
        raise InvalidRequestError("no")

    async def story(nodes: FakeNodes, cluster: ClusterClient, coordinators: Coordinators) -> None:
        found = await coordinators.ask_each(("g",), nothing, deadline(cluster))
        assert isinstance(found["g"], UnknownServerError)
        found = await coordinators.ask_each(("g", "h"), refuses, deadline(cluster))
        assert [type(answer) for answer in found.values()] == [InvalidRequestError] * 2

    run(story)
