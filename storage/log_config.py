"""The settings of one log: Kafka's topic configs in snake case, with Kafka's defaults.

A frozen value: a changed topic config becomes a new `LogConfig` and `Log.update_config`. Parsing and checking what a
user wrote is `metadata`'s work; here are only the bounds without which the file formats would break.
"""

from __future__ import annotations

from typing import Literal

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass

MIN_SEGMENT_BYTES = 64
MAX_SEGMENT_BYTES = 2**31 - 1
"""Positions in an index are int32."""
MIN_INDEX_BYTES = 24
"""Two entries of a time index, of which the last closes it."""
DAY_MS = 24 * 60 * 60 * 1000

FlushPolicy = Literal["fsync", "os"]
"""`fsync`: a record is flushed after fdatasync. `os`: as soon as it is in the page cache; LOSSY on power loss."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic configs that storage obeys; see Kafka's reference for each."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    flush_messages: int | None = None
    flush_ms: int | None = None
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    record_validation: Literal["records", "headers"] = "records"
    message_timestamp_before_max_ms: int | None = None
    message_timestamp_after_max_ms: int | None = 60 * 60 * 1000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    cleanup_policy: str = "delete"
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    delete_retention_ms: int = DAY_MS
    keeps_producers: bool = True
    """False for the quorum's log: it has no idempotent producers. No topic has this setting."""

    def __post_init__(self) -> None:
        if not MIN_SEGMENT_BYTES <= self.segment_bytes <= MAX_SEGMENT_BYTES:
            raise ConfigError(
                f"segment.bytes = {self.segment_bytes}: must be from {MIN_SEGMENT_BYTES} to {MAX_SEGMENT_BYTES}"
            )
        if self.segment_index_bytes < MIN_INDEX_BYTES:
            raise ConfigError(f"segment.index.bytes = {self.segment_index_bytes}: must be at least {MIN_INDEX_BYTES}")
        if self.index_interval_bytes < 0:
            raise ConfigError(f"index.interval.bytes = {self.index_interval_bytes}: must not be negative")

    @property
    def validates_records(self) -> bool:
        """True when a leader looks at each record of a producer's batch."""
        return self.record_validation == "records"

    @property
    def is_compacted(self) -> bool:
        """True when the cleaner takes records out."""
        return "compact" in self.cleanup_policy
