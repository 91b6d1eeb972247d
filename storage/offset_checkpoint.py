"""One offset checkpoint of a log dir, in memory and on the disk: an offset for each partition that has a line.

What is in memory is what is on the disk, always: a change is written, durably, BEFORE it is taken over here. A file
that is missing or damaged is the same as none; what that means is for the owner to say. Not thread-safe, and not here:
the format (`checkpoint_file.py`), what the offsets mean (`log_directory.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.errors import CorruptFileError
from penstock.types import TopicPartition
from storage.checkpoint_file import read_offsets, write_offsets
from storage.file_system import FileSystem

_log = logging.getLogger(__name__)


class OffsetCheckpoint:
    """The lines of one checkpoint."""

    __slots__ = ("_fs", "is_good", "offsets", "path")

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self.path = path
        found = None
        try:
            found = read_offsets(fs, path)
        except CorruptFileError as damage:
            _log.warning("%s; going on without it", damage)
        self.is_good = found is not None
        """False while there is no file, or a damaged one."""
        self.offsets: Mapping[TopicPartition, int] = found or {}

    def replace(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write these lines and no others; does nothing when the file has them."""
        if offsets != self.offsets or not self.is_good:
            offsets = dict(offsets)
            write_offsets(self._fs, self.path, offsets)
            self.offsets, self.is_good = offsets, True

    def lower(self, topic_partition: TopicPartition, offset: int) -> None:
        """Durable when it returns: the file claims no more than `offset` for the partition."""
        if self.offsets.get(topic_partition, 0) > offset:
            self.replace({**self.offsets, topic_partition: offset})

    def forget(self, topic_partition: TopicPartition) -> None:
        """Durable when it returns: the file has no line for the partition."""
        if topic_partition in self.offsets:
            self.replace({tp: offset for tp, offset in self.offsets.items() if tp != topic_partition})

    def __repr__(self) -> str:
        return f"OffsetCheckpoint({self.path}, {len(self.offsets)} lines, {'good' if self.is_good else 'none'})"
