"""Promises of moves between log dirs: no record is lost or appears twice, and trouble leaves the replica as it was."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from broker.jobs.log_dir_moves.log_dir_moves import TRY_AGAIN_MS
from broker.jobs.log_upkeep import LogUpkeep
from broker.jobs.scheduler import Scheduler
from broker.jobs.wall_clock import WallClockGuard
from penstock.errors import (
    ApiError,
    InvalidTopicError,
    KafkaStorageError,
    LogDirNotFoundError,
    ReplicaNotAvailableError,
)
from penstock.record.builder import build_batch
from penstock.types import METADATA_TOPIC, TopicPartition
from storage.cleaner.cleaner_log_view import Candidate
from storage.cleaner.cleaner_types import CleanerConfig
from storage.cleaner.log_cleaner import LogCleaner
from storage.disk.file_names import RECOVERY_POINT_CHECKPOINT
from storage.disk.offset_checkpoint import OffsetCheckpoint
from storage.log_config import LogConfig
from storage.log_dirs import future_logs
from storage.segment.cold_read import ColdRead
from tests.support.machine import THREADS, stop_wait
from tests.support.moving_replica import Stage, played, stage
from tests.support.partitions import PARTITION, batch
from tests.support.storage import TOPIC_ID, read_all

OTHER_TOPIC_ID = "B" * 22
VALUES = [b"value %02d" % n for n in range(30)]


def test_a_leader_moves_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        partition, target = made.partition, made.other
        acked: list[ApiError | None] = []
        partition.append_as_leader(batch(b"waits"), -1, 1, made.clock.wall_ms())
        partition.acks_all.add(31, acked.append)
        assert await made.alter(target) is None
        assert made.moves.views()[PARTITION].log_dir == target
        await made.run()
        assert made.partition is partition and partition.log.log_dir == target
        assert acked == [None] and partition.high_watermark == 31
        made.write(b"after")
        assert made.values() == [*VALUES, b"waits", b"after"]
        assert made.moves.views() == {} and made.moves.statistics().completed == 1
        assert made.names() == ["t-0", "t-0-delete"]

    played(tmp_path, story)


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


@pytest.mark.parametrize("length", [1, 40])
def test_a_follower_that_is_truncated_in_mid_move_moves_with_its_new_history(tmp_path: Path, length: int) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        made.host(leader=2, epoch=6, partition_epoch=1)
        others, target = [b"other %d" % number for number in range(length)], made.other

        def meddle(step: int) -> None:
            if step == 6:
                made.truncate_to(4)
                for value in others:
                    made.partition.log.append_as_leader(batch(value), 6, made.clock.wall_ms())

        made.throttle.meddle = meddle
        assert await made.alter(target) is None
        await made.run()
        assert made.partition.log.log_dir == target and made.values() == [*VALUES[:4], *others]
        assert made.partition.log.latest_epoch == 6

    played(tmp_path, story)


@pytest.mark.parametrize("start", [3, 25, 30])
def test_records_that_are_deleted_in_mid_move_stay_deleted(tmp_path: Path, start: int) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)

        def meddle(step: int) -> None:
            if step == 4:
                made.delete_below(start)

        made.throttle.meddle = meddle
        target = made.other
        assert await made.alter(target) is None
        await made.run()
        assert made.partition.log.log_dir == target
        assert made.partition.log.log_start_offset == start and made.values() == VALUES[start:]

    played(tmp_path, story)


def test_a_topic_that_is_deleted_in_mid_move_leaves_nothing(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        made.throttle.meddle = lambda step: made.replicas.remove(PARTITION, TOPIC_ID) if step == 3 else None
        assert await made.alter(made.other) is None
        await made.run()
        await made.run()
        await made.replicas.deletions.close(stop_wait())
        assert made.moves.views() == {}
        assert all(name.endswith("-delete") for name in made.names()) and len(made.names()) == 2

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


def test_a_full_disk_lets_the_move_wait(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target = made.other
        assert await made.alter(target) is None
        with made.fs.failing("write", "-future", errno.ENOSPC):
            await made.run()
        assert "disk is full" in made.moves.views()[PARTITION].waits_for
        made.write(b"goes on")
        await made.run()
        assert made.partition.log.log_dir != target, "it waits"
        made.clock.advance(TRY_AGAIN_MS)
        said: set[str] = set()
        made.throttle.meddle = lambda step: said.update(view.waits_for for view in made.moves.views().values())
        await made.run()
        assert "" in said, "while it goes on, nobody is told that it waits"
        assert made.partition.log.log_dir == target and made.values() == [*VALUES, b"goes on"]
        assert made.replicas.failed_log_dirs == []

    played(tmp_path, story)


def test_a_log_that_cannot_be_read_for_lack_of_descriptors_lets_the_move_wait(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target = made.other
        assert await made.alter(target) is None
        with made.fs.failing("pread", f"{made.here}/t-0/", errno.EMFILE) as fault:
            async with asyncio.timeout(5):
                await made.run()
        assert 0 < fault.met < 5 and made.moves.views()[PARTITION].waits_for
        made.clock.advance(TRY_AGAIN_MS)
        await made.run()
        assert made.partition.log.log_dir == target and made.values() == VALUES
        assert made.replicas.failed_log_dirs == []

    played(tmp_path, story)


def test_a_lack_of_descriptors_does_not_keep_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that fails before it waits for anything: a loop without a pause would be the end of the node."""

    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target, reads = made.other, 0
        assert await made.alter(target) is None

        def read_nowait(*_: object) -> None:
            nonlocal reads
            reads += 1
            assert reads < 100, "it tries without a pause"
            raise OSError(errno.EMFILE, "too many open files")

        with monkeypatch.context() as patched:
            patched.setattr(type(made.partition.log), "read_nowait", read_nowait)
            await made.run()
        assert reads == 1 and made.partition.offline is None

    played(tmp_path, story)


