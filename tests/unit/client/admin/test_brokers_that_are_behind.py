"""A change is over when every broker in service has heard of it; one that was behind still counts at the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.client.admin.configs import wait_heard
from penstock.client.cluster.cluster import METADATA_ATTEMPT_MS, ClusterClient
from penstock.errors import NetworkError, RequestTimedOutError, TimedOutError
from penstock.types import Endpoint
from tests.support.virtual_time import run_virtual, virtual_clock

CHANGE, BEFORE = 7, 6
DEADLINE_MS = METADATA_ATTEMPT_MS // 2
AHEAD, BEHIND = Endpoint("a", 1), Endpoint("b", 2)


class Brokers:
    """Two brokers. One has heard of everything; The other is behind at first, and then says `later`."""

    def __init__(self, later: Callable[[int], Any]) -> None:
        self.later = later
        self.asked = 0
        self.clock = virtual_clock()
        brokers = [SimpleNamespace(endpoint=endpoint, fenced=False) for endpoint in (AHEAD, BEHIND)]
        self.cache = SimpleNamespace(brokers=brokers, update=lambda snapshot, now_ms: None)

    async def refresh(self, *, deadline_ms: int) -> None:
        """Nothing is new."""

    def connection_to(self, endpoint: Endpoint) -> Any:
        async def metadata(names: tuple[str, ...], timeout_ms: int) -> Any:
            if endpoint == AHEAD:
                return SimpleNamespace(metadata_offset=CHANGE)
            self.asked += 1
            if self.asked == 1:
                return SimpleNamespace(metadata_offset=BEFORE)
            return await self.later(timeout_ms)

        return SimpleNamespace(metadata=metadata)


def waited(later: Callable[[int], Any]) -> int:
    """For how long, in ms."""

    async def wait() -> int:
        brokers = Brokers(later)
        began_ms = brokers.clock.now_ms()
        await wait_heard(cast(ClusterClient, brokers), CHANGE, began_ms + DEADLINE_MS)
        return brokers.clock.now_ms() - began_ms

    return run_virtual(wait())


def test_a_broker_that_was_behind_and_is_cut_off_by_the_deadline_has_not_heard() -> None:
    async def silent(timeout_ms: int) -> Any:
        await asyncio.sleep(timeout_ms / 1000)
        raise RequestTimedOutError("no answer")

    with pytest.raises(TimedOutError, match="the change was made, but some brokers do not have it yet"):
        waited(silent)


def test_a_broker_that_was_behind_and_dies_is_not_waited_for() -> None:
    async def dead(timeout_ms: int) -> Any:
        raise NetworkError("connection refused")

    assert waited(dead) < DEADLINE_MS / 2
