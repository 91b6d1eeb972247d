"""Promises of a log dir's threads: everything is done once, in a thread, and its outcome is told on the loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from storage.disk.dir_threads import DirThreads, NoThreadError
from tests.support.loop_without_memory import LoopWithoutMemory
from tests.support.machine import THREADS
from tests.support.thread_shortage import no_thread_can_start


def test_each_job_is_done_once_and_told_on_the_loop() -> None:
    async def main() -> None:
        here, threads = threading.current_thread(), DirThreads(THREADS, "flush", 3)
        heard: list[tuple[int, threading.Thread]] = []
        worked: list[threading.Thread] = []
        all_reported = asyncio.Event()

        def done(number: int, error: BaseException | None) -> None:
            assert error is None
            heard.append((number, threading.current_thread()))
            if len(heard) == 20:
                all_reported.set()

        for number in range(20):
            threads.run(
                lambda: worked.append(threading.current_thread()), lambda error, number=number: done(number, error)
            )
        await asyncio.wait_for(all_reported.wait(), 60)
        assert sorted(number for number, _ in heard) == list(range(20))
        assert {thread for _, thread in heard} == {here}
        assert len(worked) == 20 and here not in worked and len(set(worked)) <= 3
        threads.close()
        assert not any(thread.is_alive() for thread in worked)

    asyncio.run(main())


def test_as_many_jobs_as_there_are_threads_go_on_at_once() -> None:
    async def main() -> None:
        threads, meeting = DirThreads(THREADS, "flush", 3), threading.Barrier(3)
        outcomes: asyncio.Queue[BaseException | None] = asyncio.Queue()
        for _ in range(3):
            threads.run(lambda: meeting.wait(60), outcomes.put_nowait)
        assert [await outcomes.get() for _ in range(3)] == [None, None, None]
        threads.close()

    asyncio.run(main())


def test_what_a_job_raised_is_told_and_the_thread_goes_on() -> None:
    async def main() -> None:
        threads = DirThreads(THREADS, "flush", 1)
        outcomes: asyncio.Queue[BaseException | None] = asyncio.Queue()

        def fails(error: BaseException) -> None:
            raise error

        expected = [OSError(5, "EIO"), KeyboardInterrupt(), None]
        for error in expected:
            threads.run((lambda: None) if error is None else (lambda error=error: fails(error)), outcomes.put_nowait)
        assert [await outcomes.get() for _ in expected] == expected
        threads.close()

    asyncio.run(main())


def test_close_waits_for_what_is_under_way() -> None:
    async def main() -> None:
        threads, began, finished = DirThreads(THREADS, "flush", 1), threading.Event(), threading.Event()

        def slow() -> None:
            began.set()
            assert may_end.wait(60)
            finished.set()

        may_end = threading.Event()
        threads.run(slow, lambda error: None)
        assert began.wait(60)
        threading.Timer(0, may_end.set).start()
        threads.close()
        assert finished.is_set()

    asyncio.run(main())


def test_where_no_thread_can_start_those_that_are_there_do_everything() -> None:
    async def main() -> None:
        threads = DirThreads(THREADS, "flush", 3)
        outcomes: asyncio.Queue[BaseException | None] = asyncio.Queue()
        may_end = threading.Event()
        threads.run(lambda: may_end.wait(60), outcomes.put_nowait)
        with no_thread_can_start():
            for _ in range(4):
                threads.run(lambda: None, outcomes.put_nowait)
        may_end.set()
        assert [await asyncio.wait_for(outcomes.get(), 60) for _ in range(5)] == [None] * 5
        threads.close()

    asyncio.run(main())


def test_a_job_that_no_thread_got_is_refused_and_leaves_nothing_behind() -> None:
    async def main() -> None:
        threads = DirThreads(THREADS, "flush", 2)
        outcomes: asyncio.Queue[BaseException | None] = asyncio.Queue()
        with no_thread_can_start(), pytest.raises(NoThreadError, match="no thread for flush"):
            threads.run(lambda: None, lambda error: outcomes.put_nowait(OSError("it was refused")))
        assert repr(threads) == "DirThreads(flush, 0 jobs, 0 of 2 threads)"
        threads.run(lambda: None, outcomes.put_nowait)
        assert await asyncio.wait_for(outcomes.get(), 60) is None
        threads.close()
        assert outcomes.empty()

    asyncio.run(main())


def test_an_outcome_that_the_loop_has_no_memory_for_is_told_later_and_once() -> None:
    async def main() -> None:
        threads = DirThreads(THREADS, "flush", 1)
        outcomes: asyncio.Queue[BaseException | None] = asyncio.Queue()
        loop = LoopWithoutMemory(asyncio.get_running_loop(), refused_before=2, refused_after=1)
        threads.run(lambda: None, outcomes.put_nowait, loop)
        assert await asyncio.wait_for(outcomes.get(), 60) is None
        threads.run(lambda: None, outcomes.put_nowait)  # the same thread does it, AFTER it has handed over the first
        assert await asyncio.wait_for(outcomes.get(), 60) is None
        assert outcomes.empty() and repr(threads) == "DirThreads(flush, 0 jobs, 1 of 1 threads)"
        threads.close()

    asyncio.run(main())
