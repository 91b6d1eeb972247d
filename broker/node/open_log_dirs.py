"""Opens the log dirs of a node before the node is made, because the node needs the opened logs.

This blocks, for as long as a recovery takes. Not here: the opening itself (`storage/log_dirs/log_manager.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from broker.config.node_config import NodeConfig
from broker.node.environment import Environment
from broker.quorum.metadata_log import METADATA_LOG_CONFIG, METADATA_PARTITION
from broker.quorum.voter_memory import DoubtfulCuts, VoterMemory
from penstock.types import TopicPartition
from storage.append.producer_ids import ProducerIdConfig
from storage.log_config import FlushPolicy, LogConfig
from storage.log_dirs.log_manager import LogManager, LogManagerConfig
from storage.log_dirs.log_manager_config import LoadProgress, log_progress
from storage.log_dirs.meta_properties import VERSION, verify_log_dirs


def open_log_dirs(
    config: NodeConfig,
    environment: Environment,
    progress: Callable[[LoadProgress], None],
    on_segment_checked: Callable[[], None] = lambda: None,
) -> LogManager:
    """Check, lock, load and recover every log dir of the node; `progress` is told meanwhile, and in any thread
    `on_segment_checked`."""
    version = _check_voters(config, environment)
    cuts = DoubtfulCuts(config.is_controller, len(config.first_voters), environment.file_system, version)

    def on_progress(found: LoadProgress) -> None:
        log_progress(found)
        progress(found)

    flush_policy: FlushPolicy = "os" if config.flush_policy == "os" else "fsync"
    return LogManager.open(
        config.log_dirs,
        LogManagerConfig(
            node_id=config.node_id,
            flush_policy=flush_policy,
            config_for=_config_of_found_log,
            recovery_threads=config.num_recovery_threads_per_data_dir,
            progress=on_progress,
            on_segment_checked=on_segment_checked,
            probe=environment.probe,
            producer_ids=ProducerIdConfig(
                config.producer_id_expiration_ms,
                config.producer_id_max_per_partition,
                config.producer_id_max_per_node,
            ),
            rolls_when_flushed=True,
            gave_up_dirs=bool(config.lost_log_dirs),
            before_doubtful_cut=cuts,
        ),
        environment.machine(),
    )


def _check_voters(config: NodeConfig, environment: Environment) -> int:
    """Checks the voters, and returns the version of the metadata log dir; called BEFORE a log is opened. How many
    voters there are, and whether they are disks (the version says that), decides what may be cut of the metadata
    log."""
    fs = environment.file_system
    if config.is_controller:
        ours, _ = verify_log_dirs(fs, config.log_dirs, None, config.node_id)
        if config.metadata_log_dir in ours:
            version = ours[config.metadata_log_dir].version
            VoterMemory(config.metadata_log_dir, fs, version=version).check_voters(config.first_voters.ids)
            return version
    return VERSION


def _config_of_found_log(topic_partition: TopicPartition) -> LogConfig:
    """A topic's own configuration comes with the metadata; until then a log that was found has the defaults."""
    return METADATA_LOG_CONFIG if topic_partition == METADATA_PARTITION else LogConfig()
