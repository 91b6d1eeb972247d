"""Resolves a path given to `penstock log`: a partition's directory, or a log dir with all its partitions.

A log dir is recognised by its own files, or by a partition's directory in it. For a partition's directory in a log dir,
that dir's checkpoints are used; a single one, such as a copy, has none. Only reads. Single files are in
`dump_files.py`, the files inside in `verify_log.py`.
"""

from __future__ import annotations

import os

from penstock.errors import ConfigError
from penstock.lazy_dataclass import dataclass
from penstock.types import TopicPartition
from storage.disk.file_names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    SWAP_SUFFIX,
    parse_partition_directory,
    parse_segment_file,
)
from storage.disk.file_system import FileSystem

OFFSET_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
_LOG_DIR_FILES = (META_PROPERTIES, *OFFSET_CHECKPOINTS)
_GIVE = "give a directory like data/orders-0 or data"


@dataclass(frozen=True, slots=True)
class LogPath:
    """The directory of one log."""

    directory: str
    topic_partition: TopicPartition | None
    """The partition; None if the directory's name is not a partition's, for example a log that was set aside."""


@dataclass(frozen=True, slots=True)
class Target:
    """The logs that are meant, and their log dir."""

    logs: tuple[LogPath, ...]
    log_dir: str | None
    """The log dir; None for a partition's directory that stands alone."""
    is_log_dir: bool
    """The whole of the log dir is meant."""


def find_target(fs: FileSystem, path: str) -> Target:
    """The target at a path; ConfigError if it is neither a log dir nor a partition's directory."""
    path = os.path.normpath(path)
    if os.path.basename(path) in ("", ".", ".."):
        path = os.path.abspath(path)  # the name of a partition's directory says which partition it is
    if not fs.is_directory(path):
        why = "not a directory" if fs.exists(path) else "no such directory"
        raise ConfigError(f"{path}: {why}; {_GIVE}")
    if _is_partition(fs, path):
        parent = os.path.dirname(path) or "."
        log = LogPath(path, parse_partition_directory(os.path.basename(path)))
        return Target((log,), parent if _has_log_dir_files(fs, parent) else None, is_log_dir=False)
    logs = tuple(LogPath(f"{path}/{name}", tp) for name, tp in _partitions(fs, path))
    if not logs and not _has_log_dir_files(fs, path):
        raise ConfigError(f"{path}: neither a partition's directory nor a log dir; {_GIVE}")
    return Target(logs, path, is_log_dir=True)


def _has_log_dir_files(fs: FileSystem, path: str) -> bool:
    return any(fs.exists(f"{path}/{name}") for name in _LOG_DIR_FILES)


def _partitions(fs: FileSystem, path: str) -> list[tuple[str, TopicPartition]]:
    names = [(name, parse_partition_directory(name)) for name in fs.listdir(path)]
    found = [(name, tp) for name, tp in names if tp is not None and fs.is_directory(f"{path}/{name}")]
    if _has_log_dir_files(fs, path):
        return found
    return [(name, tp) for name, tp in found if _is_partition(fs, f"{path}/{name}")]


def _is_partition(fs: FileSystem, path: str) -> bool:
    names = set(fs.listdir(path))
    if names & {PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT}:
        return True
    parsed = (parse_segment_file(name.removesuffix(SWAP_SUFFIX)) for name in names)
    return any(found is not None and found[1] == LOG_SUFFIX for found in parsed)
