"""The high watermarks of this broker's replicas, as replication-offset-checkpoint keeps them over a restart.

A hosted partition has its own high watermark. For a log that is not hosted yet, the value read at the start is kept.
Not here: writing the file (`storage/log_dirs/log_checkpoints.py`), and what moves a high watermark
(`leader/leader_state.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from broker.replication.partition import Partition
from storage.log_dirs.log_table import LogId


class CheckpointedHighWatermarks:
    """The high watermarks that the checkpoint keeps. Changed on the event loop; `current` may be called in any
    thread."""

    def __init__(self, checkpointed: Mapping[LogId, int], partitions: Callable[[], Iterable[Partition]]) -> None:
        """`partitions()` are those that are hosted now."""
        self._checkpointed = dict(checkpointed)
        self._partitions = partitions

    def take(self, log_id: LogId) -> int:
        """The checkpointed high watermark of a log that is hosted from now on; 0 if it is not known."""
        return self._checkpointed.pop(log_id, 0)

    def forget(self, log_id: LogId) -> None:
        """The log was set aside."""
        self._checkpointed.pop(log_id, None)

    def current(self) -> dict[LogId, int]:
        """The lines of the checkpoint; partitions that are not hosted keep their old lines."""
        known = dict(self._checkpointed)
        for partition in self._partitions():
            known[LogId(partition.topic_partition, partition.topic_id)] = partition.high_watermark
        return known

    def __repr__(self) -> str:
        return f"CheckpointedHighWatermarks({len(self._checkpointed)} of logs that are not hosted)"
