"""Appends that a full disk or a lack of descriptors refused: how many, which partitions wait, a log line now and then.

An append that succeeds costs nothing here: a partition counts as refusing for as long as its log ends where it ended
when it was last refused, and for five minutes at most. After that nobody has tried, and whether there is room by now is
not known. Not here: what a disk error means (disk_failures.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.replication.partition import Partition
from penstock.metric_fields import counter, gauge, measured
from penstock.throttled_lines import ThrottledLines
from penstock.types import TopicPartition
from storage.disk.disk_errors import is_disk_full

_log = logging.getLogger(__name__)
REFUSING_MS_MAX = 5 * 60_000
"""Longer than a client waits before it sends a batch again, and than an alert waits before it fires."""


@measured
class RefusedAppendsStatistics:
    """Refused appends since the start, and partitions whose last append was refused lately."""

    appends: int = counter(
        "penstock_appends_refused", "Appends that found no room or no descriptor, a leader's or a follower's."
    )
    partitions: int = gauge(
        "penstock_partitions_refusing_appends",
        "Partitions whose last append found no room or no descriptor, less than 5 minutes ago.",
    )
    led: int = 0
    """The part of these partitions that this broker leads: producers are refused."""


class RefusedAppends:
    """Changed on the event loop; `statistics` may be called in another thread."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lines = ThrottledLines(now_ms)
        self._appends = 0
        self._refusing: dict[TopicPartition, tuple[Partition, int, int]] = {}
        """The partitions that wait, where the log of each ended, and when that was."""

    def refused(self, partition: Partition) -> None:
        """An append; `say` tells of it."""
        self._appends += 1
        self._refusing[partition.topic_partition] = partition, partition.log.log_end_offset, self._now_ms()

    def say(self, partition: Partition, error: Exception) -> None:
        """An append or a read was refused; the log gets a line unless it had one about this log dir lately: a full disk
        refuses every partition that is on it."""
        more = self._lines.due((partition.log.log_dir, is_disk_full(error)))
        if more is not None:
            _log.error("%s: refused for now%s: %s", partition, more, error)

    def forget(self, key: TopicPartition) -> None:
        """The partition is served here no longer."""
        self._refusing.pop(key, None)

    def statistics(self) -> RefusedAppendsStatistics:
        lately_ms = self._now_ms() - REFUSING_MS_MAX
        waiting = [
            partition
            for partition, end, at_ms in tuple(self._refusing.values())
            if at_ms >= lately_ms and partition.offline is None and partition.log.log_end_offset == end
        ]
        led = sum(partition.leading is not None for partition in waiting)
        return RefusedAppendsStatistics(self._appends, len(waiting), led)

    def __repr__(self) -> str:
        return f"RefusedAppends({self._appends} appends, {len(self._refusing)} partitions)"
