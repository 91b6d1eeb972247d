"""The renamed directories of deleted logs, and when each will be removed.

Removing is slow (the unlink of a large file takes tens of milliseconds) and final. So a job does it later
(`file.delete.delay.ms`), in any thread, a bounded number at a time. The next start finds the remaining directories by
their names. `log_removal.py` renames; deleted segments are in `file_changes.py`.
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
    """Directories are added in one thread and removed in any."""

    def __init__(self, fs: FileSystem, lock: Lock) -> None:
        self._fs, self._lock = fs, lock
        self._due_ms: dict[str, int] = {}

    def add(self, path: str, due_ms: int) -> None:
        with self._lock:
            self._due_ms[path] = due_ms

    def delete_due(self, now_ms: int, log_dir: str | None = None) -> int:
        """Remove the due directories of one log dir or of all, up to a limit; returns how many.

        KafkaStorageError when the disk failed; that directory stays in the list.
        """
        with self._lock:
            due = [path for path, due_ms in self._due_ms.items() if due_ms <= now_ms]
        due = [path for path in due if log_dir in (None, os.path.dirname(path))][:DIRECTORIES_PER_CALL]
        for path in due:
            self.remove(path)
        return len(due)

    def remove(self, path: str) -> None:
        """Remove the directory now; blocks. If that fails, it stays in the list, behind the others."""
        with self._lock:
            due_ms = self._due_ms.pop(path, None)
        try:
            with contextlib.suppress(FileNotFoundError):
                remove_tree(self._fs, path)
        except OSError as error:
            if due_ms is not None:
                self.add(path, due_ms)
            raise storage_error("delete", path, error) from error

    def paths(self) -> tuple[str, ...]:
        """The directories that wait for their removal."""
        with self._lock:
            return tuple(self._due_ms)

    def __len__(self) -> int:
        return len(self._due_ms)

    def __repr__(self) -> str:
        return f"DeletedLogs({len(self)} directories wait)"
