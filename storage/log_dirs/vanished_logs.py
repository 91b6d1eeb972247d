"""Finds the logs that held flushed records, by a recovery-point checkpoint, and that are not in their log dir.

A replica without its log must not lead with an empty one; the broker prevents that. A log is known by its topic id
here. So a line of a deleted topic does not count for a new topic of that name, and a directory that is still being
deleted does not explain why the new topic's log is gone. Lines of an older release have no id: they count for any topic
of that name.

Not here: whether the topics still exist (`broker/quorum/metadata_publisher.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence

from penstock.errors import CorruptFileError
from penstock.types import TopicPartition
from storage.disk.file_names import DELETE_DIRECTORY_SUFFIX, partition_directory, set_aside_partition
from storage.disk.file_system import FileSystem
from storage.disk.partition_metadata import read_topic_id
from storage.log_dirs.log_directory import LogDirectory
from storage.log_dirs.log_table import LogId, LogTable

_log = logging.getLogger(__name__)


def find_vanished(
    fs: FileSystem, directories: Sequence[LogDirectory], table: LogTable, set_aside: Mapping[str, str]
) -> dict[LogId, str]:
    """The logs, with their paths; call it AFTER the logs that are there are in the table, and BEFORE a checkpoint is
    written. `set_aside`, path to suffix: a deletion may have got as far as its rename."""
    missing = {
        log_id: f"{directory.path}/{partition_directory(log_id.topic_partition)}"
        for directory in directories
        for log_id in directory.flushed_logs()
        if not _is_here(table, log_id)
    }
    if not missing:
        return missing
    deleted = [path for path, suffix in set_aside.items() if suffix == DELETE_DIRECTORY_SUFFIX]
    names = {set_aside_partition(os.path.basename(path)) for path in deleted}
    numbered_ids = {(_topic_id(fs, path), _number(path)) for path in deleted}
    vanished = {}
    for (topic_partition, topic_id), path in missing.items():
        is_deleted = (topic_id, topic_partition.partition) in numbered_ids if topic_id else topic_partition in names
        if not is_deleted:
            _log.error("%s is gone, but it held flushed records", path)
            vanished[LogId(topic_partition, topic_id)] = path
    return vanished


def replicas_set_aside(fs: FileSystem, directories: Iterable[str]) -> frozenset[tuple[str, int]]:
    """The topic id and the number of the partition of each directory that was set aside, where these can be read."""
    found = ((_topic_id(fs, path), _number(path)) for path in directories)
    return frozenset((topic_id, number) for topic_id, number in found if topic_id and number >= 0)


def _is_here(table: LogTable, log_id: LogId) -> bool:
    """True if the log is in use, or offline: an offline log whose id cannot be read may be any topic's."""
    topic_partition, topic_id = log_id
    logs, offline = table.logs.named(topic_partition), table.offline.named(topic_partition)
    return topic_id in logs or topic_id in offline or "" in offline or bool(not topic_id and (logs or offline))


def _number(path: str) -> int:
    """The topic of a long name is cut, the number is not."""
    found: TopicPartition | None = set_aside_partition(os.path.basename(path))
    return found.partition if found is not None else -1


def _topic_id(fs: FileSystem, path: str) -> str:
    """The topic's id. A log without one was not flushed, or its removal has begun."""
    with contextlib.suppress(OSError, CorruptFileError):
        return read_topic_id(fs, path) or ""
    return ""
