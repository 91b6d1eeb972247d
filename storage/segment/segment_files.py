"""Opens a partition's directory: tidies the leftovers of a crash, and finds the segments.

Leftovers of an interrupted operation: `.tmp` (a small file that was never renamed), `.deleted` (a removed segment) and
`.cleaned` (an unfinished compaction) are removed. `.swap` (a finished compaction) is completed: its segment replaces
every segment whose offsets it covers. An index without its .log is removed. Unknown names are not touched. All of this
may be interrupted and repeated. `recovery.py` checks the records.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.errors import CorruptFileError
from storage.disk.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TMP_SUFFIX,
    file_stem,
    parse_segment_file,
)
from storage.disk.file_system import FileSystem
from storage.segment.batch_scan import MAX_OFFSETS, LogFile, scan_verified
from storage.segment.segment import Segment

_log = logging.getLogger(__name__)


def tidy(fs: FileSystem, directory: str) -> dict[str, bool]:
    """Finish or undo interrupted operations; returns the names now in the directory, and whether each is a
    directory."""
    entries = fs.entries(directory)
    leftovers = [
        name
        for name, is_directory in entries.items()
        if name.endswith((TMP_SUFFIX, DELETED_SUFFIX, CLEANED_SUFFIX)) and not is_directory
    ]
    swaps = [name for name in entries if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in leftovers:
        _log.info("%s/%s: removing what an interrupted operation left", directory, name)
        fs.unlink(f"{directory}/{name}")
    for name in swaps:
        _finish_swap(fs, directory, name)
    if leftovers or swaps:
        entries = fs.entries(directory)
    _remove_orphans(fs, directory, entries)
    return entries


def _finish_swap(fs: FileSystem, directory: str, name: str) -> None:
    target = name.removesuffix(SWAP_SUFFIX)
    parsed = parse_segment_file(target)
    if parsed is None:
        return
    base_offset, next_offset = parsed[0], _next_offset(fs, f"{directory}/{name}", parsed[0])
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
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        for leftover in (file_stem(base_offset) + suffix, file_stem(base_offset) + suffix + SWAP_SUFFIX):
            if fs.exists(f"{directory}/{leftover}"):
                fs.unlink(f"{directory}/{leftover}")
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


def _remove_orphans(fs: FileSystem, directory: str, entries: dict[str, bool]) -> None:
    for name in tuple(entries):
        found = parse_segment_file(name.removesuffix(SWAP_SUFFIX))
        if found is not None and found[1] != LOG_SUFFIX and file_stem(found[0]) + LOG_SUFFIX not in entries:
            _log.info("%s/%s: removing an index without its log", directory, name)
            fs.unlink(f"{directory}/{name}")
            del entries[name]


def find_segments(
    fs: FileSystem, directory: str, interval_bytes: int, entries: Mapping[str, bool] | None = None
) -> list[Segment]:
    """The segments in order; no file is opened. Each is assumed to reach to the next one, the newest to have any
    end."""
    bases = []
    for name, is_directory in (fs.entries(directory) if entries is None else entries).items():
        found = parse_segment_file(name)
        if found is not None and is_directory:
            raise CorruptFileError(f"{directory}/{name}", 0, "a directory where a segment's file should be")
        if found is not None and found[1] == LOG_SUFFIX:
            bases.append(found[0])
    segments = [Segment(fs, directory, base, interval_bytes) for base in sorted(bases)]
    for at, segment in enumerate(segments):
        following = segments[at + 1].base_offset if at + 1 < len(segments) else segment.base_offset + MAX_OFFSETS
        segment.adopt(fs.size(segment.log_path), following)
    return segments
