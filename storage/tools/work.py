"""Counts the bytes to read, for a progress bar: sizes of .log files; no file is opened."""

from __future__ import annotations

from storage.disk.file_system import FileSystem
from storage.segment.segment_files import first_with, log_names
from storage.tools.checkpoint_reader import read_knowledge
from storage.tools.target import Target


def bytes_to_verify(fs: FileSystem, target: Target) -> int:
    """All of them."""
    return sum(size for log in target.logs for _, size in _segments(fs, log.directory))


def bytes_to_recover(fs: FileSystem, target: Target) -> int:
    """The bytes from the segment on that holds the record before the recovery point; about none after a clean stop."""
    knowledge = read_knowledge(target.log_dir)
    total = 0
    for log in target.logs:
        known = knowledge.last_known(log.topic_partition)
        if not known.clean:
            segments = _segments(fs, log.directory)
            first = first_with([base for base, _ in segments], known.recovery_point or 0)
            total += sum(size for _, size in segments[first:])
    return total


def _segments(fs: FileSystem, directory: str) -> list[tuple[int, int]]:
    return [(base, fs.size(f"{directory}/{name}")) for base, name in log_names(fs.listdir(directory))]
