"""Promises of asking whether a disk answers: for one that hangs nobody waits but those who asked."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path

from penstock.errors import CorruptFileError
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
            assert await asyncio.wait_for(answers.get(), 60) == ("well", None)
            closing = asyncio.create_task(group_commit.close(stop_wait()))
            await asyncio.sleep(0)
            assert answers.empty() and not closing.done(), "the stop knows what stands in which log dir"
        assert await asyncio.wait_for(answers.get(), 60) == ("hung", None)
        await asyncio.wait_for(closing, 60)

    asyncio.run(run())


class Asking:
    """A log, and what its disk answered."""

    def __init__(self, directory: Path) -> None:
        self.fs, self.failed = FaultyFileSystem(), list[str]()
        self.group_commit = GroupCommit(lambda log_dir, error: self.failed.append(log_dir), THREADS)
        self.log = log_in(self.fs, directory)

    async def answer(self, work: Callable[[], object] | None = None) -> BaseException | None:
        outcome: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self.group_commit.when_disk_answers(self.log, outcome.set_result, work)
        return await asyncio.wait_for(outcome, 60)


def test_an_error_of_the_disk_is_the_answer_and_fails_the_log_dir(tmp_path: Path) -> None:
    """The caller may have no use for the answer any more, and the next sync would succeed."""

    async def run() -> None:
        asking = Asking(tmp_path / "a")
        with asking.fs.failing("fsync_dir", "t-0", errno.EIO):
            error = await asking.answer()
        assert isinstance(error, OSError) and error.errno == errno.EIO
        assert asking.failed == [str(tmp_path / "a")]
        await asking.group_commit.close(stop_wait())

    asyncio.run(run())


def test_work_for_a_cut_is_done_in_a_thread_once_the_disk_has_answered(tmp_path: Path) -> None:
    async def run() -> None:
        asking, done = Asking(tmp_path / "a"), list[str]()

        def fails() -> None:
            raise CorruptFileError("a.log", 7, "rotten")

        assert await asking.answer(lambda: done.append(threading.current_thread().name)) is None
        assert done[0] != threading.current_thread().name
        assert isinstance(await asking.answer(fails), CorruptFileError)
        with asking.fs.failing("fsync_dir", "t-0", errno.EMFILE):
            assert isinstance(await asking.answer(lambda: done.append("at once")), OSError)
        assert asking.failed == [] and len(done) == 1, "nothing is done on a disk that does not answer"
        await asyncio.wait_for(asking.group_commit.close(stop_wait()), 60)

    asyncio.run(run())


def test_a_lack_of_descriptors_says_nothing_about_the_disk(tmp_path: Path) -> None:
    async def run() -> None:
        asking = Asking(tmp_path / "a")
        with asking.fs.failing("fsync_dir", "t-0", errno.EMFILE):
            error = await asking.answer()
        assert isinstance(error, OSError) and error.errno == errno.EMFILE and asking.failed == []
        await asking.group_commit.close(stop_wait())

    asyncio.run(run())


def test_the_directory_of_a_log_that_was_deleted_meanwhile_may_be_gone(tmp_path: Path) -> None:
    async def run() -> None:
        asking = Asking(tmp_path / "a")
        asking.log.abandon()
        asking.fs.rename(asking.log.directory, f"{asking.log.directory}-deleted")
        assert isinstance(await asking.answer(), FileNotFoundError) and asking.failed == []
        await asking.group_commit.close(stop_wait())

    asyncio.run(run())
