"""Starts a node's logs on a disk of the battery's: one thread, the configs that its topics have, no progress lines."""

from __future__ import annotations

from penstock.types import TopicPartition
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.losing_fs import LosingFileSystem
from tests.support.storage import SMALL, open_manager

DIR = "/d"
COMPACTED = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    cleanup_policy="compact",
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1_000,
    file_delete_delay_ms=0,
)
ONE = TopicPartition("orders", 0)
TWO = TopicPartition("orders", 1)
KEYED = TopicPartition("accounts", 0)
OLD = TopicPartition("old.topic", 3)
IDS = {tp: letter * 22 for tp, letter in ((ONE, "A"), (TWO, "B"), (KEYED, "C"), (OLD, "D"))}


def config_for(topic_partition: TopicPartition) -> LogConfig:
    return COMPACTED if topic_partition == KEYED else SMALL


def start(fs: LosingFileSystem) -> LogManager:
    """What is there is opened; an empty disk is formatted."""
    return open_manager(fs, (DIR,), config_for=config_for, recovery_threads=1, progress=lambda progress: None)
