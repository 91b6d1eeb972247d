"""How the logs of a node are opened: the log manager's settings, and what it reports while it loads.

Not here: the settings of one log (`log_config.py`), the node's file (broker), loading (`log_loading.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import field

from penstock.errors import CorruptFileError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition
from storage.append.producer_ids import ProducerIdConfig
from storage.log.log_probe import UNHEARD_LOG, LogProbe
from storage.log_config import FlushPolicy, LogConfig

_log = logging.getLogger(__name__)

RECOVERY_THREADS = 2
"""Kafka's default of num.recovery.threads.per.data.dir since 4.0."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The progress of loading one log dir."""

    log_dir: str
    done: int
    total: int
    """How many logs there are in the dir."""
    size_bytes: int
    """The size of the opened ones."""
    was_clean: bool
    """False: every one of them is checked from its recovery point on."""

    @property
    def remaining(self) -> int:
        """Logs that are not open yet."""
        return self.total - self.done

    def remaining_text(self) -> str:
        """The number of logs that are not open yet, as a sentence."""
        what = "left" if self.was_clean else "left to check after an unclean stop"
        return f"{self.remaining} of {self.total} {what} in {self.log_dir}"


def log_progress(progress: LoadProgress) -> None:
    """The default: a line in the node's log, once there is something done."""
    if not progress.done:
        return
    _log.info(
        "%s: %d of %d logs opened%s, %.1f MiB",
        progress.log_dir,
        progress.done,
        progress.total,
        "" if progress.was_clean else " and checked",
        progress.size_bytes / 2**20,
    )


@dataclass(frozen=True, slots=True)
class LogManagerConfig:
    """The node and cluster of the log dirs, and how logs are opened."""

    node_id: int
    cluster_id: str | None = None
    """The cluster id that the dirs must have; None: the one on which they agree."""
    log_config: LogConfig = field(default_factory=LogConfig)
    flush_policy: FlushPolicy = "fsync"
    config_for: Callable[[TopicPartition], LogConfig] | None = None
    """The config of a log that is found at start, where it is known already."""
    recovery_threads: int = RECOVERY_THREADS
    """num.recovery.threads.per.data.dir; with 1, everything happens in the caller's thread, in order."""
    open_files_max: int | None = None
    """How many segments of all logs have their files open; None: half of `Machine.descriptors_max`."""
    producer_ids: ProducerIdConfig = field(default_factory=ProducerIdConfig)
    gave_up_dirs: bool = False
    """Log dirs that the node had are lost, with logs that may be found unfinished in others (`unfinished_logs.py`)."""
    rolls_when_flushed: bool = False
    """See `LogOptions`; for a node, whose event loop must not wait for a disk that hangs."""
    before_doubtful_cut: Callable[[TopicPartition, str, CorruptFileError], None] | None = None
    """Called with the log's directory BEFORE a tail that may have been flushed is cut, in a loader's thread. If it
    raises, the log stays offline with that error, and nothing is cut."""
    progress: Callable[[LoadProgress], None] = log_progress
    probe: LogProbe = UNHEARD_LOG
    on_segment_checked: Callable[[], None] = lambda: None
    """Called in a loader's thread: a recovery gets on."""
