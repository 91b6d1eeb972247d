"""Tells the parts of a broker of their keys when they change while it runs.

A key that may change is here, or is read by the active controller (metadata/controller/configuration/
cluster_defaults.py), or is one of the node's log (process/log_output.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.config.dynamic_config import DynamicBrokerConfig
from broker.config.dynamic_keys import DYNAMIC
from broker.config.node_config import NodeConfig
from broker.jobs.cleaner_job import CleanerJob
from broker.quorum.metadata_publisher import MetadataPublisher, topic_defaults
from broker.replication.move_throttle import MoveThrottle
from metadata.cordon import CORDONED_LOG_DIRS
from metadata.topic_config import TOPIC_CONFIGS
from storage.log_dirs.log_manager import LogManager

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


def tell_cordoned(dynamic: DynamicBrokerConfig, log_manager: LogManager, hasten: Callable[[], None]) -> None:
    """Tells the log manager now, and from now on, which log dirs get no new replicas (KIP-1066). The next heartbeat,
    which `hasten` sends at once, tells the controller."""

    def tell(config: NodeConfig) -> None:
        log_manager.cordoned.clear()
        log_manager.cordoned.update(config.cordoned_dirs)

    def tell_and_hasten(config: NodeConfig) -> None:
        tell(config)
        hasten()

    tell(dynamic.current)
    dynamic.listen(tell_and_hasten, CORDONED_LOG_DIRS)
