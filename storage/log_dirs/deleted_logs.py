"""The directories of deleted logs, renamed already, and when each is to be removed.

Removing is slow (an unlink of a large file takes a file system tens of milliseconds) and final, so it is done later
(`file.delete.delay.ms`), by a job, in any thread, a bounded number at a time. What is left when the node stops is found
by its name at the next start. Not here: the rename (`log_manager.py`), deleted segments (`file_changes.py`).
"""

from __future__ import annotations

import contextlib
import os

from penstock.threads import Lock
from storage.disk.disk_errors import storage_error
from storage.disk.file_system import FileSystem, remove_tree

DIRECTORIES_PER_CALL = 64
"""One call of `delete_due` ends in bounded time, and a stop does not wait long for it."""


class DeletedLogs:
    """Added to on one thread, removed in any."""

    def __init__(self, fs: FileSystem, lock: Lock) -> None:
        self._fs, self._lock = fs, lock
        self._due_ms: dict[str, int] = {}

    def add(self, path: str, due_ms: int) -> None:
        with self._lock:
            self._due_ms[path] = due_ms

    def delete_due(self, now_ms: int, log_dir: str | None = None) -> int:
        """Remove what is due, in one log dir or in all, up to a limit; how many.

        KafkaStorageError when the disk failed: that one stays.
        """
        with self._lock:
            due = [path for path, due_ms in self._due_ms.items() if due_ms <= now_ms]
        due = [path for path in due if log_dir in (None, os.path.dirname(path))][:DIRECTORIES_PER_CALL]
        for path in due:
            self.remove(path)
        return len(due)

    def remove(self, path: str) -> None:
        """Now; blocks. What is left of it, if the disk failed, is found at the next start."""
        with self._lock:
            self._due_ms.pop(path, None)
        try:
            with contextlib.suppress(FileNotFoundError):
                remove_tree(self._fs, path)
        except OSError as error:
            raise storage_error("delete", path, error) from error

    def paths(self) -> tuple[str, ...]:
        """What waits."""
        with self._lock:
            return tuple(self._due_ms)

    def __len__(self) -> int:
        return len(self._due_ms)

    def __repr__(self) -> str:
        return f"DeletedLogs({len(self)} directories wait)"
