"""A log that is deleted during its flush: its files may be gone, but what its disk said is not forgotten."""

from __future__ import annotations

import asyncio
import errno

from storage.log.group_commit import GroupCommit
from storage.log.log import Log
from tests.support.gated_flushes import GatedFileSystem, no_failure, ready_log
from tests.support.machine import THREADS, stop_wait
from tests.support.storage import NOW_MS, batch


async def flush_begun(group_commit: GroupCommit, fs: GatedFileSystem) -> Log:
    """Its thread waits for the gate; a file was added, so that the log's directory is synced too."""
    log = ready_log(fs)
    fs.access.clear()
    log.append.as_leader(batch(b"x"), 0, NOW_MS)
    log.roll()
    group_commit.request(log)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return log


def test_a_log_that_is_deleted_during_its_flush_harms_nobody() -> None:
    async def run() -> None:
        fs = GatedFileSystem()
        group_commit = GroupCommit(no_failure, THREADS)
        log = await flush_begun(group_commit, fs)
        log.abandon()
        fs.rename("/d/orders-0", "/d/orders-0.x-delete")
        fs.access.set()
        await group_commit.close(stop_wait())

        assert group_commit.statistics().failed_log_dirs == ()
        assert fs.open_descriptors == 0

    asyncio.run(run())


def test_a_sync_that_fails_for_a_deleted_log_ends_the_log_dir_for_the_kernel_tells_of_it_once() -> None:
    async def run() -> None:
        fs = GatedFileSystem()
        failures: list[tuple[str, int | None]] = []
        group_commit = GroupCommit(lambda log_dir, error: failures.append((log_dir, error.errno)), THREADS)
        log = await flush_begun(group_commit, fs)
        log.abandon()
        fs.fail_on["fsync_dir"] = errno.EIO
        fs.access.set()
        await group_commit.close(stop_wait())

        assert failures == [("/d", errno.EIO)]

    asyncio.run(run())
