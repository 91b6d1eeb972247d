"""Promises of the flush threads: everything is done once, in a thread, and its outcome is told on the loop."""

from __future__ import annotations

import asyncio
import threading

from storage.flush_threads import FlushThreads


def test_each_job_is_done_once_and_told_on_the_loop() -> None:
    async def main() -> None:
        here, threads = threading.current_thread(), FlushThreads(3)
        told: list[tuple[int, threading.Thread]] = []
        worked: list[threading.Thread] = []
        all_told = asyncio.Event()

        def done(number: int, error: BaseException | None) -> None:
            assert error is None
            told.append((number, threading.current_thread()))
            if len(told) == 20:
                all_told.set()

        for number in range(20):
            threads.run(
                lambda: worked.append(threading.current_thread()), lambda error, number=number: done(number, error)
            )
        await asyncio.wait_for(all_told.wait(), 10)
        assert sorted(number for number, _ in told) == list(range(20))
        assert {thread for _, thread in told} == {here}
        assert len(worked) == 20 and here not in worked and len(set(worked)) <= 3
        threads.close()
        assert not any(thread.is_alive() for thread in worked)

    asyncio.run(main())


def test_as_many_jobs_as_there_are_threads_go_on_at_once() -> None:
    async def main() -> None:
        threads, meeting = FlushThreads(3), threading.Barrier(3)
        outcomes: asyncio.Queue[BaseException | None] = asyncio.Queue()
        for _ in range(3):
            threads.run(lambda: meeting.wait(10), outcomes.put_nowait)
        assert [await outcomes.get() for _ in range(3)] == [None, None, None]
        threads.close()

    asyncio.run(main())


def test_what_a_job_raised_is_told_and_the_thread_goes_on() -> None:
    async def main() -> None:
        threads = FlushThreads(1)
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
        threads, began, finished = FlushThreads(1), threading.Event(), threading.Event()

        def slow() -> None:
            began.set()
            assert may_end.wait(10)
            finished.set()

        may_end = threading.Event()
        threads.run(slow, lambda error: None)
        assert began.wait(10)
        threading.Timer(0, may_end.set).start()
        threads.close()
        assert finished.is_set()

    asyncio.run(main())
