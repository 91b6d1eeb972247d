"""Starts a node's logs on a disk of the battery's: one thread, the configs that its topics have, no progress lines."""

from __future__ import annotations

from penstock.types import TopicPartition
from storage.disk.file_names import META_PROPERTIES
from storage.log_config import LogConfig
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.log_manager_config import LogManagerConfig
from storage.log_dirs.meta_properties import format_directory
from tests.support.losing_fs import LosingFileSystem
from tests.support.machine import IDS as NEW_IDS
from tests.support.machine import machine
from tests.support.storage import CLUSTER_ID, SMALL

DIR = "/d"
COMPACTED = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    cleanup_policy="compact",
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1_000,
    file_delete_delay_ms=0,
)
SPARSE = LogConfig(segment_bytes=24_000, index_interval_bytes=(1 << 31) - 1)
"""Some 300 small batches to a segment, whose index has an entry for every 200 of them and no other."""
ONE = TopicPartition("orders", 0)
TWO = TopicPartition("orders", 1)
KEYED = TopicPartition("accounts", 0)
OLD = TopicPartition("old.topic", 3)
FAR = TopicPartition("far.apart", 0)
IDS = {tp: letter * 22 for tp, letter in ((ONE, "A"), (TWO, "B"), (KEYED, "C"), (OLD, "D"), (FAR, "F"))}


def config_for(topic_partition: TopicPartition) -> LogConfig:
    return {KEYED: COMPACTED, FAR: SPARSE}.get(topic_partition, SMALL)


def is_formatted(fs: LosingFileSystem) -> bool:
    return f"{DIR}/{META_PROPERTIES}" in fs.files()


def format_disk(fs: LosingFileSystem) -> None:
    format_directory(fs, DIR, CLUSTER_ID, 1, NEW_IDS.new_id())


def start(fs: LosingFileSystem) -> LogManager:
    """The logs of a formatted disk."""
    config = LogManagerConfig(1, CLUSTER_ID, config_for=config_for, recovery_threads=1, progress=lambda progress: None)
    return LogManager.open((DIR,), config, machine(fs))
