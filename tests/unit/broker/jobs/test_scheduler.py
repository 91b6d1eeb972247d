"""Promises of the schedule: fixed times, one run at a time, disk errors that pass, bugs that do not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from broker.jobs.scheduler import THREADS as THREADS_OF_A_DIR
from broker.jobs.scheduler import JobStatistics, Scheduler
from penstock.clock import ManualClock, SystemClock
from penstock.errors import KafkaStorageError
from storage.disk.stop_wait import STOP_WAIT_MS
from tests.support.machine import THREADS, stop_wait
from tests.support.virtual_time import run_virtual, virtual_clock

Job = Callable[[], Awaitable[None]]


def runs_of(job: Job, interval_ms: int, life_ms: int) -> tuple[JobStatistics, list[BaseException]]:
    """The job on schedule for so long: its statistics before the stop, and what was fatal."""

    async def main() -> tuple[JobStatistics, list[BaseException]]:
        fatal: list[BaseException] = []
        scheduler = Scheduler(virtual_clock(), THREADS, fatal.append)
        scheduler.add("log-retention", interval_ms, job)
        scheduler.start()
        await asyncio.sleep(life_ms / 1000)
        (statistics,) = scheduler.statistics()
        await scheduler.stop(stop_wait())
        return statistics, fatal

    return run_virtual(main())


def test_a_job_runs_at_multiples_of_its_interval_however_long_it_takes() -> None:
    started: list[int] = []

    async def job() -> None:
        started.append(virtual_clock().now_ms() - 1_000_000)
        await asyncio.sleep(0.030)

    statistics, _ = runs_of(job, interval_ms=100, life_ms=450)
    assert started == [100, 200, 300, 400]
    assert (statistics.runs, statistics.last_duration_ms) == (4, 30)


def test_a_turn_that_comes_while_the_job_runs_is_left_out() -> None:
    started: list[int] = []
    running = 0

    async def job() -> None:
        nonlocal running
        running += 1
        assert running == 1
        started.append(virtual_clock().now_ms() - 1_000_000)
        await asyncio.sleep(0.250)
        running -= 1

    runs_of(job, interval_ms=100, life_ms=800)
    assert started == [100, 400, 700]


def test_a_disk_error_is_counted_and_the_job_comes_again() -> None:
    errors = iter([OSError(28, "full"), KafkaStorageError("full"), None, None, None])

    async def job() -> None:
        error = next(errors)
        if error is not None:
            raise error

    statistics, fatal = runs_of(job, interval_ms=10, life_ms=45)
    assert (statistics.runs, statistics.failures, fatal) == (4, 2, [])


def test_a_bug_in_a_job_is_fatal() -> None:
    async def job() -> None:
        raise ZeroDivisionError

    _, fatal = runs_of(job, interval_ms=10, life_ms=45)
    assert [type(error) for error in fatal] == [ZeroDivisionError]


def test_stop_waits_for_a_run_under_way_and_begins_none() -> None:
    async def main() -> None:
        done: list[int] = []

        async def job() -> None:
            await asyncio.sleep(1)
            done.append(1)

        scheduler = Scheduler(virtual_clock(), THREADS, lambda error: None)
        scheduler.add("delete-logs", 100, job)
        scheduler.start()
        await asyncio.sleep(0.150)
        assert "running delete-logs" in repr(scheduler) and not done
        await scheduler.stop(stop_wait())
        assert done == [1]
        await asyncio.sleep(10)
        assert done == [1]

    run_virtual(main())


def test_a_job_that_never_ran_has_no_duration() -> None:
    async def job() -> None:
        """Nothing."""

    statistics, _ = runs_of(job, interval_ms=1000, life_ms=10)
    assert statistics == JobStatistics("log-retention", 0, 0, -1, False)


def test_blocking_work_runs_in_a_thread_of_the_schedule() -> None:
    async def main() -> str:
        scheduler = Scheduler(SystemClock(), THREADS, lambda error: None)
        name = await scheduler.in_thread("/d", lambda: threading.current_thread().name)
        await scheduler.stop(stop_wait())
        return name

    assert asyncio.run(main()).startswith("upkeep")


def test_a_log_dir_that_hangs_keeps_the_threads_of_no_other() -> None:
    async def main() -> None:
        scheduler, hangs = Scheduler(SystemClock(), THREADS, lambda error: None), threading.Event()
        there = [asyncio.create_task(scheduler.in_thread("/hung", hangs.wait, 10)) for _ in range(2 * THREADS_OF_A_DIR)]
        async with asyncio.timeout(10):
            assert await scheduler.in_thread("/here", lambda: "done") == "done"
        assert not any(task.done() for task in there)
        hangs.set()
        await asyncio.gather(*there)
        await scheduler.stop(stop_wait())

    asyncio.run(main())


def test_stop_gives_up_a_log_dir_that_hangs_and_waits_for_the_others() -> None:
    async def main() -> None:
        clock, hangs, began, may_end = ManualClock(), threading.Event(), threading.Event(), threading.Event()
        scheduler, wait = Scheduler(SystemClock(), THREADS, lambda error: None), stop_wait(clock)
        done: list[str] = []

        async def hung() -> None:
            await scheduler.in_thread("/hung", hangs.wait, 30)

        async def slow() -> None:
            await scheduler.in_thread("/slow", lambda: began.set() or may_end.wait(30))  # type: ignore[func-returns-value]
            done.append(await scheduler.in_thread("/slow", lambda: "the second step"))

        scheduler.add("hung", 1, hung)
        scheduler.add("slow", 1, slow)
        scheduler.start()
        assert await asyncio.to_thread(began.wait, 10)
        stop = asyncio.create_task(scheduler.stop(wait))
        await asyncio.sleep(0)
        clock.advance(STOP_WAIT_MS - 1)
        may_end.set()
        while not done:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not stop.done()
        clock.advance(1)
        await asyncio.wait_for(stop, 10)
        assert (wait.given_up, done) == ({"/hung"}, ["the second step"])
        hangs.set()

    asyncio.run(main())


def test_another_interval_counts_from_the_change_on() -> None:
    started: list[int] = []

    async def job() -> None:
        started.append(virtual_clock().now_ms() - 1_000_000)

    async def main() -> None:
        scheduler = Scheduler(virtual_clock(), THREADS, lambda error: None)
        scheduler.add("log-cleaner", 86_400_000, job)
        scheduler.start()
        await asyncio.sleep(1)
        scheduler.change_interval("log-cleaner", 100)
        await asyncio.sleep(0.250)
        scheduler.change_interval("log-cleaner", 100)  # the same: its turns stay where they are
        await asyncio.sleep(0.100)
        scheduler.change_interval("log-cleaner", 1_000)
        scheduler.change_interval("nobody", 1)
        await asyncio.sleep(1.2)
        await scheduler.stop(stop_wait())

    run_virtual(main())
    assert started == [1_100, 1_200, 1_300, 2_350]
