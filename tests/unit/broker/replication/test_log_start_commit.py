"""Promises of the log-start commit: nobody is told before a write that began after the question, nor left waiting."""

from __future__ import annotations

import asyncio
import threading

from broker.replication.log_start_commit import LogStartCommit
from penstock.errors import ApiError, KafkaStorageError


class Disk:
    """A checkpoint that is written when the test lets it."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = threading.Semaphore(0)
        self.error: Exception | None = None

    def write(self) -> None:
        self.begun += 1
        assert self.may_end.acquire(timeout=10)
        if self.error is not None:
            raise self.error


class Told:
    """What the waiters were told, in order."""

    def __init__(self) -> None:
        self.errors: list[ApiError | None] = []
        self._more = asyncio.Event()

    def __call__(self, error: ApiError | None) -> None:
        self.errors.append(error)
        self._more.set()

    async def times(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.errors) < count:
                self._more.clear()
                await self._more.wait()


def test_requests_that_come_during_a_write_are_served_by_the_next_one() -> None:
    async def scenario() -> None:
        disk = Disk()
        commit = LogStartCommit(disk.write)
        told = Told()
        commit.request(told)
        commit.request(told)
        commit.request(told)
        disk.may_end.release()
        await told.times(1)
        assert len(told.errors) == 1, "the two that came later may have moved a log start since"
        disk.may_end.release()
        await told.times(3)
        assert told.errors == [None, None, None] and disk.begun == 2
        assert commit.statistics().writes == 2 and commit.statistics().waiting == 0

    asyncio.run(scenario())


def test_a_write_that_fails_is_told_as_a_typed_error_and_the_next_one_may_succeed() -> None:
    async def scenario() -> None:
        disk = Disk()
        commit = LogStartCommit(disk.write)
        told = Told()
        for error in (KafkaStorageError("ENOSPC"), OSError("EIO"), None):
            disk.error = error
            disk.may_end.release()
            commit.request(told)
            await told.times(len(told.errors) + 1)
        assert [type(error) for error in told.errors] == [KafkaStorageError, KafkaStorageError, type(None)]
        assert commit.statistics().failures == 2

    asyncio.run(scenario())


def test_closing_waits_for_the_write_under_way_and_takes_no_more() -> None:
    async def scenario() -> None:
        disk = Disk()
        commit = LogStartCommit(disk.write)
        told = Told()
        commit.request(told)
        disk.may_end.release()
        await commit.close()
        commit.request(told)
        assert told.errors == [None] and disk.begun == 1

    asyncio.run(scenario())
