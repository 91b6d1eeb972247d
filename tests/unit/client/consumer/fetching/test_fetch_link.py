"""On silence of a leader others are asked who leads; its request is left once there is a newer leader or epoch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import NotLeaderOrFollowerError
from penstock.messages.fetch import FetchRequest, FetchResponse
from penstock.types import Endpoint, LeaderHint
from tests.support.scripted_fetch import HANGS, ScriptedCluster, raw_fetch, whole_log
from tests.support.virtual_time import run_virtual


async def read(cluster: ScriptedCluster, end: int = 30) -> list[int]:
    return [buffer.next_offset async for buffer in raw_fetch(cluster, end, request_timeout_ms=20_000).buffers()]


def test_on_silence_others_are_asked_and_the_new_leader_is_read() -> None:
    cluster = ScriptedCluster()
    cluster.hung = {1}

    def on_refresh() -> None:
        if cluster.refreshes == 3:  # the first answers still name the old leader
            cluster.learn(leader=2, epoch=1)

    cluster.on_refresh = on_refresh

    async def scenario() -> list[int]:
        found = []
        async for buffer in raw_fetch(cluster, 30).buffers():
            found.append(buffer.next_offset)
            assert cluster.cancelled == [1], "the request to the hung node was left before anything came"
        return found

    assert run_virtual(scenario()) == [10, 20, 30]
    assert {node for node, _ in cluster.calls} == {2}, "the hung node has swallowed its request"
    assert cluster.avoid == {Endpoint("host-1", 1)}


@pytest.mark.parametrize("what", ["write", "read"])
def test_a_newer_epoch_ends_the_request_under_way_though_the_node_is_the_same(what: str) -> None:
    cluster = ScriptedCluster(faults={(what, 2): HANGS})
    cluster.on_refresh = lambda: cluster.learn(leader=1, epoch=7)

    assert run_virtual(read(cluster)) == [10, 20, 30]
    assert cluster.calls[-1][1].partitions[0].current_leader_epoch == 7


def test_a_hint_that_tells_nothing_new_is_not_all_that_is_asked() -> None:
    cluster = ScriptedCluster(refusing)
    cluster.on_refresh = lambda: cluster.learn(leader=2, epoch=1)
    assert run_virtual(read(cluster)) == [10, 20, 30]
    assert [node for node, _ in cluster.calls][:2] == [1, 2]


def refusing(call: FetchRequest) -> FetchResponse:
    """The leader of epoch 0 does not lead, and names itself."""
    answer = whole_log(call)
    if call.partitions[0].current_leader_epoch > 0:
        return answer
    hint = LeaderHint(1, 0, Endpoint("host-1", 1), "id-1")
    refused = replace(answer.partitions[0], error=NotLeaderOrFollowerError("ask the leader", leader=hint), records=b"")
    return FetchResponse([refused])


def test_an_answer_in_time_asks_nobody() -> None:
    cluster = ScriptedCluster()
    run_virtual(read(cluster))
    assert cluster.refreshes == 0
