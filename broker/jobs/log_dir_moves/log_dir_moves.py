"""The moves of replicas between the log dirs of one broker: which there are, and when each is tried (KIP-113).

    penstock log-dirs move orders-3 /data/b   ->   alter        the copy's directory is created, durably
                                                   run          a job for each log dir: one move at a time fills its
                                                                copy (move_copy.py) and is finished (move_swap.py)
                                                   restart      a start finds the copies, and goes on

A move ends when the replica is served from there, when it is asked to stay where it is, when it is deleted, or when the
copy is damaged. A full disk lets it wait, and so does a log dir that fails, until the next start. A replica that is
offline is not moved. The copy counts for nothing until the end, so none of this changes what the replica promises.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress

from broker.jobs.log_dir_moves.move_copy import MoveCopy
from broker.jobs.log_dir_moves.move_swap import MoveSwap
from broker.jobs.log_dir_moves.move_table import MoveTable
from broker.jobs.log_dir_moves.move_threads import MoveThreads
from broker.jobs.log_dir_moves.moves import LogDirMovesStatistics, Move, MoveView
from broker.jobs.scheduler import Scheduler
from broker.replication.hosting.replica_parts import ReplicaParts
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import Partition
from penstock.clock import Clock
from penstock.errors import (
    ApiError,
    InvalidReplicaAssignmentError,
    InvalidTopicError,
    KafkaStorageError,
    LogDirNotFoundError,
    PenstockError,
    ReplicaNotAvailableError,
)
from penstock.types import METADATA_TOPIC, TopicPartition
from storage.disk.disk_errors import is_shortage
from storage.log_dirs.future_directories import MoveDirectory
from storage.log_dirs.log_manager import LogManager

_log = logging.getLogger(__name__)

TRY_AGAIN_MS = 10_000
"""Pause after an attempt that found no room or took too long."""
LOOK_MS = 1_000
"""How often each log dir looks for a move to it."""


class LogDirMoves:
    """The moves of one broker's replicas. There is one per broker, on the event loop."""

    def __init__(
        self,
        log_manager: LogManager,
        table: MoveTable,
        replicas: ReplicaParts,
        copying: MoveCopy,
        swapping: MoveSwap,
        throttle: MoveThrottle,
        threads: MoveThreads,
        clock: Clock,
    ) -> None:
        self._log_manager, self._futures, self.table = log_manager, log_manager.futures, table
        self._parts, self._copying, self._swapping = replicas, copying, swapping
        self._threads, self._clock = threads, clock
        self.throttle = throttle
        self._attempted: set[MoveDirectory] = set()  # one at a time to each log dir
        self._completed = self._failed_attempts = 0

    def schedule(self, scheduler: Scheduler) -> None:
        log_dirs = tuple(self._log_manager.meta_properties)
        if len(log_dirs) > 1:
            scheduler.add_for_each(log_dirs, "log-dir-moves", LOOK_MS, self.run)
            scheduler.add_for_each(log_dirs, "log-dir-moves-given-up", LOOK_MS, self.drop)

    # -- what is asked for ---------------------------------------------------------------------------------------------

    async def alter(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, ApiError | None]:
        """Move each replica to a log dir of this broker; the error of each, or None: its move has begun and goes on
        after a restart, or it is there already."""
        answers: dict[TopicPartition, ApiError | None] = {}
        self.table.give_up_deleted()
        for key, path in wanted.items():
            try:
                await self._alter_one(key, path)
                answers[key] = None
            except ApiError as error:
                answers[key] = error
        return answers

    async def _alter_one(self, key: TopicPartition, path: str) -> None:
        log_dir = self._checked_dir(path)
        partition = self._checked_partition(key)
        before = self.table.moves.get(key)
        if before is not None and before.side.log_dir == log_dir:
            before.not_before_ms = 0
            return
        if partition.log.log_dir == log_dir:
            self.table.give_up(key)
            await self._dropped(before)
            return
        if log_dir in self._log_manager.cordoned:
            raise InvalidReplicaAssignmentError(
                f"{log_dir} is cordoned: no replica moves there. Choose another, or take it out of cordoned.log.dirs"
            )
        side = self._futures.name(key, log_dir)
        await self._threads.run(log_dir, self._futures.create, side, partition.topic_id)
        if self._parts.hosted.find(key) is not partition or self.table.moves.get(key) is not before:
            self.table.to_drop.append(side)
            raise ReplicaNotAvailableError(f"{key} has changed meanwhile; look at it, and try again")
        self.table.begin(Move(side, partition.topic_id))
        _log.info("%s: moving from %s to %s", key, partition.log.log_dir, log_dir)
        await self._dropped(before)

    async def _dropped(self, move: Move | None) -> None:
        """Returns when the copy of a move that was given up is dropped, durably: a start would go on with it."""
        if move is None:
            return
        await move.idle.wait()
        if move.side in self.table.to_drop:
            self.table.to_drop.remove(move.side)
        try:
            await self._threads.run(move.side.log_dir, self._futures.drop, move.side)
        except KafkaStorageError as error:
            self._not_dropped(move.side, error)
            raise

    def _not_dropped(self, side: MoveDirectory, error: KafkaStorageError) -> None:
        """Tries again to drop this side of the move if room was lacking; otherwise it stays."""
        if is_shortage(error):
            self.table.to_drop.append(side)
        else:
            _log.error("%s; it stays there, and a start that finds the replica may go on with the move", error)

    def _checked_dir(self, path: str) -> str:
        log_dir = os.path.normpath(path) if path else ""
        manager = self._log_manager
        if log_dir in manager.offline_log_dirs:
            raise KafkaStorageError(f"{log_dir} is offline: {manager.offline_log_dirs[log_dir]}")
        if log_dir not in manager.checkpoints.log_dirs:
            known = ", ".join(manager.checkpoints.log_dirs)
            raise LogDirNotFoundError(f"{path or 'an empty path'} is no log dir of this broker; it has {known}")
        return log_dir

    def _checked_partition(self, key: TopicPartition) -> Partition:
        if key.topic == METADATA_TOPIC:
            raise InvalidTopicError(f"{key} does not move: stop the node and change metadata.log.dir")
        partition = self._parts.hosted.find(key)
        if partition is None or partition.offline is not None:
            known = self._log_manager.table.offline.named(key)
            if known or partition is not None:
                why = partition.offline if partition is not None else next(iter(known.values())).error
                raise KafkaStorageError(f"{key} is offline here, and cannot move: {why}")
            raise ReplicaNotAvailableError(f"this broker has no replica of {key}")
        return partition

    # -- the job -------------------------------------------------------------------------------------------------------

    async def run(self, log_dir: str) -> None:
        """Every move to this log dir that can be made now, one after the other."""
        self.table.give_up_deleted()
        await self.drop(log_dir)
        while (move := self._next(log_dir)) is not None:
            await self._attempt(move)
            await self.drop(log_dir)

    def _next(self, log_dir: str) -> Move | None:
        if self._copying.is_stopping or log_dir not in self._log_manager.checkpoints.log_dirs:
            return None
        now_ms = self._clock.now_ms()
        mine = (
            move for move in self.table.moves.values() if move.side.log_dir == log_dir and move.not_before_ms <= now_ms
        )
        return next((move for move in mine if self._served(move) is not None), None)

    def _served(self, move: Move) -> Partition | None:
        partition = self._parts.hosted.find(move.side.topic_partition)
        is_it = partition is not None and partition.topic_id == move.topic_id and partition.offline is None
        return partition if is_it else None

    async def _attempt(self, move: Move) -> None:
        partition = self._served(move)
        if partition is None:
            return
        move.idle.clear()
        self._attempted.add(move.side)
        try:
            is_filled = await self._copying.fill(move, partition)
            if is_filled and await self._swapping.swap(move, partition):
                self._done(move, partition)
                await self._claim_flushed(move.side.log_dir)
            else:
                move.not_before_ms = self._clock.now_ms() + (TRY_AGAIN_MS if is_filled else LOOK_MS)
        except (OSError, PenstockError) as error:
            await self._failed(move, error)
        finally:
            try:
                await self._close(move)
            finally:
                self._attempted.discard(move.side)
                move.idle.set()

    def _done(self, move: Move, partition: Partition) -> None:
        self._completed += 1
        self.table.done(move)
        _log.info("%s: moved to %s", partition, move.side.log_dir)

    async def _claim_flushed(self, log_dir: str) -> None:
        """Write the recovery points of the new log dir at once: until it has one for the log, a start would cut rot off
        as a torn tail. Where there is no room, the regular checkpoint writes them later."""
        write = self._log_manager.checkpoints.try_recovery_points
        failure = await self._threads.run(log_dir, write, log_dir)
        if failure is None:
            return
        _log.error("%s", failure)
        if isinstance(failure.__cause__, OSError) and not is_shortage(failure):
            self._parts.failures.directory_failed(log_dir, failure.__cause__)

    async def _failed(self, move: Move, error: OSError | PenstockError) -> None:
        """The copy's own disk, or the copy, is in trouble; the replica is not."""
        key, self._failed_attempts = move.side.topic_partition, self._failed_attempts + 1
        cause = error if isinstance(error, OSError) else error.__cause__
        await self._abandon(move)
        if is_shortage(error):
            if not move.waits_for:
                _log.error("%s: its move to %s waits: %s", key, move.side.log_dir, error)
            move.waits_for, move.not_before_ms = str(error), self._clock.now_ms() + TRY_AGAIN_MS
        elif isinstance(cause, OSError):
            self.table.moves.pop(key, None)
            _log.error(
                "%s: its move to %s goes on with the next start at the earliest: %s", key, move.side.log_dir, error
            )
            self._parts.failures.directory_failed(move.side.log_dir, cause)
        else:
            _log.error("%s: its move to %s is given up: %s", key, move.side.log_dir, error)
            if self.table.moves.get(key) is move:
                self.table.give_up(key)

    async def _abandon(self, move: Move) -> None:
        copy, move.copy, move.flushed = move.copy, None, None
        if copy is not None:
            await self._threads.run(move.side.log_dir, copy.abandon)

    async def _close(self, move: Move) -> None:
        """An open copy, so that the next attempt or start can go on where it ends."""
        copy, move.copy = move.copy, None
        if copy is not None:
            with suppress(OSError, PenstockError):
                await self._threads.run(move.side.log_dir, copy.close)
                move.flushed = copy.log_end_offset

    async def drop(self, log_dir: str) -> None:
        """The copies of moves that were given up, also while another copy is filled for hours: a start would take that
        of a topic that was deleted for a stray."""
        idle = (side for side in self.table.to_drop if side.log_dir == log_dir and side not in self._attempted)
        for side in tuple(idle):
            if side not in self.table.to_drop:  # another one was quicker
                continue
            self.table.to_drop.remove(side)
            try:
                await self._threads.run(log_dir, self._futures.drop, side)
            except KafkaStorageError as error:
                self._not_dropped(side, error)

    def stop(self) -> None:
        """Moves under way stop after their step; call it before the scheduler is stopped."""
        self._copying.is_stopping = True
        for move in self.table.moves.values():
            move.wait_no_longer()

    def close(self) -> None:
        """Call it after the scheduler was stopped."""
        self._threads.close()

    # -- views ---------------------------------------------------------------------------------------------------------

    def views(self) -> dict[TopicPartition, MoveView]:
        """The moves of replicas that are here; may be called in any thread."""
        moves = tuple(self.table.moves.items())
        return {key: view for key, move in moves if (view := self._view(key, move)) is not None}

    def _view(self, key: TopicPartition, move: Move) -> MoveView | None:
        partition = self._parts.hosted.find(key)
        if partition is None or partition.topic_id != move.topic_id:
            return None
        return move.view(partition.log)

    def statistics(self) -> LogDirMovesStatistics:
        views = self.views()
        return LogDirMovesStatistics(
            under_way=len(views),
            bytes_left=sum(view.bytes_left for view in views.values()),
            copied_bytes=self.throttle.bytes_total,
            completed=self._completed,
            failed_attempts=self._failed_attempts,
            put_off=self._swapping.put_off,
            throttled=self.throttle.holds,
            held_ms_max=self._swapping.held_ms_max,
        )

    def __repr__(self) -> str:
        return f"LogDirMoves({len(self.table.moves)} moves, {self._completed} completed)"
