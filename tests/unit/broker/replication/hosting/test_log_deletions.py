"""A topic is deleted without waiting for its disk: other log dirs go on, and its name is free when its directory is.

Where the disk has no room for the rename, the deletion goes on by itself once there is room.
"""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from metadata.records import PartitionChangeRecord, RemoveTopicRecord
from penstock.clock import ManualClock
from storage.disk.stop_wait import STOP_WAIT_MS
from tests.support.machine import stop_wait
from tests.support.storage import NOW_MS, batch
from tests.support.two_log_dirs import (
    ME,
    NEW,
    OLD,
    ORDERS,
    OTHER,
    OTHERS,
    WAIT_S,
    Broker,
    hangs,
    made,
    meets,
    run,
    started,
)


@pytest.mark.parametrize(("operation", "part"), [("rename", "-delete"), ("fsync_dir", "/a")])
def test_a_partition_in_another_dir_goes_on_while_the_disk_of_a_deleted_one_hangs(
    tmp_path: Path, operation: str, part: str
) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await broker.produce(ORDERS, OLD)
            with hangs(broker.fs, operation, part) as fault:
                broker.publish(RemoveTopicRecord(OLD))
                await meets(fault)
                assert broker.replicas.find(ORDERS) is None
                await broker.produce(OTHER, OTHERS)
                assert broker.replicas.get(OTHER, OTHERS).log.reader.read(0, 1000).records
            await broker.replicas.deletions.close(stop_wait())
            assert len(broker.set_aside()) == 1 and broker.log_manager.removal.deleted.paths()

    run(scenario)


def test_a_deletion_does_not_wait_for_a_removal_of_segments_that_hangs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            log = broker.replicas.get(ORDERS, OLD).log
            for _ in range(3):
                log.append.as_leader(batch(b"value"), 0, NOW_MS)
                log.roll()
            log.flush()
            log.full.remove_oldest(2)
            with hangs(broker.fs, "rename", ".log.deleted") as fault:
                removal = asyncio.create_task(asyncio.to_thread(log.full.run_file_changes))
                await meets(fault)
                broker.publish(RemoveTopicRecord(OLD))
                await broker.produce(OTHER, OTHERS)
                assert broker.set_aside() == [], "the directory keeps its name while somebody works in it"
            await removal
            await broker.replicas.deletions.close(stop_wait())
            assert len(broker.set_aside()) == 1

    run(scenario)


