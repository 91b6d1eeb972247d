"""Flushes that nobody waits for: after those that somebody does, and never in their way."""

from __future__ import annotations

import asyncio

from storage.log.group_commit import GroupCommit
from tests.support.gated_flushes import GatedFileSystem, Waiter, another_log, no_failure, ready_log
from tests.support.machine import THREADS, stop_wait
from tests.support.storage import NOW_MS, batch


def test_a_request_is_flushed_before_the_logs_that_nobody_waits_for() -> None:
    async def run() -> None:
        fs, waiter = GatedFileSystem(), Waiter()
        urgent = ready_log(fs)
        quiet = [another_log(fs, number) for number in range(20)]
        group_commit = GroupCommit(no_failure, THREADS, flush_threads=2)
        fs.access.clear()
        others = [Waiter() for _ in quiet]
        for log, flushed in zip(quiet, others, strict=True):
            group_commit.subscribe(log, flushed)
            group_commit.flush_when_idle(log)
        await asyncio.sleep(0)
        assert group_commit.statistics().in_flight == 1, "one thread is kept for whoever comes"
        urgent.append.as_leader(batch(b"x"), 0, NOW_MS)
        group_commit.subscribe(urgent, waiter)
        group_commit.request(urgent)
        await asyncio.sleep(0)
        assert group_commit.statistics().in_flight == 2
        fs.access.set()
        await waiter.until(2)
        assert group_commit.statistics().flushes < len(quiet)
        for flushed in others:
            await flushed.until(0)
        await group_commit.close(stop_wait())

    asyncio.run(run())


def test_a_request_for_a_log_that_nobody_waited_for_is_not_left_behind() -> None:
    async def run() -> None:
        fs, waiter = GatedFileSystem(), Waiter()
        log = ready_log(fs)
        log.append.as_leader(batch(b"x"), 0, NOW_MS)
        group_commit = GroupCommit(no_failure, THREADS)
        group_commit.subscribe(log, waiter)
        group_commit.flush_when_idle(log)
        group_commit.request(log)
        await waiter.until(2)
        assert group_commit.statistics().flushes == 1, "the request was all that was needed"
        await group_commit.close(stop_wait())

    asyncio.run(run())


def test_a_log_that_is_left_to_the_page_cache_is_not_flushed_because_the_disk_is_idle() -> None:
    async def run() -> None:
        fs = GatedFileSystem()
        log = ready_log(fs)
        log.update_config(log.config, "os")
        log.append.as_leader(batch(b"x"), 0, NOW_MS)
        fs.syncs = 0
        group_commit = GroupCommit(no_failure, THREADS)
        group_commit.flush_when_idle(log)
        await asyncio.sleep(0)
        await group_commit.close(stop_wait())
        assert (fs.syncs, log.recovery_point) == (0, 1)

    asyncio.run(run())
