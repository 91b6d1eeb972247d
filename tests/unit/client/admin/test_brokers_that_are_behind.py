"""A change is over when every broker in service has heard of it; one that was behind still counts at the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.client.admin.configs import wait_heard
from penstock.client.admin.topic_changes import TopicChanges
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.metadata_question import METADATA_ATTEMPT_MS
from penstock.errors import NetworkError, RequestTimedOutError, TimedOutError
from penstock.messages.metadata import PartitionInfo, TopicInfo
from penstock.types import Endpoint
from tests.support.virtual_time import run_virtual, virtual_clock

CHANGE, BEFORE = 7, 6
DEADLINE_MS = METADATA_ATTEMPT_MS // 2
AHEAD, BEHIND = Endpoint("a", 1), Endpoint("b", 2)


Later = Callable[[int], Any]
Wait = Callable[[ClusterClient, int], Awaitable[object]]


class Brokers:
    """Two brokers. One has heard of everything. The other is behind at first, and then says `later`."""

    def __init__(self, ahead: Any, behind: Any, later: Later) -> None:
        self.ahead, self.behind, self.later = ahead, behind, later
        self.asked = 0
        self.clock = virtual_clock()
        brokers = [SimpleNamespace(endpoint=endpoint, fenced=False) for endpoint in (AHEAD, BEHIND)]
        self.connections = SimpleNamespace(unreachable=lambda: (f"{BEHIND}: no answer",), are_foreign=lambda: False)
        self.cache = SimpleNamespace(brokers=brokers, update=lambda snapshot, now_ms: None)

    async def refresh(self, *, deadline_ms: int) -> None:
        """Nothing is new."""

    def connection_to(self, endpoint: Endpoint) -> Any:
        async def metadata(names: tuple[str, ...], timeout_ms: int) -> Any:
            if endpoint == AHEAD:
                return self.ahead
            self.asked += 1
            return self.behind if self.asked == 1 else await self.later(timeout_ms)

        return SimpleNamespace(metadata=metadata)


async def heard(cluster: ClusterClient, deadline_ms: int) -> None:
    await wait_heard(cluster, CHANGE, deadline_ms)


async def visible(cluster: ClusterClient, deadline_ms: int) -> None:
    await TopicChanges(cluster)._wait_visible("t", "id", deadline_ms)


async def gone(cluster: ClusterClient, deadline_ms: int) -> None:
    await TopicChanges(cluster)._wait_gone("t", "id", deadline_ms)


def snapshot(offset: int, *topics: TopicInfo) -> Any:
    return SimpleNamespace(metadata_offset=offset, topics=topics)


TOPIC = TopicInfo("t", "id", (PartitionInfo(0, 1, 0, 0, (1,), (1,)),))
WITH, WITHOUT = snapshot(CHANGE, TOPIC), snapshot(BEFORE)
WAITS = [
    pytest.param(heard, WITH, WITHOUT, "the change was made, but some brokers do not have it yet", id="a change"),
    pytest.param(visible, WITH, WITHOUT, "topic 't' was created, but some partitions", id="a creation"),
    pytest.param(gone, WITHOUT, WITH, "topic 't' was deleted, but a broker still has it", id="a deletion"),
]
each_wait = pytest.mark.parametrize(("wait", "ahead", "behind", "says"), WAITS)


def waited(wait: Wait, ahead: Any, behind: Any, later: Later) -> int:
    """For how long, in ms."""

    async def run() -> int:
        brokers = Brokers(ahead, behind, later)
        began_ms = brokers.clock.now_ms()
        await wait(cast(ClusterClient, brokers), began_ms + DEADLINE_MS)
        return brokers.clock.now_ms() - began_ms

    return run_virtual(run())


@each_wait
def test_a_broker_that_was_behind_and_is_cut_off_by_the_deadline_has_not_heard(
    wait: Wait, ahead: Any, behind: Any, says: str
) -> None:
    async def silent(timeout_ms: int) -> Any:
        await asyncio.sleep(timeout_ms / 1000)
        raise RequestTimedOutError("no answer")

    with pytest.raises(TimedOutError, match=says):
        waited(wait, ahead, behind, silent)


@each_wait
def test_a_broker_that_was_behind_and_dies_is_not_waited_for(wait: Wait, ahead: Any, behind: Any, says: str) -> None:
    async def dead(timeout_ms: int) -> Any:
        raise NetworkError("connection refused")

    assert waited(wait, ahead, behind, dead) < DEADLINE_MS / 2
