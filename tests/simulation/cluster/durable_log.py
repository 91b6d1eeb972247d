"""The part of a log that is on a simulated disk, as a power cut would leave it, and the part that has been committed.

A `DurableLog` reads a replica's directory from the durable bytes of its files, and again only what has changed since. A
`Committed` is the history that leaders have called committed: a list of batches that never changes. Both go by bytes
and know nothing of brokers. Not here: which replica must hold what (partition_invariants.py, quorum_invariants.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import NamedTuple, Protocol

from crc32c import crc32c

from penstock.record.batch import ATTRIBUTES_AT, HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MAGIC, MIN_BATCH_LENGTH
from penstock.record.reader import read_columns
from storage.recovery.doubtful_tail import is_torn_append
from tests.simulation.cluster.sequences import Sequences
from tests.simulation.cluster.stable_offsets import CommittedTransactions, Decisions
from tests.support.losing_fs import Directory, File, LosingFileSystem

_HEAD = Struct(">qiibIhi")
LOG_SUFFIX = ".log"
DECODED_MAX = 8
"""A log has some readers, each at a place of its own."""


class Violated(AssertionError):
    """An invariant does not hold; the text begins with its name."""


class Batch(NamedTuple):
    """One batch of a log."""

    base_offset: int
    next_offset: int
    epoch: int
    raw: bytes


class HasDisk(Protocol):
    """A machine."""

    disk: LosingFileSystem
    name: str


def parse(content: bytes, at: int, next_offset: int | None) -> tuple[list[Batch], int]:
    """The whole and undamaged batches from a position on that continue a log at an offset, and where they end."""
    found: list[Batch] = []
    end = len(content)
    while end - at >= HEADER_BYTES:
        base, length, epoch, magic, crc, _, delta = _HEAD.unpack_from(content, at)
        after = at + LENGTH_OVERHEAD_BYTES + length
        if magic != MAGIC or length < MIN_BATCH_LENGTH or delta < 0 or after > end:
            break
        raw = content[at:after]
        if next_offset not in (None, base) or crc32c(raw[ATTRIBUTES_AT:]) != crc:
            break
        found.append(Batch(base, base + delta + 1, epoch, raw))
        next_offset, at = base + delta + 1, after
    return found, at


@lru_cache(maxsize=1024)
def parts_of(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))


def durable_entries(disk: LosingFileSystem, parts: tuple[str, ...]) -> dict[str, File | Directory] | None:
    """The entries of a directory after a power cut; None where there is none."""
    node = disk.root
    for part in parts:
        child = node.durable.get(part)
        if not isinstance(child, Directory):
            return None
        node = child
    return node.durable


@dataclass(slots=True)
class _Segment:
    name: str
    content: bytes
    parsed: int
    first: int
    """The place of its first batch in the log."""


class DurableLog:
    """One replica's log on its machine's disk. Batches behind a gap or a damage do not count."""

    def __init__(self, machine: HasDisk, directory: str, where: Callable[[], str] | None = None) -> None:
        """`where`: the directory in which it is now; None: it is always the same."""
        self._machine, self.directory, self._where = machine, directory, where
        self._parts = parts_of(directory)
        self._entries: dict[str, File | Directory] | None = None
        self._names: list[str] = []
        self._segments: list[_Segment] = []
        self.batches: list[Batch] = []
        self.compared = 0
        """So many of the batches are known to be those of the committed history."""
        self.matched = 0
        """So many have been compared with all other logs (log matching)."""
        self.covered = 0
        """A snapshot has everything below this offset (durable_metadata.py)."""
        self.is_superseded = False
        """The snapshot does not fit the batches: a start begins the log anew behind it."""

    @property
    def start(self) -> int:
        return self.batches[0].base_offset if self.batches else 0

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    @property
    def begins_at(self) -> int:
        """Where a log without a batch begins; 0 where there is no segment."""
        return int(self._names[-1].removesuffix(LOG_SUFFIX)) if self._names else 0

    def refresh(self) -> None:
        """Reads what has changed on the disk."""
        directory = self._where() if self._where is not None else self.directory
        if directory != self.directory:
            self.directory, self._parts = directory, parts_of(directory)
        entries = durable_entries(self._machine.disk, self._parts)
        if entries is not self._entries:
            self._entries = entries
            self._names = sorted(name for name in entries or () if name.endswith(LOG_SUFFIX))
        if entries is None:
            self._drop(0)
            return
        segments = self._segments
        for place, name in enumerate(self._names):
            file = entries[name]
            content = file.durable if isinstance(file, File) else b""
            if place >= len(segments) or segments[place].content is not content:
                self._read(place, name, content)
        if len(segments) > len(self._names):
            self._drop(len(self._names))

    def _read(self, place: int, name: str, content: bytes) -> None:
        known = self._segments[place] if place < len(self._segments) else None
        if known is not None and known.name == name and content.startswith(known.content):
            is_last = place == len(self._segments) - 1
            grown = len(content) > len(known.content)
            known.content = content
            if not grown:
                return
            if not is_last:
                self._drop(place + 1)
        else:
            self._drop(place)
            known = _Segment(name, content, 0, len(self.batches))
            self._segments.append(known)
        found, known.parsed = parse(content, known.parsed, self.batches[-1].next_offset if self.batches else None)
        self.batches += found

    def _drop(self, place: int) -> None:
        """Forgets the segments from a place on."""
        if place < len(self._segments):
            first = self._segments[place].first
            del self._segments[place:], self.batches[first:]
            self.compared, self.matched = min(self.compared, first), min(self.matched, first)

    def paths(self) -> list[str]:
        return [f"{self.directory}/{name}" for name in self._names]

    def doubtful_tail(self) -> tuple[str, int] | None:
        """The file and the place from which on a start finds what it must take for a loss: a tail that is more than the
        beginning of one append. None: there is none."""
        for place, segment in enumerate(self._segments):
            tail = segment.content[segment.parsed :]
            if tail:
                is_last = not any(later.content for later in self._segments[place + 1 :])
                expected = self.end if self.batches else int(segment.name.removesuffix(LOG_SUFFIX))
                return (
                    None
                    if is_last and is_torn_append(tail, expected)
                    else (f"{self.directory}/{segment.name}", segment.parsed)
                )
        return None

    def at(self, offset: int) -> Batch | None:
        """The batch that holds an offset."""
        place = bisect_right(self.batches, offset, key=_base_of) - 1
        return self.batches[place] if place >= 0 and offset < self.batches[place].next_offset else None

    def __repr__(self) -> str:
        return f"DurableLog({self._machine.name}, {self.directory}, {self.start}..{self.end})"


def _base_of(batch: Batch) -> int:
    return batch.base_offset


class Committed:
    """The committed history of one log. `start`: what is below may have been deleted."""

    def __init__(self, name: str, decisions: Decisions | None = None) -> None:
        self.name = name
        self.transactions = CommittedTransactions(name, decisions)
        self.batches: list[Batch] = []
        self._places: dict[int, int] = {}
        self.sequences = Sequences()
        self.numbered_end = 0
        """Everything below this offset has been checked for I20."""
        self.end = self.start = 0
        self._decoded: dict[int, list[bytes | None]] = {}
        """The values of the batches that were asked for last, by base offset."""
        self.is_void = False
        """Records of it may be lost or change, by configuration: `end` counts, and nothing else."""
        self.deleted = 0
        """A client was told that everything below this offset is deleted, for good."""
        self.is_numbered = True
        """No record of it was ever allowed to be lost: `sequences` has every batch below `numbered_end`."""

    def extend(self, log: DurableLog, to_offset: int) -> int:
        """Takes what a log has from the end on; returns how far it came. I20 holds for each batch."""
        place = bisect_right(log.batches, self.end, key=_base_of) - 1
        for batch in log.batches[max(place, 0) :]:
            if batch.base_offset == self.end and batch.next_offset <= to_offset:
                self._number(batch)
                self._places[batch.base_offset] = len(self.batches)
                self.batches.append(batch)
                self.end = batch.next_offset
        return self.end

    def number(self, log: DurableLog, to_offset: int) -> None:
        """I20 of a log whose records may change, as they are committed."""
        place = bisect_right(log.batches, self.numbered_end, key=_base_of) - 1
        for batch in log.batches[max(place, 0) :]:
            if batch.base_offset == self.numbered_end and batch.next_offset <= to_offset:
                self._number(batch)

    def _number(self, batch: Batch) -> None:
        self.numbered_end = batch.next_offset
        fault = self.sequences.fault(batch.raw)
        if fault is not None:
            raise Violated(f"I20: {self.name}: at offset {batch.base_offset} is committed {fault}")
        self.transactions.take(batch.raw)

    def at(self, offset: int) -> Batch | None:
        place = bisect_right(self.batches, offset, key=_base_of) - 1
        return self.batches[place] if place >= 0 and offset < self.batches[place].next_offset else None

    def other_value(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> int | None:
        """The first of these offsets, below the end, that has another value than this; None: there is none."""
        base_offset, held, place = 0, list[bytes | None](), 0
        if len(offsets) != len(values):
            raise ValueError(f"{len(offsets)} offsets and {len(values)} values")
        while place < len(offsets):
            offset = offsets[place]
            if not 0 <= offset - base_offset < len(held):
                batch = self.at(offset)
                if batch is None:
                    return offset
                base_offset, held = batch.base_offset, self._values(batch)
            at, count = offset - base_offset, min(len(offsets) - place, base_offset + len(held) - offset)
            end = place + count
            follow_each_other = count > 1 and list(offsets[place:end]) == list(range(offset, offset + count))
            if follow_each_other and list(values[place:end]) == held[at : at + count]:
                place = end  # all of a batch at once
            elif held[at] != values[place]:
                return offset
            else:
                place += 1
        return None

    def _values(self, batch: Batch) -> list[bytes | None]:
        found = self._decoded.get(batch.base_offset)
        if found is None:
            if len(self._decoded) >= DECODED_MAX:
                del self._decoded[next(iter(self._decoded))]
            decoded = read_columns(batch.raw).values
            found = self._decoded[batch.base_offset] = [None if each is None else bytes(each) for each in decoded]
        return found

    def difference(self, log: DurableLog, below: int) -> int | None:
        """The first offset at which a log has another record than the history, below an offset; None: there is none."""
        if log.is_superseded:
            return None
        batches, count, limit = log.batches, len(log.batches), min(below, self.end)
        while log.compared < count and batches[log.compared].next_offset <= limit:
            batch = batches[log.compared]
            place = self._places.get(batch.base_offset)
            if place is None or self.batches[place] != batch:
                return batch.base_offset
            log.compared += 1
        return None

    def missing(self, log: DurableLog) -> int | None:
        """The first offset of the history that is not in a log; None: it has all, and the same."""
        different = self.difference(log, self.end)
        if different is not None:
            return different
        have = log.covered if log.is_superseded else max(batches_end(log, log.compared), log.covered)
        if have < self.end and have <= self.start < self.end:
            return self.start
        if have < self.end:
            return have
        return self.start if log.start > max(self.start, log.covered) and self.end > self.start else None

    def __repr__(self) -> str:
        return f"Committed({self.name}, {self.start}..{self.end})"


def batches_end(log: DurableLog, count: int) -> int:
    """Where the first so many batches end."""
    return log.batches[count - 1].next_offset if count else 0
