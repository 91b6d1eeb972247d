"""Partitions over real logs in a directory of the test's own, with flushes that the test performs."""

from __future__ import annotations

from pathlib import Path

from broker.replication.partition import NO_REPORTS, Partition, PartitionReports
from metadata.registrations import PartitionRegistration
from penstock.clock import ManualClock
from penstock.record.builder import build_batch
from penstock.types import LeaderHint, TopicPartition
from storage.append.producer_ids import ProducerIdConfig, ProducerIds
from storage.disk.file_system import FileSystem, OsFileSystem
from storage.log.log import Log
from storage.log.log_types import LogOptions
from storage.log_config import LogConfig
from tests.support.machine import THREADS

TOPIC_ID = "topic-id"
PARTITION = TopicPartition("t", 0)
NOBODY = LeaderHint(-1, -1)


def make_log(
    directory: Path,
    fs: FileSystem | None = None,
    config: LogConfig | None = None,
    partition: TopicPartition = PARTITION,
    topic_id: str = TOPIC_ID,
) -> Log:
    """A new log below `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    path = str(directory / str(partition))
    ids = ProducerIds(ProducerIdConfig(), ManualClock(), THREADS)
    options = LogOptions(THREADS, topic_id, producer_ids=ids)
    return Log.create(fs or OsFileSystem(), path, partition, config or LogConfig(), options)


def make_partition(
    directory: Path, broker_id: int = 1, min_insync_replicas: int = 1, reports: PartitionReports = NO_REPORTS
) -> Partition:
    """A partition without a role."""
    return Partition(broker_id, make_log(directory / str(broker_id)), 0, min_insync_replicas, reports)


def state(
    leader_id: int = 1,
    leader_epoch: int = 5,
    partition_epoch: int = 0,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
) -> PartitionRegistration:
    """The partition's registration in the metadata."""
    return PartitionRegistration(TOPIC_ID, PARTITION.partition, replicas, isr, leader_id, leader_epoch, partition_epoch)


def batch(*values: bytes) -> bytes:
    """One produced batch."""
    return build_batch(values or (b"v",), timestamps_ms=1_700_000_000_000)


def flush(partition: Partition) -> None:
    """Flushes the partition's log and tells the partition, as a group commit does."""
    partition.log.flush()
    partition.flushed(partition.log.flushed_offset)
