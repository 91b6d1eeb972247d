"""Puts the copy of a log in the log's place, in another log dir of the node: three renames, or all of them taken back.

A swap stands in a thread, because a disk may hang: those that wait for it see where it stands, and may give it up. Then
no name changes any more, and the next start finishes or undoes it. `future_directories.py` has the names and the order
of the renames. Not here: the copy before and after (`future_logs.py`).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from penstock.errors import KafkaStorageError, PenstockError
from penstock.lazy_dataclass import dataclass
from penstock.threads import Threads
from storage.disk.disk_errors import is_shortage
from storage.disk.file_names import DELETE_DIRECTORY_SUFFIX, MOVED_DIRECTORY_SUFFIX
from storage.disk.file_system import FileSystem
from storage.log.log import Log
from storage.log_dirs.future_directories import MoveDirectory
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_opener import LogOpener
from storage.recovery.recovery import LastKnown

_log = logging.getLogger(__name__)

UNDO_PAUSE_SECONDS = 0.5
UNDO_TRIES_MAX = 20
"""The most tries to undo a swap for lack of room or descriptors: 10 s, in which the partition is held. A swap may take
three times as long in all."""


@dataclass(frozen=True, slots=True)
class SwapOutcome:
    """How a swap ended. The log that is in use from now on: the copy in its new place, or the old one again if the swap
    was undone; None where a disk refused that as well. Then the next start finishes or undoes the swap."""

    log: Log | None
    error: Exception | None = None
    failed_dir: str = ""
    """The log dir whose disk refused; "" without an error of a disk."""
    gone: str | None = None
    """The old directory, which may be deleted."""


class SwapWatch:
    """The progress of a swap in a thread, for the tasks that wait for it: a disk may hang. Used in any thread."""

    def __init__(self, threads: Threads, log_dir: str) -> None:
        """`log_dir` is that of the thread, which may stand in a call for another move."""
        self._lock = threads.lock()
        """The lock of the progress; it is held for a moment only."""
        self._at: str | None = log_dir
        self._is_given_up = False

    def enter(self, log_dir: str) -> None:
        """The next calls are to this log dir's disk. KafkaStorageError if the swap was given up: no name changes any
        more, because others may use the log dirs by now."""
        with self._lock:
            if self._is_given_up:
                raise KafkaStorageError("the swap was given up, because a disk did not answer; a start settles it")
            self._at = log_dir

    def ended(self) -> None:
        with self._lock:
            self._at = None

    @property
    def log_dir(self) -> str | None:
        """The log dir to whose disk the swap's calls go now; None once it has ended."""
        return self._at

    def give_up(self) -> str | None:
        """Wait for the swap no longer; the log dir that does not answer, or None: the swap has ended."""
        with self._lock:
            self._is_given_up = self._at is not None
            return self._at

    def __repr__(self) -> str:
        return f"SwapWatch({self._at or 'nowhere'})"


class Swap:
    """One swap, in a thread; see `future_directories.py` for its steps."""

    def __init__(
        self,
        fs: FileSystem,
        opener: LogOpener,
        log: Log,
        side: MoveDirectory,
        source: LogDirectory,
        watch: SwapWatch,
        pause: Callable[[float], None],
    ) -> None:
        self._fs, self._opener, self._watch, self._pause = fs, opener, watch, pause
        self._log, self._side, self._source = log, side, source
        self._old = side._replace(log_dir=source.path)
        self._renamed: list[tuple[LogDirectory, str, str]] = []
        self._has_own_name: set[str] = set()
        """Renamed directories that have their own name again, maybe not durably yet."""
        self._at = source

    def run(self, target: LogDirectory | None) -> SwapOutcome:
        log = self._log
        moved = self._old.path(MOVED_DIRECTORY_SUFFIX)
        try:
            if target is None:
                raise KafkaStorageError(f"{self._side.log_dir} has failed")
            self._rename(self._source, log.directory, moved)
            self._rename(target, self._side.future, self._side.home)
            new = self._open(target, self._side.home, LastKnown(True, log.log_end_offset, log.log_start_offset))
        except (OSError, PenstockError) as error:
            return self._undone(error)
        gone = self._old.path(DELETE_DIRECTORY_SUFFIX)
        try:
            self._rename(self._source, moved, gone)
        except (OSError, KafkaStorageError) as error:
            return SwapOutcome(new, error, self._source.path)
        with contextlib.suppress(OSError):  # harmless: a new log of this name lowers the line to 0
            self._source.cleaner_checkpoint.remove(log.topic_partition)
        return SwapOutcome(new, gone=gone)

    def _rename(self, directory: LogDirectory, source: str, target: str) -> None:
        """Renames a directory; durable when it returns."""
        self._at = directory
        self._watch.enter(directory.path)
        self._fs.rename(source, target)
        self._renamed.append((directory, source, target))
        self._fs.fsync_dir(directory.path)

    def _open(self, directory: LogDirectory, path: str, known: LastKnown) -> Log:
        log = self._log
        self._watch.enter(directory.path)
        new = self._opener.open_as(path, log.topic_partition, log.topic_id, log.config, known, directory)
        new.update_config(log.config, log.settings.flush_policy)
        return new

    def _undone(self, error: Exception) -> SwapOutcome:
        """Every log has its own name again, or the next start sees to that."""
        failed_dir = self._at.path if _is_of_disk(error) else ""
        _log.error("%s: it does not move: %s", self._log.directory, error)
        for tries_left in reversed(range(UNDO_TRIES_MAX)):
            try:
                return SwapOutcome(self._taken_back(), error, failed_dir)
            except (OSError, PenstockError) as worse:
                _log.error("%s: taking the move back failed: %s", self._log.directory, worse)
                if not (tries_left and is_shortage(worse)):
                    break
            self._pause(UNDO_PAUSE_SECONDS)
        return SwapOutcome(None, error, failed_dir)

    def _taken_back(self) -> Log:
        """Undoes the renames, from where an earlier try ended. A failed sync never counts as a shortage: it is not
        tried again."""
        while self._renamed:
            directory, source, target = self._renamed[-1]
            self._watch.enter(directory.path)
            if source not in self._has_own_name:
                self._fs.rename(target, source)
                self._has_own_name.add(source)
            self._fs.fsync_dir(directory.path)
            self._renamed.pop()
        known = LastKnown(False, self._log.recovery_point, self._log.log_start_offset)
        return self._open(self._source, self._log.directory, known)


def _is_of_disk(error: Exception) -> bool:
    return isinstance(error if isinstance(error, OSError) else error.__cause__, OSError)
