"""Flushes one log: which files are dirty, one flush of them, and how far the log is durable.

A flush has three steps. `FlushTracker.prepare`, on the event loop, captures the dirty files up to the log end.
`PendingFlush.run` blocks, in any thread; meanwhile appends go on and belong to the next flush. `FlushTracker.complete`,
on the loop, advances the recovery point. Every file is synced through a descriptor of its own, so that rolling,
truncating or closing the log cannot close it. Small files are written only while the directory's name belongs to this
log (`small_file_writes.py`).

The order in `run` is the promise: the epochs of records are durable BEFORE the records, and the names of new files
BEFORE the flush counts. A failed sync is never retried: the kernel may have dropped the pages (Rebello et al., "Can
Applications Recover from fsync Failures?", ATC'20). A lack of room or descriptors before or between the syncs is no
failure: it raises `FlushDeferredError`, and the whole flush is made again. `group_commit.py` decides when and where.
"""

from __future__ import annotations

import os
from dataclasses import field

from penstock.lazy_dataclass import dataclass
from storage.disk.atomic_file import write_atomically
from storage.disk.disk_errors import FlushDeferredError, is_shortage
from storage.disk.file_system import FileSystem
from storage.disk.partition_metadata import write_topic_id
from storage.log.log_probe import UNHEARD_LOG, LogProbe
from storage.log.producers.producer_snapshots import NotedSnapshot, ProducerSnapshots
from storage.log.segment_list import SegmentList
from storage.segment.epoch_cache import EpochCache, EpochSnapshot
from storage.segment.segment import Segment


@dataclass(frozen=True, slots=True)
class DirtyFile:
    """A .log to sync: which one, how long it was when the flush was prepared, and a descriptor."""

    base_offset: int
    size_bytes: int
    cuts: int
    fd: int


@dataclass(frozen=True, slots=True)
class PendingFlush:
    """The files that one flush makes durable. Invariant: after `run` all records below `end_offset` survive a power
    cut."""

    fs: FileSystem
    end_offset: int
    generation: int  # a truncation since `prepare` makes this flush count for nothing
    epoch_cache: EpochCache
    epochs: EpochSnapshot | None  # durable BEFORE the records of a new epoch
    full: tuple[Segment, ...]  # their indexes are final: durable BEFORE the recovery point passes them
    indexes: tuple[tuple[str, bytes], ...]
    files: tuple[DirtyFile, ...]
    directories: tuple[str, ...]  # synced AFTER every file is in place, BEFORE the flush counts
    directory_changes: int
    snapshots: ProducerSnapshots
    noted: tuple[NotedSnapshot, ...]  # written AFTER the records are durable, so that they are of the log
    new_topic_id: tuple[str, str] | None = None  # directory and id of a new log; durable BEFORE the flush counts
    _abandoned: list[bool] = field(default_factory=list)

    def run(self) -> None:
        """Block until everything is durable; OSError when the disk failed."""
        try:
            self._write_small_files()
            for file in self.files:
                self.fs.fdatasync(file.fd)
            self._write_snapshots()
            self._sync_directories()
        finally:
            self.abandon()

    def _sync_directories(self) -> None:
        """A shortage here means that there was no descriptor; the sync itself never reports one (`file_system.py`). The
        files synced before are durable, and the next flush syncs them once more."""
        try:
            for directory in self.directories:
                self.fs.fsync_dir(directory)
        except OSError as error:
            raise_deferred(error)
            raise

    def _write_snapshots(self) -> None:
        try:
            self.snapshots.write(self.noted)
        except OSError as error:  # of a clean stop; a flush leaves out what a shortage prevents
            raise_deferred(error)
            raise

    def _write_small_files(self) -> None:
        names = self.epoch_cache.names
        try:
            if self.epochs is not None:
                self.epoch_cache.persist(self.epochs)
            if self.new_topic_id is not None:
                with names.one:
                    write_topic_id(self.fs, *self.new_topic_id, names.step)
            for path, content in self.indexes:
                with names.one:
                    write_atomically(self.fs, path, content, sync_directory=False, step=names.step)
        except OSError as error:
            raise_deferred(error)
            raise

    def abandon(self) -> None:
        """Give the descriptors back. A flush that did not run makes nothing durable."""
        if not self._abandoned:
            self._abandoned.append(True)
            for file in self.files:
                self.fs.close(file.fd)


