"""Promises of the log-start commit: nobody is told before a write that began after the question, nor left waiting."""

from __future__ import annotations

import asyncio
import threading

from broker.replication.leader.log_start_commit import LogStartCommit
from penstock.errors import ApiError, KafkaStorageError
from tests.support.machine import THREADS, stop_wait


class Disk:
    """A checkpoint that is written when the test lets it."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = threading.Semaphore(0)
        self.failures: dict[str, ApiError] = {}
        self.bug: Exception | None = None

    def write(self, log_dir: str) -> ApiError | None:
        self.begun += 1
        assert self.may_end.acquire(timeout=60)
        if self.bug is not None:
            raise self.bug
        return self.failures.get(log_dir)


class Outcomes:
    """Records the answers that waiters get, in order."""

    def __init__(self) -> None:
        self.errors: list[ApiError | None] = []
        self._more = asyncio.Event()

    def __call__(self, error: ApiError | None) -> None:
        self.errors.append(error)
        self._more.set()

    async def times(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.errors) < count:
                self._more.clear()
                await self._more.wait()


def test_requests_that_come_during_a_write_are_served_by_the_next_one() -> None:
    async def scenario() -> None:
        disk = Disk()
        commit = LogStartCommit(disk.write, THREADS.executor("log-starts", 2))
        committed = Outcomes()
        commit.request("/d", committed)
        commit.request("/d", committed)
        commit.request("/d", committed)
        disk.may_end.release()
        await committed.times(1)
        assert len(committed.errors) == 1, "the two that came later may have moved a log start since"
        disk.may_end.release()
        await committed.times(3)
        assert committed.errors == [None, None, None] and disk.begun == 2
        assert commit.statistics().writes == 2 and commit.statistics().waiting == 0

    asyncio.run(scenario())


def test_a_log_dir_that_refuses_fails_who_waits_for_it_and_nobody_else() -> None:
    async def scenario() -> None:
        disk = Disk()
        commit = LogStartCommit(disk.write, THREADS.executor("log-starts", 2))
        full = KafkaStorageError("ENOSPC")
        for failures, bug in (({"/d": full}, None), ({"/other": full}, None), ({}, ValueError("a bug")), ({}, None)):
            disk.failures, disk.bug = failures, bug
            disk.may_end.release()
            committed = Outcomes()
            commit.request("/d", committed)
            await committed.times(1)
            if failures.get("/d"):
                assert committed.errors == [full]
            elif bug is not None:
                assert isinstance(committed.errors[0], KafkaStorageError)
            else:
                assert committed.errors == [None]
        assert (commit.statistics().writes, commit.statistics().failures) == (4, 2)

    asyncio.run(scenario())


def test_a_log_dir_that_hangs_holds_up_no_other() -> None:
    async def scenario() -> None:
        hangs = threading.Event()

        def write(log_dir: str) -> ApiError | None:
            if log_dir == "/hung":
                assert hangs.wait(timeout=60)
            return None

        commit, there, here = LogStartCommit(write, THREADS.executor("log-starts", 2)), Outcomes(), Outcomes()
        commit.request("/hung", there)
        commit.request("/here", here)
        await here.times(1)
        commit.request("/here", here)
        await here.times(2)
        assert there.errors == [] and commit.statistics().writes == 3
        hangs.set()
        await there.times(1)
        assert there.errors == [None]

    asyncio.run(scenario())


def test_closing_waits_for_the_write_under_way_and_takes_no_more() -> None:
    async def scenario() -> None:
        disk = Disk()
        commit = LogStartCommit(disk.write, THREADS.executor("log-starts", 2))
        committed = Outcomes()
        commit.request("/d", committed)
        disk.may_end.release()
        await commit.close(stop_wait())
        commit.request("/d", committed)
        assert committed.errors == [None] and disk.begun == 1

    asyncio.run(scenario())
