"""Checks the snapshots of a log's producers against its batches, as these are walked.

A damaged snapshot, one above the log end, or one of another history costs only time: a start does not use it, and
removes it. So these are warnings. A snapshot that a start would use, and that contradicts the batches, is damage: it
would answer a producer wrongly. Compared are only batches that are still there, because a cleaned log may have lost
those that no producer can send again. A transaction that is open in the batches must be open in the snapshot, from its
first batch or before it: readers of committed records wait for it. A producer that the snapshot does not know was
silent for too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from penstock.errors import CorruptFileError
from penstock.record.batch import BatchHeader
from penstock.types import EpochEntry
from storage.append.producer_state import KnownProducers, ProducerEntry
from storage.disk.file_system import FileSystem
from storage.recovery.producer_recovery import ProducerReplay, found_snapshots
from storage.recovery.producer_snapshot import ProducerSnapshot, read_snapshot, snapshot_path
from storage.tools.verify.findings import Finding

COSTS_TIME = "costs only time: the next start removes it, and reads an older one or the log"
REMOVE = "remove the file while the node is stopped: the next start reads an older one or the log"
PRODUCERS_MAX = 100_000
"""Limit for the producers that are compared: in a log that many wrote to, the newest."""


class ProducerCheck:
    """The snapshots of one log; given every good batch in order."""

    __slots__ = ("_directory", "_first", "_fs", "_known", "_left", "_replay", "_seen")

    def __init__(self, fs: FileSystem, directory: str, first_offset: int) -> None:
        self._fs, self._directory, self._first = fs, directory, first_offset
        self._left = list(found_snapshots(fs.entries(directory)))
        self._seen: list[tuple[int, int]] = []
        """Offset and leader epoch of the good snapshots so far."""
        self._known = KnownProducers()
        self._replay = ProducerReplay(0, PRODUCERS_MAX)

    def note(self, header: BatchHeader, batch: Callable[[], bytes]) -> Iterator[Finding]:
        """A good batch; finds what is wrong with the snapshots below it. `batch` reads the bytes of a marker."""
        while self._left and self._left[0] <= header.base_offset:
            yield from self._compare(self._left.pop(0))
        if header.producer_id >= 0:
            self._replay.take(self._known, header, 0, batch)

    def finish(self, log_end_offset: int, entries: Sequence[EpochEntry]) -> Iterator[Finding]:
        """Ends the check, after the last batch: compares the snapshots left, and looks where each good one belongs."""
        for offset in self._left:
            yield from self._compare(offset)
        for offset, leader_epoch in self._seen:
            if offset > log_end_offset:
                yield self._finding("warning", offset, f"it is of offset {offset}, the log ends at {log_end_offset}")
            elif not ProducerSnapshot(offset, leader_epoch, {}).is_of(
                min(self._first, offset), log_end_offset, entries
            ):
                why = f"the record before offset {offset} does not have leader epoch {leader_epoch} here"
                yield self._finding("warning", offset, why)

    def _compare(self, offset: int) -> Iterator[Finding]:
        try:
            snapshot = read_snapshot(self._fs, self._directory, offset)
        except CorruptFileError as damage:
            yield Finding("warning", "snapshot", damage.path, damage.why, COSTS_TIME, position=damage.position)
            return
        if snapshot is None:
            return
        self._seen.append((offset, snapshot.leader_epoch))
        for producer_id, first in self._known.undecided.open_offsets():
            saved = snapshot.producers.get(producer_id)
            if saved is None or _opens_behind(saved, first):
                why = (
                    f"producer id {producer_id}: its transaction is open from offset {first} on, and it does not say so"
                )
                yield self._finding("damage", offset, why)
        for producer_id, saved in snapshot.producers.items():
            known = self._known.get(producer_id)
            if not saved.batches:
                continue
            begin = saved.batches[0].base_offset
            here = [batch for batch in known.batches if begin <= batch.base_offset] if known is not None else []
            if known is not None and here and (known.epoch != saved.epoch or not set(here) <= set(saved.batches)):
                why = f"producer id {producer_id}: it does not have the batches that begin at offset {begin} or behind"
                yield self._finding("damage", offset, why)

    def _finding(self, severity: str, offset: int, what: str) -> Finding:
        path = snapshot_path(self._directory, offset)
        if severity == "damage":
            return Finding("damage", "snapshot", path, what, REMOVE)
        return Finding("warning", "snapshot", path, what, COSTS_TIME)

    def __repr__(self) -> str:
        return f"ProducerCheck({self._directory}, {len(self._left)} snapshots left)"


def _opens_behind(saved: ProducerEntry, first_offset: int) -> bool:
    """True if the producer has no open transaction there, or one that begins behind the offset."""
    return not saved.has_open_transaction or saved.transaction is None or saved.transaction.first_offset > first_offset