class FlushTracker:
    """Knows how far one log is durable. Invariant: every record below `recovery_point` is on stable storage."""

    __slots__ = (
        "_directory",
        "_directory_changes",
        "_directory_synced",
        "_epochs",
        "_fs",
        "_generation",
        "_new_in_parent",
        "_new_topic_id",
        "_probe",
        "_segments",
        "_snapshots",
        "_unsaved_indexes",
        "cut_is_unflushed",
        "flushes",
        "recovery_point",
    )

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        segments: SegmentList,
        epoch_cache: EpochCache,
        snapshots: ProducerSnapshots,
        recovery_point: int,
        probe: LogProbe = UNHEARD_LOG,
    ) -> None:
        self._fs, self._directory, self._probe = fs, directory, probe
        self._segments, self._epochs, self._snapshots = segments, epoch_cache, snapshots
        self.recovery_point = recovery_point
        self.flushes = 0
        self.cut_is_unflushed = False
        """A truncation was not synced for a shortage: a crash may bring the cut records back."""
        self._generation = 0
        self._directory_changes = 1 if segments.active.synced_bytes < 0 else 0
        self._directory_synced = 0
        self._new_in_parent = False
        self._new_topic_id = ""
        self._unsaved_indexes: list[Segment] = []

    def created(self, topic_id: str) -> None:
        """The log is new: neither its directory nor its topic id is durable."""
        self._directory_changes += 1
        self._new_in_parent, self._new_topic_id = True, topic_id

    def rolled(self, full: Segment) -> None:
        """`full` does not change any more; a new segment was created behind it."""
        self._directory_changes += 1
        self._unsaved_indexes.append(full)

    def truncating(self, offset: int) -> None:
        """Records from `offset` on are about to go; flushes in flight count for nothing."""
        self._generation += 1
        self.recovery_point = min(self.recovery_point, offset)

    def truncated(self) -> None:
        self.cut_is_unflushed = True
        self.append_taken_back()
        self._probe.cut(self._directory)

    def append_taken_back(self) -> None:
        """Files that a failed append created were removed; that must be durable before a flush counts."""
        self.segments_left()
        self._directory_changes += 1

    def segments_left(self) -> None:
        """Segments have left the log: their indexes need not be written any more."""
        full = self._full()
        self._unsaved_indexes = [s for s in self._unsaved_indexes if s in full]

    def _full(self) -> list[Segment]:
        return list(self._segments)[:-1]

    def prepare(self, end_offset: int, *, closing: bool = False) -> PendingFlush | None:
        """Captures the dirty files; None if nothing is dirty. With `closing`, the active segment's indexes as well."""
        dirty = self._dirty()
        snapshot = self._epochs.unpersisted()
        directories = self._dirty_directories()
        if not (dirty or snapshot or directories or closing or end_offset > self.recovery_point):
            return None
        full = tuple(self._unsaved_indexes)
        saved = [s for s in self._segments if s.indexes.dirty] if closing else full
        files = self._duplicates(dirty)
        return PendingFlush(
            fs=self._fs,
            end_offset=end_offset,
            generation=self._generation,
            epoch_cache=self._epochs,
            epochs=snapshot,
            full=full,
            indexes=tuple(content for segment in saved for content in segment.indexes.contents()),
            files=files,
            directories=directories or ((self._directory,) if closing else ()),
            directory_changes=self._directory_changes,
            snapshots=self._snapshots,
            noted=self._snapshots.noted(),
            new_topic_id=(self._directory, self._new_topic_id) if self._new_topic_id else None,
        )

    def _duplicates(self, dirty: list[Segment]) -> tuple[DirtyFile, ...]:
        """A descriptor for each file; if one is refused, those already taken are given back."""
        files: list[DirtyFile] = []
        try:
            files.extend(DirtyFile(s.base_offset, s.size_bytes, s.cuts, self._fs.dup(s.fd())) for s in dirty)
        except OSError as error:
            for file in files:
                self._fs.close(file.fd)
            raise_deferred(error)
            raise
        return tuple(files)

    def _dirty(self) -> list[Segment]:
        """Segments with bytes that are not durable, rolled ones included, oldest first.

        The search ends at the recovery point, not at the first clean segment. Today both find the same segments: opened
        segments are synced, and a flush includes every older segment.
        """
        found = []
        for segment in self._segments.newest_first():
            if segment.size_bytes > segment.synced_bytes:
                found.append(segment)
            elif segment.next_offset <= self.recovery_point:
                break
        return found[::-1]

    def _dirty_directories(self) -> tuple[str, ...]:
        if self._directory_changes == self._directory_synced:
            return ()
        return (self._directory, os.path.dirname(self._directory)) if self._new_in_parent else (self._directory,)

    def complete(self, pending: PendingFlush) -> None:
        """`pending.run` has returned: its files are durable. It counts unless the log was truncated meanwhile."""
        if pending.generation != self._generation:
            return
        self.cut_is_unflushed = False
        for file in pending.files:
            segment = self._segments.at_base(file.base_offset)
            if segment is not None and segment.cuts == file.cuts:
                segment.synced_bytes = max(segment.synced_bytes, file.size_bytes)
        for segment in pending.full:
            segment.indexes.dirty = False
        self._unsaved_indexes = [s for s in self._unsaved_indexes if s.indexes.dirty]
        if pending.directories:
            self._directory_synced = max(self._directory_synced, pending.directory_changes)
            self._new_in_parent = False
        if pending.new_topic_id is not None:
            self._new_topic_id = ""
        self.recovery_point = max(self.recovery_point, pending.end_offset)
        self.flushes += 1

    def sync_directories(self) -> None:
        """Makes the names of new files durable. Blocks. Needed before a second file is created while the name of the
        first is not durable."""
        if self._new_topic_id:
            with self._epochs.names.one:  # a flush may be writing it
                write_topic_id(self._fs, self._directory, self._new_topic_id)
            self._new_topic_id = ""
            self._directory_changes += 1
        for directory in self._dirty_directories():
            self._fs.fsync_dir(directory)
        self._directory_synced = self._directory_changes
        self._new_in_parent = False

    def __repr__(self) -> str:
        return f"FlushTracker({self._directory}, recovery point {self.recovery_point}, {self.flushes} flushes)"


def raise_deferred(error: OSError) -> None:
    """Raises for an error that is no failed sync: a shortage as FlushDeferredError (try again), any other as it is."""
    if is_shortage(error):
        raise FlushDeferredError(error.errno, error.strerror) from error
