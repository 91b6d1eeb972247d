"""Group commit: one flush for many waiters, one in flight, and a failed fsync that is final."""

from __future__ import annotations

import asyncio
import errno

import pytest

from penstock.types import TopicPartition
from storage.log.group_commit import GroupCommit
from storage.log.log import Log
from storage.log.log_types import LogOptions
from tests.support.gated_flushes import GatedFileSystem, Waiter, another_log, no_failure, ready_log
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS, stop_wait
from tests.support.storage import NOW_MS, SMALL, batch, new_log
from tests.support.thread_shortage import no_thread_can_start


def test_requests_in_one_turn_share_a_flush() -> None:
    async def run() -> None:
        fs, waiter = GatedFileSystem(), Waiter()
        log = ready_log(fs)
        fs.syncs = 0
        group_commit = GroupCommit(no_failure, THREADS)
        group_commit.subscribe(log, waiter)
        for _ in range(5):
            log.append.as_leader(batch(b"x"), 0, NOW_MS)
            group_commit.request(log)
        await waiter.until(6)

        assert waiter.reported == [6]
        assert fs.syncs == 1
        assert group_commit.statistics().requests == 5
        await group_commit.close(stop_wait())

    asyncio.run(run())


def test_a_request_during_a_flush_starts_one_more_after_it() -> None:
    async def run() -> None:
        fs, waiter = GatedFileSystem(), Waiter()
        log = ready_log(fs)
        fs.syncs = 0
        group_commit = GroupCommit(no_failure, THREADS)
        group_commit.subscribe(log, waiter)
        fs.access.clear()
        log.append.as_leader(batch(b"x"), 0, NOW_MS)
        group_commit.request(log)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for _ in range(4):
            log.append.as_leader(batch(b"y"), 0, NOW_MS)
            group_commit.request(log)
            await asyncio.sleep(0)
        assert (group_commit.statistics().in_flight, waiter.reported) == (1, [])
        fs.access.set()
        await waiter.until(6)

        assert waiter.reported == [2, 6]
        assert fs.syncs == 2
        await group_commit.close(stop_wait())

    asyncio.run(run())


def test_more_logs_than_threads_are_all_flushed() -> None:
    async def run() -> None:
        fs = LosingFileSystem()
        fs.mkdir("/d")
        logs = [
            Log.create(fs, f"/d/t-{n}", TopicPartition("t", n), SMALL, LogOptions(THREADS, topic_id="A" * 22))
            for n in range(9)
        ]
        waiters = [Waiter() for _ in logs]
        group_commit = GroupCommit(no_failure, THREADS, flush_threads=2)
        for log, waiter in zip(logs, waiters, strict=True):
            group_commit.subscribe(log, waiter)
            log.append.as_leader(batch(b"x"), 0, NOW_MS)
            group_commit.request(log)
        for waiter in waiters:
            await waiter.until(1)
        await group_commit.close(stop_wait())

        assert group_commit.statistics().flushes == 9

    asyncio.run(run())


def test_a_disk_that_stands_still_holds_up_no_other() -> None:
    async def run() -> None:
        slow, quick, waiter = GatedFileSystem(), LosingFileSystem(), Waiter()
        quick.mkdir("/quick")
        stuck = [ready_log(slow)]
        stuck += [
            Log.create(slow, f"/d/t-{n}", TopicPartition("t", n), SMALL, LogOptions(THREADS, topic_id="A" * 22))
            for n in range(5)
        ]
        other = Log.create(quick, "/quick/t-9", TopicPartition("t", 9), SMALL, LogOptions(THREADS, topic_id="A" * 22))
        group_commit = GroupCommit(no_failure, THREADS, flush_threads=2)
        group_commit.subscribe(other, waiter)
        slow.access.clear()
        for log in (*stuck, other):
            log.append.as_leader(batch(b"x"), 0, NOW_MS)
            group_commit.request(log)
        await waiter.until(1)
        assert all(log.flushed_offset < log.log_end_offset for log in stuck)
        slow.access.set()
        await group_commit.close(stop_wait())
        assert all(log.flushed_offset == log.log_end_offset for log in stuck)

    asyncio.run(run())


