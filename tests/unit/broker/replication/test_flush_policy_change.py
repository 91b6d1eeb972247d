"""A topic's flush.policy becomes fsync: what its replicas hold in the page cache is flushed, not only what comes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.replication.hosting.assignment import TopicSettings
from penstock.clock import ManualClock
from storage.disk.file_system import OsFileSystem
from storage.log.group_commit import GroupCommit
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.meta_properties import format_directory
from tests.support.machine import IDS, THREADS, machine, stop_wait
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, batch, state
from tests.support.replicas import Replicas

BROKER, EPOCH = 1, 5


class Fetchers:
    """Follow what they are given."""

    def __init__(self) -> None:
        self.added = 0

    def add(self, *_: object) -> None:
        self.added += 1

    def follows(self, *_: object) -> bool:
        return self.added > 0

    def remove(self, *_: object) -> None:
        """Nothing runs."""


@pytest.mark.parametrize("leader_id", [BROKER, 2])
def test_records_of_before_are_flushed_by_the_leader_and_by_its_followers(tmp_path: Path, leader_id: int) -> None:
    async def scenario() -> None:
        fs, flushed = OsFileSystem(), asyncio.Event()
        format_directory(fs, str(tmp_path / "data"), "cluster", BROKER, IDS.new_id())
        log_manager = LogManager.open([tmp_path / "data"], LogManagerConfig(BROKER), machine(fs))
        group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        fetchers = Fetchers()
        manager = Replicas(BROKER, log_manager, group_commit, ManualClock(), fetchers=fetchers)
        lossy, durable = (TopicSettings(LogConfig(), 1, policy) for policy in ("os", "fsync"))  # type: ignore[arg-type]
        manager.apply(PARTITION, TOPIC_ID, state(leader_id, EPOCH, 0, isr=(1, 2)), lossy, NOBODY)
        log = manager.get(PARTITION, TOPIC_ID).log
        log.append.as_leader(batch(b"in the page cache"), EPOCH, 1_700_000_000_000)
        group_commit.subscribe(log, lambda offset: flushed.set())
        assert log.recovery_point == 0
        manager.apply(PARTITION, TOPIC_ID, state(leader_id, EPOCH, 0, isr=(1, 2)), durable, NOBODY)
        await asyncio.wait_for(flushed.wait(), 60)
        assert log.recovery_point == 1
        assert fetchers.added == (leader_id != BROKER), "it goes on fetching meanwhile"
        await group_commit.close(stop_wait())
        log_manager.close(clean=True, broker_epoch=101)

    asyncio.run(scenario())