def test_a_topic_of_the_same_name_is_created_when_the_name_is_free(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await broker.produce(ORDERS, OLD)
            with hangs(broker.fs, "rename", "-delete") as fault:
                broker.publish(RemoveTopicRecord(OLD))
                await meets(fault)
                broker.publish(*made(ORDERS, NEW))
                assert broker.replicas.find(ORDERS) is None and broker.replicas.hosts(ORDERS)
                assert ORDERS not in broker.replicas.lost.partitions, "it is late, not lost"
            await broker.replicas.deletions.close(stop_wait())
            await broker.produce(ORDERS, NEW)
            assert broker.replicas.get(ORDERS, NEW).log.log_end_offset == 1
            assert len(broker.set_aside()) == 1

    run(scenario)


def test_what_was_deleted_again_meanwhile_is_not_created(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            with hangs(broker.fs, "rename", "-delete") as fault:
                broker.publish(RemoveTopicRecord(OLD))
                await meets(fault)
                broker.publish(*made(ORDERS, NEW))
                broker.publish(RemoveTopicRecord(NEW))
            await broker.replicas.deletions.close(stop_wait())
            assert broker.replicas.find(ORDERS) is None and not broker.replicas.hosts(ORDERS)
            assert [log.topic_partition for log in broker.log_manager.logs()] == [OTHER]

    run(scenario)


def test_a_log_dir_that_fails_meanwhile_keeps_the_log_out_of_the_new_ones_way(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            with broker.fs.failing("rename", "-delete", errno.EIO):
                broker.publish(RemoveTopicRecord(OLD))
                broker.log_manager.fail_log_dir(broker.dirs[0], OSError(errno.EIO, "dying"))
                broker.publish(*made(ORDERS, NEW))
                await broker.replicas.deletions.close(stop_wait())
            assert broker.replicas.get(ORDERS, NEW).log.log_dir == broker.dirs[1]
            assert broker.log_manager.table.left_behind.get(ORDERS, OLD) is not None

    run(scenario)


def test_a_stop_gives_up_a_deletion_that_hangs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            clock = ManualClock()
            wait = stop_wait(clock)
            with hangs(broker.fs, "rename", "-delete") as fault:
                broker.publish(RemoveTopicRecord(OLD))
                stop = asyncio.create_task(broker.replicas.deletions.close(wait))
                await meets(fault)
                clock.advance(STOP_WAIT_MS)
                await asyncio.wait_for(stop, WAIT_S)
                assert wait.given_up == {broker.dirs[0]}

    run(scenario)


@pytest.mark.parametrize(("operation", "part"), [("rename", "-delete"), ("fsync_dir", "/a")])
def test_a_disk_that_fails_under_a_deletion_fails_its_log_dir(tmp_path: Path, operation: str, part: str) -> None:
    """A failed sync is told once: the next one of that directory would succeed, and prove nothing."""

    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await broker.produce(ORDERS, OLD)
            with broker.fs.failing(operation, part, errno.EIO):
                broker.publish(RemoveTopicRecord(OLD))
                await broker.replicas.logs_have_left()
            assert broker.replicas.failed_log_dirs == [broker.dirs[0]]
            broker.publish(*made(ORDERS, NEW))
            await broker.produce(ORDERS, NEW)
            assert broker.replicas.get(ORDERS, NEW).log.log_dir == broker.dirs[1]

    run(scenario)


def test_a_directory_that_somebody_has_removed_fails_no_log_dir(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            with broker.fs.failing("rename", "-delete", errno.ENOENT):
                broker.publish(RemoveTopicRecord(OLD))
                await broker.replicas.logs_have_left()
            assert not broker.replicas.failed_log_dirs

    run(scenario)


# -- without room ------------------------------------------------------------------------------------------------------


async def cannot_be_deleted(broker: Broker, code: int = errno.ENOSPC, tries: int = 1) -> None:
    """orders-0 has a record and is deleted, and its disk refuses the rename that often."""
    await broker.produce(ORDERS, OLD)
    with broker.fs.failing("rename", "-delete", code):
        broker.publish(RemoveTopicRecord(OLD))
        for _ in range(tries):
            await broker.replicas.logs_have_left()
            broker.replicas.revive_lost()
        await broker.replicas.logs_have_left()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_deletion_that_a_shortage_refuses_is_made_at_a_later_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await cannot_be_deleted(broker, code, tries=3)
            offline = broker.log_manager.table.offline.get(ORDERS, OLD)
            assert offline is not None and "cannot set aside" in str(offline.error)
            assert caplog.text.count("could not be set aside") == 1, "it is said once"
            broker.replicas.revive_lost()  # the next turn of the job
            await broker.replicas.logs_have_left()
            assert len(broker.set_aside()) == 1 and len(broker.log_manager.removal.deleted) == 1
            assert broker.log_manager.statistics().offline_logs == 0

    run(scenario)


def test_a_topic_of_the_same_name_is_served_in_another_dir_while_the_old_log_waits_for_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await cannot_be_deleted(broker)
            broker.publish(*made(ORDERS, NEW))
            await broker.produce(ORDERS, NEW)
            assert broker.replicas.get(ORDERS, NEW).log.log_dir == broker.dirs[1]
            broker.replicas.revive_lost()
            await broker.replicas.logs_have_left()
            assert len(broker.set_aside()) == 1 and broker.replicas.get(ORDERS, NEW).log.log_end_offset == 1

    run(scenario)


def test_a_topic_of_the_same_name_is_created_in_the_only_dir_once_the_old_log_has_found_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            broker.replicas.failures.directory_failed(broker.dirs[1], OSError(errno.EIO, "dying"))
            await cannot_be_deleted(broker)
            broker.publish(*made(ORDERS, NEW))
            assert ORDERS in broker.replicas.lost.partitions and broker.replicas.find(ORDERS) is None
            broker.replicas.revive_lost()
            await broker.replicas.logs_have_left()
            await broker.produce(ORDERS, NEW)
            assert ORDERS not in broker.replicas.lost.partitions and len(broker.set_aside()) == 1

    run(scenario)


def test_a_deleted_log_that_waits_for_room_is_deleted_also_where_a_new_topic_needs_its_name(tmp_path: Path) -> None:
    """It is no stray, which a person would have to delete."""

    async def scenario() -> None:
        async with started(tmp_path) as broker:
            broker.replicas.failures.directory_failed(broker.dirs[1], OSError(errno.EIO, "dying"))
            await cannot_be_deleted(broker)
            broker.publish(*made(ORDERS, NEW))
            broker.publish(PartitionChangeRecord(NEW, 0, leader_id=ME))
            await broker.replicas.logs_have_left()
            assert broker.replicas.get(ORDERS, NEW).offline is None
            assert not broker.log_manager.removal.strays and len(broker.set_aside()) == 1

    run(scenario)


def test_a_stray_that_a_shortage_refuses_is_set_aside_at_a_later_turn(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await broker.produce(ORDERS, OLD)
            with broker.fs.failing("rename", "-stray", errno.ENOSPC):
                broker.take_snapshot(*made(OTHER, OTHERS))
                await broker.replicas.logs_have_left()
            broker.replicas.revive_lost()
            await broker.replicas.logs_have_left()
            assert len(broker.log_manager.removal.strays) == 1 and not broker.set_aside()

    run(scenario)


def test_a_deletion_that_a_shortage_refuses_holds_up_no_stop_and_the_next_start_finds_the_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await cannot_be_deleted(broker)
        async with started(tmp_path, broker.metadata.image) as broker:
            await broker.replicas.logs_have_left()
            assert len(broker.log_manager.removal.strays) == 1 and broker.log_manager.statistics().offline_logs == 0

    run(scenario)
