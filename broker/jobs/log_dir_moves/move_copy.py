"""Fills the copy of a log that moves to another log dir, while the log is in use.

The log is read on the event loop, as a consumer's fetch reads it; what only the disk has is read in a thread of its log
dir. The copy is opened, written and flushed in a thread of its own log dir. `move_step.py` decides what it needs. The
throttle (`replica.alter.log.dirs.io.max.bytes.per.second`) counts the bytes that are appended.

Not here: which move is next (log_dir_moves.py), the swap (move_swap.py).
"""

from __future__ import annotations

import asyncio

from broker.jobs.log_dir_moves.move_step import AdvanceStart, CopyFrom, LogState, StartCopyOver, Step, next_step
from broker.jobs.log_dir_moves.move_threads import MoveThreads
from broker.jobs.log_dir_moves.moves import Move
from broker.replication.leader.leader_reads import LeaderReads
from broker.replication.move_throttle import MoveThrottle
from broker.replication.partition import Partition
from penstock.clock import Clock
from penstock.errors import InvariantViolation, KafkaStorageError
from storage.disk.disk_errors import is_shortage
from storage.disk.file_system import Found
from storage.log.log import Log
from storage.log.log_reader import Records
from storage.log_dirs.future_logs import FutureLogs, append_copy

CHUNK_BYTES = 1024 * 1024
"""Read and appended at a time: under a millisecond of the event loop."""
FLUSH_BYTES = 32 * 1024 * 1024
"""The copied bytes after which the copy is flushed, so that the last flush, for which the partition is held, has little
to write."""


class MoveCopy:
    """Fills the copies of logs. There is one per broker, on the event loop."""

    def __init__(self, futures: FutureLogs, threads: MoveThreads, throttle: MoveThrottle, clock: Clock) -> None:
        self._futures, self._threads, self._reads = futures, threads, LeaderReads(threads.run)
        self._throttle, self._clock = throttle, clock
        self.is_stopping = False

    async def fill(self, move: Move, partition: Partition) -> bool:
        """True when the copy has nearly everything; False when the move cannot go on now. Raises what the copy's disk
        raises."""
        log = partition.log
        if move.copy is None:
            move.copy = await self._threads.run(
                move.side.log_dir, self._futures.open, move.side, log.topic_id, log.config, move.flushed
            )
            move.flushed = None
        while self._goes_on(move, partition, log):
            step = next_step(LogState.of(log), LogState.of(move.copy))
            if step is None:
                return True
            if isinstance(step, CopyFrom) and not self._throttle.room(self._clock.now_ms()):
                self._throttle.note_hold()
                await asyncio.sleep(self._throttle.hold_ms(self._clock.now_ms()) / 1000)
            elif await self.take(step, move, partition, log, self._throttle.room(self._clock.now_ms())):
                return self._goes_on(move, partition, log)
        return False

    def _goes_on(self, move: Move, partition: Partition, log: Log) -> bool:
        is_wanted = not (self.is_stopping or move.is_given_up)
        return is_wanted and partition.offline is None and partition.log is log and not log.closed

    async def take(self, step: Step, move: Move, partition: Partition, log: Log, bytes_max: int = CHUNK_BYTES) -> bool:
        """Perform one step; True when it has brought the copy to where the log ended when it was read."""
        copy, log_dir = move.copy, move.side.log_dir
        if copy is None:
            raise InvariantViolation(f"{move} has no open copy")
        if isinstance(step, CopyFrom):
            return await self._copy(step.offset, move, copy, partition, log, min(bytes_max, CHUNK_BYTES))
        if isinstance(step, StartCopyOver):
            await self._threads.run(log_dir, copy.truncate_fully_and_start_at, step.offset)
        elif isinstance(step, AdvanceStart):
            await self._threads.run(log_dir, copy.advance_log_start, step.offset)
        else:
            await self._threads.run(log_dir, copy.truncate_to, step.offset)
        self._note(move, copy)
        return False

    async def _copy(self, offset: int, move: Move, copy: Log, partition: Partition, log: Log, bytes_max: int) -> bool:
        end, start = log.log_end_offset, log.local_log_start_offset
        found = await self._read(offset, partition, log, bytes_max)
        if found is None or not found.records:
            await asyncio.sleep(0)  # nothing else in this loop may wait, and the event loop has other work
            return False
        move.unflushed_bytes += len(found.records)
        must_flush = move.unflushed_bytes >= FLUSH_BYTES
        await self._threads.run(move.side.log_dir, _append, copy, found.records, start, must_flush)
        if must_flush:
            move.unflushed_bytes = 0
        self._throttle.spend(len(found.records), self._clock.now_ms())
        self._note(move, copy)
        return found.next_offset >= end

    async def _read(self, offset: int, partition: Partition, log: Log, bytes_max: int) -> Records | None:
        """None when the log cannot be read: then the partition says so. No records when the log has changed while its
        disk was asked: the copy may need another step. Raises a shortage."""
        cuts = log.cuts

        def goes_on() -> bool:
            is_same = partition.log is log and not log.closed and log.cuts == cuts
            return is_same and log.local_log_start_offset <= offset

        try:
            return await self._reads.wait_read(partition, offset, max(bytes_max, 1), goes_on=goes_on)
        except KafkaStorageError as error:
            if is_shortage(error):  # nothing goes offline: the move waits, or it would try without a pause
                raise
            return None

    def _note(self, move: Move, copy: Log) -> None:
        move.copied_to, move.copied_bytes, move.waits_for = copy.log_end_offset, copy.size_bytes, ""

    def __repr__(self) -> str:
        return f"MoveCopy({self._throttle!r})"


def _append(copy: Log, records: Found, local_start: int, must_flush: bool) -> None:
    append_copy(copy, bytes(records), local_start)
    if must_flush:
        copy.flush()
