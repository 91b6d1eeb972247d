"""Promises of the replica manager about who joins the ISR, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.replication.leader_state import ProposedIsr
from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager, TopicSettings
from penstock.clock import ManualClock
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.types import OffsetAndEpoch, TopicPartition
from storage.file_system import OsFileSystem
from storage.group_commit import GroupCommit
from storage.log_config import LogConfig
from storage.log_manager import LogManager, LogManagerConfig
from storage.meta_properties import format_directory
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, state

LEADER, LEADER_EPOCH = 1, 5
EPOCHS = {1: 101, 2: 102, 3: 103}
SETTINGS = TopicSettings(LogConfig(), 1)


class Proposals:
    """Remembers what the controller would be asked."""

    def __init__(self) -> None:
        self.asked: list[frozenset[int]] = []

    def propose(self, partition: Partition, proposed: ProposedIsr) -> None:
        self.asked.append(proposed.ids)


@asynccontextmanager
async def leading_alone(path: Path) -> AsyncIterator[tuple[ReplicaManager, Partition, Proposals]]:
    """A manager that leads one partition, with an ISR of itself; its followers are registered, and fenced."""
    fs = OsFileSystem()
    format_directory(fs, str(path / "data"), "cluster", LEADER)
    log_manager = LogManager.open([path / "data"], LogManagerConfig(LEADER), fs, ManualClock())
    group_commit = GroupCommit(lambda log_dir, error: None)
    manager = ReplicaManager(LEADER, log_manager, group_commit, ManualClock(), 10_000)
    manager.broker_epoch = EPOCHS[LEADER]
    manager.proposals = proposals = Proposals()
    manager.brokers_changed(EPOCHS, frozenset({LEADER}))
    manager.apply(PARTITION, TOPIC_ID, state(LEADER, LEADER_EPOCH, 0, isr=(1,)), SETTINGS, NOBODY)
    yield manager, manager.get(PARTITION), proposals
    await group_commit.close()
    log_manager.close(clean=True, broker_epoch=EPOCHS[LEADER])


def fetches_everything(partition: Partition, replica_id: int) -> None:
    partition.note_follower_fetch(replica_id, EPOCHS[replica_id], OffsetAndEpoch(0, -1), LEADER_EPOCH, now_ms=1)


def test_a_follower_that_caught_up_while_fenced_joins_when_it_is_unfenced(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, proposals):
            fetches_everything(partition, 2)
            assert proposals.asked == []
            manager.brokers_changed(EPOCHS, frozenset({1, 2}))
            assert proposals.asked == [frozenset({1, 2})]

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


def test_a_deletion_that_the_disk_refuses_is_no_reason_to_end_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_self: LogManager, _key: TopicPartition) -> str:
        raise KafkaStorageError("EROFS")

    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, _):
            monkeypatch.setattr(LogManager, "set_aside_for_deletion", refused)
            manager.remove(PARTITION, TOPIC_ID)
            assert manager.find(PARTITION) is None and partition.offline is not None

    asyncio.run(scenario())


def test_a_replica_that_its_disk_lost_is_told_so_that_others_may_lead(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leading_alone(tmp_path) as (manager, partition, _):
            lost: list[None] = []
            manager.on_replica_lost = lambda: lost.append(None)
            manager.disk_error(partition, CorruptFileError("t-0/00.log", 0, "rot"))
            assert partition.offline is not None and lost == [None]

    asyncio.run(scenario())
