"""Which logs of a node are in use, which are offline, and which are gone though they held flushed records.

Changed on one thread; read in any. Not here: opening and creating (`log_manager.py`), taking out (`log_removal.py`).
"""

from __future__ import annotations

from collections import Counter

from penstock.types import TopicPartition
from storage.log import Log
from storage.log_types import OfflineLog


class LogTable:
    """See the module."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.offline: dict[TopicPartition, OfflineLog] = {}
        self.vanished: dict[TopicPartition, str] = {}
        """Logs that had flushed records and are not there: where they were. A new log of that name ends it."""
        self._counts: Counter[str] = Counter()

    def add(self, log: Log) -> None:
        """The log is in use from now on."""
        self.vanished.pop(log.topic_partition, None)
        self.logs[log.topic_partition] = log
        self._counts[log.log_dir] += 1

    def drop(self, topic_partition: TopicPartition) -> Log | None:
        """The log is out of use: nothing of it is written any more."""
        log = self.logs.pop(topic_partition, None)
        if log is not None:
            self._counts[log.log_dir] -= 1
            log.abandon()
        return log

    def logs_in(self, log_dir: str) -> tuple[Log, ...]:
        """Those in use in one log dir."""
        return tuple(log for log in tuple(self.logs.values()) if log.log_dir == log_dir)

    def count_in(self, log_dir: str) -> int:
        """How many that are, without looking at each."""
        return self._counts[log_dir]

    def __repr__(self) -> str:
        return f"LogTable({len(self.logs)} logs, {len(self.offline)} offline, {len(self.vanished)} vanished)"
