"""Connections that gRPC has accepted are served in their turn, however they are seen first."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from broker.connections.turns import PeerTurns, turn_of
from penstock.types import Endpoint
from tests.support.virtual_time import run_virtual, virtual_clock

FIRST, SECOND, THIRD = (Endpoint("10.0.0.1", port) for port in (1, 2, 3))


class Quotas:
    """One connection a second of each address."""

    def __init__(self) -> None:
        self.has_addresses = True
        self.taken: Counter[str] = Counter()

    def connected(self, host: str, now_ms: int) -> int:
        self.taken[host] += 1
        return (self.taken[host] - 1) * 1_000

    def left(self, host: str) -> None:
        self.taken[host] -= 1


def run(story: Callable[[Quotas, PeerTurns], Awaitable[None]]) -> None:
    async def main() -> None:
        quotas = Quotas()
        await story(quotas, PeerTurns(quotas, virtual_clock().now_ms))

    run_virtual(main())


async def took_ms(work: Awaitable[None]) -> int:
    began_ms = virtual_clock().now_ms()
    await work
    return virtual_clock().now_ms() - began_ms


def test_every_request_of_a_new_connection_waits_for_its_one_turn() -> None:
    async def story(quotas: Quotas, turns: PeerTurns) -> None:
        assert await took_ms(turns.wait(FIRST)) == 0
        calls = asyncio.gather(*(took_ms(turns.wait(SECOND)) for _ in range(3)))
        assert await calls == [1_000] * 3 and await took_ms(turns.wait(SECOND)) == 0
        assert quotas.taken == {"10.0.0.1": 2}

    run(story)


def test_a_connection_that_asks_nothing_is_counted_when_it_is_looked_at() -> None:
    async def story(quotas: Quotas, turns: PeerTurns) -> None:
        turns.looked([FIRST, SECOND], virtual_clock().now_ms())
        assert quotas.taken == {"10.0.0.1": 2}
        assert await took_ms(turns.wait(SECOND)) == 1_000

    run(story)


def test_one_that_is_gone_before_its_turn_gives_it_back_and_comes_anew() -> None:
    async def story(quotas: Quotas, turns: PeerTurns) -> None:
        turns.looked([FIRST, SECOND], virtual_clock().now_ms())
        await asyncio.sleep(0.1)
        turns.looked([FIRST], virtual_clock().now_ms())
        assert quotas.taken == {"10.0.0.1": 1}
        turns.looked([], virtual_clock().now_ms())
        assert quotas.taken == {"10.0.0.1": 1}, "the first one has had its turn"

    run(story)


def test_one_that_came_after_the_look_is_not_forgotten_by_it() -> None:
    async def story(quotas: Quotas, turns: PeerTurns) -> None:
        began_ms = virtual_clock().now_ms()
        await asyncio.sleep(0.1)
        await turns.wait(FIRST)
        turns.looked([], began_ms)
        await turns.wait(FIRST)
        assert quotas.taken == {"10.0.0.1": 1}

    run(story)


def test_those_of_before_the_first_quota_have_had_their_turn() -> None:
    async def story(quotas: Quotas, turns: PeerTurns) -> None:
        quotas.has_addresses = False
        turns.looked([FIRST, SECOND], virtual_clock().now_ms())
        quotas.has_addresses = True
        assert await took_ms(turns.wait(SECOND)) == 0 and not quotas.taken
        assert await took_ms(turns.wait(THIRD)) == 0 and quotas.taken == {"10.0.0.1": 1}

    run(story)


def test_an_accepted_connection_waits_and_gives_its_turn_back_when_it_ends() -> None:
    async def story(quotas: Quotas, turns: PeerTurns) -> None:
        assert turn_of(quotas, "10.0.0.1", 0) is None
        turn = turn_of(quotas, "10.0.0.1", 0)
        assert turn is not None
        waiting = asyncio.ensure_future(turn())
        await asyncio.sleep(0.5)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert quotas.taken == {"10.0.0.1": 1}

    run(story)