def test_a_request_with_nothing_to_flush_is_answered() -> None:
    async def run() -> None:
        fs, waiter = LosingFileSystem(), Waiter()
        log = ready_log(fs)
        group_commit = GroupCommit(no_failure, THREADS)
        group_commit.subscribe(log, waiter)
        group_commit.request(log)
        await waiter.until(1)
        await group_commit.close(stop_wait())

    asyncio.run(run())


def test_with_policy_os_nobody_waits_for_the_disk_unless_asked() -> None:
    async def run() -> None:
        fs, waiter = LosingFileSystem(), Waiter()
        log = new_log(fs, flush_policy="os")
        group_commit = GroupCommit(no_failure, THREADS)
        group_commit.subscribe(log, waiter)
        log.append.as_leader(batch(b"x"), 0, NOW_MS)
        group_commit.request(log)
        await waiter.until(1)
        assert (log.recovery_point, group_commit.statistics().flushes) == (0, 0)
        group_commit.flush(log)
        await group_commit.close(stop_wait())

        assert log.recovery_point == 1

    asyncio.run(run())


def test_with_policy_os_a_full_segment_is_flushed_all_the_same_and_nobody_waits_for_it() -> None:
    """Else the cleaner would never take it, and a start after a kill would check the log from its beginning."""

    async def run() -> None:
        fs, waiter = GatedFileSystem(), Waiter()
        log = ready_log(fs)
        log.update_config(log.config, "os")
        group_commit = GroupCommit(no_failure, THREADS)
        group_commit.subscribe(log, waiter)
        fs.access.clear()
        for n in range(2, 31):
            log.append.as_leader(batch(b"value-00"), 0, NOW_MS)
            group_commit.request(log)
            await waiter.until(n)  # while the disk does not answer
        assert len(log.segments) > 3 and log.recovery_point == 1
        assert group_commit.statistics().in_flight == 1
        fs.access.set()
        while log.flush_schedule.has_unflushed_segment:
            group_commit.request(log)
            await asyncio.sleep(0.001)
        assert log.full.cleanable(log.log_end_offset) == log.segments[:-1]
        flushes, end = log.statistics().flushes, log.recovery_point

        log.append.as_leader(batch(b"value-00"), 0, NOW_MS)
        group_commit.request(log)
        await waiter.until(31)
        assert (log.statistics().flushes, log.recovery_point) == (flushes, end)
        await group_commit.close(stop_wait())

    asyncio.run(run())


def test_with_policy_os_a_full_segment_that_cannot_be_synced_ends_the_log_dir() -> None:
    async def run() -> None:
        failed, is_over = list[str](), asyncio.Event()
        fs = LosingFileSystem()
        log = new_log(fs, flush_policy="os")

        def on_failure(log_dir: str, error: OSError) -> None:
            failed.append(log_dir)
            is_over.set()

        group_commit = GroupCommit(on_failure, THREADS)
        for _ in range(8):
            log.append.as_leader(batch(b"value-00"), 0, NOW_MS)
        fs.fail_on["fdatasync"] = errno.EIO
        group_commit.request(log)
        await is_over.wait()
        await group_commit.close(stop_wait())

        assert (failed, log.statistics().failed) == (["/d"], True)

    asyncio.run(run())


def test_a_failed_fsync_ends_the_log_dir_and_is_never_retried() -> None:
    async def run() -> None:
        fs, waiter = LosingFileSystem(), Waiter()
        log = ready_log(fs)
        other = Log.create(fs, "/d/t-1", TopicPartition("t", 1), SMALL, LogOptions(THREADS))
        failures: list[tuple[str, int | None]] = []
        failed = asyncio.Event()

        def on_failure(log_dir: str, error: OSError) -> None:
            failures.append((log_dir, error.errno))
            failed.set()

        group_commit = GroupCommit(on_failure, THREADS)
        group_commit.subscribe(log, waiter)
        log.append.as_leader(batch(b"x"), 0, NOW_MS)
        fs.fail_on["fdatasync"] = errno.EIO
        group_commit.request(log)
        await asyncio.wait_for(failed.wait(), 60)
        fs.fail_on.clear()
        before = fs.operations
        for again in (log, other):
            group_commit.request(again)
        for _ in range(10):
            await asyncio.sleep(0)
        await group_commit.close(stop_wait())

        assert failures == [("/d", errno.EIO)]
        assert waiter.reported == []
        assert log.flushed_offset == 1
        assert fs.operations == before
        assert group_commit.statistics().failed_log_dirs == ("/d",)

    asyncio.run(run())


