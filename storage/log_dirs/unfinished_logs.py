"""Removes, at a start, a log that was never in use, where the log is or may be in another log dir.

A disk hangs, or fails, while a log is created there. Its log dir fails, and the log is created in another dir. The
first directory stays behind with the topic's id. When its dir is back, nobody could say which of the two counts. If the
other dir does not answer then, or is given up, the broker would name the empty log as its replica, and lead with it.

Nothing was ever flushed in such a directory: it has no epochs, which are durable BEFORE any record, no line in a
checkpoint, and its files are empty. After a clean stop there is none, because a dir that failed gets no marker.

Where all log dirs are here, a directory that stands alone is the log, though a new one. Not here: what a failed
creation removes while the node runs (log_opener.py), and which partitions may be created anew (log_creation.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.types import METADATA_TOPIC, TopicPartition
from storage.disk.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    PARTITION_METADATA,
    TIME_INDEX_SUFFIX,
    TMP_SUFFIX,
    file_stem,
    partition_directory,
)
from storage.disk.file_system import FileSystem, remove_tree
from storage.log_dirs.log_directory import LogDirectory

_log = logging.getLogger(__name__)

_EMPTY = {file_stem(0) + suffix for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)}
_TOPIC_ID = {PARTITION_METADATA, PARTITION_METADATA + TMP_SUFFIX}


def without_unfinished(
    fs: FileSystem, topic_partition: TopicPartition, found: Sequence[LogDirectory], *, may_be_elsewhere: bool = False
) -> list[LogDirectory]:
    """The log dirs that have the partition's log, without those whose directory was removed: at least one, unless it
    `may_be_elsewhere`. A removal need not be durable: the next start does it again."""
    left = list(found)
    for directory in found:
        path = f"{directory.path}/{partition_directory(topic_partition)}"
        try:
            if (len(left) > 1 or may_be_elsewhere) and _is_unfinished(fs, directory, topic_partition):
                _log.warning("%s was never in use, and another log dir has or may have the log: it is removed", path)
                remove_tree(fs, path)
                left.remove(directory)
        except OSError as error:
            _log.error("%s: whether it was ever in use cannot be found out, or it cannot be removed: %s", path, error)
    return left


def _is_unfinished(fs: FileSystem, directory: LogDirectory, topic_partition: TopicPartition) -> bool:
    known = directory.last_known(topic_partition)
    if topic_partition.topic == METADATA_TOPIC or known.clean or known.recovery_point != 0 or known.log_start_offset:
        return False
    path = f"{directory.path}/{partition_directory(topic_partition)}"
    names = set(fs.listdir(path))
    return not (names - _EMPTY - _TOPIC_ID or any(fs.size(f"{path}/{name}") for name in names & _EMPTY))
