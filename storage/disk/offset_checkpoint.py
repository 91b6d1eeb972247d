"""One offset checkpoint of a log dir, in memory and on the disk: an offset for each partition that has a line.

Memory equals the disk: a change is written durably BEFORE memory changes. If the sync of the directory found no
descriptor, either of two files may be on the disk; then the higher line of both counts, until a write succeeds. A
damaged file counts as a missing one; the owner decides what that means. Not thread-safe. The format is in
`checkpoint_file.py`, the meaning of the offsets in `log_directory.py`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import partial

from penstock.errors import CorruptFileError
from penstock.types import TopicPartition
from storage.disk.atomic_file import write_atomically
from storage.disk.checkpoint_file import OffsetLines, offset_lines_content, offsets_content, read_offset_lines
from storage.disk.file_system import FileSystem

WriteFile = Callable[[str, bytes], None]
"""Replaces the content of the file at a path, atomically; its name is durable only after an fsync of the directory."""
NO_IDS: Mapping[TopicPartition, str] = {}
_log = logging.getLogger(__name__)


class OffsetCheckpoint:
    """The lines of one checkpoint."""

    __slots__ = ("_fs", "_has_topic_ids", "_in_doubt", "_write", "is_good", "offsets", "path", "topic_ids")

    def __init__(
        self, fs: FileSystem, path: str, *, has_topic_ids: bool = False, write: WriteFile | None = None
    ) -> None:
        """`has_topic_ids`: the lines have topic ids. `write` is how the file is written, where the log dir has its
        own."""
        self._fs, self._write = fs, write or partial(write_atomically, fs, sync_directory=False)
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
        """The topic ids of the lines, if known."""
        self._in_doubt: Mapping[TopicPartition, int] = {}
        """Lines that may be on the disk instead; the highest of several writes."""

    def claim(self, topic_partition: TopicPartition) -> int:
        """The highest offset that the file may have for the partition; 0 without a line."""
        return max(self.offsets.get(topic_partition, 0), self._in_doubt.get(topic_partition, 0))

    def has_line(self, topic_partition: TopicPartition) -> bool:
        """True if the file has, or may have, a line for the partition."""
        return topic_partition in self.offsets or topic_partition in self._in_doubt

    def replace(self, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[TopicPartition, str] = NO_IDS) -> None:
        """Write exactly these lines; does nothing if the file has them already."""
        if offsets != self.offsets or topic_ids != self.topic_ids or self._in_doubt or not self.is_good:
            offsets, topic_ids = dict(offsets), dict(topic_ids)
            if self._has_topic_ids:
                self._write(self.path, offset_lines_content(OffsetLines(offsets, topic_ids)))
            else:
                self._write(self.path, offsets_content(offsets))
            doubted = self._in_doubt
            self.topic_ids = {**self.topic_ids, **topic_ids}
            self._in_doubt = {**doubted, **{tp: max(offset, doubted.get(tp, 0)) for tp, offset in offsets.items()}}
            self._fs.fsync_dir(os.path.dirname(self.path))
            self.offsets, self.topic_ids, self.is_good = offsets, topic_ids, True
            self._in_doubt = {}

    def lower(self, bounds: Mapping[TopicPartition, int]) -> None:
        """Durable when it returns: the file claims no more than its bound for each partition. One write, or none."""
        lower = {tp: offset for tp, offset in bounds.items() if self.claim(tp) > offset}
        if lower:
            self.replace({**self._lines(), **lower}, self.topic_ids)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Durable when it returns: the file has no line for the partition."""
        if self.has_line(topic_partition):
            offsets = {tp: offset for tp, offset in self._lines().items() if tp != topic_partition}
            self.replace(offsets, {tp: topic_id for tp, topic_id in self.topic_ids.items() if tp in offsets})

    def _lines(self) -> Mapping[TopicPartition, int]:
        """The lines, with those in doubt: a file without them would say that these logs were never flushed."""
        return {**self.offsets, **self._in_doubt}

    def __repr__(self) -> str:
        return f"OffsetCheckpoint({self.path}, {len(self.offsets)} lines, {'good' if self.is_good else 'none'})"
