"""Promises of reads without a fetch session: at once where that can be, else by a thread, and of no other history."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable

import pytest

from broker.replication.follower.follower_log import truncate_to
from broker.replication.leader.leader_reads import LeaderReads
from broker.replication.partition import Partition, PartitionReports
from penstock.errors import KafkaStorageError, OffsetOutOfRangeError
from penstock.record.batch import iter_headers
from storage.log.log_reader import Records
from tests.support.cold_fs import ColdFileSystem, cold_log
from tests.support.partitions import NOBODY, PARTITION, batch, flush, state

ALL = 1 << 20
WALL_MS = 1_700_000_000_000


class Stage:
    """A led partition with ten records on a disk with a page cache; `between` happens when a thread has read."""

    def __init__(self) -> None:
        self.fs = ColdFileSystem()
        self.fs.mkdir("/d")
        self.disk_errors: list[Exception] = []
        reports = PartitionReports(disk_error=lambda partition, error: self.disk_errors.append(error))
        self.partition = Partition(1, cold_log(self.fs, PARTITION), 0, 1, reports)
        self.partition.become_leader(state(isr=(1,)), 0)
        for _ in range(10):
            self.append()
        self.ran: list[str] = []
        self.between: Callable[[], None] = lambda: None
        self.reads = LeaderReads(self.run)

    def append(self, value: bytes = bytes(500)) -> None:
        self.partition.append_as_leader(batch(value), -1, 0, WALL_MS)
        flush(self.partition)

    async def run(self, log_dir: str, work: Callable[[], object]) -> None:
        self.ran.append(log_dir)
        await asyncio.to_thread(work)
        between, self.between = self.between, lambda: None
        between()

    def cut_and_lead_again(self) -> None:
        self.partition.become_follower(state(leader_id=2, leader_epoch=6), NOBODY)
        truncate_to(self.partition, 5)
        self.partition.become_leader(state(leader_epoch=7, isr=(1,)), 0)
        self.append(b"another history")


def played(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Stage())

    asyncio.run(main())


def offsets(found: Records) -> list[int]:
    return [header.base_offset for _, header in iter_headers(found.records)]


def test_records_in_the_page_cache_need_no_thread() -> None:
    async def story(made: Stage) -> None:
        assert offsets(await made.reads.wait_read(made.partition, 3, ALL)) == list(range(3, 10))
        assert made.ran == [] and made.fs.waited == []

    played(story)


def test_records_that_only_the_disk_has_are_read_by_a_thread_of_their_log_dir() -> None:
    async def story(made: Stage) -> None:
        made.fs.go_cold()
        found = await made.reads.wait_read(made.partition, 3, ALL)
        assert offsets(found) == list(range(3, 10)) and found.next_offset == 10
        assert made.ran == [made.partition.log.log_dir] and len(made.fs.waited) == 1

    played(story)


def test_a_log_that_is_cut_meanwhile_is_read_anew() -> None:
    async def story(made: Stage) -> None:
        made.fs.go_cold()
        made.between = made.cut_and_lead_again
        found = await made.reads.wait_read(made.partition, 0, ALL)
        assert [header.leader_epoch for _, header in iter_headers(found.records)] == [5] * 5 + [7]

    played(story)


def test_a_reader_for_which_the_log_has_changed_gets_no_records() -> None:
    async def story(made: Stage) -> None:
        made.fs.go_cold()
        made.between = made.cut_and_lead_again
        cuts = made.partition.log.cuts
        found = await made.reads.wait_read(made.partition, 0, ALL, goes_on=lambda: made.partition.log.cuts == cuts)
        assert found == Records(b"", 0)

    played(story)


def test_an_offset_that_retention_took_meanwhile_is_out_of_range() -> None:
    async def story(made: Stage) -> None:
        made.fs.go_cold()
        made.between = lambda: made.partition.log.advance_log_start(5)
        with pytest.raises(OffsetOutOfRangeError):
            await made.reads.wait_read(made.partition, 3, ALL)

    played(story)


def test_an_error_of_the_disk_is_reported_and_raised_once() -> None:
    async def story(made: Stage) -> None:
        made.fs.go_cold()
        made.fs.errors[".log"] = errno.EIO
        with pytest.raises(KafkaStorageError, match="Input/output"):
            await made.reads.wait_read(made.partition, 0, ALL)
        assert len(made.disk_errors) == len(made.ran) == 1

    played(story)


def test_a_reader_that_is_cancelled_leaves_a_thread_that_reads_nothing_and_closes_its_file() -> None:
    async def story(made: Stage) -> None:
        made.fs.go_cold()
        files, begun = len(made.fs.descriptors), list[Callable[[], object]]()

        async def hang(log_dir: str, work: Callable[[], object]) -> None:
            begun.append(work)
            await asyncio.Event().wait()

        reading = asyncio.ensure_future(LeaderReads(hang).wait_read(made.partition, 0, ALL))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        begun[0]()
        assert made.fs.waited == [] and len(made.fs.descriptors) == files

    played(story)


def test_a_lack_of_threads_is_raised_and_leaves_no_file_open() -> None:
    async def story(made: Stage) -> None:
        made.fs.go_cold()
        files = len(made.fs.descriptors)

        async def refuse(log_dir: str, work: Callable[[], object]) -> None:
            raise KafkaStorageError("no thread")

        with pytest.raises(KafkaStorageError, match="no thread"):
            await LeaderReads(refuse).wait_read(made.partition, 0, ALL)
        assert len(made.fs.descriptors) == files

    played(story)
