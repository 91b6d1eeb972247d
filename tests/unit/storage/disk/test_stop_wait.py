"""Promises of a stop: a log dir that hangs is waited for so long and not longer, and the others are closed in order."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from penstock.clock import ManualClock
from penstock.errors import MetaPropertiesError
from penstock.types import TopicPartition
from storage.disk.file_names import CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT
from storage.disk.offset_checkpoint import OffsetCheckpoint
from storage.disk.stop_wait import STOP_WAIT_MS
from storage.log.group_commit import GroupCommit
from storage.log_dirs.log_manager import LogManager
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.machine import THREADS, stop_wait
from tests.support.storage import NOW_MS, SMALL, TOPIC_ID, batch, open_manager

HUNG, GOOD = TopicPartition("hung", 0), TopicPartition("good", 0)
WAIT_S = 60.0


def two_log_dirs(tmp_path: Path, fs: FaultyFileSystem) -> tuple[LogManager, str, str]:
    """A log with a record in each."""
    bad, good = str(tmp_path / "bad"), str(tmp_path / "good")
    manager = open_manager(fs, (bad, good))
    for partition, log_dir in ((HUNG, bad), (GOOD, good)):
        log = manager.get_or_create(partition, TOPIC_ID, SMALL, log_dir=log_dir)
        log.append.as_leader(batch(b"value"), 1, NOW_MS)
    return manager, bad, good


async def ended(log_dir: str) -> None:
    """Waits until the thread that closes the log dir has done so."""
    for thread in threading.enumerate():
        if thread.name == f"stop {log_dir}":
            await asyncio.to_thread(thread.join, WAIT_S)


async def after_the_limit(stop: asyncio.Task[None], clock: ManualClock) -> None:
    """The stop ends when its time is over, and not before."""
    for _ in range(20):
        await asyncio.sleep(0)
    clock.advance(STOP_WAIT_MS - 1)
    done, _ = await asyncio.wait([stop], timeout=0.1)
    assert not done
    clock.advance(1)
    await asyncio.wait_for(stop, WAIT_S)


def test_what_ends_in_time_is_waited_for_and_nothing_is_given_up() -> None:
    async def run() -> None:
        clock, answers = ManualClock(), [{"/a", "/b"}, {"/b"}, {"/b"}]

        def under_way() -> set[str]:
            clock.advance(STOP_WAIT_MS // 5)
            return answers.pop() if answers else set()

        wait = stop_wait(clock)
        await wait.until_idle(under_way)
        assert wait.given_up == set()

    asyncio.run(run())


def test_a_dir_is_given_up_after_its_time_in_all_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        clock = ManualClock()
        wait = stop_wait(clock)
        first = asyncio.create_task(wait.until_idle(lambda: {"/hung", "/slow"} if clock.now_ms() < 20_000 else ()))
        await asyncio.sleep(0)
        clock.advance(20_000)
        await asyncio.wait_for(first, WAIT_S)
        second = asyncio.create_task(wait.until_idle(lambda: {"/hung"}))
        await asyncio.sleep(0)
        clock.advance(STOP_WAIT_MS - 20_000)
        await asyncio.wait_for(second, WAIT_S)
        await wait.until_idle(lambda: {"/hung"})
        assert wait.given_up == {"/hung"}

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == [
        "/hung hangs: the stop has waited 30000 ms for it and goes on without it; the next start recovers its logs"
    ]


def test_a_flush_that_hangs_ends_the_waiting_for_its_dir_and_for_no_other(tmp_path: Path) -> None:
    async def run() -> None:
        fs, clock = FaultyFileSystem(), ManualClock()
        manager, bad, _ = two_log_dirs(tmp_path, fs)
        group_commit, wait = GroupCommit(lambda log_dir, error: None, THREADS), stop_wait(clock)
        good_is_flushed = asyncio.Event()
        with fs.standing_still("fdatasync", "/bad/") as fault:
            for log in manager.logs():
                if log.topic_partition == GOOD:
                    group_commit.subscribe(log, lambda offset: good_is_flushed.set())
                group_commit.flush(log)
            stop = asyncio.create_task(group_commit.close(wait))
            assert await asyncio.to_thread(fault.was_met.wait, WAIT_S)
            await asyncio.wait_for(good_is_flushed.wait(), WAIT_S)
            await after_the_limit(stop, clock)
            assert wait.given_up == {bad}
            flushed = {log.topic_partition: log.flushed_offset for log in manager.logs()}
            assert flushed == {HUNG: 0, GOOD: 1}
        manager.close(clean=False)

    asyncio.run(run())


def test_a_dir_that_hangs_while_it_is_closed_gets_no_marker_and_keeps_its_lock(tmp_path: Path) -> None:
    async def run() -> None:
        fs, clock = FaultyFileSystem(), ManualClock()
        manager, bad, good = two_log_dirs(tmp_path, fs)
        wait = stop_wait(clock)
        with fs.standing_still("fdatasync", "/bad/") as fault:
            stop = asyncio.create_task(manager.close_within(wait, True, 7))
            assert await asyncio.to_thread(fault.was_met.wait, WAIT_S)
            await ended(good)
            await after_the_limit(stop, clock)
            assert wait.given_up == {bad}
            assert fs.exists(f"{good}/{CLEAN_SHUTDOWN}") and not fs.exists(f"{bad}/{CLEAN_SHUTDOWN}")
            with pytest.raises(MetaPropertiesError, match="is in use by another process"):
                open_manager(fs, (bad, good))

    asyncio.run(run())


def test_a_dir_that_answers_after_it_was_given_up_still_knows_how_far_its_logs_were_flushed(tmp_path: Path) -> None:
    """The thread that closes it goes on to its checkpoints; without a line, rot looks like what was never flushed."""

    async def run() -> None:
        fs, clock = FaultyFileSystem(), ManualClock()
        manager, bad, good = two_log_dirs(tmp_path, fs)
        wait = stop_wait(clock)
        with fs.standing_still("fdatasync", "/bad/") as fault:
            stop = asyncio.create_task(manager.close_within(wait, True, 7))
            assert await asyncio.to_thread(fault.was_met.wait, WAIT_S)
            await ended(good)
            await after_the_limit(stop, clock)
        await ended(bad)
        assert OffsetCheckpoint(fs, f"{bad}/{RECOVERY_POINT_CHECKPOINT}", has_topic_ids=True).offsets == {HUNG: 1}
        assert not fs.exists(f"{bad}/{CLEAN_SHUTDOWN}")

    asyncio.run(run())


def test_a_dir_that_was_given_up_before_is_not_touched_any_more(tmp_path: Path) -> None:
    async def run() -> None:
        fs = FaultyFileSystem()
        manager, bad, good = two_log_dirs(tmp_path, fs)
        wait = stop_wait(ManualClock())
        wait.given_up.add(bad)
        calls = len(fs.calls)
        await manager.close_within(wait, True, 7)
        assert not [path for _, path in fs.calls[calls:] if path.startswith(bad)]
        assert fs.exists(f"{good}/{CLEAN_SHUTDOWN}")

    asyncio.run(run())
