"""Tells the parts of a broker of their keys when they change while it runs.

A key that may change is here, or is read by the active controller (metadata/controller/configuration/
cluster_defaults.py), or is one of the node's log (process/log_output.py).
"""

from __future__ import annotations

from typing import Final

from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.dynamic_keys import DYNAMIC
from broker.config.node_config import NodeConfig
from broker.jobs.cleaner_job import CleanerJob
from broker.quorum.metadata_publisher import MetadataPublisher, topic_defaults
from broker.replication.move_throttle import MoveThrottle
from metadata.topic_config import TOPIC_CONFIGS

OF_TOPICS: Final = tuple(sorted({definition.broker_key for definition in TOPIC_CONFIGS.values()} & DYNAMIC.keys()))
OF_THROTTLES: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
OF_CLEANER: Final = ("log.cleaner.io.max.bytes.per.second", "log.cleaner.backoff.ms")


def tell_parts(
    dynamic: DynamicBrokerConfig,
    publisher: MetadataPublisher,
    cleaner: CleanerJob,
    *,
    leader: MoveThrottle,
    follower: MoveThrottle,
    log_dirs: MoveThrottle,
) -> None:
    """Tells the parts from now on; the throttles are those of copies that this broker sends, fetches, and makes between
    its log dirs."""

    def tell_cleaner(config: NodeConfig) -> None:
        cleaner.reconfigure(config.log_cleaner_io_max_bytes_per_second, config.log_cleaner_backoff_ms)

    dynamic.listen(lambda config: publisher.defaults_changed(topic_defaults(config)), *OF_TOPICS)

    def tell_throttles(config: NodeConfig) -> None:
        leader.set_rate(config.leader_replication_throttled_rate)
        follower.set_rate(config.follower_replication_throttled_rate)
        log_dirs.set_rate(config.replica_alter_log_dirs_io_max_bytes_per_second)

    dynamic.listen(tell_cleaner, *OF_CLEANER)
    dynamic.listen(tell_throttles, *OF_THROTTLES)
