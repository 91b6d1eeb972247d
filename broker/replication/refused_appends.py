"""Appends that a full disk or a lack of descriptors refused: how many, which partitions wait, a log line now and then.

An append that succeeds costs nothing here: a partition counts as refusing for as long as its log ends where it ended
when it was last refused. Not here: what a disk error means (disk_failures.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from broker.replication.partition import Partition
from broker.replication.throttled_lines import ThrottledLines
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RefusedAppendsStatistics:
    """Refused appends since the start, and partitions whose last append was refused."""

    appends: int
    partitions: int


class RefusedAppends:
    """Changed on the event loop; `statistics` may be called in another thread."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._lines = ThrottledLines(now_ms)
        self._appends = 0
        self._refusing: dict[TopicPartition, tuple[Partition, int]] = {}
        """And where the log ended."""

    def refused(self, partition: Partition) -> None:
        """An append; `say` tells of it."""
        self._appends += 1
        self._refusing[partition.topic_partition] = partition, partition.log.log_end_offset

    def say(self, partition: Partition, error: Exception) -> None:
        """An append or a read was refused; the log gets a line unless it had one lately."""
        unsaid = self._lines.due(partition.topic_partition)
        if unsaid is not None:
            _log.error("%s: refused for now (%d more times since the last such line): %s", partition, unsaid, error)

    def forget(self, key: TopicPartition) -> None:
        """The partition is served here no longer."""
        self._refusing.pop(key, None)
        self._lines.forget([key])

    def statistics(self) -> RefusedAppendsStatistics:
        refusing = tuple(self._refusing.values())
        waiting = sum(p.offline is None and p.log.log_end_offset == end for p, end in refusing)
        return RefusedAppendsStatistics(self._appends, waiting)

    def __repr__(self) -> str:
        return f"RefusedAppends({self._appends} appends, {len(self._refusing)} partitions)"
