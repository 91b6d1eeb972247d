"""Performs one Ready of the core: on the disk, towards other nodes, and towards those that wait for answers.

The order is that of the fields of `Ready` (raft/ready.py), where the reasons are. What blocks runs in the executor. An
append goes to the page cache, on the loop. A cut changes what readers on the loop see, so it is made there, once the
disk has answered in the executor. A full disk is waited for in the middle (room.py); any other error passes through,
and ends the driver. Decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import TypeVar

from penstock.clock import Clock
from penstock.errors import (
    ApiError,
    CorruptMessageError,
    InvariantViolation,
    KafkaStorageError,
    PositionOutOfRangeError,
    SnapshotNotFoundError,
)
from penstock.record.builder import build_batch
from raft.driver.log_reads import LogReads
from raft.driver.protocols import LoadedSnapshot, QuorumStateStore, RaftLog
from raft.driver.room import Room
from raft.driver.sender import QuorumSender
from raft.driver.waiting_requests import WaitingRequests
from raft.quorum_state import ElectionState
from raft.ready import FetchReply, FollowerAppend, LeaderAppend, Ready, SnapshotReply
from raft.voter_records import has_voters

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Performer:
    """The hands of one node's driver; one Ready at a time."""

    def __init__(
        self,
        node_id: int,
        log: RaftLog,
        store: QuorumStateStore,
        clock: Clock,
        executor: Executor | None,
        reads: LogReads,
        room: Room,
        sender: QuorumSender,
        waiting: WaitingRequests,
    ) -> None:
        self._node_id = node_id
        self._log, self._store = log, store
        self._clock, self._executor, self._reads = clock, executor, reads
        self._room, self._sender, self._waiting = room, sender, waiting
        self.flushes = 0
        self.saves = 0

    async def load(self) -> ElectionState:
        """The persisted state. The end of the log that a crash may have left in the page cache becomes durable, as it
        must be BEFORE an ack."""
        stored = await self.blocking(self._store.load) or ElectionState()
        if self._log.flushed_offset < self._log.log_end_offset:
            await self.blocking(self._log.flush)
        if self._log.flushed_offset != self._log.log_end_offset:
            raise InvariantViolation(f"{self._log!r} is durable up to {self._log.flushed_offset} only, after a flush")
        return stored

    async def perform(self, ready: Ready) -> LoadedSnapshot | None:
        """All of it; the snapshot that has replaced the log, if one was complete and sound."""
        if ready.election_state is not None:
            await self._until_taken(self._store.save, ready.election_state)
            self.saves += 1
        if ready.truncate_to is not None:
            await self._until_taken(self._log.ask_disk)
            await self._room.until_taken(_inline, self._log.truncate_to, ready.truncate_to)
        for append in ready.append:
            if _names_voters(append):
                await self._until_taken(self._log.note_voters)
            await self._room.until_taken(_inline, self._append, append)
        installed = await self._take_snapshot(ready)
        for fetch_reply in ready.fetch_replies:
            await self._reply_fetch(fetch_reply)
        for snapshot_reply in ready.snapshot_replies:
            await self._reply_snapshot(snapshot_reply)
        if ready.cut_prefix_to is not None:
            await self._until_taken(self._log.ask_disk)
            self._log.cut_prefix(ready.cut_prefix_to)
            await self.blocking(self._log.remove_files)
        if ready.changes_log:
            await self._until_taken(self._log.flush)
            self.flushes += 1
        for message in ready.messages:
            self._sender.start(message)
        for reply in ready.replies:
            self._waiting.resolve(reply.request_id, reply.response)
        return installed

    async def blocking(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *args)

    async def _until_taken(self, call: Callable[..., T], *args: object) -> T:
        return await self._room.until_taken(self.blocking, call, *args)

    def _append(self, append: LeaderAppend | FollowerAppend) -> None:
        if append.base_offset != self._log.log_end_offset:
            raise InvariantViolation(f"append at {append.base_offset}, but the log ends at {self._log.log_end_offset}")
        if isinstance(append, FollowerAppend):
            self._log.append_as_follower(append.records)
            return
        batch = build_batch(
            append.values,
            timestamps_ms=self._clock.wall_ms(),
            base_offset=append.base_offset,
            leader_epoch=append.epoch,
        )
        self._log.append_as_leader(batch, append.epoch)

    async def _take_snapshot(self, ready: Ready) -> LoadedSnapshot | None:
        """Writes the chunks of a snapshot that the leader sent. Returns the whole if it replaces the log now."""
        for chunk in ready.snapshot_chunks:
            await self._until_taken(self._log.write_snapshot, chunk.snapshot_id, chunk.position, chunk.data)
        if ready.complete_snapshot is None:
            return None
        installed: LoadedSnapshot | None = await self._until_taken(self._log.complete_snapshot, ready.complete_snapshot)
        if installed is not None:
            await self._until_taken(self._log.ask_disk)
            await self._room.until_taken(_inline, self._log.begin_after, installed)
            await self._until_taken(self._log.flush)
        level, what = (logging.ERROR, ", but damaged") if installed is None else (logging.INFO, "")
        _log.log(level, "node %d: %s has come%s", self._node_id, ready.complete_snapshot, what)
        return installed

    async def _reply_fetch(self, reply: FetchReply) -> None:
        response, read = reply.response, reply.read
        if read is not None and reply.request_id in self._waiting:
            records = await self._reads.read(read.start_offset, read.max_bytes, read.end_offset)
            response = replace(response, records=records)
        self._waiting.resolve(reply.request_id, response)

    async def _reply_snapshot(self, reply: SnapshotReply) -> None:
        response, wanted = reply.response, reply.response.snapshot_id
        if reply.request_id not in self._waiting or wanted is None:
            return
        error: ApiError | None = None
        found: tuple[int, bytes] | None = None
        try:
            found = await self.blocking(self._log.read_snapshot, wanted, response.position, reply.max_bytes)
        except (OSError, CorruptMessageError) as failure:  # the leader goes on: its log is another file
            error = KafkaStorageError(f"snapshot {wanted} cannot be read: {failure}")
        size_bytes, data = found or (0, b"")
        if error is not None:
            _log.warning("node %d: %s", self._node_id, error)
        elif found is None:
            error = SnapshotNotFoundError(f"snapshot {wanted} is not kept here any more")
        elif not data:
            error = PositionOutOfRangeError(f"snapshot {wanted} has {size_bytes} bytes, none at {response.position}")
        if error is not None:
            response = replace(response, error_code=error.code, error_message=str(error))
        self._waiting.resolve(reply.request_id, replace(response, size_bytes=size_bytes, data=data))

    def __repr__(self) -> str:
        return f"Performer(node {self._node_id}, {self.flushes} flushes, {self.saves} saves)"


def _names_voters(append: LeaderAppend | FollowerAppend) -> bool:
    return has_voters(append.records) if isinstance(append, FollowerAppend) else any(map(has_voters, append.values))


async def _inline(call: Callable[..., T], *args: object) -> T:
    return call(*args)
