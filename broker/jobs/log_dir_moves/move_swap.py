"""Puts the finished copy of a log in the log's place, while its partition is held for a moment.

A held partition answers produce and fetch requests with KAFKA_STORAGE_ERROR, which clients and followers try again; it
fetches nothing, and what the metadata says of it waits (`replica_states.py`). Requests whose records are written but
not acked go on waiting. The order:

    1  the controller is told of the new log dir, and acknowledges it                     `move_announcement.py`; the
       (KIP-858); what came meanwhile is copied                                           replica is served
    2  hold; copy the rest; the copy gets epochs and log start, and is closed durably     at most HOLD_MS_MAX, or the
                                                                                          swap is tried again later
    3  the log is closed; three renames in a thread (`future_directories.py`)             from here on there is no way
                                                                                          back but undoing them; given
                                                                                          up with a log dir that hangs
                                                                                          (`call_watch.py`)
    4  the partition has the new log, and its flushes; the dir where it is is reported

Not here: filling the copy before (move_copy.py).
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable

from broker.jobs.log_dir_moves.move_announcement import MoveAnnouncements
from broker.jobs.log_dir_moves.move_copy import MoveCopy
from broker.jobs.log_dir_moves.move_step import LogState, next_step
from broker.jobs.log_dir_moves.move_threads import MoveThreads
from broker.jobs.log_dir_moves.moves import Move
from broker.replication.hosting.replica_parts import ReplicaParts
from broker.replication.hosting.replica_roles import Fetchers
from broker.replication.hosting.replica_states import SERVED, HostingState, Replica
from broker.replication.partition import Partition
from penstock.clock import Clock
from penstock.errors import ApiError, InvariantViolation, KafkaStorageError
from penstock.types import TopicPartition
from storage.disk.call_watch import LOOK_MS
from storage.disk.disk_errors import is_shortage
from storage.log.log import Log
from storage.log_dirs.future_logs import OfLog, complete_copy
from storage.log_dirs.log_manager import LogManager
from storage.log_dirs.log_swap import SwapOutcome, SwapWatch

_log = logging.getLogger(__name__)

HOLD_MS_MAX = 1_000
"""The longest hold, for the rest of the copy and its last flush. A producer tries a held partition again for much
longer."""


class MoveSwap:
    """Puts finished copies in the place of their logs. There is one per broker, on the event loop."""

    def __init__(
        self,
        log_manager: LogManager,
        replicas: ReplicaParts,
        fetchers: Fetchers,
        on_log_gone: Callable[[TopicPartition], None],
        announcements: MoveAnnouncements,
        copying: MoveCopy,
        threads: MoveThreads,
        clock: Clock,
    ) -> None:
        """`on_log_gone` is told of a partition whose log is another one from now on."""
        self._log_manager, self._futures = log_manager, log_manager.futures
        self._parts, self._fetchers, self._on_log_gone = replicas, fetchers, on_log_gone
        self._announcements, self._copying, self._threads, self._clock = announcements, copying, threads, clock
        self.put_off = 0
        self.held_ms_max = 0

    async def swap(self, move: Move, partition: Partition) -> bool:
        """True when the replica is served from its new log dir. False: not now. Raises what the copy's disk raises."""
        if move.side.log_dir in self._log_manager.offline_log_dirs:
            return False  # the controller would take the replica for offline, too
        try:
            is_announced = await self._announcements.acknowledged(move, partition)
            is_ready = is_announced and await self._copying.fill(move, partition)
            return is_ready and await self._swap_held(move, partition)
        finally:
            self._announcements.end(move)

    async def _swap_held(self, move: Move, partition: Partition) -> bool:
        why = KafkaStorageError(f"{partition.topic_partition} is being put into {move.side.log_dir}; try again")
        held_at_ms = self._clock.now_ms()
        log, replica = partition.log, self._parts.hosted.known(partition.topic_partition)
        self._hold(replica, why)
        try:
            is_equal = await self._finished_in_time(move, replica, partition, why, held_at_ms)
            if not (is_equal and self._announcements.use(move)):
                return False
            log.abandon(wait=False)
            watch = self._futures.watch(move.side)
            renaming = asyncio.create_task(
                self._threads.run(move.side.log_dir, self._futures.swap, log, move.side, watch)
            )
            if (hanging := await self._hangs_in(renaming, watch)) is not None:
                self._hangs(move, partition, hanging)
                self._release(replica, why, held_at_ms)
            return self._settle(move, replica, partition, log, await renaming)
        finally:
            self._release(replica, why, held_at_ms)

    def _hold(self, replica: Replica, why: ApiError) -> None:
        replica.hold(why)
        self._fetchers.remove([replica.key])
        self._on_log_gone(replica.key)

    async def _finished_in_time(
        self, move: Move, replica: Replica, partition: Partition, why: ApiError, held_at_ms: int
    ) -> bool:
        finishing = asyncio.create_task(self._finish(move, partition, partition.log, why))
        done, _ = await asyncio.wait({finishing}, timeout=HOLD_MS_MAX / 1000)
        if not done:
            self.put_off += 1
            _log.warning("%s: the swap took too long, and is tried again later", partition)
            self._release(replica, why, held_at_ms)
        return await finishing and partition.offline is why

    async def _finish(self, move: Move, partition: Partition, log: Log, why: ApiError) -> bool:
        """The copy is equal to the log, closed and durable."""
        copy = move.copy
        if copy is None:
            raise InvariantViolation(f"{move} has no open copy")
        while partition.offline is why and not log.closed:
            step = next_step(LogState.of(log), LogState.of(copy))
            if step is None:
                break
            await self._copying.take(step, move, partition, log)
        if partition.offline is not why:
            return False
        await self._threads.run(move.side.log_dir, self._complete, move, copy, OfLog.of(log))
        move.copy, move.flushed = None, copy.log_end_offset
        return copy.log_end_offset == log.log_end_offset and copy.log_start_offset == log.log_start_offset

    def _complete(self, move: Move, copy: Log, state: OfLog) -> None:
        """Completes the copy, in a thread."""
        complete_copy(copy, state)
        self._futures.make_ready(move.side)

    async def _hangs_in(self, renaming: asyncio.Task[SwapOutcome], watch: SwapWatch) -> str | None:
        """Wait for the renames; the log dir that was given up while they stood in it, or None: they have ended."""
        while not renaming.done():
            await asyncio.wait({renaming}, timeout=LOOK_MS / 1000)
            if watch.log_dir in self._log_manager.calls.given_up and (hanging := watch.give_up()) is not None:
                return hanging
        return None

    def _hangs(self, move: Move, partition: Partition, log_dir: str) -> None:
        """A log dir does not answer, and nobody knows what the log's directory is called by now: the replica is offline
        until the next start, which finds it. The thread changes nothing more when it comes back."""
        error = OSError(errno.ETIMEDOUT, "the renames of a move do not end", log_dir)
        _log.error("%s: %s hangs in the last step of its move to %s", partition, log_dir, move.side.log_dir)
        self._announcements.end(move)
        self._lose(partition, error)

    # -- afterwards ----------------------------------------------------------------------------------------------------

    def _settle(self, move: Move, replica: Replica, partition: Partition, log: Log, outcome: SwapOutcome) -> bool:
        """Whichever log there is now serves the partition, unless the partition went offline meanwhile."""
        manager, new = self._log_manager, outcome.log
        if outcome.gone is not None:
            due_ms = self._clock.now_ms() + log.config.file_delete_delay_ms
            manager.removal.deleted.add(outcome.gone, due_ms)
        is_in_use = manager.table.logs.get(log.topic_partition, log.topic_id) is log
        if new is not None and is_in_use:
            self._adopt(replica, partition, log, new)
        elif new is not None:  # its old log dir failed just now: the next start finds the new one
            new.abandon(wait=False)
        if outcome.error is not None:
            self._failed(partition, outcome)
        if is_in_use and (new is None or new.log_dir in manager.offline_log_dirs):
            self._lose(partition, outcome.error or manager.offline_log_dirs[move.side.log_dir])
        return new is not None and is_in_use and new.log_dir == move.side.log_dir

    def _adopt(self, replica: Replica, partition: Partition, log: Log, new: Log) -> None:
        self._log_manager.table.replace(log, new)
        self._parts.durability.forget(partition)
        replica.adopt(new)
        self._parts.durability.watch(partition)
        if log.latest_epoch > new.latest_epoch:  # an epoch without a record
            new.assign_epoch(log.latest_epoch, log.epoch_entries[-1].start_offset)

    def _failed(self, partition: Partition, outcome: SwapOutcome) -> None:
        error = outcome.error
        cause = error if isinstance(error, OSError) else error.__cause__ if error is not None else None
        if outcome.failed_dir and isinstance(cause, OSError) and not is_shortage(cause):
            self._parts.failures.directory_failed(outcome.failed_dir, cause)

    def _lose(self, partition: Partition, error: Exception) -> None:
        """Takes the partition offline: its log is in a place that cannot be used. The next start finds it."""
        key, log = partition.topic_partition, partition.log
        if self._log_manager.table.logs.get(key, log.topic_id) is log:
            why = KafkaStorageError(f"{log.directory}: its move was interrupted: {error}")
            self._parts.failures.log_failed(log, why)
            self._parts.failures.partition_failed(partition, error)

    def _release(self, replica: Replica, why: ApiError, held_at_ms: int) -> None:
        """Releases the replica once. It may be held again for another move before this attempt has ended."""
        if replica.held is not why:
            return
        if replica.state is HostingState.HELD:
            self.held_ms_max = max(self.held_ms_max, self._clock.now_ms() - held_at_ms)
        postponed = replica.release()
        if replica.state in SERVED:
            self._parts.roles.take(replica)
        for change in postponed:
            change()

    def __repr__(self) -> str:
        return f"MoveSwap({self.put_off} put off, held for at most {self.held_ms_max} ms)"
