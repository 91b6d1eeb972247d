"""One offset checkpoint of a log dir, in memory and on the disk: an offset for each partition that has a line.

What is in memory is what is on the disk: a change is written, durably, BEFORE it is taken over here. A sync of the
directory that found no descriptor leaves in doubt which of two files is there; then both count as claimed, until a
write succeeds. A file that is missing or damaged is the same as none; what that means is for the owner to say. Not
thread-safe, and not here: the format (`checkpoint_file.py`), what the offsets mean (`log_directory.py`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from penstock.errors import CorruptFileError
from penstock.types import TopicPartition
from storage.disk.checkpoint_file import OffsetLines, read_offset_lines, write_offset_lines, write_offsets
from storage.disk.file_system import FileSystem

NO_IDS: Mapping[TopicPartition, str] = {}
_log = logging.getLogger(__name__)


class OffsetCheckpoint:
    """The lines of one checkpoint."""

    __slots__ = ("_fs", "_has_topic_ids", "_in_doubt", "is_good", "offsets", "path", "topic_ids")

    def __init__(self, fs: FileSystem, path: str, *, has_topic_ids: bool = False) -> None:
        """`has_topic_ids`: the lines say whose they are."""
        self._fs = fs
        self._has_topic_ids = has_topic_ids
        self.path = path
        found = None
        try:
            found = read_offset_lines(fs, path)
        except CorruptFileError as damage:
            _log.warning("%s; going on without it", damage)
        self.is_good = found is not None
        """False while there is no file, or a damaged one."""
        self.offsets: Mapping[TopicPartition, int] = found.offsets if found is not None else {}
        self.topic_ids: Mapping[TopicPartition, str] = found.topic_ids if found is not None else {}
        """Of the lines whose topic is known."""
        self._in_doubt: Mapping[TopicPartition, int] = {}
        """Lines that are on the disk instead, perhaps; of several writes the highest."""

    def claim(self, topic_partition: TopicPartition) -> int:
        """What the file says of the partition at most; 0 when it has no line."""
        return max(self.offsets.get(topic_partition, 0), self._in_doubt.get(topic_partition, 0))

    def has_line(self, topic_partition: TopicPartition) -> bool:
        """Whether the file has one for the partition, or may have."""
        return topic_partition in self.offsets or topic_partition in self._in_doubt

    def replace(self, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[TopicPartition, str] = NO_IDS) -> None:
        """Write these lines and no others; does nothing when the file has them."""
        if offsets != self.offsets or topic_ids != self.topic_ids or self._in_doubt or not self.is_good:
            offsets, topic_ids = dict(offsets), dict(topic_ids)
            if self._has_topic_ids:
                write_offset_lines(self._fs, self.path, OffsetLines(offsets, topic_ids), sync_directory=False)
            else:
                write_offsets(self._fs, self.path, offsets, sync_directory=False)
            doubted = self._in_doubt
            self.topic_ids = {**self.topic_ids, **topic_ids}
            self._in_doubt = {**doubted, **{tp: max(offset, doubted.get(tp, 0)) for tp, offset in offsets.items()}}
            self._fs.fsync_dir(os.path.dirname(self.path))
            self.offsets, self.topic_ids, self.is_good = offsets, topic_ids, True
            self._in_doubt = {}

    def lower(self, topic_partition: TopicPartition, offset: int) -> None:
        """Durable when it returns: the file claims no more than `offset` for the partition."""
        if self.claim(topic_partition) > offset:
            self.replace({**self._lines(), topic_partition: offset}, self.topic_ids)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Durable when it returns: the file has no line for the partition."""
        if self.has_line(topic_partition):
            offsets = {tp: offset for tp, offset in self._lines().items() if tp != topic_partition}
            self.replace(offsets, {tp: topic_id for tp, topic_id in self.topic_ids.items() if tp in offsets})

    def _lines(self) -> Mapping[TopicPartition, int]:
        """Those in doubt among them: a file without them would say that these logs were never flushed."""
        return {**self.offsets, **self._in_doubt}

    def __repr__(self) -> str:
        return f"OffsetCheckpoint({self.path}, {len(self.offsets)} lines, {'good' if self.is_good else 'none'})"
