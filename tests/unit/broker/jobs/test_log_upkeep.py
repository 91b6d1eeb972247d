"""Promises of retention and of the deletion of files, over real logs: what is gone, and what a disk delays."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from penstock.errors import CorruptFileError
from storage.disk.file_system import DiskRoom, OsFileSystem
from storage.log.retention import DeletionReason
from storage.log_config import LogConfig
from tests.support.partitions import PARTITION, TOPIC_ID
from tests.support.upkeep_stage import stage

DAY_MS = 86_400_000
CONFIG = LogConfig(segment_bytes=1_000, retention_ms=DAY_MS, file_delete_delay_ms=60_000, segment_ms=10 * DAY_MS)


def test_old_segments_leave_the_log_and_their_files_go_after_the_delay(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            made.write(4)
            made.clock.advance(DAY_MS)
            made.write(3)
            await made.upkeep.delete_expired_segments(made.log_dir)
            assert made.partition.log.log_start_offset == 0  # not older than a day yet
            made.clock.advance(1)
            await made.upkeep.delete_expired_segments(made.log_dir)
            assert made.partition.log.log_start_offset == 4
            assert (made.files(""), made.files(".deleted")) == ([4, 6], [0, 2])
            found = made.upkeep.statistics()
            assert found.segments_deleted == {DeletionReason.TIME: 2} and found.bytes_deleted > 1_500
            await made.upkeep.delete_files(made.log_dir)
            assert made.files(".deleted") == [0, 2]
            made.clock.advance(60_000)
            await made.upkeep.delete_files(made.log_dir)
            assert made.files(".deleted") == []

    asyncio.run(scenario())


def test_when_all_is_old_the_log_goes_on_in_an_empty_segment(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            made.write(3)
            made.clock.advance(DAY_MS + 1)
            await made.upkeep.delete_expired_segments(made.log_dir)
            log = made.partition.log
            assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)
            assert (made.files(""), made.files(".deleted")) == ([3], [0, 2])
            await made.upkeep.delete_expired_segments(made.log_dir)
            assert made.files("") == [3]
            made.write(1)
            assert log.log_end_offset == 4

    asyncio.run(scenario())


def test_what_is_not_committed_stays_whatever_its_age(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            made.write(6)
            made.partition.high_watermark = 3
            made.clock.advance(2 * DAY_MS)
            await made.upkeep.delete_expired_segments(made.log_dir)
            assert made.partition.log.log_start_offset == 2

    asyncio.run(scenario())


def test_records_without_a_timestamp_are_as_old_as_their_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            made.write(4, timestamp_ms=-1)
            await made.upkeep.delete_expired_segments(made.log_dir)
            assert made.partition.log.log_start_offset == 0
            # The files are of today, and the clock of the test stands in 2023.
            made.clock.advance(20 * 365 * DAY_MS)
            await made.upkeep.delete_expired_segments(made.log_dir)
            assert made.partition.log.log_start_offset == 4

    asyncio.run(scenario())


@pytest.mark.parametrize("way", ["cut", "emptied"])
def test_new_records_are_not_as_old_as_those_that_were_in_a_file_of_the_same_name_and_size(
    tmp_path: Path, way: str
) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            log = made.partition.log
            made.write(1)
            size_bytes = log.size_bytes
            made.clock.advance(DAY_MS)
            await made.upkeep.delete_expired_segments(made.log_dir)  # which reads its age
            if way == "cut":
                log.truncate_to(0)
            else:
                log.truncate_fully_and_start_at(0)
            made.write(1)
            assert log.size_bytes == size_bytes
            made.clock.advance(1)
            await made.upkeep.delete_expired_segments(made.log_dir)
            assert log.log_start_offset == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("jump_ms", [-1_600_000_000_000, 2_500_000_000_000])
def test_a_clock_that_jumps_deletes_nothing_by_time_but_size_still_counts(tmp_path: Path, jump_ms: int) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            made.write(6)
            made.clock.advance(DAY_MS // 2)
            made.clock.jump_wall(jump_ms)
            await made.upkeep.delete_expired_segments(made.log_dir)
            assert made.partition.log.log_start_offset == 0
            assert not made.upkeep.statistics().clock_is_believed
            made.configure(LogConfig(segment_bytes=1_000, retention_ms=DAY_MS, retention_bytes=1_800))
            await made.upkeep.delete_expired_segments(made.log_dir)
            assert made.partition.log.log_start_offset == 2
            assert made.upkeep.statistics().segments_deleted == {DeletionReason.SIZE: 1}

    asyncio.run(scenario())


def test_a_disk_without_room_for_a_longer_name_loses_the_files_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: OsFileSystem, source: str, _target: str) -> None:
        raise OSError(errno.ENOSPC, "full", source)

    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            made.write(5)
            made.configure(LogConfig(segment_bytes=1_000, retention_bytes=0))
            with monkeypatch.context() as context:
                context.setattr(OsFileSystem, "rename", full)
                await made.upkeep.delete_expired_segments(made.log_dir)
                await made.upkeep.delete_files(made.log_dir)
            assert made.partition.offline is None
            assert made.partition.log.log_start_offset == 5
            assert (made.files(""), made.files(".deleted")) == ([5], [])

    asyncio.run(scenario())


def test_a_disk_that_fails_at_the_rename_takes_the_log_dir_out_of_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_self: OsFileSystem, source: str, _target: str) -> None:
        raise OSError(errno.EIO, "EIO", source)

    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            made.write(5)
            made.clock.advance(2 * DAY_MS)
            with monkeypatch.context() as context:
                context.setattr(OsFileSystem, "rename", broken)
                await made.upkeep.delete_expired_segments(made.log_dir)
            assert made.replicas.failed_log_dirs == [str(made.directory)] and made.partition.offline is not None
            await made.upkeep.delete_expired_segments(made.log_dir)  # of what is offline, nothing

    asyncio.run(scenario())


@pytest.mark.parametrize("damaged", [False, True])
def test_a_log_that_changed_while_its_age_was_read_is_left_for_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:

            def changes(*_args: object) -> int:
                made.partition.log.full.remove_oldest(1)  # as delete-records and retention would, on the loop
                if damaged:
                    raise CorruptFileError("t-0/00.log", 0, "it is another file now")
                return 0

            made.write(6)
            with monkeypatch.context() as context:
                context.setattr("broker.jobs.log_upkeep.largest_time_ms", changes)
                await made.upkeep.delete_expired_segments(made.log_dir)
            assert made.partition.log.log_start_offset in (2, 4) and made.partition.offline is None
            assert made.upkeep.statistics().segments_deleted == {}

    asyncio.run(scenario())


def test_damage_that_retention_finds_takes_the_replica_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_args: object) -> int:
        raise CorruptFileError("t-0/00.log", 0, "rot")

    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            made.write(4)
            monkeypatch.setattr("broker.jobs.log_upkeep.largest_time_ms", damaged)
            await made.upkeep.delete_expired_segments(made.log_dir)
            assert made.partition.offline is not None and made.replicas.lost.statistics().damaged == 1

    asyncio.run(scenario())


def short(_self: OsFileSystem, _path: str) -> DiskRoom:
    return DiskRoom(1_000_000, 9_999)


def test_a_disk_that_is_short_of_room_loses_deleted_files_without_the_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            made.write(5)
            made.configure(LogConfig(segment_bytes=1_000, retention_bytes=0, file_delete_delay_ms=60_000))
            await made.upkeep.delete_expired_segments(made.log_dir)
            await made.upkeep.delete_files(made.log_dir)
            assert made.files(".deleted") == [0, 2, 4]
            monkeypatch.setattr(OsFileSystem, "room", short)
            await made.upkeep.delete_files(made.log_dir)
            assert made.files(".deleted") == []

    asyncio.run(scenario())


def test_a_disk_that_does_not_tell_its_room_keeps_the_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_self: OsFileSystem, path: str) -> DiskRoom:
        raise OSError(errno.EIO, "EIO", path)

    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            made.write(5)
            made.configure(LogConfig(segment_bytes=1_000, retention_bytes=0, file_delete_delay_ms=60_000))
            await made.upkeep.delete_expired_segments(made.log_dir)
            monkeypatch.setattr(OsFileSystem, "room", silent)
            await made.upkeep.delete_files(made.log_dir)
            assert made.files(".deleted") == [0, 2, 4] and made.replicas.failed_log_dirs == []

    asyncio.run(scenario())


def test_a_deleted_topic_leaves_a_disk_that_is_short_of_room_without_the_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            made.write(5)
            made.replicas.remove(PARTITION, TOPIC_ID)
            await made.replicas.logs_have_left()
            await made.upkeep.delete_files(made.log_dir)
            assert len(list(made.directory.glob("*-delete"))) == 1
            monkeypatch.setattr(OsFileSystem, "room", short)
            await made.upkeep.delete_files(made.log_dir)
            assert list(made.directory.glob("*-delete")) == []

    asyncio.run(scenario())


def test_a_follower_on_a_disk_that_is_short_of_room_drops_what_its_leader_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with stage(tmp_path, CONFIG) as made:
            made.write(6)
            durable = asyncio.Event()
            made.partition.log.advance_log_start(5)  # as its fetcher does
            monkeypatch.setattr(OsFileSystem, "room", short)
            made.replicas.parts.durability.make_log_start_durable(made.partition, lambda error: durable.set())
            await durable.wait()
            assert made.partition.log.segments[0].base_offset == 4
            made.replicas.parts.durability.make_log_start_durable(made.partition, lambda error: durable.set())
            durable.clear()
            await durable.wait()
            assert (made.files(""), made.files(".deleted")) == ([4], [])

    asyncio.run(scenario())
