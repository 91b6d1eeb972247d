"""A log whose loop must not wait for its disk rolls after a flush; until then a full segment goes on."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from penstock.errors import KafkaStorageError
from penstock.types import TopicPartition
from storage.disk.disk_errors import is_shortage
from storage.log import segment_roll
from storage.log.group_commit import GroupCommit
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.machine import THREADS, stop_wait
from tests.support.storage import NOW_MS, batch

SEGMENT_BYTES = 300
PARTITION = TopicPartition("t", 0)


def new_log(
    fs: FaultyFileSystem, path: Path, flush_policy: str = "fsync", *, segment_bytes: int = SEGMENT_BYTES
) -> Log:
    path.mkdir()
    options = LogOptions(THREADS, topic_id="A" * 22, flush_policy=flush_policy, rolls_when_flushed=True)  # type: ignore[arg-type]
    return Log.create(fs, f"{path}/t-0", PARTITION, LogConfig(segment_bytes=segment_bytes), options)


def append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append.as_leader(batch(b"v" * 80), 0, NOW_MS)


async def flushed(group_commit: GroupCommit, log: Log) -> None:
    done, end = asyncio.Event(), log.log_end_offset
    group_commit.subscribe(log, lambda offset: done.set() if offset >= end else None)
    group_commit.request(log)
    async with asyncio.timeout(60):
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
        async with asyncio.timeout(60):
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
            async with asyncio.timeout(60):
                while not failed:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
        assert failed == [str(tmp_path / "a")]
        await group_commit.close(stop_wait())
        log.abandon()

    asyncio.run(scenario())


def limits(monkeypatch: pytest.MonkeyPatch, *, by: str, room: int) -> None:
    """A segment that holds 1,000 bytes or 10 offsets at most, of which so much is kept free."""
    monkeypatch.setattr(segment_roll, "SEGMENT_BYTES_MAX", 1_000 if by == "bytes" else 1_000_000)
    monkeypatch.setattr(segment_roll, "MAX_RELATIVE_OFFSET", 10 if by == "offsets" else 1_000_000)
    monkeypatch.setattr(segment_roll, "ROOM_BYTES" if by == "bytes" else "ROOM_OFFSETS", room)
    monkeypatch.setattr(segment_roll, "ROOM_OFFSETS" if by == "bytes" else "ROOM_BYTES", 0)


def until_refused(log: Log) -> KafkaStorageError:
    for _ in range(100):
        try:
            append(log, 1)
        except KafkaStorageError as error:
            return error
    raise AssertionError("a segment takes whatever it is given")


@pytest.mark.parametrize(("by", "room"), [("bytes", 400), ("offsets", 4)])
def test_a_segment_that_can_take_no_more_refuses_appends_until_its_disk_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, room: int
) -> None:
    async def scenario() -> None:
        fs = FaultyFileSystem()
        log = new_log(fs, tmp_path / "a", segment_bytes=10_000)
        group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        limits(monkeypatch, by=by, room=room)
        hanging = [fs.standing_still(operation, "/a/") for operation in ("create", "fdatasync", "rename", "truncate")]
        with hanging[0] as create, hanging[1] as sync, hanging[2], hanging[3] as cut:
            while not log.awaits_roll:
                append(log, 1)
            group_commit.request(log)
            full_at = log.log_end_offset
            error = until_refused(log)
            end = log.log_end_offset
            assert end > full_at, "there is room while the roll waits"
            assert is_shortage(error) and error.nothing_written and "once the disk answers" in str(error)
            assert not create.met and not cut.met and log.statistics().failed is False
            until_refused(log)
            assert log.log_end_offset == end
            del sync
        await flushed(group_commit, log)
        append(log, 1)
        assert [segment.base_offset for segment in log.segments] == [0, end] and log.log_end_offset == end + 1
        await group_commit.close(stop_wait())
        log.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("flush_policy", ["fsync", "os"])
def test_a_full_segment_without_anything_to_flush_is_rolled_when_its_disk_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush_policy: str
) -> None:
    async def scenario() -> None:
        fs = FaultyFileSystem()
        log = new_log(fs, tmp_path / "a", flush_policy, segment_bytes=10_000)
        group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        limits(monkeypatch, by="bytes", room=0)
        append(log, 5)
        log.flush()
        until_refused(log)
        log.flush()
        assert log.awaits_roll and log.prepare_flush() is None
        with fs.standing_still("fsync_dir", "/a/") as fault:
            async with asyncio.timeout(10):
                while not fault.met:
                    group_commit.request(log)
                    await asyncio.sleep(0.001)
            for _ in range(9):
                group_commit.request(log)
                await asyncio.sleep(0.002)
            assert fault.met == 1 and log.awaits_roll, "the disk is asked once"
        async with asyncio.timeout(60):
            while log.awaits_roll:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        append(log, 1)
        assert len(log.segments) == 2
        await group_commit.close(stop_wait())
        log.close()

    asyncio.run(scenario())


def test_a_follower_gets_through_a_fetch_that_no_segment_can_hold_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compacted log may have batches that are more than 31 bits of offsets apart in one answer."""
    leader = new_log(FaultyFileSystem(), tmp_path / "leader", segment_bytes=10_000)
    append(leader, 18)
    first, second = leader.reader.read(0, 10_000, max_offset=9).records, leader.reader.read(9, 10_000).records
    log = new_log(FaultyFileSystem(), tmp_path / "a", segment_bytes=10_000)
    limits(monkeypatch, by="offsets", room=0)
    monkeypatch.setattr(segment_roll, "MAX_RELATIVE_OFFSET", 4)
    log.update_config(LogConfig(segment_bytes=SEGMENT_BYTES))  # the runs of a fetch are as long as a segment
    log.append.as_follower(first)
    assert log.log_end_offset == 9 and [segment.base_offset for segment in log.segments] == [0, 4, 8]

    with pytest.raises(KafkaStorageError) as refused:
        log.append.as_follower(second)
    assert is_shortage(refused.value) and (log.log_end_offset, log.awaits_roll) == (9, True)
    log.flush()
    log.roll()
    log.append.as_follower(second)
    assert log.log_end_offset == 18
    log.abandon()
    leader.abandon()
