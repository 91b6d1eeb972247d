"""A client that has used its quota up is answered at once, told how long it waits, and not read meanwhile (KIP-219)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.load.busy_time import BusyTimes
from broker.network.connection_loop import ConnectionLoop, Incoming
from broker.network.memory_budget import Lease
from broker.network.request_channel import Request, RequestChannel
from broker.network.request_memory import RequestIntake, RequestMemory
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER


class Far:
    """Sends requests without a pause, and has what it was told."""

    def __init__(self) -> None:
        self.read = 0
        self.sent: list[tuple[bytes, int]] = []

    async def receive(self, intake: RequestIntake) -> tuple[bytes, Lease] | None:
        await intake.wait_turn()
        self.read += 1
        return b"0123456789", intake.arrived(10)

    async def write(self, message: bytes) -> None:
        """Has room."""

    def decode(self, raw: bytes) -> Incoming:
        return Incoming("Api", self.read, "app", object())

    def encode(self, request: Request, answer: Any) -> bytes:
        self.sent.append((answer, request.throttle_ms))
        return bytes(answer)


class Late(Far):
    """Its second request is on its way for a while, and there is no third."""

    def __init__(self) -> None:
        super().__init__()
        self.comes = asyncio.Event()

    async def receive(self, intake: RequestIntake) -> tuple[bytes, Lease] | None:
        if self.read:
            await self.comes.wait()
            self.comes.clear()
        return await super().receive(intake)


class Quotas:
    """Makes a client wait for so long after each request, when it comes or when it is answered."""

    def __init__(self, came_ms: int = 0, answered_ms: int = 0, *, is_active: bool = True) -> None:
        self.came_ms, self.answered_ms, self.is_active = came_ms, answered_ms, is_active
        self.sizes: list[int] = []

    def came(self, request: Request, size_bytes: int, now_ns: int) -> int:
        self.sizes.append(size_bytes)
        return self.came_ms

    def answered(self, request: Request, worked: Request, size_bytes: int, now_ns: int) -> int:
        self.sizes.append(size_bytes)
        return self.answered_ms

    def owed(self, request: Request, now_ns: int) -> int:
        raise AssertionError("a connection is left unread instead")


def read_in(quotas: Quotas, answers: int) -> Far:
    """One connection, when nothing more moves without time."""
    far = Far()

    async def main() -> None:
        channel = RequestChannel(100, BusyTimes(NOW_NS), NOW_NS)
        loop = ConnectionLoop(channel, CALLER, far, far, RequestMemory(1 << 20), 3, lambda request: None, quotas=quotas)
        running = asyncio.ensure_future(loop.run())
        for _ in range(answers):
            request = await channel.receive()
            request.complete(b"abc")
            channel.request_handled(request)
            for _ in range(30):
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())
    return far


def test_who_sent_too_much_is_told_so_and_not_read() -> None:
    quotas = Quotas(came_ms=60_000)
    far = read_in(quotas, 1)
    assert (far.read, far.sent) == (1, [(b"abc", 60_000)])
    assert quotas.sizes == [10, 3]


def test_who_was_sent_too_much_is_told_so_and_not_heard() -> None:
    far = read_in(Quotas(answered_ms=60_000), 1)
    assert far.sent == [(b"abc", 0), (b"abc", 60_000)]
    assert far.read <= 3, "what was read before waits, and nothing more is"


def test_a_request_that_was_on_its_way_holds_no_memory_while_its_client_waits() -> None:
    """Its bytes count for the whole node: others would wait for them as long as this client does."""
    memory, far = RequestMemory(1 << 20), Late()

    async def main() -> None:
        channel = RequestChannel(100, BusyTimes(NOW_NS), NOW_NS)
        quotas = Quotas(answered_ms=60_000)
        loop = ConnectionLoop(channel, CALLER, far, far, memory, 3, lambda request: None, quotas=quotas)
        running = asyncio.ensure_future(loop.run())
        for number in range(2):
            if number:
                far.comes.set()  # when the connection is not read any more, but for this one
            request = await asyncio.wait_for(channel.receive(), 10)
            request.complete(b"abc")
            channel.request_handled(request)
            for _ in range(30):
                await asyncio.sleep(0)
        assert memory.statistics().used_bytes == 0 and far.read == 2
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


def test_the_longer_wait_counts() -> None:
    assert read_in(Quotas(came_ms=60_000, answered_ms=50_000), 1).sent == [(b"abc", 60_000)]


@pytest.mark.parametrize("quotas", [Quotas(), Quotas(came_ms=60_000, answered_ms=60_000, is_active=False)])
def test_without_a_quota_nobody_waits(quotas: Quotas) -> None:
    far = read_in(quotas, 5)
    assert far.read > 5 and [ms for _, ms in far.sent] == [0] * 5


def test_a_wait_ends() -> None:
    assert read_in(Quotas(came_ms=1), 3).read == 3
