"""Appends that a full disk or a lack of descriptors refused: how many, which partitions wait, a log line now and then.

An append that succeeds costs nothing here: a partition counts as refusing for as long as its log ends where it ended
when it was last refused. Not here: what a disk error means (`replica_manager.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.types import TopicPartition

if TYPE_CHECKING:
    from broker.replication.partition import Partition

log = logging.getLogger(__name__)

SAY_INTERVAL_MS = 10_000
"""Between two lines about one partition: a producer that tries again is refused many times a second."""


@dataclass(frozen=True, slots=True)
class RefusedAppendsStatistics:
    appends: int
    partitions: int
    """Whose last append was refused."""


class RefusedAppends:
    """Changed on the event loop; `statistics` may be called in another thread."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._appends = 0
        self._refusing: dict[TopicPartition, tuple[Partition, int]] = {}
        """And where the log ended."""
        self._said: dict[TopicPartition, tuple[int, int]] = {}
        """When, and how many refusals since."""

    def refused(self, partition: Partition) -> None:
        """An append; `say` tells of it."""
        self._appends += 1
        self._refusing[partition.topic_partition] = partition, partition.log.log_end_offset

    def say(self, partition: Partition, error: Exception) -> None:
        """An append or a read was refused; the log gets a line unless it had one lately."""
        key, now_ms = partition.topic_partition, self._now_ms()
        said_ms, since = self._said.get(key, (now_ms - SAY_INTERVAL_MS, 0))
        if now_ms - said_ms < SAY_INTERVAL_MS:
            self._said[key] = said_ms, since + 1
            return
        self._said[key] = now_ms, 0
        log.error("%s: refused for now (%d more times since the last such line): %s", partition, since, error)

    def forget(self, key: TopicPartition) -> None:
        """The partition is served here no longer."""
        self._refusing.pop(key, None)
        self._said.pop(key, None)

    def statistics(self) -> RefusedAppendsStatistics:
        refusing = tuple(self._refusing.values())
        waiting = sum(p.offline is None and p.log.log_end_offset == end for p, end in refusing)
        return RefusedAppendsStatistics(self._appends, waiting)

    def __repr__(self) -> str:
        return f"RefusedAppends({self._appends} appends, {len(self._refusing)} partitions)"
