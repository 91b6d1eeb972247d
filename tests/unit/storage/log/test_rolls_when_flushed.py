"""A log whose loop must not wait for its disk rolls after a flush; until then a full segment goes on."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from penstock.types import TopicPartition
from storage.log.group_commit import GroupCommit
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.machine import THREADS, stop_wait
from tests.support.storage import NOW_MS, batch

SEGMENT_BYTES = 300
PARTITION = TopicPartition("t", 0)


def new_log(fs: FaultyFileSystem, path: Path, flush_policy: str = "fsync") -> Log:
    path.mkdir()
    options = LogOptions(THREADS, topic_id="A" * 22, flush_policy=flush_policy, rolls_when_flushed=True)  # type: ignore[arg-type]
    return Log.create(fs, f"{path}/t-0", PARTITION, LogConfig(segment_bytes=SEGMENT_BYTES), options)


def append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append_as_leader(batch(b"v" * 80), 0, NOW_MS)


async def flushed(group_commit: GroupCommit, log: Log) -> None:
    done, end = asyncio.Event(), log.log_end_offset
    group_commit.subscribe(log, lambda offset: done.set() if offset >= end else None)
    group_commit.request(log)
    async with asyncio.timeout(10):
        await done.wait()


@pytest.mark.parametrize("hanging", ["create", "fsync_dir", "rename"])
def test_an_append_to_a_full_segment_waits_for_no_name(tmp_path: Path, hanging: str) -> None:
    fs = FaultyFileSystem()
    log = new_log(fs, tmp_path / "a")
    with fs.standing_still(hanging, "/a/") as fault:
        append(log, 20)
        assert not fault.met and log.awaits_roll and len(log.segments) == 1 and log.log_end_offset == 20
    log.abandon()


@pytest.mark.parametrize("flush_policy", ["fsync", "os"])
def test_the_segment_is_rolled_by_the_flush_that_comes_next(tmp_path: Path, flush_policy: str) -> None:
    async def scenario() -> None:
        fs = FaultyFileSystem()
        log = new_log(fs, tmp_path / "a", flush_policy)
        group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        append(log, 5)
        await flushed(group_commit, log)
        async with asyncio.timeout(10):
            while log.awaits_roll:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert [segment.base_offset for segment in log.segments] == [0, 5]
        assert log.recovery_point >= 5, "what was rolled is on the disk, whatever the policy"
        append(log, 1)
        assert not log.awaits_roll and log.segments[-1].next_offset == 6
        await group_commit.close(stop_wait())
        log.close()

    asyncio.run(scenario())


def test_a_shortage_puts_the_roll_off_and_another_error_fails_the_log_dir(tmp_path: Path) -> None:
    async def scenario() -> None:
        fs, failed = FaultyFileSystem(), list[str]()
        log = new_log(fs, tmp_path / "a")
        group_commit = GroupCommit(lambda log_dir, error: failed.append(log_dir), THREADS)
        append(log, 5)
        with fs.failing("create", ".log", errno.EMFILE):
            await flushed(group_commit, log)
        assert log.awaits_roll and not failed
        append(log, 1)
        await flushed(group_commit, log)
        assert not log.awaits_roll and len(log.segments) == 2
        append(log, 5)
        with fs.failing("create", ".log", errno.EIO):
            group_commit.request(log)
            async with asyncio.timeout(10):
                while not failed:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        assert failed == [str(tmp_path / "a")]
        await group_commit.close(stop_wait())
        log.abandon()

    asyncio.run(scenario())
