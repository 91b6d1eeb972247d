"""Promises about the replicas of a broker: who joins an ISR and when, and what becomes of those that are lost."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from broker.replication.hosting.assignment import TopicSettings
from broker.replication.leader.follower_fetch import note_follower_fetch
from broker.replication.leader.leader_state import ReplicaPosition
from broker.replication.partition import Partition
from metadata.records import RegisterBrokerRecord
from metadata.registrations import BrokerRegistration, PartitionRegistration
from penstock.clock import ManualClock
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.types import TopicPartition
from storage.disk.file_system import OsFileSystem
from storage.log.group_commit import GroupCommit
from storage.log_config import LogConfig
from storage.log_dirs.log_creation import LogCreation
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.log_removal import LogRemoval, Outcome, Removal
from storage.log_dirs.meta_properties import format_directory, read_meta_properties
from tests.support.machine import IDS, THREADS, machine, stop_wait
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, batch, state
from tests.support.replicas import Proposals, Replicas

LEADER, LEADER_EPOCH = 1, 5
EPOCHS = {1: 101, 2: 102, 3: 103}
SETTINGS = TopicSettings(LogConfig(), 1)


class Fetchers:
    """Remembers how much of the log was flushed when fetching began; the first fetch acknowledges all of it."""

    def __init__(self) -> None:
        self.began_at: list[tuple[int, int]] = []
        self.began = asyncio.Event()

    def add(self, partition: Partition, leader_id: int, leader_epoch: int) -> None:
        self.began_at.append((partition.log.flushed_offset, partition.log.log_end_offset))
        self.began.set()

    def follows(self, partition: TopicPartition, leader_id: int) -> bool:
        return False

    def remove(self, partitions: list[TopicPartition]) -> None:
        """There is nothing to stop."""


@asynccontextmanager
async def leading_alone(
    path: Path, fetchers: Fetchers | None = None
) -> AsyncIterator[tuple[Replicas, Partition, Proposals]]:
    """A broker that leads one partition, with an ISR of itself; its followers are registered, and fenced."""
    fs = OsFileSystem()
    format_directory(fs, str(path / "data"), "cluster", LEADER, IDS.new_id())
    log_manager = LogManager.open([path / "data"], LogManagerConfig(LEADER), machine(fs))
    group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
    proposals = Proposals()
    manager = Replicas(LEADER, log_manager, group_commit, ManualClock(), proposals=proposals, fetchers=fetchers)
    manager.registered(EPOCHS[LEADER])
    manager.brokers_changed(EPOCHS, frozenset({LEADER}))
    manager.apply(PARTITION, TOPIC_ID, state(LEADER, LEADER_EPOCH, 0, isr=(1,)), SETTINGS, NOBODY)
    yield manager, manager.get(PARTITION, TOPIC_ID), proposals
    await manager.deletions.close(stop_wait())
    await group_commit.close(stop_wait())
    log_manager.close(clean=True, broker_epoch=EPOCHS[LEADER])


def fetches_everything(partition: Partition, replica_id: int) -> None:
    note_follower_fetch(partition, replica_id, EPOCHS[replica_id], ReplicaPosition(0, -1, 0), LEADER_EPOCH, now_ms=1)


def test_a_follower_that_caught_up_while_fenced_joins_when_it_is_unfenced(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, proposals):
            fetches_everything(partition, 2)
            assert proposals.asked == []
            manager.brokers_changed(EPOCHS, frozenset({1, 2}))
            assert proposals.asked == [frozenset({1, 2})]

    asyncio.run(scenario())


def test_what_waits_for_a_failed_log_dir_is_told_the_file_and_the_remedy(tmp_path: Path) -> None:
    """Whichever came first: a failed write of the log, or a check of the log dir beside it."""

    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, _):
            manager.failures.directory_failed(partition.log.log_dir, OSError(errno.EROFS, os.strerror(errno.EROFS)))
            said = str(partition.offline)
            assert partition.log.directory in said and "the file system is read-only" in said and "remount" in said

    asyncio.run(scenario())


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_failed_log_dir_costs_a_registration_only_if_the_metadata_does_not_name_it(
    tmp_path: Path, is_recorded: bool
) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, _):
            properties = read_meta_properties(OsFileSystem(), partition.log.log_dir)
            assert properties is not None
            directory = properties.directory_id if is_recorded else "another"
            now = replace(partition.state, directories=(directory, *("",) * (len(partition.state.replicas) - 1)))
            manager.apply(PARTITION, TOPIC_ID, now, SETTINGS, NOBODY)
            assert len(manager.directories) == (not is_recorded)
            manager.failures.directory_failed(partition.log.log_dir, OSError(errno.EIO, "dead"))
            assert partition.offline is not None and manager.failed_log_dirs == [partition.log.log_dir]
            assert manager.losses == (not is_recorded)

    asyncio.run(scenario())


def test_a_follower_whose_log_dir_has_failed_is_not_proposed_and_holds_up_no_deletion(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, proposals):
            record = RegisterBrokerRecord(2, "i", EPOCHS[2], "h", 9, log_dirs=("a", "b"), offline_log_dirs=("a",))
            broken = {2: BrokerRegistration.from_record(record)}
            now = replace(partition.state, directories=("", "a", ""))
            manager.apply(PARTITION, TOPIC_ID, now, SETTINGS, NOBODY)
            manager.brokers_changed(EPOCHS, frozenset({1, 2}), broken)
            assert partition.low_watermark() == 0, "the log start of broker 2 is not known, and does not matter"
            fetches_everything(partition, 2)
            assert proposals.asked == []
            manager.apply(PARTITION, TOPIC_ID, replace(now, directories=("", "b", "")), SETTINGS, NOBODY)
            assert proposals.asked == [frozenset({1, 2})], "it is in the other one"

    asyncio.run(scenario())


def test_a_follower_joins_after_the_proposal_before_it_without_another_fetch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, proposals):
            manager.brokers_changed(EPOCHS, frozenset({1, 2, 3}))
            fetches_everything(partition, 2)
            fetches_everything(partition, 3)
            assert proposals.asked == [frozenset({1, 2})]
            manager.apply(PARTITION, TOPIC_ID, state(LEADER, LEADER_EPOCH, 1, isr=(1, 2)), SETTINGS, NOBODY)
            assert proposals.asked[1:] == [frozenset({1, 2, 3})]

    asyncio.run(scenario())


def test_a_follower_of_an_earlier_registration_does_not_join(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, proposals):
            fetches_everything(partition, 2)
            manager.brokers_changed({**EPOCHS, 2: 200}, frozenset({1, 2}))
            assert proposals.asked == []

    asyncio.run(scenario())


def test_the_tail_of_a_log_is_flushed_before_the_first_fetch_acknowledges_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        fetchers = Fetchers()
        async with leading_alone(tmp_path, fetchers) as (manager, partition, _):
            partition.append_as_leader(batch(b"not flushed"), 1, 1, 1_700_000_000_000)
            assert partition.log.flushed_offset == 0
            manager.apply(PARTITION, TOPIC_ID, state(2, LEADER_EPOCH + 1, 1, isr=(1, 2)), SETTINGS, NOBODY)
            await asyncio.wait_for(fetchers.began.wait(), 60)
            assert fetchers.began_at == [(1, 1)]

    asyncio.run(scenario())


def test_a_deletion_that_the_disk_refuses_is_no_reason_to_end_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_self: LogRemoval, _log_dir: str, removals: list[Removal]) -> dict[Removal, dict[str, Outcome]]:
        return {removal: dict.fromkeys(removal.directories, KafkaStorageError("EROFS")) for removal in removals}

    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, _):
            monkeypatch.setattr(LogRemoval, "carry_out", refused)
            manager.remove(PARTITION, TOPIC_ID)
            await manager.logs_have_left()
            assert manager.find(PARTITION) is None and partition.offline is not None

    asyncio.run(scenario())


def test_a_replica_that_its_disk_lost_is_told_so_that_others_may_lead(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, _):
            manager.failures.disk_error(partition, CorruptFileError("t-0/00.log", 0, "rot"))
            assert partition.offline is not None and manager.losses == 1

    asyncio.run(scenario())


ROT = CorruptFileError("t-0/00.log", 0, "rot")
NEXT_EPOCH = 201


def damage(manager: Replicas, partition: Partition) -> Path:
    """Some records, and then rot that somebody reads; the directory of the log."""
    partition.log.append.as_leader(batch(b"v1", b"v2"), LEADER_EPOCH, 1_700_000_000_000)
    manager.failures.disk_error(partition, ROT)
    return Path(partition.log.directory)


def registers_anew(manager: Replicas, epoch: int = NEXT_EPOCH) -> None:
    manager.brokers_changed({**EPOCHS, LEADER: epoch}, frozenset({1, 2}))
    manager.registered(epoch)


def led_by_2(partition_epoch: int, isr: tuple[int, ...] = (2,)) -> PartitionRegistration:
    return state(2, LEADER_EPOCH + 1, partition_epoch, isr=isr)


def apply(manager: Replicas, registration: PartitionRegistration) -> None:
    manager.apply(PARTITION, TOPIC_ID, registration, SETTINGS, NOBODY)


def test_a_damaged_replica_is_made_anew_once_another_leads_and_the_registration_is_newer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, _):
            directory = damage(manager, partition)
            apply(manager, led_by_2(1))
            assert manager.get(PARTITION, TOPIC_ID) is partition and manager.statistics().offline == 1
            registers_anew(manager)
            await manager.logs_have_left()
            anew = manager.get(PARTITION, TOPIC_ID)
            assert anew is not partition and anew.offline is None
            assert (anew.log.log_end_offset, anew.high_watermark, anew.state.leader_id) == (0, 0, 2)
            assert manager.statistics().offline == 0 and manager.lost.statistics().rebuilt == 1
            (aside,) = (path for path in directory.parent.iterdir() if path.name.endswith("-rotten"))
            assert any(path.stat().st_size for path in aside.glob("*.log"))

    asyncio.run(scenario())


def test_a_damaged_replica_in_the_isr_stays_offline_and_keeps_its_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, _):
            directory = damage(manager, partition)
            registers_anew(manager)
            for partition_epoch in (1, 2, 3):
                apply(manager, state(LEADER, LEADER_EPOCH + partition_epoch, partition_epoch, isr=(LEADER,)))
            manager.revive_lost()
            assert manager.get(PARTITION, TOPIC_ID) is partition and partition.offline is not None
            assert directory.exists()
            said = [record.message for record in caplog.records if "the only replica in sync" in record.message]
            assert len(said) == 1 and "t-0/00.log" in said[0] and "penstock log recover" in said[0]

    asyncio.run(scenario())


def test_a_damaged_replica_in_the_elr_keeps_its_log_until_its_broker_has_registered_once_more(tmp_path: Path) -> None:
    """With an empty log it would be elected without an acked record, and the leader would follow it."""

    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, _):
            damage(manager, partition)
            assert manager.losses == 1
            apply(manager, replace(led_by_2(1), elr=(LEADER,)))
            registers_anew(manager)
            assert manager.get(PARTITION, TOPIC_ID) is partition and manager.lost.statistics().rebuilt == 0
            assert manager.losses == 2
            manager.brokers_changed({**EPOCHS, LEADER: NEXT_EPOCH + 1}, frozenset({1, 2}))
            apply(manager, led_by_2(2))
            manager.registered(NEXT_EPOCH + 1)
            await manager.logs_have_left()
            assert manager.get(PARTITION, TOPIC_ID) is not partition and manager.lost.statistics().rebuilt == 1
            assert manager.losses == 2

    asyncio.run(scenario())


def test_a_log_dir_that_cannot_set_the_damage_aside_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_self: LogRemoval, _log_dir: str, removals: list[Removal]) -> dict[Removal, dict[str, Outcome]]:
        return {removal: dict.fromkeys(removal.directories, KafkaStorageError("full")) for removal in removals}

    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, _):
            damage(manager, partition)
            apply(manager, led_by_2(1))
            with monkeypatch.context() as context:
                context.setattr(LogRemoval, "carry_out", refused)
                registers_anew(manager)
                await manager.logs_have_left()
                assert manager.get(PARTITION, TOPIC_ID) is partition
            manager.revive_lost()
            await manager.logs_have_left()
            assert (
                manager.get(PARTITION, TOPIC_ID) is not partition and manager.get(PARTITION, TOPIC_ID).offline is None
            )

    asyncio.run(scenario())


def test_a_replica_that_found_no_room_leaves_the_isr_and_is_created_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = TopicPartition("full", 0)

    def full(*_args: object, **_options: object) -> None:
        raise KafkaStorageError("full") from OSError(errno.ENOSPC, "full")

    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, _, _):
            with monkeypatch.context() as context:
                context.setattr(LogCreation, "make", full)
                manager.apply(other, "other-id", state(2, 0, 0, isr=(1, 2, 3)), SETTINGS, NOBODY)
                manager.revive_lost()
            assert manager.find(other) is None and manager.hosts(other) and manager.losses == 1
            with pytest.raises(KafkaStorageError, match="full-0 is offline on broker 1: full"):
                manager.get(other, "other-id")
            manager.revive_lost()
            assert manager.get(other, "other-id").state.leader_id == 2 and not len(manager.lost)

    asyncio.run(scenario())


def test_a_lost_replica_of_a_deleted_topic_is_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, _):
            directory = damage(manager, partition)
            manager.remove(PARTITION, TOPIC_ID)
            await manager.logs_have_left()
            assert not manager.hosts(PARTITION) and not directory.exists()

    asyncio.run(scenario())


def test_the_only_replica_of_a_partition_costs_the_others_no_new_registration(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, _):
            apply(manager, state(LEADER, LEADER_EPOCH, 1, isr=(LEADER,), replicas=(LEADER,)))
            damage(manager, partition)
            assert partition.offline is not None and manager.losses == 0

    asyncio.run(scenario())


# -- logs that are gone ------------------------------------------------------------------------------------------------

ALONE = state(LEADER, LEADER_EPOCH + 2, 2, isr=(LEADER,))


def loses_its_log(path: Path) -> None:
    """A broker acks a record, stops in order, and then somebody removes the directory of the log."""

    async def scenario() -> None:
        async with leading_alone(path) as (_, partition, _):
            partition.log.append.as_leader(batch(b"acked"), LEADER_EPOCH, 1_700_000_000_000)

    asyncio.run(scenario())
    shutil.rmtree(path / "data" / str(PARTITION))


@asynccontextmanager
async def started_again(path: Path) -> AsyncIterator[Replicas]:
    """The next process of the broker, registered."""
    log_manager = LogManager.open([path / "data"], LogManagerConfig(LEADER), machine())
    group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
    manager = Replicas(LEADER, log_manager, group_commit, ManualClock())
    registers_anew(manager)
    yield manager
    await group_commit.close(stop_wait())
    log_manager.close(clean=True, broker_epoch=NEXT_EPOCH)


def test_replica_whose_log_is_gone_does_not_lead_empty_after_any_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        caplog.clear()
        async with started_again(tmp_path) as manager:
            apply(manager, ALONE)
            manager.revive_lost()
            assert manager.find(PARTITION) is None and manager.hosts(PARTITION)
            assert manager.statistics().offline == 1
        said = [line for line in caplog.messages if "t-0 is gone" in line and "only in-sync replica" in line]
        assert len(said) == 1 and "bring the directory back" in said[0]

    loses_its_log(tmp_path)
    asyncio.run(scenario())
    asyncio.run(scenario())


def test_replica_whose_log_is_gone_follows_with_a_new_one_where_another_leads(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started_again(tmp_path) as manager:
            apply(manager, ALONE)
            apply(manager, led_by_2(3))
            assert manager.get(PARTITION, TOPIC_ID).log.log_end_offset == 0 and not len(manager.lost)
        async with started_again(tmp_path) as manager:
            apply(manager, ALONE)
            assert manager.get(PARTITION, TOPIC_ID).leading is not None, "it has had a log of its own since"

    loses_its_log(tmp_path)
    asyncio.run(scenario())


def test_log_that_was_never_made_may_be_made_by_the_last_isr_member(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, _, _):
            other = TopicPartition("other", 0)
            manager.apply(other, "other-id", ALONE, SETTINGS, NOBODY)
            assert manager.get(other, "other-id").leading is not None

    asyncio.run(scenario())


def test_replica_that_the_metadata_calls_lost_gets_a_log_only_by_an_unclean_election(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = TopicPartition("other", 0)

    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, _, _):
            lost = replace(ALONE, leader_id=-1, log_lost=True)
            manager.apply(other, "other-id", lost, SETTINGS, NOBODY)
            assert manager.find(other) is None and manager.statistics().offline == 1
            assert [line for line in caplog.messages if "--lost-log-dirs" in line and "elect-leaders" in line]
            manager.apply(other, "other-id", ALONE, SETTINGS, NOBODY)
            assert manager.get(other, "other-id").leading is not None

    asyncio.run(scenario())


def test_gone_log_of_a_deleted_topic_is_waited_for_no_longer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started_again(tmp_path) as manager:
            apply(manager, ALONE)
            manager.remove(PARTITION, TOPIC_ID)
            assert not manager.hosts(PARTITION)
            manager.apply(PARTITION, "made-anew", replace(ALONE, partition_epoch=0), SETTINGS, NOBODY)
            assert manager.get(PARTITION, "made-anew").leading is not None

    loses_its_log(tmp_path)
    asyncio.run(scenario())


def test_a_damaged_log_of_a_deleted_topic_does_not_block_a_new_topic_of_its_name(tmp_path: Path) -> None:
    """The topic was deleted while this broker was down, and then made anew."""
    old_id, new_id = IDS.new_id(), IDS.new_id()
    fs = OsFileSystem()
    format_directory(fs, str(tmp_path / "data"), "cluster", LEADER, IDS.new_id())
    log_manager = LogManager.open([tmp_path / "data"], LogManagerConfig(LEADER), machine(fs))
    log = log_manager.get_or_create(PARTITION, old_id, LogConfig(), is_new=True)
    log.append.as_leader(batch(b"old"), LEADER_EPOCH, 1_700_000_000_000)
    log.flush()
    log_manager.checkpoints.write_recovery_points()
    path = Path(log.segments[0].log_path)
    log_manager.close(clean=False)
    path.write_bytes(path.read_bytes()[:-1] + b"!")

    async def scenario() -> None:
        log_manager = LogManager.open([tmp_path / "data"], LogManagerConfig(LEADER), machine(fs))
        group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        manager = Replicas(LEADER, log_manager, group_commit, ManualClock())
        manager.registered(EPOCHS[LEADER])
        manager.brokers_changed(EPOCHS, frozenset({LEADER}))
        assert manager.statistics().offline == 1

        def made(topic_id: str) -> PartitionRegistration:
            return PartitionRegistration(topic_id, PARTITION.partition, (1,), (1,), LEADER, 0, 0)

        manager.apply(PARTITION, old_id, made(old_id), SETTINGS, NOBODY)
        assert manager.find(PARTITION) is None, "its own topic waits for somebody to look at it"
        manager.remove(PARTITION, IDS.new_id())
        manager.apply(PARTITION, new_id, made(new_id), SETTINGS, NOBODY)
        await manager.logs_have_left()
        partition = manager.get(PARTITION, new_id)
        assert (partition.log.topic_id, partition.log.log_end_offset) == (new_id, 0)
        assert manager.statistics().offline == 0 and partition.leading is not None
        (aside,) = (found for found in (tmp_path / "data").iterdir() if found.name.endswith("-stray"))
        assert (aside / path.name).read_bytes().endswith(b"!"), "what may be saved of it is kept"
        await manager.deletions.close(stop_wait())
        await group_commit.close(stop_wait())
        log_manager.close()

    asyncio.run(scenario())
