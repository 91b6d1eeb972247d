"""offset-gaps: an empty file in the directory of a log out of whose middle records were taken.

Offsets are dense, and a gap is damage, until the cleaner has taken records out here or at the leader that this log
follows. The file is durable BEFORE the first gap is; it never goes away, and losing it means that the log is refused.
"""

from __future__ import annotations

from storage.file_names import OFFSET_GAPS
from storage.file_system import FileSystem


class OffsetGaps:
    """Whether one log may have gaps."""

    __slots__ = ("_directory", "_fs", "_is_marked", "allowed")

    def __init__(self, fs: FileSystem, directory: str, is_marked: bool) -> None:
        self._fs, self._directory = fs, directory
        self.allowed = self._is_marked = is_marked
        """True also while the mark is only queued, with the swap that brings the first gap."""

    def mark(self) -> None:
        """A gap is about to be written; blocks the first time. OSError when the file cannot be made."""
        if not self._is_marked:
            allow_gaps(self._fs, self._directory)
            self.allowed = self._is_marked = True

    def __repr__(self) -> str:
        return f"OffsetGaps({self._directory}, allowed={self.allowed})"


def may_have_gaps(fs: FileSystem, directory: str) -> bool:
    """Whether records were ever taken out of the middle of this log."""
    return fs.exists(f"{directory}/{OFFSET_GAPS}")


def allow_gaps(fs: FileSystem, directory: str) -> None:
    """From now on, durably, a gap in the offsets is no damage."""
    path = f"{directory}/{OFFSET_GAPS}"
    if not fs.exists(path):
        fs.close(fs.open(path, create=True))
    fs.fsync_dir(directory)
