"""Promises of a connection's loop: wherever it ends, everything that it took is given back."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.load.busy_time import BusyTimes
from broker.network.client_names import ClientNames
from broker.network.connection_loop import ConnectionLoop, Incoming
from broker.network.dispatcher import Dispatcher
from broker.network.failed_requests import FailedRequests
from broker.network.memory_budget import Lease, MemoryBudget
from broker.network.request_channel import SMALL_BYTES, Request, RequestChannel
from broker.network.request_memory import RequestIntake, RequestMemory
from penstock.errors import InvalidRequestError
from tests.support.machine import NOW_NS
from tests.support.sinks import CALLER

MEMORY_BYTES = 1 << 20
LARGE = b"x" * (SMALL_BYTES + 1)


class Body:
    """The body of a request, which a weak reference can watch."""


class Far:
    """The other side, and the language: a message's bytes name what happens to it."""

    def __init__(self, *messages: bytes) -> None:
        self.messages = list(messages)
        self.stays = asyncio.Event()
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.written: list[bytes] = []
        self.bodies: list[weakref.ref[Body]] = []
        self.api = "Api"

    async def receive(self, intake: RequestIntake) -> tuple[bytes, Lease] | None:
        await intake.wait_turn()
        if not self.messages:
            await self.stays.wait()
            return None
        message = self.messages.pop(0)
        if message == b"reader breaks":
            raise ConnectionResetError
        return message, intake.arrived(len(message))

    async def write(self, message: bytes) -> None:
        await self.may_write.wait()
        if message == b"writer breaks":
            raise ConnectionResetError
        self.written.append(message)

    def decode(self, raw: bytes) -> Incoming:
        body = Body()
        self.bodies.append(weakref.ref(body))
        if raw == b"over a limit":
            raise InvalidRequestError("over a limit")
        return Incoming(self.api, len(self.bodies), "somebody", body)

    def encode(self, request: Request, answer: Any) -> bytes:
        if answer == b"cannot be encoded":
            raise ZeroDivisionError
        return b"refused" if request.error is not None else bytes(answer)


class Bench:
    """A loop with everything that it takes from the node."""

    def __init__(
        self, far: Far, queued_max: int = 10, prepare: Any = lambda request: None, memory: RequestMemory | None = None
    ) -> None:
        self.far = far
        self.channel = RequestChannel(queued_max, BusyTimes(NOW_NS), NOW_NS)
        self.memory, self.names = memory or RequestMemory(MEMORY_BYTES), ClientNames()
        self.loop = ConnectionLoop(self.channel, CALLER, far, far, self.memory, 3, prepare, None, self.names)
        self.running = asyncio.ensure_future(self.loop.run())

    async def settle(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)

    async def answer(self, answer: bytes) -> None:
        request = await self.channel.receive()
        request.complete(answer)
        self.channel.request_handled(request)
        await self.settle()

    async def over(self) -> BaseException | None:
        """How the loop ended, once what it left queued was handled."""
        (ended,) = await asyncio.gather(self.running, return_exceptions=True)
        await self.settle()
        while self.channel.statistics().request_queue_size:
            await self.answer(b"late")
        return ended if isinstance(ended, BaseException) else None

    def check_all_is_given_back(self) -> None:
        assert self.memory.statistics().used_bytes == 0 == self.memory.statistics().waiting
        assert not self.memory.small._parties and not self.memory.large._parties, "an account is open"
        found = self.channel.statistics()
        assert (found.connections, found.response_queue_size, sum(found.waiting.values())) == (0, 0, 0)
        assert sum(client.streams for client in self.names.statistics()) == 0
        assert self.loop.writing_since_ns is None


def run(scenario: Callable[[], Awaitable[Bench]]) -> None:
    async def main() -> None:
        bench = await scenario()
        bench.check_all_is_given_back()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("last", "error"), [(b"reader breaks", ConnectionResetError), (b"over a limit", InvalidRequestError)]
)
def test_a_connection_that_cannot_be_read_further_ends_after_the_answers_to_what_came_before(
    last: bytes, error: type[BaseException]
) -> None:
    async def scenario() -> Bench:
        bench = Bench(Far(b"one", LARGE, last))
        await bench.settle()
        await bench.answer(b"1")
        await bench.answer(b"2")
        assert isinstance(await bench.over(), error) and bench.far.written == [b"1", b"2"]
        return bench

    run(scenario)


