"""Promises of the end of a move between log dirs: the swap of both logs, and what fails in it."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from broker.jobs.log_dir_moves.log_dir_moves import TRY_AGAIN_MS
from penstock.errors import (
    KafkaStorageError,
)
from storage.disk.file_names import RECOVERY_POINT_CHECKPOINT
from storage.disk.offset_checkpoint import OffsetCheckpoint
from storage.log.log_reader import Records
from storage.log_dirs import log_swap
from tests.support.machine import stop_wait
from tests.support.moving_replica import Stage, played
from tests.support.partitions import PARTITION, batch
from tests.support.storage import TOPIC_ID

VALUES = [b"value %02d" % n for n in range(30)]


def test_appends_in_mid_move_are_there_and_in_the_swap_they_are_refused_for_a_moment(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        written, refused = list(VALUES), 0
        assert await made.alter(made.other) is None
        target = made.other
        moving = asyncio.create_task(made.run())
        while not moving.done():
            value = b"late %d" % len(written)
            try:
                made.partition.append_as_leader(batch(value), 1, 1, made.clock.wall_ms())
                written.append(value)
            except KafkaStorageError as error:
                assert "try again" in str(error)
                refused += 1
            await asyncio.sleep(0.001)
        await moving
        assert made.partition.log.log_dir == target and refused > 0 and len(written) > len(VALUES)
        assert made.values() == written

    played(tmp_path, story)


def test_a_topic_that_is_deleted_in_the_swap_is_deleted_after_it(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        assert await made.alter(made.other) is None
        moving = asyncio.create_task(made.run())
        await made.fetchers.next()
        assert made.is_held
        made.replicas.remove(PARTITION, TOPIC_ID)
        assert made.replicas.find(PARTITION) is not None
        await moving
        assert made.replicas.find(PARTITION) is None
        await made.replicas.deletions.close(stop_wait())
        assert all(name.endswith("-delete") for name in made.names())

    played(tmp_path, story)


def test_a_cold_read_in_flight_during_the_swap_is_read_again_and_fails_nothing(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        with made.fs.standing_still("pread", f"{made.here}/t-0"):
            cold = made.partition.read(0, 500, is_replica=False)
        assert not isinstance(cold, Records)
        target = made.other
        assert await made.alter(target) is None
        await made.run()
        cold.run()
        found = made.partition.read(0, 500, is_replica=False, later=cold)
        if not isinstance(found, Records):
            found.run()
            found = made.partition.read(0, 500, is_replica=False, later=found)
        assert isinstance(found, Records) and VALUES[0] in found.records
        assert made.partition.log.log_dir == target and made.replicas.failed_log_dirs == []

    played(tmp_path, story)


def flushed_in(made: Stage, log_dir: str) -> int | None:
    """How far the log dir claims that the log is flushed."""
    path = f"{log_dir}/{RECOVERY_POINT_CHECKPOINT}"
    return OffsetCheckpoint(made.fs, path, has_topic_ids=True).offsets.get(PARTITION)


def test_the_new_log_dir_claims_at_once_that_the_log_is_flushed(tmp_path: Path) -> None:
    """Otherwise a start after a crash would take rot for a torn tail."""

    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target = made.other
        assert await made.alter(target) is None
        await made.run()
        assert made.partition.log.log_dir == target and flushed_in(made, target) == len(VALUES)

    played(tmp_path, story)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_log_dir_that_refuses_this_claim_has_failed_unless_it_is_only_full(tmp_path: Path, code: int) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target = made.other
        assert await made.alter(target) is None
        with made.fs.failing("write", RECOVERY_POINT_CHECKPOINT, code):
            await made.run()
        assert made.partition.log.log_dir == target and made.moves.statistics().completed == 1
        assert made.replicas.failed_log_dirs == ([] if code == errno.ENOSPC else [target])
        if code == errno.ENOSPC:
            assert made.values() == VALUES

    played(tmp_path, story)


@pytest.mark.parametrize("suffix", ["-moved", "-future"])
def test_a_swap_whose_rename_fails_leaves_the_replica_where_it_was(tmp_path: Path, suffix: str) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other
        assert await made.alter(target) is None
        with made.fs.failing("rename", suffix, errno.ENOSPC):
            await made.run()
        assert made.partition.offline is None and made.partition.log.log_dir == source
        made.write(b"goes on")
        assert made.values() == [*VALUES, b"goes on"]
        made.clock.advance(TRY_AGAIN_MS)
        await made.run()
        assert made.partition.log.log_dir == target and made.values() == [*VALUES, b"goes on"]

    played(tmp_path, story)


@pytest.mark.parametrize("is_renamed", [False, True])
def test_an_undo_that_finds_no_room_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_renamed: bool
) -> None:
    """The rename back, or the sync after it, for which there is no descriptor."""

    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other
        assert await made.alter(target) is None
        rename, fsync_dir, refused = made.fs.rename, made.fs.fsync_dir, 0

        def refuse(code: int, path: str) -> None:
            nonlocal refused
            refused += 1
            raise OSError(code, "no room", path)

        def without_room(old: str, new: str) -> None:
            if new == f"{target}/t-0" or (new == f"{source}/t-0" and refused < 4 and not is_renamed):
                refuse(errno.ENOSPC, new)
            rename(old, new)

        def without_descriptors(path: str) -> None:
            if path == source and 0 < refused < 4 and is_renamed:
                refuse(errno.EMFILE, path)
            fsync_dir(path)

        with monkeypatch.context() as patched:
            patched.setattr(made.fs, "rename", without_room)
            patched.setattr(made.fs, "fsync_dir", without_descriptors)
            patched.setattr(log_swap, "UNDO_PAUSE_SECONDS", 0)
            await made.run()
        assert refused == 4 and made.partition.offline is None and made.partition.log.log_dir == source
        made.write(b"goes on")
        assert made.replicas.failed_log_dirs == [] and made.values() == [*VALUES, b"goes on"]
        made.clock.advance(TRY_AGAIN_MS)
        await made.run()
        assert made.partition.log.log_dir == target and made.values() == [*VALUES, b"goes on"]

    played(tmp_path, story)


def test_a_copy_that_cannot_be_dropped_for_lack_of_room_is_dropped_later(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source = made.partition.log.log_dir
        assert await made.alter(made.other) is None
        with made.fs.failing("rename", "-delete", errno.ENOSPC):
            assert isinstance(await made.alter(source), KafkaStorageError)
            await made.run()
            assert made.names() == ["t-0", "t-0-future"]
        await made.run()
        assert made.names() == ["t-0", "t-0-delete"] and made.partition.log.log_dir == source

    played(tmp_path, story)


def test_a_copy_whose_new_name_was_not_synced_for_lack_of_descriptors_is_dropped_durably_later(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other
        assert await made.alter(target) is None
        with made.fs.failing("fsync_dir", target, errno.EMFILE):
            assert isinstance(await made.alter(source), KafkaStorageError)
        assert made.names() == ["t-0", "t-0-delete"] and len(made.manager.removal.deleted) == 0
        synced = made.fs.calls_of("fsync_dir", target)
        await made.run()
        assert made.fs.calls_of("fsync_dir", target) == synced + 1, "or a power cut brings it back, and a start goes on"
        assert len(made.manager.removal.deleted) == 1

    played(tmp_path, story)


def test_a_source_that_dies_in_the_swap_takes_the_replica_offline_until_a_restart(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other
        assert await made.alter(target) is None
        with made.fs.failing("rename", f"{source}/t-0", errno.EIO):
            await made.run()
        assert made.replicas.failed_log_dirs == [source]
        assert made.partition.offline is not None and PARTITION in made.replicas.lost.partitions
        assert not made.is_held

    played(tmp_path, story)

    async def afterwards(made: Stage) -> None:
        assert made.values() == VALUES
        target = made.other
        await made.run()
        assert made.partition.log.log_dir == target and made.values() == VALUES

    played(tmp_path, afterwards)


def test_a_destination_that_dies_in_the_swap_leaves_the_replica_where_it_was(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other
        assert await made.alter(target) is None
        with made.fs.failing("rename", f"{target}/t-0.", errno.EIO):
            await made.run()
        assert made.replicas.failed_log_dirs == [target]
        assert made.partition.offline is None and made.partition.log.log_dir == source
        made.write(b"goes on")
        assert made.values() == [*VALUES, b"goes on"]

    played(tmp_path, story)


def test_a_destination_that_fails_elsewhere_in_the_swap_takes_the_replica_with_it(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target = made.other
        assert await made.alter(target) is None
        with made.fs.standing_still("rename", "-moved"):
            moving = asyncio.create_task(made.run())
            await made.fetchers.next()
            made.replicas.failures.directory_failed(target, OSError(errno.EIO, "another log found it broken"))
        await moving
        partition = made.replicas.parts.hosted.find(PARTITION)
        assert partition is not None and not made.is_held
        if partition.log.log_dir == target:
            assert partition.offline is not None and PARTITION in made.replicas.lost.partitions
        else:
            assert partition.offline is None and made.values() == VALUES

    played(tmp_path, story)

    async def afterwards(made: Stage) -> None:
        assert made.values() == VALUES

    played(tmp_path, afterwards)


def test_a_disk_that_is_slow_at_the_end_of_a_swap_puts_it_off(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target = made.other
        assert await made.alter(target) is None
        with made.fs.standing_still("fdatasync", "-future"):
            moving = asyncio.create_task(made.run())
            await made.fetchers.next()
            with pytest.raises(KafkaStorageError):
                made.write(b"refused")
            await made.fetchers.next()  # after HOLD_MS_MAX
            assert not made.is_held
            made.write(b"goes on")
        await moving
        assert made.moves.statistics().put_off == 1 and made.partition.log.log_dir != target
        made.clock.advance(TRY_AGAIN_MS)
        await made.run()
        assert made.partition.log.log_dir == target and made.values() == [*VALUES, b"goes on"]

    played(tmp_path, story)
