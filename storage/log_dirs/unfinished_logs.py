"""Removes, at a start, a log that was never in use, where the log is or may be in another log dir.

A disk hangs, or fails, while a log is created there. Its log dir fails, and the log is created in another dir. The
first directory stays behind with the topic's id. When its dir is back, nobody could say which of the two counts. If the
other dir does not answer then, or is given up, the broker would name the empty log as its replica, and lead with it.

So it goes where a crash has interrupted a move, too: the log has another name at that moment, and would be deleted, or
left, for the empty directory that has its own. Therefore this comes BEFORE moves are settled.

Nothing was ever flushed in such a directory: it has no epochs, which are durable BEFORE any record, no line in a
checkpoint, and its files are empty. A clean stop leaves no such directory: a dir that failed gets no marker, nor does a
dir where such a directory could not be removed.

Where all log dirs are here, a directory that stands alone is the log, though a new one. Not here: what a failed
creation removes while the node runs (log_opener.py), and which partitions may be created anew (log_creation.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

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
from storage.log_dirs.log_table import LogId

_log = logging.getLogger(__name__)

_EMPTY = {file_stem(0) + suffix for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)}
_TOPIC_ID = {PARTITION_METADATA, PARTITION_METADATA + TMP_SUFFIX}


TopicIdOf = Callable[[LogDirectory, TopicPartition], str | None]
"""The topic id of a log; None if it cannot be read."""


class UnfinishedLogs:
    """The logs that one start finds begun but never used."""

    def __init__(self, fs: FileSystem, topic_id_of: TopicIdOf, moved: frozenset[LogId], *, is_partial: bool) -> None:
        """`moved`: logs that may be without their own name, in a move. `is_partial`: log dirs are missing."""
        self._fs, self._topic_id_of, self._moved, self._is_partial = fs, topic_id_of, moved, is_partial
        self.cannot_go: dict[TopicPartition, tuple[str, OSError]] = {}
        """Directories that may be such ones, where the log may be elsewhere. They must not count as the log either."""

    def without(self, topic_partition: TopicPartition, found: Sequence[LogDirectory]) -> list[LogDirectory]:
        """The log dirs that have the partition's log, without those whose directory was removed: at least one, unless
        it may be where it cannot be seen. Then the removal is durable: the next start may miss nothing any more, and
        would take for the log what has come back."""
        left = list(found)
        are_copies = len(found) > 1 and not are_of_different_topics(topic_partition, found, self._topic_id_of)
        for directory in found:
            path = f"{directory.path}/{partition_directory(topic_partition)}"
            is_elsewhere = self._may_be_elsewhere(directory, topic_partition)
            try:
                if (is_elsewhere or (are_copies and len(left) > 1)) and self._is_one(directory, topic_partition):
                    _log.warning("%s was never in use, and another log dir has or may have the log: it goes", path)
                    remove_tree(self._fs, path)
                    if is_elsewhere:
                        self._fs.fsync_dir(directory.path)
                    left.remove(directory)
            except OSError as error:
                _log.error("%s: whether it was ever in use cannot be found out, or it cannot go: %s", path, error)
                if is_elsewhere:
                    self.cannot_go[topic_partition] = path, error
                    left.remove(directory)
        return left

    def _may_be_elsewhere(self, directory: LogDirectory, topic_partition: TopicPartition) -> bool:
        """True if the log may be where it cannot be seen."""
        moved = self._moved  # mostly empty
        return self._is_partial or bool(
            moved and LogId(topic_partition, self._topic_id_of(directory, topic_partition) or "") in moved
        )

    def _is_one(self, directory: LogDirectory, topic_partition: TopicPartition) -> bool:
        known = directory.last_known(topic_partition)
        if topic_partition.topic == METADATA_TOPIC or known.clean or known.recovery_point != 0:
            return False
        if known.log_start_offset:
            return False
        path = f"{directory.path}/{partition_directory(topic_partition)}"
        names = set(self._fs.listdir(path))
        return not (names - _EMPTY - _TOPIC_ID or any(self._fs.size(f"{path}/{name}") for name in names & _EMPTY))


def are_of_different_topics(
    topic_partition: TopicPartition, directories: Sequence[LogDirectory], topic_id_of: TopicIdOf
) -> bool:
    """True if the directories are surely all of different topics."""
    topic_ids = [topic_id_of(directory, topic_partition) for directory in directories]
    return None not in topic_ids and len(set(topic_ids)) == len(topic_ids)
