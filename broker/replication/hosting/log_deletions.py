"""Deletes logs without waiting for their disk: a batch at a time for each log dir, in a thread.

A deletion waits for the work under way in the log's directory, renames it, and syncs the log dir. On a disk that hangs
this takes for ever, and it must not hold up another log dir. So a log goes out of use at once, and the rest is done in
a thread of its dir. Logs of the same dir that are deleted meanwhile are the next batch, with one sync. Until a log's
directory has another name, no log of the same name is created: `postpones` delays that. The renaming, and what happens
if it fails, are in `storage/log_dirs/log_removal.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from penstock.errors import KafkaStorageError
from penstock.threads import Threads
from penstock.types import TopicPartition
from storage.disk.dir_threads import DirThreads
from storage.disk.stop_wait import StopWait
from storage.log.log import Log
from storage.log_dirs.log_removal import LogRemoval

_log = logging.getLogger(__name__)

TRY_AGAIN_SECONDS = 1.0
"""Pause before a deletion for which there was no thread is begun again."""

Outcome = str | KafkaStorageError


class LogDeletions:
    """One per node; all methods are called on the event loop."""

    def __init__(self, removal: LogRemoval, create: Callable[[TopicPartition, bool], None], threads: Threads) -> None:
        """`create(partition, is_new)` is called for what was postponed."""
        self._removal = removal
        self._create = create
        self._threads = threads
        self._deleting_in: dict[str, DirThreads] = {}
        self._waiting: dict[str, list[Log]] = {}
        self._under_way: dict[str, list[Log]] = {}
        self._failed: set[str] = set()
        self._postponed: dict[TopicPartition, bool] = {}

    def delete(self, partition: TopicPartition, topic_id: str) -> None:
        """Take the log out of use, and delete it. KafkaStorageError when it was out of use and its dir refuses."""
        log = self._removal.begin_deletion(partition, topic_id)
        if log is not None:
            self._waiting.setdefault(log.log_dir, []).append(log)
            asyncio.get_running_loop().call_soon(self._start, log.log_dir)  # with the topic's other partitions

    def set_aside(self, partition: TopicPartition, topic_id: str) -> None:
        """Take the log out of use under a name that nothing uses; a person deletes it. KafkaStorageError."""
        self._removal.stray(partition, topic_id)

    def postpones(self, partition: TopicPartition, *, is_new: bool) -> bool:
        """Whether the partition's log cannot be created now, because one of that name is being deleted; it is then
        created afterwards."""
        if not self._removal.is_deleting(partition):
            return False
        self._postponed.setdefault(partition, is_new)
        return True

    def forget(self, partition: TopicPartition) -> None:
        """It is not hosted here any more."""
        self._postponed.pop(partition, None)

    def _start(self, log_dir: str) -> None:
        if log_dir in self._under_way or log_dir not in self._waiting:
            return
        logs, outcomes = self._waiting[log_dir], dict[Log, Outcome]()
        threads = self._deleting_in.setdefault(log_dir, DirThreads(self._threads, "log-deletion", 1))
        try:
            threads.run(
                lambda: outcomes.update(self._removal.delete_begun(logs)),
                partial(self._ended, log_dir, logs, outcomes),
            )
        except (OSError, MemoryError) as error:
            _log.error("%s: %d logs are deleted later: %s", log_dir, len(logs), error)
            asyncio.get_running_loop().call_later(TRY_AGAIN_SECONDS, self._start, log_dir)
            return
        del self._waiting[log_dir]
        self._under_way[log_dir] = logs

    def log_dir_failed(self, log_dir: str, error: Exception) -> None:
        """Wait for its disk no longer: its logs stay where they are, and their names may be used in other log dirs."""
        self._failed.add(log_dir)
        logs = [*self._under_way.pop(log_dir, ()), *self._waiting.pop(log_dir, ())]
        self._end(logs, {log: KafkaStorageError(f"{log.directory}: its log dir has failed: {error}") for log in logs})

    def _ended(self, log_dir: str, logs: list[Log], outcomes: Mapping[Log, Outcome], bug: BaseException | None) -> None:
        if log_dir in self._failed:  # they were ended before
            return
        del self._under_way[log_dir]
        self._end(logs, {log: outcomes.get(log) or KafkaStorageError(f"{log.directory}: {bug!r}") for log in logs})
        self._start(log_dir)

    def _end(self, logs: Sequence[Log], outcomes: Mapping[Log, Outcome]) -> None:
        for log in logs:
            self._removal.end_deletion(log, outcomes[log])
        for log in logs:
            is_new = self._postponed.pop(log.topic_partition, None)
            if is_new is not None:
                self._create(log.topic_partition, is_new)

    async def close(self, wait: StopWait) -> None:
        """Wait until nothing is being deleted, except in log dirs that are given up; AFTER the last change of the
        metadata was published here."""
        await wait.until_idle(lambda: self._under_way.keys() | self._waiting.keys())
        for log_dir, threads in self._deleting_in.items():
            threads.close(wait=log_dir not in wait.given_up | self._failed)

    def __contains__(self, partition: object) -> bool:
        return partition in self._postponed

    def __len__(self) -> int:
        return len(self._postponed)

    def __repr__(self) -> str:
        return f"LogDeletions(under way in {', '.join(sorted(self._under_way)) or 'no log dir'}, {len(self)} postponed)"