def test_a_refused_request_is_free_once_its_connection_has_ended_and_no_collector_is_waited_for() -> None:
    """A request may have 100 MiB, and the collector counts objects."""

    async def scenario() -> Bench:
        bench = Bench(Far(b"over a limit"))
        gc.disable()
        try:
            with pytest.raises(InvalidRequestError):
                await bench.running
            del bench.running
            await bench.settle()
            assert [body() for body in bench.far.bodies] == [None]
        finally:
            gc.enable()
        return bench

    run(scenario)


@pytest.mark.parametrize(
    ("answer", "error"), [(b"writer breaks", ConnectionResetError), (b"cannot be encoded", ZeroDivisionError)]
)
def test_a_connection_that_cannot_be_written_ends_at_once(answer: bytes, error: type[BaseException]) -> None:
    async def scenario() -> Bench:
        bench = Bench(Far(b"one", LARGE, b"three"))
        await bench.settle()
        await bench.answer(answer)
        assert isinstance(await bench.over(), error) and not bench.far.written
        return bench

    run(scenario)


async def _prepares_for_ever(request: Request) -> None:
    await asyncio.Event().wait()


async def _cannot_prepare(request: Request) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("messages", "queued_max", "prepare"),
    [
        pytest.param((), 10, None, id="it reads"),
        pytest.param((b"one", LARGE, b"three", b"four"), 10, None, id="it has as many open requests as it may"),
        pytest.param((LARGE, b"two", b"three"), 1, None, id="the queue is full"),
        pytest.param((b"one",), 10, _prepares_for_ever, id="a request is prepared"),
        pytest.param((LARGE,), 10, _prepares_for_ever, id="a large request is prepared"),
    ],
)
def test_a_connection_that_is_cut_gives_everything_back(
    messages: tuple[bytes, ...], queued_max: int, prepare: Any
) -> None:
    async def scenario() -> Bench:
        bench = Bench(Far(*messages), queued_max, prepare or (lambda request: None))
        await bench.settle()
        bench.running.cancel()
        assert isinstance(await bench.over(), asyncio.CancelledError)
        return bench

    run(scenario)


def test_a_connection_that_is_cut_while_it_waits_for_memory_gives_everything_back() -> None:
    async def scenario() -> Bench:
        bench = Bench(Far(LARGE, LARGE))
        other = bench.memory.large.open("10.0.0.9")
        taken = other.take(MEMORY_BYTES)
        await bench.settle()
        assert len(bench.far.messages) == 1 and bench.memory.statistics().waiting == 1
        bench.running.cancel()
        assert isinstance(await bench.over(), asyncio.CancelledError)
        taken.release()
        other.close()
        return bench

    run(scenario)


def test_a_connection_that_is_cut_while_an_answer_is_written_gives_everything_back() -> None:
    async def scenario() -> Bench:
        bench = Bench(Far(b"one", b"two"))
        bench.far.may_write.clear()
        await bench.settle()
        await bench.answer(b"1")
        await bench.answer(b"2")
        assert bench.loop.writing_since_ns is not None
        bench.running.cancel()
        assert isinstance(await bench.over(), asyncio.CancelledError)
        return bench

    run(scenario)


def test_a_request_that_cannot_be_prepared_ends_its_connection() -> None:
    async def scenario() -> Bench:
        bench = Bench(Far(b"one"), prepare=_cannot_prepare)
        assert isinstance(await bench.over(), ZeroDivisionError)
        return bench

    run(scenario)


def test_a_connection_that_sends_no_more_has_its_answers_first() -> None:
    async def scenario() -> Bench:
        bench = Bench(Far(b"one", b"two"))
        bench.far.stays.set()
        await bench.settle()
        await bench.answer(b"1")
        await bench.answer(b"2")
        assert await bench.over() is None and bench.far.written == [b"1", b"2"]
        return bench

    run(scenario)


