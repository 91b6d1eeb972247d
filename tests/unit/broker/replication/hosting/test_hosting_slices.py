"""New logs are created in slices: the loop has its turn in between, and each partition its newest role."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import cast

import pytest

from broker.replication.hosting.assignment import TopicSettings
from broker.replication.hosting.hosting_slices import SLICE_MS, HostingSlices
from broker.replication.hosting.replica_states import Replica
from penstock.clock import ManualClock
from penstock.errors import InvariantViolation, NotLeaderOrFollowerError
from penstock.types import TopicPartition
from storage.log.group_commit import GroupCommit
from storage.log.log import Log
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.meta_properties import format_directory
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import IDS, machine
from tests.support.partitions import NOBODY, TOPIC_ID, state
from tests.support.replicas import Replicas
from tests.support.virtual_time import run_virtual

ME, EPOCH = 1, 5
SETTINGS = TopicSettings(LogConfig(), 1)
LOGS = 40
LOGS_OF_A_SLICE = 4


class SlowFileSystem(LosingFileSystem):
    """A directory takes a quarter of a slice; the clock says so."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock
        self.tries = 0
        self.bug: InvariantViolation | None = None

    def mkdir(self, path: str) -> None:
        if self.bug is not None:
            raise self.bug
        self._clock.advance(SLICE_MS // LOGS_OF_A_SLICE)
        self.tries += 1
        super().mkdir(path)


class NoFlushes:
    """Takes what a group commit takes, and flushes nothing."""

    def __init__(self) -> None:
        self.when_idle: list[Log] = []

    def subscribe(self, log: Log, callback: object) -> None:
        """Does nothing: no flush is ever made."""

    def unsubscribe(self, log: Log) -> None:
        """Does nothing: no flush is ever made."""

    def flush_when_idle(self, log: Log) -> None:
        self.when_idle.append(log)


def big(number: int) -> TopicPartition:
    return TopicPartition("big", number)


@asynccontextmanager
async def broker(
    fs_made: list[SlowFileSystem] | None = None, on_fatal: Callable[[BaseException], None] = pytest.fail
) -> AsyncIterator[tuple[Replicas, LogManager]]:
    clock = ManualClock()
    fs = SlowFileSystem(clock)
    fs.mkdir("/d")
    if fs_made is not None:
        fs_made.append(fs)
    format_directory(fs, "/d", "cluster", ME, IDS.new_id())
    log_manager = LogManager.open(["/d"], LogManagerConfig(ME), machine(fs, clock))
    manager = Replicas(ME, log_manager, cast(GroupCommit, NoFlushes()), clock, on_fatal)
    manager.registered(101)
    yield manager, log_manager
    log_manager.close(clean=True, broker_epoch=101)


def assign(manager: Replicas, number: int, leader_epoch: int = EPOCH, topic_id: str = TOPIC_ID) -> None:
    role = state(ME, leader_epoch, leader_epoch - EPOCH, isr=(ME,))
    manager.apply(big(number), topic_id, role, SETTINGS, NOBODY)


def test_a_topic_of_many_partitions_leaves_the_loop_its_turns() -> None:
    async def scenario() -> None:
        async with broker() as (manager, _):
            turns = [0]
            for number in range(LOGS):
                assign(manager, number)
            assert len(manager.parts.hosted.all()) == LOGS_OF_A_SLICE
            for _ in range(LOGS * SLICE_MS):
                turns.append(len(manager.parts.hosted.all()))
                await asyncio.sleep(0.001)
            grown = [after - before for before, after in pairwise(turns)]
            assert max(grown) <= LOGS_OF_A_SLICE, "one slice between two turns of the loop at most"
            assert [manager.get(big(n), TOPIC_ID).leading is not None for n in range(LOGS)] == [True] * LOGS

    run_virtual(scenario())


def test_a_topic_of_a_few_partitions_is_created_at_once() -> None:
    async def scenario() -> None:
        async with broker() as (manager, _):
            for number in range(LOGS_OF_A_SLICE):
                assign(manager, number)
            assert manager.statistics().partitions == LOGS_OF_A_SLICE and not len(manager.to_create)

    run_virtual(scenario())


def test_a_partition_that_waits_is_hosted_in_its_newest_role_and_refuses_until_then() -> None:
    async def scenario() -> None:
        async with broker() as (manager, _):
            for number in range(LOGS):
                assign(manager, number)
            last = big(LOGS - 1)
            assert manager.hosts(last) and manager.statistics().to_create == LOGS - LOGS_OF_A_SLICE
            with pytest.raises(NotLeaderOrFollowerError, match="still to be created") as refused:
                manager.get(last, TOPIC_ID)
            assert refused.value.retriable
            assign(manager, LOGS - 1, EPOCH + 1)
            assert manager.find(last) is None, "its turn has not come"
            await asyncio.sleep(60)
            leading = manager.get(last, TOPIC_ID).leading
            assert leading is not None and leading.leader_epoch == EPOCH + 1

    run_virtual(scenario())


def test_a_partition_that_is_deleted_while_it_waits_gets_no_log_and_its_successor_gets_one() -> None:
    async def scenario() -> None:
        async with broker() as (manager, log_manager):
            for number in range(LOGS):
                assign(manager, number)
            successor = IDS.new_id()
            for number in (LOGS - 1, LOGS - 2):
                manager.remove(big(number), TOPIC_ID)
                assert not manager.hosts(big(number))
            assign(manager, LOGS - 1, topic_id=successor)
            await asyncio.sleep(60)
            assert manager.get(big(LOGS - 1), successor).log.topic_id == successor
            assert log_manager.get(big(LOGS - 2), TOPIC_ID) is None

    run_virtual(scenario())


def test_logs_that_found_no_room_are_tried_again_in_slices_too() -> None:
    async def scenario() -> None:
        made: list[SlowFileSystem] = []
        async with broker(made) as (manager, _):
            fs = made[0]
            fs.fail_on["mkdir"] = errno.ENOSPC
            for number in range(LOGS):
                assign(manager, number)
            await asyncio.sleep(60)
            assert len(manager.lost) == LOGS
            before = fs.tries
            manager.revive_lost()
            assert fs.tries - before == LOGS_OF_A_SLICE, "the loop has its turn before the others"
            fs.fail_on.clear()
            await asyncio.sleep(60)
            manager.revive_lost()
            await asyncio.sleep(60)
            assert (len(manager.lost), manager.statistics().leaders) == (0, LOGS)

    run_virtual(scenario())


def test_no_log_is_created_after_the_stop() -> None:
    async def scenario() -> None:
        async with broker() as (manager, log_manager):
            for number in range(LOGS):
                assign(manager, number)
            manager.to_create.stop()
            before = len(log_manager.logs())
            assign(manager, LOGS)
            await asyncio.sleep(60)
            assert len(log_manager.logs()) == before

    run_virtual(scenario())


def test_what_nobody_expects_in_a_later_slice_ends_the_node_and_no_other_log_is_created() -> None:
    async def scenario() -> None:
        hosted: list[TopicPartition] = []
        fatal: list[BaseException] = []

        def host(replica: Replica) -> None:
            clock.advance(SLICE_MS)
            replica.create()
            hosted.append(replica.key)
            if len(hosted) == 2:
                raise InvariantViolation("two logs of one name")

        clock = ManualClock()
        slices = HostingSlices(host, clock.now_ms, fatal.append)
        for number in range(4):
            slices.submit(Replica(big(number)), starts_empty=True)
        await asyncio.sleep(60)
        assert [str(error) for error in fatal] == ["two logs of one name"]
        assert hosted == [big(0), big(1)] and not len(slices)

    run_virtual(scenario())


def test_a_node_is_told_what_nobody_expects_in_a_later_slice() -> None:
    async def scenario() -> None:
        made: list[SlowFileSystem] = []
        fatal: list[BaseException] = []
        async with broker(made, fatal.append) as (manager, _):
            for number in range(LOGS):
                assign(manager, number)
            made[0].bug = InvariantViolation("two logs of one name")
            await asyncio.sleep(60)
            assert fatal == [made[0].bug] and not len(manager.to_create)

    run_virtual(scenario())
