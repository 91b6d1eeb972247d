"""The settings of groups that their cores look at. Names, defaults and limits are Kafka's, "Broker Configs" and
"Group Configs" of 4.1.

Not here: the settings of the topic that holds them (`offsets.topic.*`).
"""

from __future__ import annotations

from penstock.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Times are milliseconds. Every field is the configuration key of its name, with dots."""

    group_max_size: int = 2_147_483_647
    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The first one is the default."""
    group_consumer_migration_policy: str = "bidirectional"
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """offsets.retention.minutes."""
    offsets_retention_check_interval_ms: int = 600_000
    record_bytes_max: int = 1_048_588
    """The largest batch that the topic takes (`max.message.bytes`): a record that is larger is never written."""