class FullFileSystem(LosingFileSystem):
    """There is no room for a new file until the test makes some."""

    def __init__(self) -> None:
        super().__init__()
        self.code = 0

    def open(self, path: str, *, create: bool = False) -> int:
        if create and self.code:
            raise OSError(self.code, "no room", path)
        return super().open(path, create=create)


class DirectoriesCannotBeOpened(FullFileSystem):
    """A directory is opened to be synced."""

    def open(self, path: str, *, create: bool = False) -> int:
        return LosingFileSystem.open(self, path, create=create)

    def fsync_dir(self, path: str) -> None:
        if self.code:
            raise OSError(self.code, "no descriptor", path)
        super().fsync_dir(path)


@pytest.mark.parametrize(
    ("short_of", "code"),
    [
        (FullFileSystem, errno.ENOSPC),
        (FullFileSystem, errno.EDQUOT),
        (FullFileSystem, errno.EMFILE),
        (DirectoriesCannotBeOpened, errno.EMFILE),
        (DirectoriesCannotBeOpened, errno.ENFILE),
    ],
)
def test_a_flush_that_finds_no_room_is_tried_again_and_waiters_go_on_waiting(
    short_of: type[FullFileSystem], code: int
) -> None:
    async def run() -> None:
        fs, waiter = short_of(), Waiter()
        log = ready_log(fs)
        took: list[float] = []
        tried_often = asyncio.Event()

        def timed(seconds: float) -> None:
            took.append(seconds)
            if len(took) == 3:
                tried_often.set()

        group_commit = GroupCommit(no_failure, THREADS, deferred_ms=1, on_timed=timed)
        group_commit.subscribe(log, waiter)
        is_new_epoch = short_of is FullFileSystem  # its file is written before the record is flushed
        log.append.as_leader(batch(b"x"), log.latest_epoch + is_new_epoch, NOW_MS)
        log.roll()  # a new segment, whose name is synced after it
        fs.code = code
        group_commit.request(log)
        await asyncio.wait_for(tried_often.wait(), 60)
        assert (waiter.reported, log.flushed_offset) == ([], 1)
        assert group_commit.statistics().deferrals >= 2
        fs.code = 0
        await waiter.until(2)

        found = group_commit.statistics()
        assert (found.deferred, found.failed_log_dirs, log.flushed_offset) == (0, (), 2)
        assert len(took) == found.flushes >= 4
        await group_commit.close(stop_wait())

    asyncio.run(run())


def test_a_request_during_a_flush_that_finds_no_room_waits_for_the_same_next_try() -> None:
    """It was queued behind that flush."""

    async def run() -> None:
        fs, waiter = FullFileSystem(), Waiter()
        log = ready_log(fs)
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["message"]))
        group_commit = GroupCommit(no_failure, THREADS, deferred_ms=5)
        group_commit.subscribe(log, waiter)
        log.append.as_leader(batch(b"x"), log.latest_epoch + 1, NOW_MS)
        fs.code = errno.ENOSPC
        group_commit.request(log)
        async with asyncio.timeout(60):
            while not group_commit.statistics().in_flight:  # noqa: ASYNC110
                await asyncio.sleep(0)
            group_commit.request(log)
            while group_commit.statistics().deferrals < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        fs.code = 0
        await waiter.until(2)
        await asyncio.sleep(0.02)
        assert not errors
        await group_commit.close(stop_wait())

    asyncio.run(run())


