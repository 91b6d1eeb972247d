"""Sets a log's directory aside: a durable rename to a name that says why, and that no partition can have.

    orders-3.<uuid>-delete      its topic was deleted; removed later
    orders-3.<uuid>-stray       not assigned to this broker; kept
    orders-3.<uuid>-rotten      damaged, and fetched anew from its leader; kept

The sync after a rename may find no descriptor. Then the rename is remembered, and the next call for that directory only
makes it durable. Any other error is final: a failed sync is not repeated.

Not here: the form of the names (`file_names.py`), which log is renamed and when (`log_manager.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.errors import KafkaStorageError
from penstock.ids import Ids
from penstock.types import TopicPartition
from storage.disk.disk_errors import is_shortage, storage_error
from storage.disk.file_names import DELETE_DIRECTORY_SUFFIX, set_aside_directory
from storage.disk.file_system import FileSystem

_log = logging.getLogger(__name__)


class Begun(NamedTuple):
    """A rename that may not be durable."""

    target: str
    suffix: str


class SetAside:
    """Used on one thread, except `take_all`; blocks."""

    def __init__(self, fs: FileSystem, ids: Ids) -> None:
        self._fs, self._ids = fs, ids
        self._begun: dict[str, Begun] = {}
        """By the old path; only of logs that are offline until all of it is done."""
        self._unsynced: set[str] | None = None
        """Log dirs that `one_sync` is to sync; None outside of it."""

    @contextlib.contextmanager
    def one_sync(self) -> Iterator[None]:
        """Renames in this block become durable at its end, by one sync of each log dir: a topic may have thousands of
        logs. Until then a crash may bring back the old names; the creation of a log in that dir syncs it as well.
        KafkaStorageError if a disk refused the sync."""
        self._unsynced = set()
        try:
            yield
        finally:
            log_dirs, self._unsynced = self._unsynced, None
            self._sync(sorted(log_dirs))

    def _sync(self, log_dirs: Sequence[str]) -> None:
        """All of them; the first error after each had its turn, because one disk's trouble is not the others'."""
        failure: tuple[str, OSError] | None = None
        for log_dir in log_dirs:
            try:
                self._fs.fsync_dir(log_dir)
            except OSError as error:
                failure = failure or (log_dir, error)
        if failure is not None:
            raise storage_error("set logs aside", *failure) from failure[1]

    def take(self, paths: Sequence[str], topic_partition: TopicPartition, suffix: str) -> list[str]:
        """The new paths, durable when it returns. KafkaStorageError when the disk refused: call it again after a
        shortage; after anything else an old name may be there yet."""
        targets = [self._take(path, topic_partition, suffix) for path in paths]
        for path in paths:
            del self._begun[path]
        return targets

    def _take(self, path: str, topic_partition: TopicPartition, suffix: str) -> str:
        log_dir = os.path.dirname(path)
        try:
            self._rename(path, topic_partition, suffix)
            if self._unsynced is None:
                self._fs.fsync_dir(log_dir)
            else:
                self._unsynced.add(log_dir)
        except OSError as error:
            if not is_shortage(error):
                self._begun.pop(path, None)
            raise storage_error("set aside", path, error) from error
        begun = self._begun[path]
        if begun.suffix != DELETE_DIRECTORY_SUFFIX:
            _log.warning("%s: set aside as %s", topic_partition, begun.target)
        return begun.target

    def _rename(self, path: str, topic_partition: TopicPartition, suffix: str) -> None:
        if path not in self._begun:
            target = f"{os.path.dirname(path)}/{set_aside_directory(topic_partition, self._ids.new_id(), suffix)}"
            self._fs.rename(path, target)
            self._begun[path] = Begun(target, suffix)

    def take_all(
        self, paths: Mapping[str, TopicPartition], suffix: str, log_dir: str
    ) -> dict[str, str | KafkaStorageError]:
        """Rename directories of one log dir, with one sync; in any thread, if no other thread takes these paths. The
        new path of each, or why it could not be renamed. If the disk refuses the sync, a crash may bring them back; the
        creation of a log in that dir syncs it as well."""
        outcomes: dict[str, str | KafkaStorageError] = {}
        for path, topic_partition in paths.items():
            try:
                self._rename(path, topic_partition, suffix)
                outcomes[path] = self._begun.pop(path).target
            except OSError as error:
                outcomes[path] = storage_error("set aside", path, error)
        try:
            self._fs.fsync_dir(log_dir)
        except OSError as error:
            _log.error("%s: a crash may bring back logs that were set aside: %s", log_dir, error)
        return outcomes

    def begun(self, paths: Sequence[str]) -> str | None:
        """The suffix under which one of them is being set aside."""
        return next((self._begun[path].suffix for path in paths if path in self._begun), None)

    def __len__(self) -> int:
        return len(self._begun)

    def __repr__(self) -> str:
        return f"SetAside({len(self)} renames not durable yet)"
