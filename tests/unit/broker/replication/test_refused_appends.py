"""Appends that find no room: counted; the partition shown until one succeeds or nobody tries; no flood in the log."""

from __future__ import annotations

import asyncio
import errno
import logging
from pathlib import Path

import pytest

from broker.replication.follower.follower_log import append_as_follower
from broker.replication.hosting.assignment import TopicSettings
from broker.replication.partition import Partition, PartitionReports
from broker.replication.refused_appends import REFUSING_MS_MAX, RefusedAppends, RefusedAppendsStatistics
from penstock.clock import ManualClock
from penstock.errors import CorruptFileError, KafkaStorageError
from penstock.throttled_lines import SAY_INTERVAL_MS
from penstock.types import TopicPartition
from storage.log.group_commit import GroupCommit
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.meta_properties import format_directory
from tests.support.faulty_fs import FaultyFileSystem
from tests.support.machine import IDS, THREADS, machine, stop_wait
from tests.support.partitions import NOBODY, PARTITION, TOPIC_ID, batch, make_log, make_partition, state
from tests.support.replicas import Replicas

FULL = KafkaStorageError("t-0/00.log: the disk is full")
FULL.__cause__ = OSError(errno.ENOSPC, "full")
SHORT = KafkaStorageError("t-0/00.log: too many open files")
SHORT.__cause__ = OSError(errno.EMFILE, "too many")


def produce(partition: Partition) -> None:
    partition.append_as_leader(batch(b"value"), 1, 0, 1_700_000_000_000)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_leaders_refused_appends_are_counted_and_the_next_one_that_fits_clears_the_partition(
    tmp_path: Path, code: int
) -> None:
    async def scenario() -> None:
        fs, clock = FaultyFileSystem(), ManualClock()
        format_directory(fs, str(tmp_path / "data"), "cluster", 1, IDS.new_id())
        log_manager = LogManager.open([tmp_path / "data"], LogManagerConfig(1), machine(fs, clock))
        group_commit = GroupCommit(lambda log_dir, error: None, THREADS)
        manager = Replicas(1, log_manager, group_commit, clock)
        manager.apply(PARTITION, TOPIC_ID, state(1, 5, 0, (1,), (1,)), TopicSettings(LogConfig(), 1), NOBODY)
        partition = manager.get(PARTITION, TOPIC_ID)
        produce(partition)
        with fs.failing("write", str(PARTITION), code):
            for _ in range(3):
                with pytest.raises(KafkaStorageError):
                    produce(partition)
        assert partition.offline is None
        assert manager.refused.statistics() == RefusedAppendsStatistics(appends=3, partitions=1, led=1)
        manager.failures.disk_error(partition, FULL)
        assert manager.refused.statistics().appends == 3, "a read that is refused is no append"
        produce(partition)
        assert manager.refused.statistics() == RefusedAppendsStatistics(appends=3, partitions=0)
        with fs.failing("write", str(PARTITION), code), pytest.raises(KafkaStorageError):
            produce(partition)
        clock.advance(REFUSING_MS_MAX)
        assert manager.refused.statistics() == RefusedAppendsStatistics(appends=4, partitions=1, led=1)
        clock.advance(1)
        assert manager.refused.statistics() == RefusedAppendsStatistics(appends=4, partitions=0), "nobody tried since"
        with fs.failing("write", str(PARTITION), code), pytest.raises(KafkaStorageError):
            produce(partition)
        assert manager.refused.statistics() == RefusedAppendsStatistics(appends=5, partitions=1, led=1)
        manager.remove(PARTITION, TOPIC_ID)
        assert manager.refused.statistics() == RefusedAppendsStatistics(appends=5, partitions=0)
        await group_commit.close(stop_wait())
        log_manager.close()

    asyncio.run(scenario())


def test_a_followers_refused_append_counts_and_another_error_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = RefusedAppends(lambda: 0)
    partition = make_partition(tmp_path, reports=PartitionReports(append_refused=refused.refused))
    broken = KafkaStorageError("EIO")
    broken.__cause__ = OSError(errno.EIO, "I/O error")
    for error in (FULL, broken, CorruptFileError("t-0/00.log", 0, "rot")):

        def fails(_records: bytes, error: Exception = error) -> None:
            raise error

        with monkeypatch.context() as context:
            context.setattr(
                type(partition.log.append), "as_follower", lambda _log, records, _old, fails=fails: fails(records)
            )
            with pytest.raises(type(error)):
                append_as_follower(partition, batch(b"value"))
    assert refused.statistics() == RefusedAppendsStatistics(appends=1, partitions=1)
    append_as_follower(partition, batch(b"value"))
    assert refused.statistics() == RefusedAppendsStatistics(appends=1, partitions=0)


def test_a_log_dir_has_one_line_in_a_while_with_the_count_since(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    logs = [make_log(tmp_path, partition=TopicPartition("t", number)) for number in (0, 1)]
    partition, beside = (Partition(1, log, 0, 1) for log in logs)
    refused = RefusedAppends(clock.now_ms)
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            refused.say(partition, FULL)
        clock.advance(SAY_INTERVAL_MS - 1)
        refused.say(beside, FULL)
        assert len(caplog.records) == 1
        refused.say(beside, SHORT)
        assert len(caplog.records) == 2, "descriptors that are short are another matter"
        clock.advance(1)
        refused.say(partition, FULL)
        refused.say(partition, FULL)
    assert [line.getMessage().split("refused for now")[1].split(":")[0] for line in caplog.records] == [
        "",
        "",
        " (5 more times since the last such line)",
    ]
