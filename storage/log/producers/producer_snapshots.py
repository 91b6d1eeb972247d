"""The `.snapshot` files of one log: which there are, which are to be written, and which may go.

    roll              what the log knows below the new segment is noted on the loop; the next flush writes it, in its
                      thread, AFTER the records are durable. So the loop neither formats nor waits
    clean stop        the same of the log end; it must be written, or the stop does not count as clean
    truncation        the snapshots above the cut go, durably BEFORE the log is cut. What was noted before the cut is
                      never written after it (`_generation`), unless it is below the cut
    retention         a snapshot of what is left is durable BEFORE segments are removed; theirs go AFTER them

A snapshot that cannot be written for lack of room or descriptors is *owed*: until the next flush, or the next removal
of files, has written it, a start reads more headers. Segments make room meanwhile, or a full disk would stay full:
their files go first then, and a crash in this moment forgets the producers that wrote to those segments alone. At most
`NOTED_MAX` wait to be written, the newest. `producer_snapshot.py` has the format, `producer_log.py` says when.
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from penstock.errors import CorruptFileError
from storage.disk.atomic_file import write_atomically
from storage.disk.disk_errors import is_shortage
from storage.disk.file_system import FileSystem
from storage.disk.small_file_writes import SmallFileWrites
from storage.recovery.producer_recovery import remove_snapshots
from storage.recovery.producer_snapshot import ProducerSnapshot, read_snapshot, snapshot_content, snapshot_path
from storage.recovery.transaction_files import IndexFile, TransactionFiles
from storage.segment.segment import Segment

_log = logging.getLogger(__name__)

NOTED_MAX = 2
"""The most noted snapshots. Without flushes (flush.policy=os) they would pile up."""


class NotedSnapshot(NamedTuple):
    """A snapshot that is to be written; its values never change."""

    snapshot: ProducerSnapshot
    generation: int
    must_be_written: bool = False
    files: tuple[IndexFile, ...] = ()
    """Indexes of aborted transactions that it names, and that are not on the disk: written BEFORE it."""


class ProducerSnapshots:
    """The producer snapshots of one log. Noted on the loop, written and removed in any thread."""

    __slots__ = ("_files", "_fs", "_generation", "_left_out", "_names", "_noted", "_offsets", "_owed", "directory")

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        names: SmallFileWrites,
        offsets: Sequence[int],
        left_out: Callable[[], None],
        files: TransactionFiles,
    ) -> None:
        """`offsets`: of the files that are there, ascending; `left_out` counts a snapshot that was not written."""
        self._files = files
        self._fs, self.directory, self._names, self._left_out = fs, directory, names, left_out
        self._offsets = list(offsets)
        self._noted: dict[int, NotedSnapshot] = {}
        self._owed: dict[int, NotedSnapshot] = {}
        """Noted snapshots that found no room. A snapshot that is no longer noted counts for nothing."""
        self._generation = 0

    @property
    def offsets(self) -> tuple[int, ...]:
        """The offsets of the files that are there, ascending."""
        return tuple(self._offsets)

    def note(
        self, snapshot: ProducerSnapshot, segments: Iterable[Segment] = (), *, must_be_written: bool = False
    ) -> None:
        """The next flush writes it. `segments` are those of the log, for its aborted transactions."""
        indexes, files = self._files.needed(segments, snapshot.offset)
        self._noted.pop(snapshot.offset, None)
        snapshot = snapshot._replace(indexes=indexes)
        self._noted[snapshot.offset] = NotedSnapshot(snapshot, self._generation, must_be_written, files)
        while len(self._noted) > NOTED_MAX:
            self._noted.pop(min(self._noted), None)

    def forget_above(self, offset: int) -> None:
        """The append that noted them failed."""
        for noted in tuple(self._noted):  # a flush may be writing one in its thread
            if noted > offset:
                self._noted.pop(noted, None)

    def noted(self) -> tuple[NotedSnapshot, ...]:
        """The snapshots that are to be written, oldest first."""
        return tuple(self._noted.values())

    def covers(self, first_offset: int, bound: int) -> bool:
        """True if a snapshot that is there, or noted, is in `first_offset..bound`."""
        return any(first_offset <= offset <= bound for offset in (*self._offsets, *self._noted))

    def write(self, noted: Sequence[NotedSnapshot]) -> None:
        """Writes the noted snapshots. Blocks. OSError if the disk failed, or if one that must be written cannot be."""
        for one in noted:
            offset = one.snapshot.offset
            try:
                content = snapshot_content(one.snapshot)
                with self._names.one:
                    if one.generation == self._generation:
                        for file in one.files:
                            write_atomically(
                                self._fs, file.path, file.content, sync_directory=False, step=self._names.step
                            )
                            self._files.written(file.of)
                        path = snapshot_path(self.directory, offset)
                        write_atomically(self._fs, path, content, sync_directory=False, step=self._names.step)
                        if offset not in self._offsets:
                            bisect.insort(self._offsets, offset)
            except OSError as error:
                if one.must_be_written or not is_shortage(error):
                    raise
                if self._owed.get(offset) is not one:
                    _log.warning("%s: no snapshot of the producers at %d is written: %s", self.directory, offset, error)
                    self._left_out()
                    self._owed = {noted.snapshot.offset: noted for noted in (*self._still_owed(), one)}
                continue
            self._owed.pop(offset, None)
            if self._noted.get(offset) is one:
                self._noted.pop(offset, None)

    def write_owed(self) -> None:
        """Files were unlinked, so there may be room by now. Durable when it returns. Blocks, in any thread."""
        owed = self._still_owed()
        if owed:
            self.write(owed)
            self._fs.fsync_dir(self.directory)

    def _still_owed(self) -> list[NotedSnapshot]:
        return [one for offset, one in tuple(self._owed.items()) if self._noted.get(offset) is one]

    def cutting(self, offset: int) -> None:
        """The log is about to be cut there: those above go, durably, and none of them is written any more. Blocks."""
        with self._names.one:
            self._generation += 1
            below = [noted for noted in self._noted.values() if noted.snapshot.offset <= offset]
            self._noted = {noted.snapshot.offset: noted._replace(generation=self._generation) for noted in below}
            above = [found for found in self._offsets if found > offset]
            remove_snapshots(self._fs, self.directory, above)
            del self._offsets[len(self._offsets) - len(above) :]

    def removed(self, offsets: Collection[int]) -> None:
        """Forgets snapshots that were found bad, and are removed."""
        with self._names.one:
            self._offsets[:] = [found for found in self._offsets if found not in offsets]

    def remove_open(self, below: int) -> None:
        """The segments below the offset are about to be cleaned. Snapshots in them that have an open transaction go,
        durably: the cleaner may take the marker out that ended it, and it would be open for ever. Blocks, in any
        thread."""
        with self._names.one:
            for offset, noted in tuple(self._noted.items()):
                if offset < below and _has_open(noted.snapshot):
                    self._noted.pop(offset, None)
            gone = [found for found in self._offsets if found < below and self._is_open_at(found)]
            with self._names.step() as may_be_named:
                if may_be_named and gone:
                    remove_snapshots(self._fs, self.directory, gone)
                    self._offsets[:] = [found for found in self._offsets if found not in gone]

    def _is_open_at(self, offset: int) -> bool:
        try:
            snapshot = read_snapshot(self._fs, self.directory, offset)
        except CorruptFileError:
            return True  # nobody would use it
        return snapshot is not None and _has_open(snapshot)

    def remove_unneeded(self, bases: Collection[int], first_offset: int, flushed_offset: int) -> None:
        """Keeps the newest one that a start can surely begin from, those behind it, and those at the beginning of a
        segment for a truncation. Blocks, in any thread."""
        with self._names.one:
            usable = [found for found in self._offsets if first_offset <= found <= flushed_offset]
            if not usable:
                return
            kept = [
                found for found in self._offsets if found >= usable[-1] or (found >= first_offset and found in bases)
            ]
            gone = sorted(set(self._offsets).difference(kept))
            with self._names.step() as may_be_named:
                if may_be_named and gone:
                    self._fs.fsync_dir(self.directory)  # those that are kept must be durable BEFORE
                    remove_snapshots(self._fs, self.directory, gone)
                    self._offsets[:] = kept

    def __repr__(self) -> str:
        return f"ProducerSnapshots({self.directory}, {self._offsets}, {len(self._noted)} to be written)"


def _has_open(snapshot: ProducerSnapshot) -> bool:
    return any(known.has_open_transaction for known in snapshot.producers.values())
