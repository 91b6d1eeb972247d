"""Checks the indexes of aborted transactions of a log against its batches, as these are walked.

    open       a producer's first transactional batch since its last marker
    aborted    an abort marker behind an open one: the index of the marker's segment must have it, from the first
               batch or before it, but not from before the producer's last marker

A start believes a file if the newest snapshot of producers has its checksum, and reads the log otherwise. So a file
that it believes, and that does not fit the batches, is damage: it shows aborted records, or hides committed ones. A
file that does not fit its checksum costs only time, and is a warning. A file that no snapshot names is not looked at.
An entry of a transaction whose batches are all gone (the cleaner, retention) is harmless while its marker is there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import field

from penstock.errors import CorruptFileError
from penstock.lazy_dataclass import dataclass
from penstock.record.batch import BatchHeader
from penstock.record.markers import Marker
from storage.disk.file_names import TXN_INDEX_SUFFIX
from storage.disk.file_system import FileSystem
from storage.recovery.producer_recovery import found_snapshots
from storage.recovery.producer_snapshot import read_snapshot
from storage.segment.segment import Segment
from storage.segment.transaction_index import ENTRY_BYTES, AbortedRange, IndexedSegment, iter_entries
from storage.tools.verify.findings import Finding

NO_LIMIT = 2**63
COSTS_TIME = "costs only time: the next start reads these transactions from the log"
REMOVE = "remove the file and the log's *.snapshot files while the node is stopped: the next start makes them anew"


@dataclass(slots=True)
class TransactionWalk:
    """Given every transactional batch and every marker of a log in order."""

    _open: dict[int, int] = field(default_factory=dict)
    """Producer id to the first offset of its open transaction."""
    _ended_at: dict[int, int] = field(default_factory=dict)
    """Producer id to the offset of its last marker."""
    _aborted: dict[int, AbortedRange] = field(default_factory=dict)
    """The aborted transactions of the segment, by the offsets of their markers."""
    _bounds: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The abort markers of the segment: the producer, and the offset of its marker before."""

    def note(self, header: BatchHeader, marker: Marker | None) -> None:
        producer_id, offset = header.producer_id, header.base_offset
        if not header.is_control:
            self._open.setdefault(producer_id, offset)
        elif marker is not None:
            first = self._open.pop(producer_id, None)
            if not marker.is_committed:
                self._bounds[offset] = producer_id, self._ended_at.get(producer_id, -1)
                if first is not None:
                    self._aborted[offset] = AbortedRange(producer_id, first, offset)
            self._ended_at[producer_id] = offset

    def faults(self, entries: Iterable[AbortedRange], up_to: int = NO_LIMIT) -> Iterator[tuple[int, str]]:
        """The faults of the index of the segment that ends here, each with the number of its entry; nothing is said of
        markers behind `up_to`."""
        missing, count = {at: one for at, one in self._aborted.items() if at <= up_to}, 0
        for at, entry in enumerate(entries):
            bound = self._bounds.get(entry.last_offset)
            aborted = missing.pop(entry.last_offset, None)
            count = at + 1
            if bound is None or bound[0] != entry.producer_id:
                yield at, f"{entry}: no abort marker of this producer is at offset {entry.last_offset}"
            elif aborted is not None and entry.first_offset > aborted.first_offset:
                yield at, f"{entry}: a batch of the transaction is at offset {aborted.first_offset}"
            elif entry.first_offset <= bound[1]:
                yield at, f"{entry}: an earlier transaction of the producer ended at offset {bound[1]}"
        for one in missing.values():
            yield count, f"no entry for the aborted transaction {one}"

    def segment_ended(self) -> None:
        """The next batch is of the next segment."""
        self._aborted, self._bounds = {}, {}


class TransactionCheck:
    """The .txnindex files of one log that its newest snapshot names; given every good transactional batch in order."""

    __slots__ = ("_fs", "_named", "_walk")

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self._fs = fs
        self._named = {one.base_offset: one for one in _named(fs, directory)}
        self._walk = TransactionWalk()

    def note(self, header: BatchHeader, marker: Marker | None) -> None:
        self._walk.note(header, marker)

    def finish(self, segment: Segment, *, walked_to_end: bool) -> Iterator[Finding]:
        """The segment ends here. One finding at most."""
        named = self._named.get(segment.base_offset)
        if named is not None:
            path = segment.stem + TXN_INDEX_SUFFIX
            try:
                entries = named.of_file(self._fs.read_file(path))
            except FileNotFoundError:
                entries = None
            if entries is None:
                what = "it is missing, or not what the newest snapshot of producers says"
                yield Finding("warning", "index", path, what, COSTS_TIME)
            elif walked_to_end:
                yield from self._judge(path, [entry.aborted for entry in iter_entries(entries)])
        self._walk.segment_ended()

    def _judge(self, path: str, entries: list[AbortedRange]) -> Iterator[Finding]:
        """The entries that are told; there may be later ones in the batches behind the snapshot."""
        faults = list(self._walk.faults(entries, entries[-1].last_offset if entries else -1))
        if faults:
            at, why = faults[0]
            more = f" (and {len(faults) - 1} more faults)" if len(faults) > 1 else ""
            yield Finding("damage", "index", path, f"{why}{more}", REMOVE, position=at * ENTRY_BYTES)

    def __repr__(self) -> str:
        return f"TransactionCheck({self._walk!r})"


def _named(fs: FileSystem, directory: str) -> tuple[IndexedSegment, ...]:
    """The files that the newest readable snapshot names."""
    for offset in reversed(found_snapshots(fs.entries(directory))):
        with contextlib.suppress(CorruptFileError):
            snapshot = read_snapshot(fs, directory, offset)
            if snapshot is not None:
                return snapshot.indexes
    return ()
