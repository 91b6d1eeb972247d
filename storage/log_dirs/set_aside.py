"""Sets logs' directories aside: a rename to a name that says why, and that no partition can have.

    orders-3.<uuid>-delete      its topic was deleted; removed later
    orders-3.<uuid>-stray       not assigned to this broker; kept
    orders-3.<uuid>-rotten      damaged, and fetched anew from its leader; kept

One sync of the log dir makes the renames durable. If the disk refuses it, a crash may bring old names back. For a
deleted or a stray log that is no harm: the next start finds it once more, and the creation of a log in that dir syncs
as well. A rotten log has not left before that is durable, because its recovery point goes next. If the sync found no
descriptor, its rename is remembered, and the next call for that directory only makes it durable. Any other error is
final: a failed sync is not repeated, and the log dir is not to be used any more (`failures`).

Not here: the form of the names (`file_names.py`), which log is renamed and when (`log_removal.py`).
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Mapping
from typing import NamedTuple

from penstock.errors import KafkaStorageError
from penstock.ids import Ids
from penstock.types import TopicPartition
from storage.disk.disk_errors import is_shortage, storage_error
from storage.disk.file_names import DELETE_DIRECTORY_SUFFIX, ROTTEN_DIRECTORY_SUFFIX, set_aside_directory
from storage.disk.file_system import FileSystem

_log = logging.getLogger(__name__)


class Aside(NamedTuple):
    """The owner of a directory, and the suffix under which it goes."""

    topic_partition: TopicPartition
    suffix: str


class SetAside:
    """Renames logs' directories, and blocks. Works in any thread, if no other thread takes these paths."""

    def __init__(self, fs: FileSystem, ids: Ids) -> None:
        self._fs, self._ids = fs, ids
        self._begun: dict[str, str] = {}
        """Rotten logs' old paths to new ones: renames that are not durable yet."""
        self.failures: dict[str, OSError] = {}
        """The error with which a log dir's disk failed here, by log dir."""

    def take(self, paths: Mapping[str, Aside], log_dir: str) -> dict[str, str | KafkaStorageError]:
        """Rename directories of one log dir, with one sync. The new path of each, or why it has not left."""
        outcomes: dict[str, str | KafkaStorageError] = {}
        for path, aside in paths.items():
            try:
                outcomes[path] = self._begun.pop(path, "") or self._rename(path, aside)
            except OSError as error:
                outcomes[path] = storage_error("set aside", path, error, is_tried_again=True)
                self._note(log_dir, error)
        if not any(isinstance(outcome, str) for outcome in outcomes.values()):
            return outcomes
        try:
            self._fs.fsync_dir(log_dir)
        except OSError as error:
            _log.error("%s: a crash may bring back logs that were set aside: %s", log_dir, error)
            self._note(log_dir, error)
            self._stay(outcomes, paths, error)
        for path, target in outcomes.items():
            if isinstance(target, str) and paths[path].suffix != DELETE_DIRECTORY_SUFFIX:
                _log.warning("%s: set aside as %s", paths[path].topic_partition, target)
        return outcomes

    def _rename(self, path: str, aside: Aside) -> str:
        target = (
            f"{os.path.dirname(path)}/{set_aside_directory(aside.topic_partition, self._ids.new_id(), aside.suffix)}"
        )
        self._fs.rename(path, target)
        return target

    def _note(self, log_dir: str, error: OSError) -> None:
        """Notes that a disk failed, unless somebody has removed the directory: then the disk is good."""
        if not is_shortage(error) and error.errno != errno.ENOENT:
            self.failures.setdefault(log_dir, error)

    def _stay(self, outcomes: dict[str, str | KafkaStorageError], paths: Mapping[str, Aside], error: OSError) -> None:
        """The sync was refused."""
        for path, target in outcomes.items():
            if isinstance(target, str) and paths[path].suffix == ROTTEN_DIRECTORY_SUFFIX:
                if is_shortage(error):
                    self._begun[path] = target
                outcomes[path] = storage_error("set aside", path, error)

    def __len__(self) -> int:
        return len(self._begun)

    def __repr__(self) -> str:
        return f"SetAside({len(self)} renames not durable yet)"
