"""The cleaner-offset-checkpoint of one log dir: below which offset each log was cleaned.

A line may only be too low. Below it no two records have one key, and the cleaner relies on that when it takes a
tombstone out (`batch_filter.py`); records that it never mapped must not come to stand there. Therefore:

- it is raised AFTER every swap of the pass is durable;
- it is lowered BEFORE a truncation takes any record, and removed BEFORE a new log gets the place of an old one;
- a pass that began before a truncation may end after it: `put` wants the generation that was current when the pass
  began, and does nothing if the log was truncated since.

Used from several threads. Not here: the format (`checkpoint_file.py`), which lines are believed (`cleaner_plan.py`).
"""

from __future__ import annotations

import threading

from penstock.types import TopicPartition
from storage.file_names import CLEANER_OFFSET_CHECKPOINT
from storage.file_system import FileSystem
from storage.offset_checkpoint import OffsetCheckpoint


class CleanerCheckpoint:
    """How far the logs of one log dir were cleaned."""

    __slots__ = ("_generations", "_lines", "_mutex")

    def __init__(self, fs: FileSystem, log_dir: str) -> None:
        """Reads the file; without it, or when it is damaged, every log is dirty from its beginning."""
        self._lines = OffsetCheckpoint(fs, f"{log_dir}/{CLEANER_OFFSET_CHECKPOINT}")
        self._generations: dict[TopicPartition, int] = {}
        self._mutex = threading.Lock()

    def get(self, topic_partition: TopicPartition) -> int | None:
        """The first dirty offset; None when the log was never cleaned."""
        return self._lines.offsets.get(topic_partition)

    def generation(self, topic_partition: TopicPartition) -> int:
        """Changes with every truncation."""
        return self._generations.get(topic_partition, 0)

    def put(self, topic_partition: TopicPartition, offset: int, generation: int) -> bool:
        """Durable when it returns; False when the log was truncated since the generation was asked."""
        with self._mutex:
            if self.generation(topic_partition) != generation:
                return False
            self._lines.replace({**self._lines.offsets, topic_partition: offset})
            return True

    def lower(self, topic_partition: TopicPartition, offset: int) -> None:
        """The log is about to be cut at `offset`; durable when it returns."""
        with self._mutex:
            self._generations[topic_partition] = self.generation(topic_partition) + 1
            self._lines.lower(topic_partition, offset)

    def remove(self, topic_partition: TopicPartition) -> None:
        """The log is gone; durable when it returns."""
        with self._mutex:
            self._generations[topic_partition] = self.generation(topic_partition) + 1
            self._lines.forget(topic_partition)

    def __repr__(self) -> str:
        return f"CleanerCheckpoint({self._lines!r})"
