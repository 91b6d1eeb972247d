"""Addresses take turns in a thread that computes: in an executor that runs one thing when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from broker.authentication.slow_work import SlowWork


class ByHand(Executor):
    def __init__(self) -> None:
        self.queue: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.queue.append((future, fn))
        return future


class Bench:
    def __init__(self) -> None:
        self.thread = ByHand()
        self.work = SlowWork(self.thread)
        self.done: list[str] = []
        self._began = 0

    def begin(self, address: str, *, is_proven: bool = False) -> asyncio.Future[None]:
        self._began += 1
        name = f"{address}{self._began}"
        return asyncio.ensure_future(self.work.run(address, is_proven, lambda: self.done.append(name)))

    async def step(self) -> None:
        """The thread computes one."""
        await self.settle()
        assert len(self.thread.queue) == 1, "only one is in the thread's own queue, which is first come, first served"
        future, work = self.thread.queue.pop()
        future.set_result(work())
        await self.settle()

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


def test_an_address_waits_behind_one_of_each_other() -> None:
    async def main() -> None:
        bench = Bench()
        begun = [bench.begin("a") for _ in range(4)] + [bench.begin("b") for _ in range(2)] + [bench.begin("c")]
        for _ in begun:
            await bench.step()
        assert bench.done == ["a1", "a2", "b5", "c7", "a3", "b6", "a4"]
        await asyncio.gather(*begun)

    asyncio.run(main())


def test_proven_addresses_have_every_other_turn_at_least() -> None:
    async def main() -> None:
        bench = Bench()
        begun = [bench.begin(one) for one in "abcdef"]
        begun += [bench.begin("x", is_proven=True) for _ in range(3)]
        for _ in begun:
            await bench.step()
        assert bench.done == ["a1", "x7", "b2", "x8", "c3", "x9", "d4", "e5", "f6"]
        await asyncio.gather(*begun)

    asyncio.run(main())


def test_whoever_gives_up_is_passed_over_and_takes_no_turn_with_it() -> None:
    async def main() -> None:
        bench = Bench()
        begun = [bench.begin(one) for one in "abcd"]
        await bench.settle()
        begun[1].cancel()
        await bench.step()
        assert bench.done == ["a1"]
        begun[2].cancel()  # it is in the thread already
        await bench.settle()
        await asyncio.gather(*begun, return_exceptions=True) if not bench.thread.queue else None
        while bench.thread.queue:
            future, work = bench.thread.queue.pop(0)
            if future.set_running_or_notify_cancel():
                future.set_result(work())
            await bench.settle()
        assert bench.done == ["a1", "d4"]
        fresh = bench.begin("e")
        await bench.step()
        assert bench.done[-1].startswith("e")
        await fresh

    asyncio.run(main())


def test_a_turn_that_comes_as_its_waiter_is_cancelled_goes_to_the_next() -> None:
    async def main() -> None:
        bench = Bench()
        begun = [bench.begin(one) for one in "abc"]
        await bench.settle()
        future, work = bench.thread.queue.pop()
        future.set_result(work())
        for _ in range(20):
            await asyncio.sleep(0)
            if begun[0].done():
                break
        begun[1].cancel()
        while len(bench.done) < 2:
            await bench.settle()
            future, work = bench.thread.queue.pop(0)
            if future.set_running_or_notify_cancel():
                future.set_result(work())
        assert bench.done == ["a1", "c3"]
        await asyncio.gather(*begun, return_exceptions=True)

    asyncio.run(main())
