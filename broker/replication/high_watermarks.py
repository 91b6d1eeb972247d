"""The high watermarks of this broker's replicas, as replication-offset-checkpoint keeps them over a restart.

A partition that is hosted says its own; of a log that is not hosted yet, the checkpoint that was read at the start is
kept. Not here: writing the file (`storage/log_dirs/log_checkpoints.py`), what moves a high watermark (partition.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from broker.replication.partition import Partition
from storage.log_dirs.log_table import LogId


class HighWatermarks:
    """See the module. Changed on the event loop; `current` may be called in any thread."""

    def __init__(self, checkpointed: Mapping[LogId, int], partitions: Callable[[], Iterable[Partition]]) -> None:
        """`partitions()` are those that are hosted now."""
        self._checkpointed = dict(checkpointed)
        self._partitions = partitions

    def take(self, log_id: LogId) -> int:
        """Of a log that is hosted from now on: where its high watermark stood, 0 when nothing is known."""
        return self._checkpointed.pop(log_id, 0)

    def forget(self, log_id: LogId) -> None:
        """The log was set aside."""
        self._checkpointed.pop(log_id, None)

    def current(self) -> dict[LogId, int]:
        """What the checkpoint should hold; of partitions that are not hosted, what it held before."""
        known = dict(self._checkpointed)
        for partition in self._partitions():
            known[LogId(partition.topic_partition, partition.topic_id)] = partition.high_watermark
        return known

    def __repr__(self) -> str:
        return f"HighWatermarks({len(self._checkpointed)} of logs that are not hosted)"