def test_a_partys_unread_answers_are_above_its_share_by_one_however_many_connections_wait_for_theirs() -> None:
    async def main() -> None:
        answers, first = MemoryBudget(MEMORY_BYTES, 1), Bench(Far(b"one"))
        first.memory.answers = answers
        benches = [first] + [Bench(Far(b"one"), memory=first.memory) for _ in range(20)]
        for bench in benches:
            bench.far.may_write.clear()
            await bench.settle()
        for bench in benches:
            await bench.answer(b"x" * (MEMORY_BYTES // 8))
        assert answers.statistics().used_bytes == 3 * MEMORY_BYTES // 4, "each counts twice, and half is its share"
        other = answers.open("10.0.0.9")
        assert other.has_room(0), "others are read"
        other.close()
        first.running.cancel()
        await first.over()
        await first.settle()
        assert answers.statistics().used_bytes == 3 * MEMORY_BYTES // 4, "one more is built, and not all that waited"
        for bench in benches[1:]:
            bench.far.may_write.set()
            bench.far.stays.set()
            assert await bench.over() is None and len(bench.far.written) == 1
        assert answers.statistics().used_bytes == 0 and not answers._parties
        first.check_all_is_given_back()

    asyncio.run(main())


def test_a_small_answer_of_an_api_with_small_ones_waits_for_no_unread_answer_and_a_large_one_does() -> None:
    async def main() -> None:
        bench = Bench(Far(b"one", b"two", b"three"))
        bench.far.api = "Heartbeat"
        unread = bench.memory.answers.open("10.0.0.1").take(2 * MEMORY_BYTES)
        await bench.settle()
        await bench.answer(b"alive")
        await bench.answer(LARGE)
        await bench.answer(b"alive again")
        assert bench.far.written == [b"alive"]
        unread.release()
        await bench.settle()
        assert bench.far.written == [b"alive", LARGE, b"alive again"]
        bench.far.stays.set()
        assert await bench.over() is None

    asyncio.run(main())


def test_small_answers_behind_one_that_is_not_read_are_kept_as_their_bytes_and_counted() -> None:
    class Answer:
        """Can be watched by a weak reference."""

        def __init__(self, size: int) -> None:
            self.size = size

        def __bytes__(self) -> bytes:
            return b"x" * self.size

    async def main() -> None:
        bench = Bench(Far(b"one", b"two", b"three"))
        bench.far.api = "Produce"
        bench.far.may_write.clear()
        await bench.settle()
        answers, objects = bench.memory.answers, list[weakref.ref[Answer]]()
        for size in (10, 20, 30):
            answer = Answer(size)
            objects.append(weakref.ref(answer))
            request = await bench.channel.receive()
            request.complete(answer)
            del answer, request
            await bench.settle()
        gc.collect()
        assert [one() for one in objects] == [None] * 3 and [one() for one in bench.far.bodies] == [None] * 3
        assert answers.statistics().used_bytes == 20 + 30
        bench.far.may_write.set()
        await bench.settle()
        assert list(map(len, bench.far.written)) == [10, 20, 30]
        assert answers.statistics().used_bytes == 0
        bench.far.stays.set()
        assert await bench.over() is None
        bench.check_all_is_given_back()

    asyncio.run(main())


def test_small_answers_that_are_never_read_are_given_back_with_their_connection() -> None:
    async def main() -> None:
        bench = Bench(Far(b"one", b"two"))
        bench.far.api = "Produce"
        bench.far.may_write.clear()
        await bench.settle()
        await bench.answer(b"1")
        await bench.answer(b"2")
        assert bench.memory.answers.statistics().used_bytes == 1
        bench.running.cancel()
        await bench.over()
        assert bench.memory.answers.statistics().used_bytes == 0 and not bench.memory.answers._parties
        bench.check_all_is_given_back()

    asyncio.run(main())


def test_an_answer_behind_an_unread_one_that_cannot_be_encoded_ends_the_connection_in_its_place() -> None:
    async def main() -> None:
        bench = Bench(Far(b"one", b"two"))
        bench.far.api = "Produce"
        bench.far.may_write.clear()
        await bench.settle()
        await bench.answer(b"1")
        await bench.answer(b"cannot be encoded")
        assert not bench.running.done()
        bench.far.may_write.set()
        assert isinstance(await bench.over(), ZeroDivisionError) and bench.far.written == [b"1"]
        bench.check_all_is_given_back()

    asyncio.run(main())


def _refuse(request: Request) -> None:
    raise InvalidRequestError("no")


@pytest.mark.parametrize("handle", [lambda request: request.complete(b"fine"), _refuse], ids=["answered", "refused"])
def test_an_idle_connection_and_an_idle_handler_hold_no_request_that_is_over(handle: Callable[[Request], None]) -> None:
    """Its lease is given back: what they held would count nowhere, on each of a thousand connections."""

    async def scenario() -> Bench:
        bench = Bench(Far(b"one", LARGE))
        handler = Dispatcher(bench.channel, handle, FailedRequests(lambda error: None).fail)
        handler.start()
        await bench.settle()
        gc.collect()
        assert len(bench.far.written) == 2 and [body() for body in bench.far.bodies] == [None, None]
        bench.far.stays.set()
        assert await bench.over() is None
        await handler.stop()
        return bench

    run(scenario)
