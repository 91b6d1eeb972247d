"""Fakes for the quorum: a log and an election-state store that can lose what was not synced, and networks in memory.

`MemoryLog.crash()` gives what a disk would hold after a power cut. They implement raft's Protocols and know nothing of
the core.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from penstock import epochs
from penstock.errors import NetworkError
from penstock.record.batch import iter_headers, read_header, set_placement
from penstock.record.reader import read_columns
from penstock.types import EpochEndOffset, EpochEntry
from raft.decided_log import BEGINNING
from raft.driver.protocols import LoadedSnapshot
from raft.messages import Request, Response
from raft.quorum_state import ElectionState
from raft.voter_records import voters_in, voters_of_value
from raft.voters import VoterSet


class MemoryLog:
    """A RaftLog of whole batches in a list, with snapshots. Offsets are dense; a crash takes what is beyond
    `flushed_offset`. The contents of a snapshot are the values of all records below its end."""

    def __init__(self) -> None:
        self.log_start_offset = 0
        self.flushed_offset = 0
        self.epoch_entries: tuple[EpochEntry, ...] = ()
        self.batches: list[bytes] = []
        self.snapshots: dict[EpochEndOffset, bytes] = {}
        self.loaded: LoadedSnapshot | None = None
        self.part = b""  # of a snapshot that another node sends
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._durable: list[bytes] | None = None  # before a cut that is not flushed yet
        self.fail_next_flush: OSError | None = None
        self.flushes = 0

    def __repr__(self) -> str:
        where = f"{self.log_start_offset}..{self.log_end_offset}, flushed {self.flushed_offset}"
        return f"MemoryLog({where}, {self.epoch_entries})"

    @property
    def log_end_offset(self) -> int:
        return self._ends[-1] if self._ends else self.log_start_offset

    @property
    def snapshot_ids(self) -> tuple[EpochEndOffset, ...]:
        kept = sorted(self.snapshots, key=lambda one: one.end_offset)
        return tuple(kept) if self.log_start_offset else (BEGINNING, *kept)

    @property
    def voter_sets(self) -> list[tuple[int, VoterSet]]:
        """As the values say them: those of a snapshot are all values below its end."""
        oldest, sets = self.snapshot_ids[0], list[tuple[int, VoterSet]]()
        for value in (snapshot_values(self.snapshots[oldest]) or ()) if oldest != BEGINNING else ():
            if value.startswith(b'{"type":"Voters"'):
                sets = [(-1, voters_of_value(value))]
        return [*sets, *voters_in(self.read(self.log_start_offset, 1 << 40))]

    def note_voters(self) -> None:
        """Nobody opens it with an older release."""

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

    def read_nowait(self, start_offset: int, max_bytes: int, max_offset: int) -> bytes | None:
        return self.read(start_offset, max_bytes, max_offset)

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

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def all_values(self) -> tuple[bytes, ...]:
        """The values of all records that ever were, as far as this log knows."""
        oldest = self.snapshot_ids[0]
        before = () if oldest == BEGINNING else snapshot_values(self.snapshots[oldest])
        before, start = before or (), oldest.end_offset
        return (*before, *values_of(self.read(start, 1 << 40))) if start < self.log_end_offset else before

    def take_snapshot(self, end_offset: int) -> EpochEndOffset:
        """One of its own, of all records below; durable at once."""
        snapshot_id = EpochEndOffset(self.epoch_at(end_offset - 1), end_offset)
        self.snapshots[snapshot_id] = snapshot_bytes(self.all_values()[:end_offset])
        return snapshot_id

    def drop_snapshots_but(self, kept: Collection[EpochEndOffset]) -> None:
        self.snapshots = {snapshot_id: data for snapshot_id, data in self.snapshots.items() if snapshot_id in kept}

    def read_snapshot(self, snapshot_id: EpochEndOffset, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        data = self.snapshots.get(snapshot_id)
        return None if data is None else (len(data), data[position : position + max_bytes])

    def write_snapshot(self, snapshot_id: EpochEndOffset, position: int, data: bytes) -> None:
        assert position <= len(self.part), "bytes are missing"
        self.part = self.part[:position] + data

    def install_snapshot(self, snapshot_id: EpochEndOffset) -> LoadedSnapshot | None:
        """Both at once."""
        snapshot = self.complete_snapshot(snapshot_id)
        if snapshot is not None:
            self.begin_after(snapshot)
        return snapshot

    def complete_snapshot(self, snapshot_id: EpochEndOffset) -> LoadedSnapshot | None:
        data, self.part = self.part, b""
        values = snapshot_values(data)
        if values is None or len(values) != snapshot_id.end_offset:
            return None
        self.snapshots[snapshot_id] = data
        return LoadedSnapshot(snapshot_id, values)

    def begin_after(self, snapshot: LoadedSnapshot) -> None:
        snapshot_id = snapshot.snapshot_id
        self.batches, self._starts, self._ends, self._durable = [], [], [], None
        self.log_start_offset = self.flushed_offset = snapshot_id.end_offset
        self.epoch_entries, self.snapshots = (), {snapshot_id: self.snapshots[snapshot_id]}
        self.loaded = snapshot

    def ask_disk(self) -> None:
        """It answers."""

    def remove_files(self) -> None:
        """There are none."""

    def cut_prefix(self, offset: int) -> None:
        assert offset <= self.snapshot_ids[-1].end_offset, "no snapshot has what is cut"
        count = sum(end <= offset for end in self._ends)
        del self.batches[:count], self._starts[:count], self._ends[:count]
        self.epoch_entries = epochs.truncate_from_start(self.epoch_entries, offset)
        self.log_start_offset = offset

    def crash(self, written_back: int = 0, cut_undone: bool = False) -> MemoryLog:
        """The log after a power cut: what was flushed, and of the rest only what the system had `written_back` by
        itself (so many batches). With `cut_undone` a truncation that was not flushed never happened. A log that does
        not reach its newest snapshot begins anew there."""
        survivor = self._of_same_snapshots()
        kept = self._durable if cut_undone else None
        if kept is None:
            count = sum(end <= self.flushed_offset for end in self._ends)
            kept = self.batches[: count + written_back]
        return survivor._with(kept)

    def cut(self, count: int) -> MemoryLog:
        """A log of the first `count` batches only."""
        return self._of_same_snapshots()._with(self.batches[:count])

    def _of_same_snapshots(self) -> MemoryLog:
        other = MemoryLog()
        other.snapshots, other.log_start_offset = dict(self.snapshots), self.log_start_offset
        if self.snapshots:
            newest = self.snapshot_ids[-1]
            other.loaded = LoadedSnapshot(newest, snapshot_values(self.snapshots[newest]))
        return other

    def _with(self, batches: Sequence[bytes]) -> MemoryLog:
        """Durable. As a start finds it."""
        for batch in batches:
            self._add(batch)
        newest = self.snapshot_ids[-1]
        differs = self.log_start_offset < newest.end_offset and self.epoch_at(newest.end_offset - 1) != newest.epoch
        if self.log_end_offset < newest.end_offset or differs:
            self.batches, self._starts, self._ends, self.epoch_entries = [], [], [], ()
            self.log_start_offset, self.snapshots = newest.end_offset, {newest: self.snapshots[newest]}
        if self.log_start_offset < self.snapshot_ids[0].end_offset:  # the crash fell between dropping one and the cut
            self.cut_prefix(self.snapshot_ids[0].end_offset)
        self.flush()
        return self

    def batches_from(self, offset: int) -> list[bytes]:
        return self.batches[bisect_left(self._starts, offset) :]

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


def snapshot_bytes(values: Sequence[bytes]) -> bytes:
    """With a checksum."""
    text = json.dumps([value.hex() for value in values]).encode()
    return b"%08x" % zlib.crc32(text) + text


def snapshot_values(data: bytes) -> tuple[bytes, ...] | None:
    """None if they are damaged."""
    if data[:8] != b"%08x" % zlib.crc32(data[8:]):
        return None
    return tuple(bytes.fromhex(value) for value in json.loads(data[8:]))


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
