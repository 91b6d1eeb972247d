"""Promises of the figures of the disks: fresh while the disk answers, none for a log dir that has failed."""

from __future__ import annotations

import asyncio
import errno
from typing import cast

import pytest

from broker.jobs.disk_room import DiskRooms
from broker.jobs.scheduler import Scheduler
from penstock.clock import SystemClock
from storage.disk.file_system import DiskRoom, FileSystem
from tests.support.machine import THREADS, stop_wait


class Disks:
    """Two disks of 100 bytes; each look at `/a` finds one byte fewer, and the disk of `/b` may be gone."""

    def __init__(self) -> None:
        self.free = 51
        self.is_gone = False
        self.code = errno.ENOENT
        self.asked: list[str] = []

    def room(self, path: str) -> DiskRoom:
        self.asked.append(path)
        if path == "/a":
            self.free -= 1
            return DiskRoom(100, self.free)
        if self.is_gone:
            raise OSError(self.code, "gone")
        return DiskRoom(100, 7)


def test_a_disk_is_asked_again_and_again_until_its_log_dir_has_failed() -> None:
    async def main() -> None:
        disks, in_use = Disks(), ["/a", "/b"]
        scheduler = Scheduler(SystemClock(), THREADS, lambda error: None)
        rooms = DiskRooms(lambda: tuple(in_use), pytest.fail, cast(FileSystem, disks), scheduler)
        assert rooms.statistics() == {"/a": DiskRoom(100, 50), "/b": DiskRoom(100, 7)}
        await rooms.look("/a")
        assert rooms.statistics()["/a"].free_bytes == 49
        disks.is_gone = True
        in_use.remove("/b")
        for log_dir in ("/a", "/b"):
            await rooms.look(log_dir)
        assert rooms.statistics() == {"/a": DiskRoom(100, 48)} and disks.asked.count("/b") == 1
        await scheduler.stop(stop_wait())

    asyncio.run(main())


def test_a_log_dir_that_is_gone_fails_though_nobody_writes_to_it() -> None:
    async def main() -> None:
        disks, in_use, failed = Disks(), ["/a", "/b"], []

        def fail(log_dir: str, error: Exception) -> None:
            in_use.remove(log_dir)
            failed.append((log_dir, str(error)))

        scheduler = Scheduler(SystemClock(), THREADS, lambda error: None)
        rooms = DiskRooms(lambda: tuple(in_use), fail, cast(FileSystem, disks), scheduler)
        disks.is_gone = True
        for _ in range(2):
            await rooms.look("/b")
        assert failed == [("/b", "[Errno 2] gone")] and rooms.statistics() == {"/a": DiskRoom(100, 50)}
        assert disks.asked.count("/b") == 2, "once when it was made"
        await scheduler.stop(stop_wait())

    asyncio.run(main())


@pytest.mark.parametrize("code", [errno.ENFILE, errno.EINTR, errno.ENOMEM])
def test_an_error_that_passes_fails_no_log_dir(code: int) -> None:
    async def main() -> None:
        disks = Disks()
        scheduler = Scheduler(SystemClock(), THREADS, lambda error: None)
        rooms = DiskRooms(lambda: ("/a", "/b"), pytest.fail, cast(FileSystem, disks), scheduler)
        disks.is_gone, disks.code = True, code
        with pytest.raises(OSError, match="gone"):
            await rooms.look("/b")
        assert rooms.statistics()["/b"] == DiskRoom(100, 7)
        await scheduler.stop(stop_wait())

    asyncio.run(main())


def test_a_disk_that_does_not_answer_at_the_start_has_no_figures_before_it_does() -> None:
    async def main() -> None:
        disks = Disks()
        disks.is_gone = True
        scheduler = Scheduler(SystemClock(), THREADS, lambda error: None)
        rooms = DiskRooms(lambda: ("/b",), pytest.fail, cast(FileSystem, disks), scheduler)
        assert rooms.statistics() == {}
        disks.is_gone = False
        await rooms.look("/b")
        assert rooms.statistics() == {"/b": DiskRoom(100, 7)}
        assert [job.name for job in scheduler.statistics()] == ["disk-room"]
        await scheduler.stop(stop_wait())

    asyncio.run(main())
