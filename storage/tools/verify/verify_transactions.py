"""Checks the indexes of aborted transactions of a log against its batches, as these are walked.

    open       a producer's first transactional batch since its last marker
    aborted    an abort marker behind an open one: the index of the marker's segment must have it, from the first
               batch or before it, but not from before the producer's last marker

An entry is what tells readers of committed records to leave a batch out. A file is believed only if the newest snapshot
of producers has its checksum, and is made anew from the log otherwise. So a wrong file that has no checksum there costs
only time, and is a warning; one that a start would believe is damage, because it shows aborted records or hides
committed ones. An entry of a transaction whose batches are all gone (the cleaner, retention) is harmless while its
marker is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from penstock.record.batch import BatchHeader
from penstock.record.markers import Marker
from storage.disk.file_names import TXN_INDEX_SUFFIX
from storage.disk.file_system import FileSystem
from storage.segment import transaction_index
from storage.segment.segment import Segment
from storage.segment.transaction_index import AbortedRange
from storage.tools.verify.findings import Finding

COSTS_TIME = "costs only time: made anew from the log by the next start"
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

    def faults(self, entries: Iterable[AbortedRange]) -> Iterator[tuple[int, str]]:
        """The faults of the index of the segment that ends here, each with the number of its entry."""
        missing, count = dict(self._aborted), 0
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
    """The .txnindex files of one log; given every good transactional batch in order."""

    __slots__ = ("_fs", "_walk")

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._walk = TransactionWalk()

    def note(self, header: BatchHeader, marker: Marker | None) -> None:
        self._walk.note(header, marker)

    def finish(self, segment: Segment, *, walked_to_end: bool, must_exist: bool) -> Iterator[Finding]:
        """The segment ends here. One finding at most."""
        path = segment.stem + TXN_INDEX_SUFFIX
        if walked_to_end:
            yield from self._finding(path, must_exist=must_exist)
        self._walk.segment_ended()

    def _finding(self, path: str, *, must_exist: bool) -> Iterator[Finding]:
        try:
            content = self._fs.read_file(path)
        except FileNotFoundError:
            if must_exist and next(self._walk.faults(()), None) is not None:
                yield Finding("warning", "index-missing", path, "there is no such file", COSTS_TIME)
            return
        left = len(content) % transaction_index.ENTRY_BYTES
        if left:
            what = f"{len(content)} bytes are no multiple of {transaction_index.ENTRY_BYTES}"
            yield Finding("warning", "index", path, what, COSTS_TIME, position=len(content) - left)
            return
        faults = list(self._walk.faults(entry.aborted for entry in transaction_index.iter_entries(content)))
        if faults:
            at, why = faults[0]
            more = f" (and {len(faults) - 1} more faults)" if len(faults) > 1 else ""
            position = at * transaction_index.ENTRY_BYTES
            yield Finding("warning", "index", path, f"{why}{more}", COSTS_TIME, position=position)

    def __repr__(self) -> str:
        return f"TransactionCheck({self._walk!r})"
