"""Opens a partition's directory: tidies the leftovers of a crash, and finds the segments.

What an interrupted operation left is removed (`leftovers.py`), and a finished compaction is completed: its segment
replaces every segment whose offsets it covers. Unknown names are not touched. All of this may be interrupted and
repeated. `recovery.py` checks the records.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from penstock.errors import CorruptFileError
from storage.disk.file_names import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    file_stem,
    parse_segment_file,
)
from storage.disk.file_system import FileSystem
from storage.segment.batch_scan import MAX_OFFSETS, LogFile, scan_verified
from storage.segment.leftovers import Leftover, leftovers, misplaced
from storage.segment.segment import Segment

_log = logging.getLogger(__name__)


def tidy(fs: FileSystem, directory: str) -> dict[str, bool]:
    """Finish or undo interrupted operations; returns the names now in the directory, and whether each is a directory.
    Refuses a directory with the name of a file, BEFORE anything changes."""
    entries = fs.entries(directory)
    for name in misplaced(entries):
        raise CorruptFileError(f"{directory}/{name}", 0, "a directory where a file of the log should be; move it away")
    found = leftovers(entries)
    if found:
        fs.fsync_dir(directory)  # a killed process leaves names that may not be on the disk: durable BEFORE any goes
    for name, leftover in found.items():
        if leftover is not Leftover.SWAP:
            _log.info("%s/%s: removing it: %s", directory, name, leftover.value)
            fs.unlink(f"{directory}/{name}")
    for name, leftover in found.items():
        if leftover is Leftover.SWAP:
            _finish_swap(fs, directory, name)
    return fs.entries(directory) if found else entries


def _finish_swap(fs: FileSystem, directory: str, name: str) -> None:
    target = name.removesuffix(SWAP_SUFFIX)
    base_offset = int(target.removesuffix(LOG_SUFFIX))
    next_offset = _next_offset(fs, f"{directory}/{name}", base_offset)
    followed = fs.exists(
        f"{directory}/{file_stem(next_offset)}{LOG_SUFFIX}"
    )  # an active segment comes after it, always
    if next_offset == base_offset or not followed:
        why = f"it ends at offset {next_offset}, where no segment begins; so it cannot replace any segment"
        raise CorruptFileError(f"{directory}/{name}", 0, why)
    for other in fs.listdir(directory):
        found = parse_segment_file(other)
        if found is not None and base_offset < found[0] < next_offset:
            fs.unlink(f"{directory}/{other}")
    for suffix in INDEX_SUFFIXES:
        index = f"{directory}/{file_stem(base_offset)}{suffix}"
        if fs.exists(index):
            fs.unlink(index)
    fs.fsync_dir(directory)  # the replaced files are removed for good BEFORE the marker is renamed
    fs.rename(f"{directory}/{name}", f"{directory}/{target}")
    fs.fsync_dir(directory)
    _log.info("%s/%s: finished the swap of a cleaned segment", directory, target)


def _next_offset(fs: FileSystem, path: str, base_offset: int) -> int:
    """The offset after the file's last batch. Every batch is checked, because the replaced records are about to go."""
    fd = fs.open(path)
    try:
        next_offset = base_offset
        for _, header in scan_verified(LogFile(fs, fd, path, fs.size(path), base_offset, base_offset + MAX_OFFSETS), 0):
            next_offset = header.next_offset
        return next_offset
    finally:
        fs.close(fd)


def log_names(names: Iterable[str]) -> list[tuple[int, str]]:
    """The .log files among the names of a directory, with their base offsets, oldest first."""
    found = ((parse_segment_file(name), name) for name in names)
    return sorted((parsed[0], name) for parsed, name in found if parsed is not None and parsed[1] == LOG_SUFFIX)


def first_with(bases: Sequence[int], below: int) -> int:
    """The place of the segment that holds the last offset below `below`; the first one if none does."""
    return max(bisect_left(bases, below) - 1, 0)


def find_segments(
    fs: FileSystem, directory: str, interval_bytes: int, names: Iterable[str] | None = None
) -> list[Segment]:
    """The segments of a tidy directory in order; no file is opened. Each is assumed to reach to the next one, the
    newest to have any end."""
    bases = log_names(fs.listdir(directory) if names is None else names)
    segments = [Segment(fs, directory, base, interval_bytes) for base, _ in bases]
    for at, segment in enumerate(segments):
        following = segments[at + 1].base_offset if at + 1 < len(segments) else segment.base_offset + MAX_OFFSETS
        segment.adopt(fs.size(segment.log_path), following)
    return segments
