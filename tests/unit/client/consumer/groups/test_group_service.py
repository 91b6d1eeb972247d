"""A heartbeat that leaves something out is asked once; one that says everything, until it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from penstock.client.cluster.cluster import ClusterClient
from penstock.client.consumer.groups.group_service import GroupService
from penstock.client.options.config import admin_config
from penstock.errors import NotCoordinatorError
from penstock.messages.groups.consumer_protocol import JOINS, LEAVES, ConsumerGroupHeartbeatRequest
from tests.support.client_environment import fake_environment
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.fake_nodes import FakeNodes
from tests.support.virtual_time import run_virtual

HEARTBEAT = "ConsumerGroupHeartbeat"


class LosesAnswers(FakeCoordinator):
    """Takes a heartbeat, and its answer is lost: the next `loses` times."""

    loses = 0

    async def call(self, node_id: int, name: str, raw: bytes) -> bytes:
        answer = await super().call(node_id, name, raw)
        if name == HEARTBEAT and self.loses:
            self.loses -= 1
            raise NotCoordinatorError("no more")
        return answer


def run(story: Callable[[LosesAnswers, GroupService, int], Awaitable[None]]) -> None:
    async def main() -> None:
        nodes = FakeNodes({0: 1}, 3)
        coordinator = nodes.cluster.coordinator = LosesAnswers(nodes.cluster)
        cluster = ClusterClient(nodes.bootstrap, admin_config({}), fake_environment(nodes.network))
        await cluster.wait_ready()
        try:
            await story(coordinator, GroupService(cluster), cluster.clock.now_ms() + 60_000)
        finally:
            await cluster.close()

    run_virtual(main())


def everything(epoch: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        "g", "m", epoch, rebalance_timeout_ms=300_000, subscribed_topic_names=("a",), owned_partitions=()
    )


def test_the_answer_to_a_heartbeat_that_leaves_something_out_is_not_lost_without_a_word() -> None:
    async def story(coordinator: LosesAnswers, service: GroupService, deadline_ms: int) -> None:
        joined = await service.heartbeat(everything(JOINS), deadline_ms)
        coordinator.loses = 1
        before = len(coordinator.heartbeats)
        with pytest.raises(NotCoordinatorError):
            await service.heartbeat(ConsumerGroupHeartbeatRequest("g", "m", joined.member_epoch), deadline_ms)
        assert len(coordinator.heartbeats) == before + 1, "the second answer would leave out what the first one had"

    run(story)


def test_one_that_says_everything_or_leaves_is_asked_until_it_is_answered() -> None:
    async def story(coordinator: LosesAnswers, service: GroupService, deadline_ms: int) -> None:
        for request in (everything(JOINS), ConsumerGroupHeartbeatRequest("g", "m", LEAVES)):
            coordinator.fail(HEARTBEAT, NotCoordinatorError("soon"), NotCoordinatorError("soon"))
            await service.heartbeat(request, deadline_ms)
        assert not coordinator.members

    run(story)
