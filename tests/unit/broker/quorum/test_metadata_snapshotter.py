"""When a snapshot of the metadata is due, what becomes superfluous by it, and what a full disk or a leader changes."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from broker.quorum.metadata_loader import MetadataLoader
from broker.quorum.metadata_log import MetadataLog
from broker.quorum.metadata_snapshots import KeptSnapshot, LogBeginning, MetadataSnapshots
from broker.quorum.metadata_snapshotter import (
    LOOK_MS,
    MetadataSnapshotter,
    SnapshotLimits,
    SnapshotStatistics,
    is_snapshot_due,
    still_kept,
)
from metadata.codec import encode_record
from metadata.records import FeatureLevelRecord, Record, TopicRecord
from penstock.errors import CorruptMessageError
from penstock.record.builder import build_batch
from penstock.types import EpochEndOffset
from raft.decided_log import BEGINNING
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import NOW_MS, batch, new_log
from tests.support.virtual_time import run_virtual, virtual_clock

LIMITS = SnapshotLimits(between_bytes=100, interval_ms=60_000, retention_bytes=1 << 20, retention_ms=1 << 40)
DAY_MS = 86_400_000


def kept(end_offset: int, size_bytes: int = 10, time_ms: int = 0) -> KeptSnapshot:
    return KeptSnapshot(EpochEndOffset(1, end_offset), size_bytes, time_ms)


@pytest.mark.parametrize(
    ("size_bytes", "ms", "interval_ms", "due"),
    [(99, 59_999, 60_000, False), (100, 0, 60_000, True), (1, 60_000, 60_000, True), (99, 1 << 50, 0, False)],
)
def test_a_snapshot_is_due_by_size_or_by_time(size_bytes: int, ms: int, interval_ms: int, due: bool) -> None:
    assert is_snapshot_due(SnapshotLimits(100, interval_ms, 1, 1), size_bytes, ms) is due


def test_the_oldest_snapshots_go_when_there_is_too_much_and_the_newest_stays() -> None:
    ones = (KeptSnapshot(BEGINNING, 0, 0), kept(100), kept(200), kept(300))

    def remaining(bytes_max: int) -> tuple[KeptSnapshot, ...]:
        return still_kept(ones, lambda offset: 400 - offset, SnapshotLimits(1, 0, bytes_max, DAY_MS), 0)

    assert remaining(430) == ones
    assert remaining(429) == remaining(330) == ones[1:]
    assert remaining(329) == remaining(220) == ones[2:]
    assert remaining(219) == remaining(1) == ones[3:]


def test_a_snapshot_goes_when_the_next_one_is_too_old() -> None:
    ones = (KeptSnapshot(BEGINNING, 0, 0), kept(100, time_ms=1_000), kept(200, time_ms=2_000))

    def remaining(now_ms: int) -> tuple[KeptSnapshot, ...]:
        return still_kept(ones, lambda offset: 0, SnapshotLimits(1, 0, 1 << 40, DAY_MS), now_ms)

    assert remaining(1_000 + DAY_MS) == ones
    assert remaining(1_001 + DAY_MS) == ones[1:]
    assert remaining(1 << 60) == ones[2:]


class HeldExecutor(Executor):
    """Does what it gets when it is told to; at once, unless held."""

    def __init__(self) -> None:
        self.is_held = False
        self._waiting: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        if self.is_held:
            self._waiting.append(run)
        else:
            run()
        return future

    def go_on(self) -> None:
        self.is_held = False
        for run in self._waiting:
            run()
        self._waiting.clear()


class Node:
    """As far as snapshots need one."""

    def __init__(self, limits: SnapshotLimits) -> None:
        self.fs = LosingFileSystem()
        self.disk_log = new_log(self.fs)
        self.snapshots = MetadataSnapshots(self.fs, "/d")
        self.log = MetadataLog(self.disk_log, virtual_clock(), snapshots=self.snapshots)
        self.loader = MetadataLoader()
        self.executor = HeldExecutor()
        self.kept: list[Sequence[EpochEndOffset]] = []
        self.fatal: list[BaseException] = []
        parts = (self.log, self.snapshots, self.loader, self, virtual_clock(), self.executor, self.fatal.append)
        self.snapshotter = MetadataSnapshotter(limits, *parts)

    def keep_snapshots(self, snapshot_ids: Sequence[EpochEndOffset]) -> None:
        self.kept.append(tuple(snapshot_ids))

    def commit(self, count: int = 1) -> None:
        """Records of one topic each, in one batch."""
        offset = self.loader.image.offset + 1
        self.commit_records(*(TopicRecord(f"t-{offset + n}", f"id-{offset + n}") for n in range(count)))

    def commit_records(self, *wanted: Record) -> None:
        offset, values = self.loader.image.offset + 1, [encode_record(record) for record in wanted]
        self.disk_log.append.as_leader(batch(*values), 1, NOW_MS)
        records = build_batch(values, timestamps_ms=NOW_MS + offset, base_offset=offset, leader_epoch=1)
        self.loader.on_committed(offset, records)
        self.snapshotter.on_committed(len(records))


def with_node(story: Callable[[Node], Awaitable[None]], limits: SnapshotLimits = LIMITS) -> None:
    async def run() -> None:
        node = Node(limits)
        node.snapshotter.start()
        await story(node)
        await node.snapshotter.stop()

    run_virtual(run())


def test_a_snapshot_is_written_after_so_many_bytes_from_the_image_of_that_moment() -> None:
    async def story(node: Node) -> None:
        node.executor.is_held = True
        node.commit(5)
        await asyncio.sleep(0)
        node.commit()
        assert node.snapshotter.is_writing and node.kept == []
        node.executor.go_on()
        await asyncio.sleep(1)
        first = EpochEndOffset(1, 5)
        assert node.kept[0] == (BEGINNING, first)
        assert len(node.snapshots.load(first).topics_by_id) == 5 and node.snapshots.kept(first).time_ms == NOW_MS
        assert node.snapshotter.statistics() == SnapshotStatistics(node.snapshots.kept(first), 1, 1, 0)
        assert not node.snapshotter.is_writing

    with_node(story, SnapshotLimits(300, 0, 1 << 20, 1 << 40))


def test_a_snapshot_is_written_after_so_much_time_if_anything_was_committed() -> None:
    async def story(node: Node) -> None:
        await asyncio.sleep(600)
        assert node.snapshots.found() == ()
        node.commit()
        await asyncio.sleep(LOOK_MS / 1000)
        assert node.snapshots.found() == (EpochEndOffset(1, 1),)
        await asyncio.sleep(600)
        assert node.snapshotter.statistics().written == 1

    with_node(story, SnapshotLimits(1 << 20, 60_000, 1 << 20, 1 << 40))


def test_what_a_new_snapshot_makes_superfluous_is_removed_after_the_quorum_has_been_told() -> None:
    async def story(node: Node) -> None:
        for _ in range(3):
            node.commit(5)
            await asyncio.sleep(1)
        ids = [EpochEndOffset(1, end) for end in (5, 10, 15)]
        assert node.kept == [(one,) for one in ids]
        assert node.snapshots.found() == (ids[-1],) and node.snapshotter.statistics().kept == 1

    with_node(story, SnapshotLimits(100, 0, 1, 1 << 40))


def test_a_full_disk_puts_a_snapshot_off(caplog: pytest.LogCaptureFixture) -> None:
    async def story(node: Node) -> None:
        node.commit(5)
        node.fs.fail_at.update({node.fs.operations + n: errno.ENOSPC for n in range(1, 3)})
        await asyncio.sleep(1)
        assert node.snapshotter.statistics().failed == 1 and node.snapshots.found() == ()
        node.fs.fail_at.clear()
        node.commit(5)
        await asyncio.sleep(1)
        assert node.snapshots.found() == (), "it is not tried again at once"
        await asyncio.sleep(2 * LOOK_MS / 1000)
        assert node.snapshots.found() == (EpochEndOffset(1, 10),) and node.fatal == []
        assert "no room for a snapshot of the metadata at offset 4" in caplog.text

    with_node(story)


def test_a_snapshot_that_was_due_by_time_is_not_put_off_for_another_interval_by_a_full_disk() -> None:
    async def story(node: Node) -> None:
        node.commit()
        node.fs.fail_at.update({node.fs.operations + n: errno.ENOSPC for n in range(1, 3)})
        await asyncio.sleep(61)
        assert node.snapshotter.statistics().failed == 1
        node.fs.fail_at.clear()
        await asyncio.sleep(2 * LOOK_MS / 1000)
        assert node.snapshots.found() == (EpochEndOffset(1, 1),)

    with_node(story, SnapshotLimits(1 << 20, 60_000, 1 << 20, 1 << 40))


def test_an_image_that_cannot_be_written_down_ends_the_node() -> None:
    async def story(node: Node) -> None:
        def broken(*_: object) -> KeptSnapshot:
            raise TypeError("no such record")

        node.snapshots.write = broken  # type: ignore[method-assign]
        node.commit(5)
        await asyncio.sleep(1)
        (error,) = node.fatal
        assert isinstance(error, TypeError)

    with_node(story)


def test_a_disk_that_fails_ends_the_node() -> None:
    async def story(node: Node) -> None:
        node.commit(5)
        node.fs.fail_at.update({node.fs.operations + n: errno.EIO for n in range(1, 9)})
        await asyncio.sleep(1)
        (error,) = node.fatal
        assert isinstance(error, OSError) and error.errno == errno.EIO and node.kept == []

    with_node(story)


def test_a_snapshot_of_the_leader_that_came_while_one_was_written_replaces_it() -> None:
    async def story(node: Node) -> None:
        node.executor.is_held = True
        node.commit(5)
        await asyncio.sleep(0)
        newer = kept(20)
        node.log._start = LogBeginning((newer,))
        node.snapshotter.on_snapshot(newer.snapshot_id)
        node.executor.go_on()
        await asyncio.sleep(1)
        assert node.snapshotter.statistics().newest == newer and node.snapshotter.statistics().kept == 1
        assert node.snapshots.found() == () and node.kept == []

    with_node(story)


def test_a_stop_waits_for_the_snapshot_that_is_being_written() -> None:
    async def run() -> None:
        node = Node(LIMITS)
        node.snapshotter.start()
        node.executor.is_held = True
        node.commit(5)
        await asyncio.sleep(0)
        stopping = asyncio.create_task(node.snapshotter.stop())
        await asyncio.sleep(5)
        assert not stopping.done()
        node.executor.go_on()
        await stopping
        assert node.snapshots.found() == (EpochEndOffset(1, 5),)

    run_virtual(run())


def test_a_leader_does_not_send_a_snapshot_that_has_rotted_and_writes_another() -> None:
    async def story(node: Node) -> None:
        node.commit(5)
        await asyncio.sleep(1)
        first = EpochEndOffset(1, 5)
        path, whole = node.snapshots.path(first), node.fs.read_file(node.snapshots.path(first))
        fd = node.fs.open(path)
        node.fs.pwritev(fd, [bytes([whole[100] ^ 1])], 100)
        node.fs.close(fd)
        assert node.snapshots.read(first, 50, 10) == (len(whole), whole[50:60]), "in the middle nobody looks"
        with pytest.raises(CorruptMessageError, match="another is written soon"):
            node.snapshots.read(first, 0, 10)
        await asyncio.sleep(LOOK_MS / 1000)
        assert node.snapshots.read(first, 0, 1 << 20) == (len(whole), whole) and node.fatal == []
        assert node.snapshotter.statistics().newest.snapshot_id == first
        fd = node.fs.open(path)
        node.fs.pwritev(fd, [bytes([whole[100] ^ 1])], 100)
        node.fs.close(fd)
        with pytest.raises(CorruptMessageError):
            node.snapshots.read(first, 0, 10)
        node.commit()
        await asyncio.sleep(1)
        assert node.kept[-1][-1] == EpochEndOffset(1, 6), "the newest image, at once"

    with_node(story)


def test_a_lowered_metadata_version_is_followed_by_a_snapshot_at_once_and_nothing_before_is_kept() -> None:
    async def story(node: Node) -> None:
        node.commit(2)
        node.commit_records(FeatureLevelRecord("metadata.version", 2, "0.3.0"))
        await asyncio.sleep(1)
        assert node.snapshots.found() == ()
        node.commit_records(FeatureLevelRecord("metadata.version", 1, "0.2.0"))
        await asyncio.sleep(1)
        assert node.snapshots.found() == (EpochEndOffset(1, 4),) and node.kept == [(EpochEndOffset(1, 4),)]
        node.commit(2)
        await asyncio.sleep(1)
        assert len(node.kept) == 1, "once"

    with_node(story, SnapshotLimits(1 << 20, 0, 1 << 20, 1 << 40))


def test_a_lowering_while_a_snapshot_is_written_gets_one_of_its_own_also_at_a_stop() -> None:
    async def story(node: Node) -> None:
        node.executor.is_held = True
        node.commit(5)
        node.commit_records(FeatureLevelRecord("metadata.version", 2, "0.3.0"))
        node.commit_records(FeatureLevelRecord("metadata.version", 1, "0.2.0"))
        assert node.snapshotter.is_writing
        node.executor.go_on()
        await node.snapshotter.stop()
        assert node.snapshots.found()[-1] == EpochEndOffset(1, 7) and node.kept[-1] == (EpochEndOffset(1, 7),)

    with_node(story, SnapshotLimits(100, 0, 1 << 20, 1 << 40))
