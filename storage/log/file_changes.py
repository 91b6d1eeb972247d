"""Removals and swaps of one log's files: decided on the event loop, carried out in any thread.

The log's memory changes at once; its directory changes when `run` is called. A crash in between brings the old files
back. That is harmless: retention or the cleaner takes the same records out again. Changes are carried out in order,
once each, and each is durable before the next, because no crash may leave a hole between two segments, or half a swap:

  remove     oldest first: NNN.log -> NNN.log.deleted, fsync of the directory, then the next one. A disk that has no
             room for the longer name loses the file at once
  replace    the new records stand in NNN.log.cleaned, synced.
             1  NNN.log.cleaned -> NNN.log.swap   the marker: from here a crash ends with the new segment, before with
                                                  the old ones
             2  the other old segments -> .deleted; the old indexes go
             3  NNN.log.swap -> NNN.log
             4  new indexes

After a crash behind step 1 the next start finishes the swap (`segment_files.py`); for that, every step is durable
before the next. On a full disk the change stays at the head of the queue and is run again; any other error is final for
the log dir. Removed files stay as `.deleted` for `file.delete.delay.ms`; a start removes them. Retention and the
cleaner decide which segments go. Truncation is in `segment_list.py`, because it must be durable at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from penstock.threads import Lock
from storage.disk.atomic_file import write_atomically
from storage.disk.disk_errors import is_disk_full
from storage.disk.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
)
from storage.disk.file_system import FileSystem
from storage.segment.batch_scan import LogFile, scan_headers
from storage.segment.segment import Segment
from storage.segment.segment_indexes import SegmentIndexes

Step = Callable[[], None]


class FileChanges:
    """Changes are added in one thread and run in any."""

    __slots__ = ("_deleted", "_directory", "_fs", "_running", "_steps")

    def __init__(self, fs: FileSystem, directory: str, running: Lock) -> None:
        """`running` is held while a change is carried out."""
        self._fs, self._directory, self._running = fs, directory, running
        self._steps: list[Step] = []
        self._deleted: dict[str, int | None] = {}
        """Files to be unlinked, and when `delete_expired` first saw each; None: not seen yet."""

    def __len__(self) -> int:
        return len(self._steps)

    def remove(self, segments: Sequence[Segment]) -> None:
        """The segments, oldest first, have left the log."""
        for segment in segments:
            self._steps.append(lambda stem=segment.stem: self._remove(stem))  # type: ignore[misc]

    def _remove(self, stem: str) -> None:
        self._fs.fsync_dir(self._directory)  # the next segment's name must be durable before this one goes
        for suffix in SEGMENT_SUFFIXES:
            self._set_aside(stem + suffix)
        self._fs.fsync_dir(self._directory)

    def _set_aside(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # the index was never written, or this step is run again
            try:
                self._fs.rename(path, path + DELETED_SUFFIX)
            except OSError as error:
                if not is_disk_full(error):
                    raise
                self._fs.unlink(path)
            else:
                self._deleted[path + DELETED_SUFFIX] = None

    def replace(self, new: Segment, replaced: Sequence[Segment]) -> None:
        """`new`, whose records are in its .cleaned file, has replaced these consecutive segments in the log."""
        swap, cleaned = new.log_path + SWAP_SUFFIX, new.log_path + CLEANED_SUFFIX
        others = [segment.stem for segment in replaced if segment.base_offset != new.base_offset]
        indexes = SegmentIndexes(self._fs, new.stem, new.base_offset, new.indexes.interval_bytes)
        self._steps += (
            lambda: self._index(indexes, cleaned, new),
            *self._rename(cleaned, swap),
            lambda: self._remove_replaced(new.stem, others),
            *self._rename(swap, new.log_path),
            lambda: self._write_indexes(indexes, new),
        )

    def _index(self, indexes: SegmentIndexes, path: str, new: Segment) -> None:
        fd = self._fs.open(path)
        try:
            indexes.start_empty()
            file = LogFile(self._fs, fd, path, new.size_bytes, new.base_offset, new.next_offset)
            for position, header in scan_headers(file, 0):
                indexes.note(position, header)
        finally:
            self._fs.close(fd)

    def then(self, step: Step) -> None:
        """Do this too, AFTER what is queued; it may be run again after a shortage."""
        self._steps.append(step)

    def _rename(self, source: str, target: str) -> tuple[Step, Step]:
        """Two steps: if the second finds no descriptor, only the second is run again."""
        return lambda: self._fs.rename(source, target), lambda: self._fs.fsync_dir(self._directory)

    def _remove_replaced(self, stem: str, others: Sequence[str]) -> None:
        for suffix in INDEX_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(stem + suffix)
        for other in others:
            for suffix in SEGMENT_SUFFIXES:
                self._set_aside(other + suffix)
        self._fs.fsync_dir(self._directory)

    def _write_indexes(self, indexes: SegmentIndexes, new: Segment) -> None:
        for path, content in indexes.contents():
            write_atomically(self._fs, path, content, sync_directory=False)
        new.settled()

    def run(self, *, sync: bool = False) -> None:
        """Carry out the queued changes; with `sync`, sync the directory. Blocks. OSError when the disk failed; the
        failed change is then still at the head."""
        with self._running:
            while (step := self._next_step()) is not None:
                step()
                if self._next_step() is step:  # else it was cancelled meanwhile
                    with contextlib.suppress(IndexError):  # or it is cancelled just now
                        self._steps.pop(0)
        if sync:
            self._fs.fsync_dir(self._directory)

    def _next_step(self) -> Step | None:
        """The step at the head, or None: `cancel` may come at any moment."""
        return next(iter(self._steps), None)

    def cancel(self, *, wait: bool = True) -> None:
        """Forget the queued changes: the log is closed, and the next start finds the old files or finishes a swap. With
        `wait`, returns when the step under way has ended; it is needed only before the directory is renamed."""
        self._steps.clear()
        if wait:
            with self._running:
                self._deleted.clear()

    def delete_expired(self, now_ms: int, delay_ms: int) -> int:
        """Unlink removed files after `delay_ms`; blocks. The time counts from the first call that sees the file."""
        with self._running:
            seen = {path: now_ms if since_ms is None else since_ms for path, since_ms in self._deleted.items()}
            self._deleted.update(seen)
            return self._unlink([path for path, since_ms in seen.items() if now_ms - since_ms >= delay_ms])

    def delete_all(self) -> int:
        """Unlink all removed files: the log is being closed, so it has no reader any more."""
        with self._running:
            return self._unlink(list(self._deleted))

    def _unlink(self, paths: list[str]) -> int:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                self._fs.unlink(path)
            del self._deleted[path]
        return len(paths)

    @property
    def deleted_files(self) -> int:
        """The number of files that wait to be unlinked."""
        return len(self._deleted)

    def __repr__(self) -> str:
        return f"FileChanges({self._directory}, {len(self._steps)} steps queued, {len(self._deleted)} files to unlink)"
