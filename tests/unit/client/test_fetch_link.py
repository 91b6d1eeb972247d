"""On silence of a leader others are asked who leads; its request is left once there is a newer leader or epoch."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client import fetch_link
from penstock.types import Endpoint
from tests.support.scripted_fetch import HANGS, ScriptedCluster, raw_fetch


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_link, "SILENCE_MS", 5)


async def read(cluster: ScriptedCluster, end: int = 30) -> list[int]:
    return [buffer.next_offset async for buffer in raw_fetch(cluster, end, request_timeout_ms=20_000).buffers()]


def test_on_silence_others_are_asked_and_the_new_leader_is_read() -> None:
    cluster = ScriptedCluster()
    cluster.hung = {1}

    def on_refresh() -> None:
        if cluster.refreshes == 3:  # the first answers still name the old leader
            cluster.learn(leader=2, epoch=1)

    cluster.on_refresh = on_refresh
    assert asyncio.run(read(cluster)) == [10, 20, 30]
    assert {node for node, _ in cluster.calls} == {2}, "the hung node has swallowed its request"
    assert cluster.besides == {Endpoint("host-1", 1)}
    assert 1 in cluster.cancelled, "the request to the hung node was left"


@pytest.mark.parametrize("what", ["write", "read"])
def test_a_newer_epoch_ends_the_request_under_way_though_the_node_is_the_same(what: str) -> None:
    cluster = ScriptedCluster(faults={(what, 2): HANGS})
    cluster.on_refresh = lambda: cluster.learn(leader=1, epoch=7)

    assert asyncio.run(read(cluster)) == [10, 20, 30]
    assert cluster.calls[-1][1].changed[0].current_leader_epoch == 7


def test_an_answer_in_time_asks_nobody() -> None:
    cluster = ScriptedCluster()
    asyncio.run(read(cluster))
    assert cluster.refreshes == 0
