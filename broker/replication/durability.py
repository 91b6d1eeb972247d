"""Makes a hosted partition durable: its records, and its log start.

The partition's side of the group commit (`storage/log/group_commit.py`) and of the log-start checkpoint
(leader/log_start_commit.py), for which it makes room on a full disk. Nothing here waits: results come as callbacks.
Not here: which requests are acknowledged (partition.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.replication.leader.log_start_commit import LogStartCommit, Waiter
from broker.replication.partition import Partition
from penstock.errors import ApiError
from storage.disk.disk_errors import is_disk_full
from storage.log.group_commit import GroupCommit


class Durability:
    """Makes hosted partitions durable. There is one per broker, on the event loop."""

    def __init__(
        self, group_commit: GroupCommit, log_starts: LogStartCommit, make_room: Callable[[Partition], bool]
    ) -> None:
        """`make_room` takes the segments below a log start out of their log, where the disk is short of room; False if
        that gains none. The files go with the next write of log starts."""
        self._group_commit, self._log_starts, self._make_room = group_commit, log_starts, make_room

    def watch(self, partition: Partition) -> None:
        """Tell the partition of every flush of its log from now on."""
        self._group_commit.subscribe(partition.log, partition.flushed)

    def forget(self, partition: Partition) -> None:
        """This broker no longer serves the partition."""
        self._group_commit.unsubscribe(partition.log)

    def request_flush(self, partition: Partition) -> None:
        """Have everything in the partition's log flushed, by its flush policy."""
        self._group_commit.request(partition.log)

    def flush_when_idle(self, partition: Partition) -> None:
        """Flushes the partition's log once no other flush waits for that disk."""
        self._group_commit.flush_when_idle(partition.log)

    def when_disk_answers(
        self, partition: Partition, then: Callable[[BaseException | None], None], work: Callable[[], object] | None
    ) -> None:
        """Call `then` on the loop, once the partition's log dir has completed a sync and a thread has done `work`; with
        the error of either."""
        self._group_commit.when_disk_answers(partition.log, then, work)

    def flush_due(self, partitions: Iterable[Partition], now_ms: int) -> None:
        """A segment that was rolled, flush.messages and flush.ms; with flush.policy=fsync little is ever due."""
        for partition in partitions:
            if partition.offline is None and partition.log.flush_schedule.is_due(now_ms):
                self._group_commit.flush(partition.log)

    def make_log_start_durable(self, partition: Partition, done: Waiter) -> None:
        """Call `done` once the log start that the partition has now survives a crash; the log knows it from then on.

        On a full disk the segments below it make room for the checkpoint, which is then written once more. Records that
        are gone from the disk do not come back either way.
        """
        log, start, is_durable = partition.log, partition.log.log_start_offset, partition.log.written_start.note()

        def settle(error: ApiError | None) -> None:
            if error is None:
                is_durable()
            done(error if log.written_start.durable < start else None)

        def written(error: ApiError | None) -> None:
            is_full = is_disk_full(error)
            has_room_to_gain = (error is None or is_full) and self._make_room(partition)
            if has_room_to_gain and is_full:
                self._log_starts.request(log.log_dir, settle)
                return
            settle(error)
            if has_room_to_gain:
                self._log_starts.request(log.log_dir, lambda error: None)

        self._log_starts.request(log.log_dir, written)

    def __repr__(self) -> str:
        return f"Durability({self._group_commit!r}, {self._log_starts!r})"
