"""Promises of the I/O threads: work leaves the event loop and comes back to it; a log dir has its own, and a limit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from broker.load.busy_time import BusyTime
from broker.load.node_load import THREADS_BY_NAME
from broker.network import io_threads
from broker.network.io_threads import IoThreads, IoWork
from penstock.threads import SystemThreads
from tests.support.thread_shortage import no_thread_can_start


def made(threads: int = 4, log_dirs: int = 1) -> IoThreads:
    return IoThreads(SystemThreads(), threads, log_dirs, BusyTime(time.monotonic_ns), time.monotonic_ns)


class Held:
    """Work that stands still until it is let go."""

    def __init__(self) -> None:
        self.access = threading.Event()
        self.names: list[str] = []
        self.begun = threading.Semaphore(0)
        self.answered = asyncio.Semaphore(0)

    def work(self) -> None:
        self.begun.release()
        self.names.append(threading.current_thread().name)
        self.access.wait()

    async def wait(self, count: int) -> None:
        for _ in range(count):
            await asyncio.wait_for(self.answered.acquire(), 60)


def run(scenario: Callable[[], object]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


def test_work_is_done_in_a_thread_and_told_on_the_loop() -> None:
    async def main() -> None:
        io, held = made(), Held()
        held.access.set()
        heard: list[str] = []

        def then() -> None:
            heard.append(threading.current_thread().name)
            held.answered.release()

        assert io.submit("/d", IoWork.READ, held.work, then)
        await held.wait(1)
        assert heard == [threading.current_thread().name] and held.names[0] != heard[0]
        assert any(held.names[0].startswith(start) for start in THREADS_BY_NAME), "its time would count as other"
        assert io.statistics().done == {IoWork.READ: 1}
        io.close()

    run(main)


def test_a_log_dir_that_hangs_uses_up_its_own_threads_and_no_others() -> None:
    async def main() -> None:
        io, hangs, works = made(threads=4, log_dirs=2), Held(), Held()
        works.access.set()
        for _ in range(10):
            assert io.submit("/hangs", IoWork.READ, hangs.work, hangs.answered.release)
        assert io.submit("/works", IoWork.LOOK_UP, works.work, works.answered.release)
        await works.wait(1)
        await asyncio.to_thread(hangs.begun.acquire)
        await asyncio.to_thread(hangs.begun.acquire)
        seen = io.statistics()
        assert (seen.threads, seen.busy, seen.queued) == (4, 2, 8)
        hangs.access.set()
        await hangs.wait(10)
        assert len(set(hangs.names)) == 2 and io.statistics().busy == 0
        io.close()

    run(main)


def test_a_full_queue_refuses_work() -> None:
    async def main() -> None:
        io, held = made(threads=1), Held()
        taken = 0
        while io.submit("/d", IoWork.READ, held.work, held.answered.release):
            taken += 1
        assert taken == io_threads.QUEUED_MAX + 1 and io.statistics().refused == 1
        held.access.set()
        await held.wait(taken)
        io.close()

    run(main)


def test_work_that_no_thread_could_do_is_refused_and_a_later_try_is_not() -> None:
    async def main() -> None:
        io, held = made(), Held()
        held.access.set()
        with no_thread_can_start():
            assert not io.submit("/d", IoWork.READ, held.work, held.answered.release)
        assert (io.statistics().refused, io.statistics().queued) == (1, 0)
        assert io.submit("/d", IoWork.READ, held.work, held.answered.release)
        await held.wait(1)
        io.close()

    run(main)


def test_work_that_ends_after_the_loop_is_told_to_nobody() -> None:
    io, held = made(), Held()

    async def main() -> None:
        assert io.submit("/d", IoWork.READ, held.work, lambda: None)

    run(main)
    held.access.set()
    io.close()
