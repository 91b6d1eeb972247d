"""Fakes for the quorum: a log and an election-state store that can lose what was not synced, and networks in memory.

`MemoryLog.crash()` gives what a disk would hold after a power cut. They implement raft's Protocols and know nothing of
the core.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from penstock import epochs
from penstock.errors import NetworkError
from penstock.record.batch import iter_headers, read_header, set_placement
from penstock.record.reader import read_columns
from penstock.types import EpochEntry
from raft.messages import Request, Response
from raft.quorum_state import ElectionState


class MemoryLog:
    """A RaftLog of whole batches in a list. Offsets are dense from 0; a crash takes what is beyond `flushed_offset`."""

    def __init__(self) -> None:
        self.log_start_offset = 0
        self.flushed_offset = 0
        self.epoch_entries: tuple[EpochEntry, ...] = ()
        self.batches: list[bytes] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._durable: list[bytes] | None = None  # before a cut that is not flushed yet
        self.fail_next_flush: OSError | None = None
        self.flushes = 0

    def __repr__(self) -> str:
        return f"MemoryLog(0..{self.log_end_offset}, flushed {self.flushed_offset}, {self.epoch_entries})"

    @property
    def log_end_offset(self) -> int:
        return self._ends[-1] if self._ends else 0

    def append_as_leader(self, batch: bytes, epoch: int) -> None:
        placed = bytearray(batch)
        set_placement(placed, 0, self.log_end_offset, epoch)
        self._add(bytes(placed))

    def append_as_follower(self, records: bytes) -> None:
        for at, header in iter_headers(records):
            if header.base_offset != self.log_end_offset:
                raise AssertionError(f"batch at {header.base_offset}, log ends at {self.log_end_offset}")
            self._add(records[at : at + header.size_bytes])

    def read(self, start_offset: int, max_bytes: int, max_offset: int | None = None) -> bytes:
        first = bisect_right(self._starts, start_offset) - 1
        taken: list[bytes] = []
        size = 0
        for index in range(max(first, 0), len(self.batches)):
            if self._ends[index] <= start_offset:
                continue
            if max_offset is not None and self._ends[index] > max_offset:
                break
            if taken and size + len(self.batches[index]) > max_bytes:
                break
            taken.append(self.batches[index])
            size += len(self.batches[index])
        return b"".join(taken)

    def truncate_to(self, offset: int) -> None:
        if self._durable is None and offset < self.flushed_offset:
            self._durable = [b for b, end in zip(self.batches, self._ends, strict=True) if end <= self.flushed_offset]
        while self._ends and self._ends[-1] > offset:
            if self._starts[-1] < offset:
                raise AssertionError(f"cut at {offset} inside the batch at {self._starts[-1]}")
            self._starts.pop()
            self._ends.pop()
            self.batches.pop()
        self.epoch_entries = epochs.truncate_from_end(self.epoch_entries, offset)
        self.flushed_offset = min(self.flushed_offset, offset)

    def flush(self) -> None:
        if self.fail_next_flush is not None:
            raise self.fail_next_flush
        self.flushes += 1
        self._durable = None
        self.flushed_offset = self.log_end_offset

    def crash(self, written_back: int = 0, cut_undone: bool = False) -> MemoryLog:
        """The log after a power cut: what was flushed, and of the rest only what the system had `written_back` by
        itself (so many batches). With `cut_undone` a truncation that was not flushed never happened."""
        survivor = MemoryLog()
        kept = self._durable if cut_undone else None
        if kept is None:
            count = sum(end <= self.flushed_offset for end in self._ends)
            kept = self.batches[: count + written_back]
        for batch in kept:
            survivor._add(batch)
        survivor.flush()
        return survivor

    def cut(self, count: int) -> MemoryLog:
        """A log of the first `count` batches only."""
        shorter = MemoryLog()
        for batch in self.batches[:count]:
            shorter._add(batch)
        shorter.flush()
        return shorter

    def batch_ends(self) -> list[int]:
        """The offset after each batch."""
        return self._ends

    def epoch_at(self, offset: int) -> int:
        return epochs.epoch_for_offset(self.epoch_entries, offset)

    def batch_at(self, offset: int) -> bytes:
        """The bytes of the batch that holds `offset`."""
        return self.batches[bisect_right(self._starts, offset) - 1]

    def _add(self, batch: bytes) -> None:
        header = read_header(batch)
        if not self.epoch_entries or header.leader_epoch > self.epoch_entries[-1].epoch:
            self.epoch_entries = epochs.assign(self.epoch_entries, header.leader_epoch, header.base_offset)
        self.batches.append(batch)
        self._starts.append(header.base_offset)
        self._ends.append(header.next_offset)


def values_of(records: bytes) -> list[bytes]:
    """The record values of whole batches."""
    return list(read_columns(records).values)


class MemoryStore:
    """A QuorumStateStore; `save` is durable at once, as the real one is when it returns."""

    def __init__(self, state: ElectionState | None = None) -> None:
        self.state = state
        self.saves: list[ElectionState] = []
        self.fail_next_save: OSError | None = None

    def load(self) -> ElectionState | None:
        return self.state

    def save(self, state: ElectionState) -> None:
        if self.fail_next_save is not None:
            raise self.fail_next_save
        self.state = state
        self.saves.append(state)


class InlineExecutor(Executor):
    """Runs what it is given at once, on the caller's thread: deterministic, and no thread to wait for."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


class MemoryNetwork:
    """Connects drivers in one event loop. Links can be cut; a cut fails what is sent and what is being answered."""

    def __init__(self, delay_ms: int = 1) -> None:
        self.handlers: dict[int, Callable[[Request], Any]] = {}
        self.cut: set[tuple[int, int]] = set()
        self.delay_ms = delay_ms
        self.sent: list[tuple[int, int, Request]] = []

    def transport(self, node_id: int) -> MemoryTransport:
        return MemoryTransport(self, node_id)

    def isolate(self, node_id: int, others: list[int]) -> None:
        for other in others:
            self.cut |= {(node_id, other), (other, node_id)}

    def heal(self) -> None:
        self.cut.clear()


class MemoryTransport:
    """One node's end of a MemoryNetwork."""

    def __init__(self, network: MemoryNetwork, node_id: int) -> None:
        self._network = network
        self._node_id = node_id

    async def send(self, node_id: int, request: Request, timeout_ms: int) -> Response:
        network = self._network
        network.sent.append((self._node_id, node_id, request))
        await asyncio.sleep(network.delay_ms / 1000)
        handler = network.handlers.get(node_id)
        if handler is None or (self._node_id, node_id) in network.cut:
            raise NetworkError(f"node {node_id} cannot be reached")
        response: Response = await handler(request)
        if (node_id, self._node_id) in network.cut:
            raise NetworkError(f"node {node_id} cannot be reached")
        return response
