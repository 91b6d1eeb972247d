"""Creates logs without waiting for their disk: some at a time for each log dir, in a thread of the dir.

A new log costs a directory and two files, and on a disk that hangs a name takes for ever. So the loop decides where a
log goes, a thread of that log dir creates it, and the loop takes it into use. While that is under way, another topic's
log of the same name waits (`begun`), as it does for a deletion. If the log dir fails meanwhile, its logs count as
not created at once; what its thread brings later is not used.

Not here: the steps themselves (`storage/log_dirs/log_creation.py`), and what a replica does with its log
(replica_creation.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from penstock.errors import ApiError, CorruptFileError, KafkaStorageError
from penstock.types import TopicPartition
from storage.disk.log_dir_threads import InLogDir
from storage.disk.stop_wait import StopWait
from storage.log.log import Log
from storage.log_dirs.log_creation import LogCreation, NewLog

_log = logging.getLogger(__name__)

TRY_AGAIN_SECONDS = 1.0
"""Pause before a creation for which there was no thread is begun again."""
BATCH_MAX = 32
"""Logs that a thread creates before it hands them over: the loop takes them into use in some milliseconds."""

Created = Callable[[NewLog, Log | Exception], None]
REFUSALS = (ApiError, CorruptFileError, OSError)
"""The errors of a disk or a name; any other error is a bug."""


class LogCreations:
    """Creates the logs of a node. There is one per node; all methods are called on the event loop."""

    def __init__(
        self,
        creation: LogCreation,
        threads: InLogDir,
        created: Created,
    ) -> None:
        """`created` gets the log, in use, or the error for which it was not created."""
        self._creation, self._threads, self._created = creation, threads, created
        self._waiting: dict[str, list[NewLog]] = {}
        self._under_way: dict[str, Sequence[NewLog]] = {}
        self._failed: set[str] = set()
        self._is_stopped = False

    def create(self, new: NewLog) -> None:
        """Creates the log that `LogCreation.begin` has returned."""
        self._waiting.setdefault(new.log_dir, []).append(new)
        self._start(new.log_dir)

    def begun(self, partition: TopicPartition) -> str | None:
        """The id of the topic whose log of that name is being created; it comes, even if its replica is removed."""
        new = self._creation.begun(partition)
        return new.topic_id if new is not None else None

    def _start(self, log_dir: str) -> None:
        waiting = self._waiting.get(log_dir)
        if not waiting or log_dir in self._under_way:
            return
        batch, outcomes = waiting[:BATCH_MAX], dict[NewLog, Log | Exception]()
        self._under_way[log_dir] = batch
        del waiting[:BATCH_MAX]
        try:
            self._threads.run(log_dir, partial(self._make, batch, outcomes), partial(self._ended, log_dir, outcomes))
        except (OSError, MemoryError) as error:
            _log.error("%s: %d logs are created later: %s", log_dir, len(batch), error)
            del self._under_way[log_dir]
            waiting[:0] = batch
            asyncio.get_running_loop().call_later(TRY_AGAIN_SECONDS, self._start, log_dir)

    def _make(self, batch: Sequence[NewLog], outcomes: dict[NewLog, Log | Exception]) -> None:
        """Creates the logs of the batch, in a thread."""
        for new in batch:
            try:
                outcomes[new] = self._creation.make(new)
            except REFUSALS as error:
                outcomes[new] = error

    def _ended(self, log_dir: str, outcomes: dict[NewLog, Log | Exception], bug: BaseException | None) -> None:
        if log_dir in self._failed:  # they have been told of already
            return
        for new in self._under_way.pop(log_dir):
            self._end(new, outcomes.get(new) or KafkaStorageError(f"{new.topic_partition}: {bug!r}"))
        self._start(log_dir)

    def _end(self, new: NewLog, outcome: Log | Exception) -> None:
        try:
            self._creation.end(new, outcome if isinstance(outcome, Log) else None)
        except KafkaStorageError as error:
            outcome = error
        if self._is_stopped:
            return
        self._created(new, outcome)

    def log_dir_failed(self, log_dir: str, error: Exception) -> None:
        """Wait for its disk no longer: what was to be created there is not."""
        self._failed.add(log_dir)
        for new in (*self._under_way.pop(log_dir, ()), *self._waiting.pop(log_dir, ())):
            self._end(new, KafkaStorageError(f"{log_dir}: the log dir has failed: {error}"))

    def stop(self) -> None:
        """Begin nothing more, and tell of nothing more."""
        self._is_stopped = True
        for new in (new for waiting in self._waiting.values() for new in waiting):
            self._creation.end(new, None)
        self._waiting.clear()

    async def close(self, wait: StopWait) -> None:
        """Wait for what is under way, except in log dirs that are given up."""
        self.stop()
        await wait.until_idle(lambda: self._under_way.keys())
        self._threads.close(wait.given_up | self._failed)

    def __len__(self) -> int:
        return sum(map(len, (*self._waiting.values(), *self._under_way.values())))

    def __repr__(self) -> str:
        return f"LogCreations(under way in {', '.join(sorted(self._under_way)) or 'no log dir'}, {len(self)} waiting)"