def test_close_does_not_wait_for_room() -> None:
    async def run() -> None:
        fs = FullFileSystem()
        log = ready_log(fs)
        group_commit = GroupCommit(no_failure, THREADS, deferred_ms=3_600_000)
        log.append.as_leader(batch(b"x"), 1, NOW_MS)
        fs.code = errno.ENOSPC
        group_commit.request(log)
        await asyncio.wait_for(group_commit.close(stop_wait()), 60)

        assert (group_commit.statistics().deferred, log.flushed_offset) == (0, 1)

    asyncio.run(run())


def test_close_finishes_what_was_requested() -> None:
    async def run() -> None:
        fs = LosingFileSystem()
        log = ready_log(fs)
        group_commit = GroupCommit(no_failure, THREADS)
        log.append.as_leader(batch(b"x"), 0, NOW_MS)
        group_commit.request(log)
        await group_commit.close(stop_wait())

        assert log.flushed_offset == 2

    asyncio.run(run())


def test_a_flush_that_gets_no_thread_is_tried_again_until_there_is_one() -> None:
    async def run() -> None:
        fs, waiter = LosingFileSystem(), Waiter()
        log = ready_log(fs)
        group_commit = GroupCommit(no_failure, THREADS, deferred_ms=1)
        group_commit.subscribe(log, waiter)
        log.append.as_leader(batch(b"x"), 0, NOW_MS)
        with no_thread_can_start():
            group_commit.request(log)
            async with asyncio.timeout(60):
                while group_commit.statistics().deferrals < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0)
        assert (waiter.reported, log.flushed_offset, group_commit.statistics().in_flight) == ([], 1, 0)
        await waiter.until(2)
        await group_commit.close(stop_wait())
        log.close()
        assert fs.open_descriptors == 0

    asyncio.run(run())


class WithoutMemory(LosingFileSystem):
    """There is no memory for a descriptor of a flush, or for the flush itself."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = ""

    def dup(self, fd: int) -> int:
        if self.fails == "dup":
            raise MemoryError
        return super().dup(fd)

    def fdatasync(self, fd: int) -> None:
        if self.fails == "fdatasync":
            raise MemoryError
        super().fdatasync(fd)


@pytest.mark.parametrize("fails", ["dup", "fdatasync"])
def test_a_flush_that_finds_no_memory_is_tried_again_and_the_other_logs_go_on(fails: str) -> None:
    async def run() -> None:
        fs, waiter, other_waiter = WithoutMemory(), Waiter(), Waiter()
        healthy = LosingFileSystem()
        healthy.mkdir("/e")
        log = ready_log(fs)
        other = Log.create(healthy, "/e/t-1", TopicPartition("t", 1), SMALL, LogOptions(THREADS))
        group_commit = GroupCommit(no_failure, THREADS, deferred_ms=1)
        group_commit.subscribe(log, waiter)
        group_commit.subscribe(other, other_waiter)
        fs.fails = fails
        for one in (log, other):
            one.append.as_leader(batch(b"x"), 0, NOW_MS)
            group_commit.request(one)
        await other_waiter.until(1)
        fs.fails = ""
        await waiter.until(2)
        await group_commit.close(stop_wait())
        assert group_commit.statistics().failed_log_dirs == ()

    asyncio.run(run())


def test_a_subscriber_with_a_bug_keeps_no_other_log_from_its_flush() -> None:
    async def run() -> None:
        fs, waiter = LosingFileSystem(), Waiter()
        log, other = ready_log(fs), another_log(fs, 1)
        heard: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(repr(context["exception"])))

        def bug(flushed_offset: int) -> None:
            raise ValueError("a bug")

        group_commit = GroupCommit(no_failure, THREADS)
        group_commit.subscribe(log, bug)
        group_commit.subscribe(other, waiter)
        other.append.as_leader(batch(b"x"), 0, NOW_MS)
        group_commit.request(log)  # nothing in it waits for the disk
        group_commit.request(other)
        await waiter.until(1)
        await group_commit.close(stop_wait())
        assert heard == ["ValueError('a bug')"]

    asyncio.run(run())
