"""Logs are set aside without waiting for their disk: strays, rotten ones, and the note that a log is rotten."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from metadata.records import PartitionChangeRecord, RemoveTopicRecord
from penstock.clock import ManualClock
from penstock.errors import CorruptFileError
from storage.disk.checkpoint_file import read_offsets
from storage.disk.file_names import RECOVERY_POINT_CHECKPOINT
from storage.disk.stop_wait import STOP_WAIT_MS
from tests.support.faulty_fs import FaultyFileSystem
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
    image_of,
    made,
    meets,
    run,
    started,
)

ROT = CorruptFileError("/a/orders-0/0.log", 0, "rot")
ANOTHER = 2


# -- strays ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("operation", "part"), [("rename", "-stray"), ("fsync_dir", "/a")])
def test_another_dir_goes_on_while_the_disk_of_a_stray_hangs(tmp_path: Path, operation: str, part: str) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await broker.produce(ORDERS, OLD)
            with hangs(broker.fs, operation, part) as fault:
                broker.take_snapshot(*made(OTHER, OTHERS))
                await meets(fault)
                assert broker.replicas.find(ORDERS) is None
                await broker.produce(OTHER, OTHERS)
            await broker.replicas.logs_have_left()
            (stray,) = broker.log_manager.removal.strays
            assert broker.fs.size(f"{stray}/{0:020d}.log") > 0 and broker.log_manager.statistics().offline_logs == 0

    run(scenario)


def test_a_topic_that_has_the_name_of_a_stray_waits_for_its_disk_and_is_not_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await broker.produce(ORDERS, OLD)
            with hangs(broker.fs, "rename", "-stray") as fault:
                broker.take_snapshot(*made(OTHER, OTHERS), *made(ORDERS, NEW))
                await meets(fault)
                assert broker.replicas.find(ORDERS) is None and broker.replicas.hosts(ORDERS)
                assert ORDERS not in broker.replicas.lost.partitions
                await broker.produce(OTHER, OTHERS)
            await broker.replicas.logs_have_left()
            await broker.produce(ORDERS, NEW)
            assert len(broker.log_manager.removal.strays) == 1

    run(scenario)


def test_a_start_waits_for_no_disk_of_a_stray(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await broker.produce(ORDERS, OLD)
            await broker.produce(OTHER, OTHERS)
        fs = FaultyFileSystem()
        with hangs(fs, "rename", "-stray") as fault:
            broker = Broker(tmp_path, image_of(*made(OTHER, OTHERS), *made(ORDERS, NEW)), fs)
            await meets(fault)
            await broker.produce(OTHER, OTHERS)
            assert broker.replicas.find(ORDERS) is None and ORDERS not in broker.replicas.lost.partitions
        await broker.replicas.logs_have_left()
        await broker.produce(ORDERS, NEW)
        assert len(broker.log_manager.removal.strays) == 1
        await broker.end()

    run(scenario)


def test_a_replica_whose_log_is_here_waits_for_no_stray_of_its_name_in_another_dir(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await broker.produce(ORDERS, OLD)
            broker.replicas.failures.directory_failed(broker.dirs[0], OSError(errno.EIO, "dying"))
            broker.publish(RemoveTopicRecord(OLD), *made(ORDERS, NEW))
            await broker.produce(ORDERS, NEW)
        fs = FaultyFileSystem()
        with hangs(fs, "rename", "-stray") as fault:
            broker = Broker(tmp_path, image_of(*made(ORDERS, NEW)), fs)
            await broker.produce(ORDERS, NEW)
            await meets(fault)
        await broker.replicas.logs_have_left()
        assert broker.replicas.get(ORDERS, NEW).log.log_end_offset == 2
        await broker.end()

    run(scenario)


def test_a_stop_gives_up_a_stray_whose_disk_hangs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            clock = ManualClock()
            wait = stop_wait(clock)
            with hangs(broker.fs, "rename", "-stray") as fault:
                broker.take_snapshot(*made(OTHER, OTHERS))
                stop = asyncio.create_task(broker.replicas.deletions.close(wait))
                await meets(fault)
                clock.advance(STOP_WAIT_MS)
                await asyncio.wait_for(stop, WAIT_S)
                assert wait.given_up == {broker.dirs[0]}

    run(scenario)


def test_a_stray_in_a_dir_that_is_given_up_is_left_behind_and_its_name_is_free(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            with hangs(broker.fs, "rename", "-stray") as fault:
                broker.take_snapshot(*made(OTHER, OTHERS), *made(ORDERS, NEW))
                await meets(fault)
                broker.replicas.failures.directory_failed(broker.dirs[0], OSError(errno.ETIMEDOUT, "hangs"))
                await broker.produce(ORDERS, NEW)
                assert broker.replicas.get(ORDERS, NEW).log.log_dir == broker.dirs[1]
            table = broker.log_manager.table
            assert table.left_behind.get(ORDERS, OLD) is not None and not len(table.offline)

    run(scenario)


# -- rotten logs -------------------------------------------------------------------------------------------------------


def is_led_by_another(broker: Broker) -> None:
    broker.publish(PartitionChangeRecord(OLD, 0, (ANOTHER,), ANOTHER, replicas=(ME, ANOTHER)))


def registers_anew(broker: Broker) -> None:
    broker.replicas.brokers_changed({ME: 201, ANOTHER: 102}, frozenset({ME, ANOTHER}))
    broker.replicas.registered(201)


def line(fs: FaultyFileSystem, log_dir: str) -> int | None:
    return (read_offsets(fs, f"{log_dir}/{RECOVERY_POINT_CHECKPOINT}") or {}).get(ORDERS)


async def damaged(broker: Broker, *, flushed: bool = False) -> None:
    """orders-0 has a flushed record, and rot that a reader finds; another broker leads."""
    if not flushed:
        await broker.produce(ORDERS, OLD)
    is_led_by_another(broker)
    broker.replicas.failures.disk_error(broker.replicas.get(ORDERS, OLD), ROT)


@pytest.mark.parametrize(("operation", "part"), [("rename", "-rotten"), ("fsync_dir", "/a")])
def test_another_dir_goes_on_while_the_disk_of_a_rotten_log_hangs(tmp_path: Path, operation: str, part: str) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await damaged(broker)
            await broker.replicas.logs_have_left()
            with hangs(broker.fs, operation, part) as fault:
                registers_anew(broker)
                await meets(fault)
                broker.replicas.revive_lost()  # the next turn of the job
                await broker.produce(OTHER, OTHERS)
                assert broker.replicas.get(ORDERS, OLD).offline is not None and line(broker.fs, broker.dirs[0]) == 1
            await broker.replicas.logs_have_left()
            anew = broker.replicas.get(ORDERS, OLD)
            assert anew.offline is None and anew.log.log_end_offset == 0 and anew.state.leader_id == ANOTHER
            assert len(broker.set_aside("-rotten")) == 1 and line(broker.fs, broker.dirs[0]) is None

    run(scenario)


def test_a_topic_that_is_deleted_while_its_rotten_log_leaves_is_not_made_anew(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await damaged(broker)
            with hangs(broker.fs, "rename", "-rotten") as fault:
                registers_anew(broker)
                await meets(fault)
                broker.publish(RemoveTopicRecord(OLD))
                broker.publish(*made(ORDERS, NEW))
                assert broker.replicas.find(ORDERS) is None and ORDERS not in broker.replicas.lost.partitions
            await broker.replicas.logs_have_left()
            await broker.produce(ORDERS, NEW)
            assert len(broker.set_aside("-rotten")) == 1 and broker.log_manager.get(ORDERS, OLD) is None

    run(scenario)


@pytest.mark.parametrize(("operation", "part"), [("fsync_dir", "/a"), ("rename", "-rotten")])
def test_a_rotten_log_that_a_shortage_keeps_here_leaves_at_a_later_turn(
    tmp_path: Path, operation: str, part: str
) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            await damaged(broker)
            await broker.replicas.logs_have_left()
            with broker.fs.failing(operation, part, errno.EMFILE if operation == "fsync_dir" else errno.ENOSPC):
                registers_anew(broker)
                await broker.replicas.logs_have_left()
                assert broker.replicas.get(ORDERS, OLD).offline is not None
                assert line(broker.fs, broker.dirs[0]) == 1, "until it has left, the next start must know it"
            broker.replicas.revive_lost()
            await broker.replicas.logs_have_left()
            assert broker.replicas.get(ORDERS, OLD).offline is None and len(broker.set_aside("-rotten")) == 1

    run(scenario)


def test_a_log_keeps_its_name_while_a_thread_works_in_its_directory(tmp_path: Path) -> None:
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
                await damaged(broker, flushed=True)
                registers_anew(broker)
                await broker.produce(OTHER, OTHERS)
                assert broker.set_aside("-rotten") == []
            await removal
            await broker.replicas.logs_have_left()
            assert len(broker.set_aside("-rotten")) == 1

    run(scenario)


# -- the note ----------------------------------------------------------------------------------------------------------


def test_a_reader_that_finds_rot_waits_for_no_checkpoint(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            with hangs(broker.fs, "rename", RECOVERY_POINT_CHECKPOINT) as fault:
                await damaged(broker)
                await meets(fault)
                registers_anew(broker)
                await broker.produce(OTHER, OTHERS)
                assert broker.set_aside("-rotten") == [], "one after the other"
                assert broker.replicas.get(ORDERS, OLD).offline is not None
            await broker.replicas.logs_have_left()
            assert broker.replicas.get(ORDERS, OLD).offline is None and line(broker.fs, broker.dirs[0]) is None

    run(scenario)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_note_that_finds_no_room_is_in_the_next_checkpoint_and_any_other_error_fails_the_dir(
    tmp_path: Path, code: int
) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            with broker.fs.failing("rename", RECOVERY_POINT_CHECKPOINT, code):
                await damaged(broker)
                await broker.replicas.logs_have_left()
            assert broker.replicas.failed_log_dirs == ([broker.dirs[0]] if code == errno.EIO else [])
            assert line(broker.fs, broker.dirs[0]) is None
            broker.log_manager.checkpoints.write_recovery_points()
            assert line(broker.fs, broker.dirs[0]) == (None if code == errno.EIO else 1)

    run(scenario)


def test_a_note_that_hangs_holds_up_no_stop(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path) as broker:
            clock = ManualClock()
            wait = stop_wait(clock)
            with hangs(broker.fs, "rename", RECOVERY_POINT_CHECKPOINT) as fault:
                await damaged(broker)
                await meets(fault)
                stop = asyncio.create_task(broker.replicas.deletions.close(wait))
                await asyncio.sleep(0)
                clock.advance(STOP_WAIT_MS)
                await asyncio.wait_for(stop, WAIT_S)
                assert wait.given_up == {broker.dirs[0]}

    run(scenario)
