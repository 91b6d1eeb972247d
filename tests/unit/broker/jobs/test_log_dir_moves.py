"""Promises of moves between log dirs: no record is lost or appears twice, whatever happens to the log meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from broker.jobs.log_upkeep import LogUpkeep
from broker.jobs.scheduler import Scheduler
from broker.jobs.wall_clock import WallClockGuard
from penstock.errors import (
    ApiError,
)
from penstock.record.builder import build_batch
from storage.cleaner.cleaner_log_view import Candidate
from storage.cleaner.cleaner_types import CleanerConfig
from storage.cleaner.log_cleaner import LogCleaner
from storage.log_config import LogConfig
from tests.support.faulty_fs import Fault
from tests.support.machine import THREADS, stop_wait
from tests.support.moving_replica import Stage, played
from tests.support.partitions import PARTITION, batch
from tests.support.storage import TOPIC_ID

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
                    made.partition.log.append.as_leader(batch(value), 6, made.clock.wall_ms())

        made.throttle.meddle = meddle
        assert await made.alter(target) is None
        await made.run()
        assert made.partition.log.log_dir == target and made.values() == [*VALUES[:4], *others]
        assert made.partition.log.latest_epoch == 6

    played(tmp_path, story)


def test_a_follower_that_is_truncated_while_a_thread_reads_for_its_move_moves_with_its_new_history(
    tmp_path: Path,
) -> None:
    """The copy must be cut before it gets more: the same offset has a record of another history by then."""

    async def story(made: Stage) -> None:
        made.write(*VALUES)
        made.host(leader=2, epoch=6, partition_epoch=1)
        others, target, disk = [b"other %d" % number for number in range(40)], made.other, ExitStack()
        stuck: list[Fault] = []

        def meddle(step: int) -> None:
            if step == 6:
                stuck.append(disk.enter_context(made.fs.standing_still("pread", f"{made.here}/t-0/")))

        made.throttle.meddle = meddle
        assert await made.alter(target) is None
        moving = asyncio.ensure_future(made.run())
        async with asyncio.timeout(30):
            while not (stuck and stuck[0].was_met.is_set()):  # noqa: ASYNC110
                await asyncio.sleep(0)
        disk.close()  # the move goes on with the next turn of the loop
        made.truncate_to(4)
        for value in others:
            made.partition.log.append.as_leader(batch(value), 6, made.clock.wall_ms())
        await moving
        assert made.partition.log.log_dir == target and made.values() == [*VALUES[:4], *others]

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