def test_a_log_dir_that_dies_as_the_destination_leaves_the_replica_where_it_is(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target = made.other
        assert await made.alter(target) is None
        with made.fs.failing("fdatasync", "-future", errno.EIO):
            await made.run()
        assert made.replicas.failed_log_dirs == [target]
        assert made.partition.offline is None and made.moves.views() == {}
        made.write(b"goes on")
        assert made.values() == [*VALUES, b"goes on"]
        error = await made.alter(target)
        assert isinstance(error, KafkaStorageError) and "is offline" in str(error)

    played(tmp_path, story)


def test_a_log_dir_that_dies_as_the_source_ends_the_move_and_a_restart_goes_on(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source = made.partition.log.log_dir

        def meddle(step: int) -> None:
            if step == 3:
                made.replicas.failures.directory_failed(source, OSError(errno.EIO, "broken"))

        made.throttle.meddle = meddle
        assert await made.alter(made.other) is None
        await made.run()
        assert made.partition.offline is not None and made.partition.log.log_dir == source

    played(tmp_path, story)

    async def afterwards(made: Stage) -> None:
        source, target = made.here, made.other
        await made.run()
        assert made.partition.log.log_dir == target != source and made.values() == VALUES

    played(tmp_path, afterwards)


def test_a_log_that_is_compacted_in_mid_move_keeps_its_last_values(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.partition.log.update_config(
            LogConfig(segment_bytes=1_000, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01)
        )
        for number in range(30):
            keyed = build_batch([b"v%02d" % number], keys=[b"k%d" % (number % 3)], timestamps_ms=made.clock.wall_ms())
            made.partition.append_as_leader(keyed, 1, 1, made.clock.wall_ms())
        made.write()

        def meddle(step: int) -> None:
            if step == 6:
                log, high_watermark = made.partition.log, made.partition.high_watermark
                checkpoint = made.manager.cleaner_checkpoint(log)
                assert checkpoint is not None
                config = CleanerConfig(dedupe_buffer_bytes=1 << 20)
                candidate = Candidate(log, high_watermark, checkpoint)
                cleaner = LogCleaner(made.fs, config, lambda: [candidate], made.clock, THREADS)
                chosen = cleaner.choose(made.clock.wall_ms())
                assert chosen is not None
                for clean in cleaner.clean(chosen, made.clock.wall_ms()):
                    clean()
                assert cleaner.statistics().passes == 1

        made.throttle.meddle = meddle
        target = made.other
        assert await made.alter(target) is None
        await made.run()
        assert made.partition.log.log_dir == target and made.partition.log.log_end_offset == 30
        assert made.values()[-3:] == [b"v27", b"v28", b"v29"]

    played(tmp_path, story)


def test_retention_that_looked_at_the_old_log_deletes_nothing_of_the_new_one(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        made.partition.log.update_config(LogConfig(segment_bytes=1_000, retention_bytes=1_000))
        source, target = made.partition.log.log_dir, made.other
        assert await made.alter(target) is None

        class MovesMeanwhile(Scheduler):
            async def in_thread(self, log_dir: str, work: Any, *args: Any, **kwargs: Any) -> Any:
                found = work(*args, **kwargs)
                await made.run()
                return found

        scheduler = MovesMeanwhile(made.clock, THREADS, lambda error: None)
        guard, parts = WallClockGuard(made.clock), made.replicas.parts
        upkeep = LogUpkeep(parts.hosted, parts.failures, made.manager, scheduler, made.clock, made.fs, guard)
        await upkeep.delete_expired_segments(source)
        assert made.partition.log.log_dir == target and made.values() == VALUES

    played(tmp_path, story)


def test_a_producers_duplicate_is_known_in_the_new_place(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        def produced(sequence: int) -> bool:
            wall_ms = made.clock.wall_ms()
            fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
            records = build_batch([b"%d" % sequence], timestamps_ms=wall_ms, **fields)  # type: ignore[arg-type]
            return made.partition.append_as_leader(records, 1, 1, wall_ms).is_duplicate

        assert not any(produced(sequence) for sequence in range(8))
        target = made.other
        assert await made.alter(target) is None
        await made.run()
        assert made.partition.log.log_dir == target
        assert produced(6) and produced(7) and not produced(8)
        assert len(made.values()) == 9

    played(tmp_path, story)


def test_a_cold_read_in_flight_during_the_swap_is_read_again_and_fails_nothing(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        with made.fs.standing_still("pread", f"{made.here}/t-0"):
            cold = made.partition.read(0, 500, is_replica=False)
        assert isinstance(cold, ColdRead)
        target = made.other
        assert await made.alter(target) is None
        await made.run()
        cold.run()
        found = made.partition.read(0, 500, is_replica=False, cold=cold)
        if isinstance(found, ColdRead):
            found.run()
            found = made.partition.read(0, 500, is_replica=False, cold=found)
        assert not isinstance(found, ColdRead) and VALUES[0] in found.records
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


def test_the_copy_of_a_replica_that_was_deleted_before_it_was_served_is_dropped(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        assert await made.alter(made.other) is None

    played(tmp_path, story)

    async def afterwards() -> None:
        async with stage(tmp_path) as made:
            assert made.names() == ["t-0", "t-0-future"]
            made.manager.removal.set_aside_for_deletion(PARTITION, TOPIC_ID)
            await made.run()
            assert made.names() == ["t-0-delete", "t-0-delete"]

    asyncio.run(afterwards())


@pytest.mark.parametrize("moves_again", [False, True])
def test_the_copy_of_a_topic_that_was_made_anew_before_it_was_served_is_dropped_and_not_filled(
    tmp_path: Path, moves_again: bool
) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        assert await made.alter(made.other) is None

    played(tmp_path, story)

    async def afterwards() -> None:
        async with stage(tmp_path) as made:
            made.manager.removal.set_aside_for_deletion(PARTITION, TOPIC_ID)
            made.host(topic_id=OTHER_TOPIC_ID)
            partition = made.replicas.get(PARTITION, OTHER_TOPIC_ID)
            partition.append_as_leader(batch(b"of the new topic"), 1, 1, made.clock.wall_ms())
            source, target = made.dirs
            assert partition.log.log_dir == source and made.moves.views() == {}
            if moves_again:
                assert await made.alter(target) is None
            await made.run()
            assert partition.log.log_dir == (target if moves_again else source)
            assert [value for _, value in read_all(partition.log)] == [b"of the new topic"]
            assert made.moves.statistics().failed_attempts == 0 and "t-0-future" not in made.names()

    asyncio.run(afterwards())


def test_a_move_goes_on_after_a_stop_in_order(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        made.throttle.meddle = lambda step: made.moves.stop() if step == 5 else None
        assert await made.alter(made.other) is None
        await made.run()
        assert made.throttle.steps == 5 and made.moves.views()[PARTITION].bytes_left > 0

    played(tmp_path, story)

    async def afterwards(made: Stage) -> None:
        target = made.other
        assert made.moves.views()[PARTITION].log_dir == target
        await made.run()
        assert made.throttle.steps < 29, "what was copied before is not copied again"
        assert made.partition.log.log_dir == target and made.values() == VALUES

    played(tmp_path, afterwards)


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
            patched.setattr(future_logs, "UNDO_PAUSE_SECONDS", 0)
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


def test_asking_for_where_it_is_ends_a_move_and_asking_twice_is_one_move(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source, target = made.partition.log.log_dir, made.other
        assert await made.alter(target) is None and await made.alter(target) is None
        assert made.names() == ["t-0", "t-0-future"]
        assert await made.alter(source) is None
        assert made.moves.views() == {}
        assert "t-0-future" not in made.names(), "BEFORE the answer: a start would go on with the move"
        await made.run()
        assert made.partition.log.log_dir == source
        assert not [name for name in made.names() if name.endswith("-future")]

    played(tmp_path, story)


@pytest.mark.parametrize("in_mid_copy", [False, True])
def test_the_copy_of_a_deleted_replica_is_dropped_without_the_job_that_copies(
    tmp_path: Path, in_mid_copy: bool
) -> None:
    """That may be busy with another copy for hours. Its own copy it closes before."""

    async def story(made: Stage) -> None:
        made.write(*VALUES)
        target, copying = made.other, asyncio.Event()
        assert await made.alter(target) is None
        made.throttle.meddle = lambda step: copying.set()
        moving = asyncio.create_task(made.moves.run(target)) if in_mid_copy else None
        if moving is not None:
            await copying.wait()
        made.replicas.remove(PARTITION, TOPIC_ID)
        await made.moves.drop(target)
        assert ("t-0-future" in made.names()) == in_mid_copy
        if moving is not None:
            await moving
        assert "t-0-future" not in made.names()
        assert not made.manager.offline_log_dirs and not made.moves.statistics().failed_attempts

    played(tmp_path, story)


def test_a_move_that_is_taken_back_in_mid_copy_is_dropped_before_the_answer(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        made.write(*VALUES)
        source = made.partition.log.log_dir
        assert await made.alter(made.other) is None
        in_mid_copy = asyncio.Event()
        made.throttle.meddle = lambda step: in_mid_copy.set()
        moving = asyncio.create_task(made.run())
        await in_mid_copy.wait()
        assert await made.alter(source) is None
        assert not [name for name in made.names() if name.endswith("-future")]
        await moving
        assert made.partition.log.log_dir == source and made.values() == VALUES
        assert not made.manager.offline_log_dirs and not made.moves.statistics().failed_attempts

    played(tmp_path, story)


def test_what_is_asked_for_wrongly_is_refused(tmp_path: Path) -> None:
    async def story(made: Stage) -> None:
        for path in ("", "b", "/somewhere/else", "../b"):
            assert isinstance(await made.alter(path), LogDirNotFoundError)
        target = made.other
        for key in (TopicPartition("t", 1), TopicPartition("nobody", 0)):
            assert isinstance(await made.alter(target, key), ReplicaNotAvailableError)
        assert isinstance(await made.alter(target, TopicPartition(METADATA_TOPIC, 0)), InvalidTopicError)
        made.replicas.failures.directory_failed(made.partition.log.log_dir, OSError(errno.EIO, "broken"))
        assert isinstance(await made.alter(target), KafkaStorageError)
        assert made.names() == ["t-0"]

    played(tmp_path, story)
