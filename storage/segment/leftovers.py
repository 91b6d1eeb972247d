"""Decides which files of a partition's directory an interrupted operation left, and what a start does with each. Pure.

    *.tmp                      a small file that was never renamed        removed
    *.deleted                  a removed segment                          removed
    *.cleaned                  an unfinished compaction                   removed
    N.log.swap                 a finished compaction                      completed: it takes the place of N.log
    N.index.swap, .timeindex   an index of one (Kafka writes them)        removed; the index is made anew
    N.index and the like       without N.log and N.log.swap               removed

All other names are not touched, and no directory is. A directory with the name of a file that the log has, or will
make, has the log refused (`misplaced`): a swap, a flush or a removal would fail at that name some day, and with it the
whole log dir. `segment_files.py` does all this at a start, and `storage/tools/verify/verify_files.py` tells what it
would do.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from storage.disk.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SWAP_SUFFIX,
    TMP_SUFFIX,
    file_stem,
    parse_segment_file,
    parse_snapshot_file,
)


class Leftover(Enum):
    """The kinds of files that a crash leaves behind."""

    UNFINISHED = "a small file that was not finished"
    REMOVED = "a file on its way out"
    CLEANED = "a cleaned segment that was not finished"
    SWAP = "a cleaned segment that is to take its place"
    INDEX_OF_SWAP = "an index of a cleaned segment; it is made anew"
    ORPHAN = "an index without its .log"


_BY_SUFFIX = {
    TMP_SUFFIX: Leftover.UNFINISHED,
    DELETED_SUFFIX: Leftover.REMOVED,
    CLEANED_SUFFIX: Leftover.CLEANED,
}
_ON_THE_WAY = *_BY_SUFFIX, SWAP_SUFFIX
_SMALL_FILES = LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA


def leftovers(entries: Mapping[str, bool]) -> dict[str, Leftover]:
    """The leftovers by name; `entries`: the names in the directory, and whether each is a directory."""
    found = ((name, _leftover(name, entries)) for name, is_directory in entries.items() if not is_directory)
    return {name: leftover for name, leftover in found if leftover is not None}


def _leftover(name: str, entries: Mapping[str, bool]) -> Leftover | None:
    for suffix, leftover in _BY_SUFFIX.items():
        if name.endswith(suffix):
            return leftover
    of_segment = parse_segment_file(name.removesuffix(SWAP_SUFFIX))
    if of_segment is None:
        return None
    base_offset, suffix = of_segment
    if name.endswith(SWAP_SUFFIX):
        return Leftover.SWAP if suffix == LOG_SUFFIX else Leftover.INDEX_OF_SWAP
    log = file_stem(base_offset) + LOG_SUFFIX
    return None if suffix == LOG_SUFFIX or log in entries or log + SWAP_SUFFIX in entries else Leftover.ORPHAN


def misplaced(entries: Mapping[str, bool]) -> list[str]:
    """The directories that have the name of a file of the log, finished or on its way."""
    return [name for name, is_directory in entries.items() if is_directory and _is_of_log(name)]


def _is_of_log(name: str) -> bool:
    stem = next((name.removesuffix(suffix) for suffix in _ON_THE_WAY if name.endswith(suffix)), name)
    return stem in _SMALL_FILES or parse_segment_file(stem) is not None or parse_snapshot_file(stem) is not None
