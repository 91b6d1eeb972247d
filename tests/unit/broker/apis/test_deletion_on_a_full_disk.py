"""Promises of DeleteRecords on a full disk: it is answered, it makes room at once, and no crash takes it back."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from broker.jobs.log_upkeep import LogUpkeep
from broker.jobs.scheduler import Scheduler
from broker.jobs.wall_clock import WallClockGuard
from penstock.clock import ManualClock
from penstock.errors import KafkaStorageError
from storage.disk.file_names import CHECKPOINT_RESERVE
from storage.log.log import Log
from tests.support.filling_fs import FillingFileSystem
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import THREADS
from tests.support.partitions import PARTITION
from tests.support.storage import log_named, open_manager
from tests.unit.broker.apis.test_delete_records import RECORDS, Node, running

RESERVE = f"/d/{CHECKPOINT_RESERVE}"


@asynccontextmanager
async def full(fs: FillingFileSystem, *, has_reserve: bool) -> AsyncIterator[Node]:
    """A broker that leads alone, with some segments, on a disk that has no byte left."""
    async with running((1,), (1,), fs) as node:
        clock = ManualClock()
        scheduler, guard = Scheduler(clock, THREADS, pytest.fail), WallClockGuard(clock)
        upkeep = LogUpkeep(
            node.manager.known.hosted, node.manager.failures, node.log_manager, scheduler, clock, fs, guard
        )
        node.manager.make_room = upkeep.make_room_below_log_start
        if not has_reserve:
            fs.unlink(RESERVE)
        fs.fill()
        yield node


def run(scenario: Callable[[Node, FillingFileSystem], Awaitable[None]], *, has_reserve: bool = False) -> None:
    async def main() -> None:
        fs = FillingFileSystem()
        async with full(fs, has_reserve=has_reserve) as node:
            await scenario(node, fs)

    asyncio.run(main())


def files(fs: LosingFileSystem) -> list[int]:
    """Base offsets of the segments that take room, removed ones included."""
    names = [path.rpartition("/")[2] for path in fs.files(f"/d/{PARTITION}")]
    return [int(name.split(".")[0]) for name in names if ".log" in name]


def opened_after(fs: LosingFileSystem) -> Log:
    log = log_named(open_manager(fs), PARTITION)
    assert log is not None
    return log


@pytest.mark.parametrize("has_reserve", [True, False])
@pytest.mark.parametrize("offset", [13, RECORDS])
def test_a_deletion_is_answered_and_its_segments_make_room_at_once(has_reserve: bool, offset: int) -> None:
    async def scenario(node: Node, fs: FillingFileSystem) -> None:
        (result,) = await node.answer(node.ask((PARTITION, offset)))
        assert (result.error, result.low_watermark) == (None, offset)
        await node.checkpoint_written()
        assert min(files(fs)) >= 8, "and the reserve is taken again"
        assert opened_after(fs.after_crash()).log_start_offset == offset

    run(scenario, has_reserve=has_reserve)


def test_a_log_of_one_segment_whose_records_were_all_deleted_makes_room() -> None:
    async def scenario(node: Node, fs: FillingFileSystem) -> None:
        await node.answer(node.ask((PARTITION, 13)))
        await node.checkpoint_written()
        fs.fill()
        await node.answer(node.ask((PARTITION, -1)))
        await node.checkpoint_written()
        assert files(fs) == [RECORDS] and fs.free_bytes > 0

    run(scenario, has_reserve=True)


def test_a_log_start_at_the_beginning_of_a_segment_needs_no_checkpoint() -> None:
    async def scenario(node: Node, fs: FillingFileSystem) -> None:
        start = node.partition.log.segments[1].base_offset
        fs.fail_on["create"] = errno.ENOSPC  # not even an empty file
        (result,) = await node.answer(node.ask((PARTITION, start)))
        assert (result.error, result.low_watermark) == (None, start)
        assert opened_after(fs.after_crash()).log_start_offset == start
        fs.fail_on.clear()

    run(scenario)


def test_records_of_a_segment_that_stays_are_not_promised_to_be_gone_without_any_room() -> None:
    async def scenario(node: Node, fs: FillingFileSystem) -> None:
        fs.fail_on["create"] = errno.ENOSPC
        (result,) = await node.answer(node.ask((PARTITION, 13)))
        assert isinstance(result.error, KafkaStorageError) and "full" in str(result.error)
        fs.fail_on.clear()
        (result,) = await node.answer(node.ask((PARTITION, 13)))
        assert (result.error, result.low_watermark) == (None, 13)

    run(scenario)


@pytest.mark.parametrize("has_reserve", [True, False])
def test_a_crash_at_any_moment_leaves_a_whole_log_and_takes_no_answer_back(has_reserve: bool) -> None:
    """At every call of the disk after the question, with any luck."""
    moments: list[tuple[bool, LosingFileSystem]] = []

    async def scenario(node: Node, fs: FillingFileSystem) -> None:
        request = node.ask((PARTITION, 13))
        fs.watch = lambda now: moments.append((request.is_complete, now.snapshot()))
        await node.answer(request)
        await node.checkpoint_written()
        fs.watch = None

    run(scenario, has_reserve=has_reserve)
    assert len(moments) > 10
    for was_answered, at_moment in moments:
        for survivor in (at_moment.after_crash(), at_moment.after_kill(), at_moment.after_lucky_crash()):
            log = opened_after(survivor)
            assert log.log_end_offset == RECORDS
            assert log.log_start_offset == 13 if was_answered else log.log_start_offset in (0, 8, 13)


def test_a_disk_with_room_keeps_the_segments_for_retention_and_the_delay() -> None:
    async def scenario(node: Node, fs: FillingFileSystem) -> None:
        fs.size_bytes += 10_000_000
        before = files(fs)
        await node.answer(node.ask((PARTITION, 13)))
        await node.checkpoint_written()
        assert files(fs) == before

    run(scenario, has_reserve=True)
