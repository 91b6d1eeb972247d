"""Promises of asking whether a disk answers: for one that hangs nobody waits but those who asked."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

from penstock.types import TopicPartition
from storage.log.group_commit import GroupCommit
from storage.log.log import Log
from storage.log.log_types import LogOptions
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.gated_flushes import no_failure
from tests.support.machine import THREADS, stop_wait
from tests.support.storage import SMALL


def log_in(fs: FaultyFileSystem, log_dir: Path) -> Log:
    log_dir.mkdir()
    partition = TopicPartition("t", 0)
    return Log.create(fs, str(log_dir / str(partition)), partition, SMALL, LogOptions(THREADS))


def test_only_who_asks_for_the_disk_that_hangs_waits_for_it(tmp_path: Path) -> None:
    async def run() -> None:
        fs, group_commit = FaultyFileSystem(), GroupCommit(no_failure, THREADS)
        hung, well = log_in(fs, tmp_path / "a"), log_in(fs, tmp_path / "b")
        answers: asyncio.Queue[tuple[str, BaseException | None]] = asyncio.Queue()
        with fs.standing_still("fsync_dir", f"{tmp_path}/a"):
            group_commit.when_disk_answers(hung, lambda error: answers.put_nowait(("hung", error)))
            group_commit.when_disk_answers(well, lambda error: answers.put_nowait(("well", error)))
            assert await asyncio.wait_for(answers.get(), 10) == ("well", None)
            closing = asyncio.create_task(group_commit.close(stop_wait()))
            await asyncio.sleep(0)
            assert answers.empty() and not closing.done(), "the stop knows what stands in which log dir"
        assert await asyncio.wait_for(answers.get(), 10) == ("hung", None)
        await asyncio.wait_for(closing, 10)

    asyncio.run(run())


def test_the_error_of_the_disk_is_the_answer(tmp_path: Path) -> None:
    async def run() -> None:
        fs, failed = FaultyFileSystem(), list[str]()
        group_commit = GroupCommit(lambda log_dir, error: failed.append(log_dir), THREADS)
        log = log_in(fs, tmp_path / "a")

        async def answer() -> BaseException | None:
            told: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
            group_commit.when_disk_answers(log, told.set_result)
            return await asyncio.wait_for(told, 10)

        with fs.failing("fsync_dir", "t-0", errno.EIO):
            error = await answer()
        assert isinstance(error, OSError) and error.errno == errno.EIO
        assert failed == [], "what it means for the log dir is for the one who asked to say"
        await group_commit.close(stop_wait())

    asyncio.run(run())
