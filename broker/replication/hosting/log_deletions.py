"""Deletes logs and sets them aside without waiting for their disk: a batch at a time for each log dir, in a thread.

A removal waits for the work under way in the log's directory, renames it, and syncs the log dir. On a disk that hangs
this takes for ever, and it must not hold up another log dir. So a log goes out of use at once, and the rest is done in
a thread of its dir. Logs of the same dir that are removed meanwhile are the next batch, with one sync. Until a log's
directory has another name, no log of the same name is created: `holds_up` says so.

A removal that a full disk or a lack of descriptors refuses has ended for now: its log is offline, its name may be used
in another log dir, and `try_again` begins it anew. The renaming is in `storage/log_dirs/log_removal.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from penstock.errors import KafkaStorageError
from penstock.types import TopicPartition
from storage.disk.file_names import DELETE_DIRECTORY_SUFFIX, ROTTEN_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX
from storage.disk.log_dir_threads import InLogDir
from storage.disk.stop_wait import StopWait
from storage.log_dirs.log_removal import LogRemoval, Outcome, Removal
from storage.log_dirs.log_table import LogId

_log = logging.getLogger(__name__)

TRY_AGAIN_SECONDS = 1.0
"""Pause before a removal for which there was no thread is begun again."""

Ended = Callable[[Removal], None]


class LogDeletions:
    """Deletes the logs of a node. There is one per node; all methods are called on the event loop."""

    def __init__(
        self,
        removal: LogRemoval,
        has_left: Callable[[TopicPartition], None],
        threads: InLogDir,
        disk_failed: Callable[[str, Exception], None],
    ) -> None:
        """`has_left` is told of each name that may be used again, `disk_failed` of a log dir whose disk failed."""
        self._removal = removal
        self._has_left, self._disk_failed = has_left, disk_failed
        self._threads = threads
        self._waiting: dict[str, list[Removal]] = {}
        self._under_way: dict[str, list[Removal]] = {}
        self._failed: set[str] = set()
        self._ended: dict[Removal, Ended] = {}
        self._put_off: dict[LogId, str] = {}
        """The suffixes of logs that are to be deleted or set aside, and whose disk had no room for it."""

    def delete(self, partition: TopicPartition, topic_id: str) -> None:
        """Take the log out of use, and delete it; nothing if it is not here, or on its way out already."""
        self._submit(self._removal.begin(partition, topic_id, DELETE_DIRECTORY_SUFFIX))

    def set_aside(self, partition: TopicPartition, topic_id: str) -> None:
        """Take the log out of use under a name that nothing uses; a person deletes it. One whose deletion was put off
        is deleted."""
        suffix = self._put_off.get(LogId(partition, topic_id), STRAY_DIRECTORY_SUFFIX)
        self._submit(self._removal.begin(partition, topic_id, suffix))

    def set_aside_rotten(self, partition: TopicPartition, topic_id: str, ended: Ended) -> bool:
        """See `LogRemoval.begin_rotten`; False if there is nothing to do, and `ended` is not called."""
        removal = self._removal.begin_rotten(partition, topic_id)
        if removal is not None:
            self._ended[removal] = ended
            self._submit(removal)
        return removal is not None

    def try_again(self) -> None:
        """Begin again what a shortage has put off; called on schedule. A rotten log's replica does that by itself."""
        put_off, self._put_off = self._put_off, {}
        for (partition, topic_id), suffix in put_off.items():
            self._submit(self._removal.begin(partition, topic_id, suffix))

    def is_under_way(self, partition: TopicPartition) -> bool:
        """A log of that name is on its way out."""
        return self._removal.is_under_way(partition)

    def _submit(self, removal: Removal | None) -> None:
        if removal is None:
            return
        for log_dir in removal.log_dirs:
            self._waiting.setdefault(log_dir, []).append(removal)
            asyncio.get_running_loop().call_soon(self._start, log_dir)  # with the topic's other partitions
        if not removal.log_dirs:  # they have failed before
            self._end((removal,))

    def holds_up(self, partition: TopicPartition, topic_id: str) -> bool:
        """True if the partition's log can be neither created nor used now, because one of that name is being
        removed."""
        return self._removal.holds_up(partition, topic_id)

    def _start(self, log_dir: str) -> None:
        if log_dir in self._under_way or log_dir not in self._waiting:
            return
        removals, outcomes = self._waiting[log_dir], dict[Removal, dict[str, Outcome]]()
        try:
            self._threads.run(
                log_dir,
                lambda: outcomes.update(self._removal.carry_out(log_dir, removals)),
                partial(self._carried_out, log_dir, outcomes),
            )
        except (OSError, MemoryError) as error:
            _log.error("%s: %d logs are removed later: %s", log_dir, len(removals), error)
            asyncio.get_running_loop().call_later(TRY_AGAIN_SECONDS, self._start, log_dir)
            return
        del self._waiting[log_dir]
        self._under_way[log_dir] = removals

    def _carried_out(
        self, log_dir: str, outcomes: dict[Removal, dict[str, Outcome]], bug: BaseException | None
    ) -> None:
        if log_dir in self._failed:  # they were ended before
            return
        removals = self._under_way.pop(log_dir)
        for removal in removals:
            removal.outcomes |= outcomes.get(removal, {})
        if (failure := self._removal.failure(log_dir)) is not None:
            self._disk_failed(log_dir, failure)  # BEFORE another log of these names may be created there
        self._end_in(log_dir, removals, repr(bug))
        self._start(log_dir)

    def log_dir_failed(self, log_dir: str, error: Exception) -> None:
        """Wait for its disk no longer: its logs stay where they are, and their names may be used in other log dirs."""
        self._failed.add(log_dir)
        removals = [*self._under_way.pop(log_dir, ()), *self._waiting.pop(log_dir, ())]
        self._end_in(log_dir, removals, f"its log dir has failed: {error}")

    def _end_in(self, log_dir: str, removals: Sequence[Removal], why: str) -> None:
        """Nothing more comes from this log dir; `why`: where nothing has come."""
        for removal in removals:
            for path in removal.in_log_dir(log_dir):
                removal.outcomes.setdefault(path, KafkaStorageError(f"{path}: {why}"))
        self._end([removal for removal in removals if not removal.log_dirs])

    def _end(self, removals: Iterable[Removal]) -> None:
        for removal in removals:
            self._removal.end(removal)
            log_id = LogId(removal.topic_partition, removal.topic_id)
            self._put_off.pop(log_id, None)
            if removal.is_put_off and removal.suffix != ROTTEN_DIRECTORY_SUFFIX:
                self._put_off[log_id] = removal.suffix
            if (ended := self._ended.pop(removal, None)) is not None:
                ended(removal)
        for removal in removals:
            self._has_left(removal.topic_partition)

    @property
    def busy(self) -> set[str]:
        """The log dirs in which something is being removed, or noted; not those that have failed."""
        return (self._under_way.keys() | self._waiting.keys() | self._threads.busy) - self._failed

    async def close(self, wait: StopWait) -> None:
        """Wait until nothing is being removed, except in log dirs that are given up; AFTER the last change of the
        metadata was published here."""
        await wait.until_idle(lambda: self.busy)
        self._threads.close(wait.given_up | self._failed)

    def __repr__(self) -> str:
        return f"LogDeletions(under way in {', '.join(sorted(self._under_way)) or 'no log dir'})"
