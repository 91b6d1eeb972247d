"""Every `Threads` keeps the promises of `penstock.threads`: the machine's, and the one whose threads are steps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.threads import SystemThreads, Threads
from tests.support.stepped_threads import Deadlock, SteppedThreads
from tests.support.virtual_time import VirtualTimeLoop


@pytest.fixture(params=["system", "stepped"])
def threads(request: pytest.FixtureRequest) -> Threads:
    return SystemThreads() if request.param == "system" else SteppedThreads(random.Random(1))


def on_a_loop(threads: str, main: Any) -> Any:
    """Run `main(threads)` on a loop of the kind that belongs to those threads."""

    def run(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any]) -> Any:
        try:
            return loop.run_until_complete(coroutine)
        finally:
            loop.close()

    if threads == "system":
        return run(asyncio.new_event_loop(), main(SystemThreads()))
    loop = VirtualTimeLoop()
    return run(loop, main(SteppedThreads(random.Random(1), loop.call_soon)))


def test_a_thread_has_done_its_work_when_it_is_joined(threads: Threads) -> None:
    done: list[str] = []
    started = [threads.start(f"t{number}", lambda number=number: done.append(f"t{number}")) for number in range(3)]  # type: ignore[misc]
    for thread in started:
        thread.join()
    assert sorted(done) == ["t0", "t1", "t2"]
    assert not any(thread.is_alive() for thread in started)


def test_one_worker_does_its_work_in_order(threads: Threads) -> None:
    done: list[int] = []
    workers = threads.workers("flush")
    assert workers.count == 0
    workers.grow()
    for number in range(20):
        workers.put(lambda number=number: done.append(number))  # type: ignore[misc]
    workers.close()
    assert done == list(range(20))


def test_work_that_was_put_before_there_was_a_worker_is_done_once_there_is_one(threads: Threads) -> None:
    done = threads.event()
    workers = threads.workers("late")
    workers.put(done.set)
    assert not done.is_set()
    workers.grow()
    assert workers.count == 1
    assert done.wait(10)
    workers.close()


def test_workers_that_begin_later_than_others_are_not_forgotten(threads: Threads) -> None:
    done = threads.event()
    flush, cut = threads.workers("flush"), threads.workers("cut")
    flush.grow()
    flush.put(done.set)
    assert done.wait(10)
    flush.close()
    cut.close()


def test_an_executor_gives_the_result_or_what_was_raised(threads: Threads) -> None:
    executor = threads.executor("raft-disk", 2)
    assert executor.submit(lambda a, b: a + b, 1, b=2).result(10) == 3
    assert isinstance(executor.submit(int, "x").exception(10), ValueError)
    executor.shutdown()


def test_an_executor_of_one_thread_begins_in_order(threads: Threads) -> None:
    done: list[int] = []
    executor = threads.executor("one", 1)
    for number in range(20):
        executor.submit(done.append, number)
    executor.shutdown()
    assert done == list(range(20))


def test_nothing_is_submitted_after_the_shutdown(threads: Threads) -> None:
    executor = threads.executor("shut", 1)
    executor.shutdown()
    with pytest.raises(RuntimeError):
        executor.submit(list)


def test_a_lock_is_held_once(threads: Threads) -> None:
    lock = threads.lock()
    refused: list[bool] = []
    with lock:
        assert lock.locked()
        threads.start("other", lambda: refused.append(lock.acquire(blocking=False))).join()
    assert refused == [False]
    assert not lock.locked()
    with pytest.raises(RuntimeError):
        lock.release()


def test_a_thread_waits_for_a_lock_until_another_gives_it_back(threads: Threads) -> None:
    lock = threads.lock()
    lock.acquire()
    threads.start("holder", lock.release)
    with lock:
        assert lock.locked()


def test_an_event_wakes_whoever_waits(threads: Threads) -> None:
    event = threads.event()
    threads.start("setter", event.set)
    assert event.wait()
    event.clear()
    assert not event.wait(0.001)


def test_a_queue_gives_the_items_in_order_and_waits_for_them(threads: Threads) -> None:
    items = threads.queue()
    threads.start("putter", lambda: [items.put(number) for number in range(3)])
    assert [items.get() for _ in range(3)] == [0, 1, 2]


def test_a_thread_knows_its_number_and_its_name(threads: Threads) -> None:
    seen: list[tuple[int, str]] = []

    def look() -> None:
        number = threads.own_native_id()
        seen.append((number, threads.names()[number]))

    threads.start("fetcher", look).join()
    assert seen[0][1] == "fetcher"
    assert seen[0][0] != threads.own_native_id()
    assert threads.names()[threads.own_native_id()] == "MainThread"


@pytest.mark.parametrize("kind", ["system", "stepped"])
def test_a_loop_goes_on_while_an_executor_works(kind: str) -> None:
    async def main(threads: Threads) -> tuple[list[int], int]:
        executor = threads.executor("disk", 2)
        loop = asyncio.get_running_loop()
        waiting = [loop.run_in_executor(executor, pow, 2, number) for number in range(5)]
        started = not any(future.done() for future in waiting)
        found = await asyncio.gather(*waiting)
        executor.shutdown()
        return found, started

    assert on_a_loop(kind, main) == ([1, 2, 4, 8, 16], True)


@pytest.mark.parametrize("kind", ["system", "stepped"])
def test_a_worker_calls_back_on_the_loop(kind: str) -> None:
    async def main(threads: Threads) -> str:
        loop, called = asyncio.get_running_loop(), asyncio.Event()
        workers = threads.workers("flush")
        workers.put(lambda: loop.call_soon_threadsafe(called.set))
        workers.grow()
        await called.wait()
        workers.close()
        return "told"

    assert on_a_loop(kind, main) == "told"


# -- the steps alone ---------------------------------------------------------------------------------------------------


def test_a_seed_decides_the_order_of_the_steps() -> None:
    def order(seed: int) -> list[int]:
        threads, done = SteppedThreads(random.Random(seed)), []
        for number in range(8):
            threads.start(f"t{number}", lambda number=number: done.append(number))  # type: ignore[misc]
        threads.run_all()
        return done

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(5)}) > 1


def test_a_wait_that_nothing_ends_is_a_deadlock_and_not_a_hang() -> None:
    threads = SteppedThreads(random.Random(1))
    with pytest.raises(Deadlock, match="MainThread waits for an item of a queue"):
        threads.queue().get()
