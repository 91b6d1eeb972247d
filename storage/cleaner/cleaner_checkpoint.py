"""The cleaner-offset-checkpoint of one log dir: below which offset each log was cleaned.

A line may be too low, never too high. Below it no two records have the same key, and the cleaner relies on that when it
removes a tombstone (`batch_filter.py`). So no record that the cleaner has not mapped may get an offset below it:

- it is raised AFTER every swap of the pass is durable;
- it is lowered BEFORE a truncation cuts any record, and removed BEFORE a new log takes the place of an old one;
- a pass that began before a truncation may end after it: `put` takes the generation that was current when the pass
  began, and does nothing if the log was truncated since.

Used from several threads. New logs are created on the event loop, so a log without a line does not wait for the disk
while another log's line is written. `checkpoint_file.py` has the format; `cleaner_plan.py` decides which lines are
believed.
"""

from __future__ import annotations

from penstock.threads import Threads
from penstock.types import TopicPartition
from storage.disk.file_names import CLEANER_OFFSET_CHECKPOINT
from storage.disk.file_system import FileSystem
from storage.disk.offset_checkpoint import OffsetCheckpoint, WriteFile


class CleanerCheckpoint:
    """How far the logs of one log dir were cleaned."""

    __slots__ = ("_claims", "_generations", "_lines", "_mutex", "_under_way")

    def __init__(self, fs: FileSystem, log_dir: str, threads: Threads, write: WriteFile | None = None) -> None:
        """Reads the file; without it, or when it is damaged, every log is dirty from its beginning."""
        self._lines = OffsetCheckpoint(fs, f"{log_dir}/{CLEANER_OFFSET_CHECKPOINT}", write=write)
        self._generations: dict[TopicPartition, int] = {}
        self._mutex = threads.lock()
        """The lock that is held while the file is written."""
        self._claims = threads.lock()
        """Held, never for long, while a generation or `_under_way` changes, or counts."""
        self._under_way: TopicPartition | None = None
        """The partition whose line is being raised."""

    def get(self, topic_partition: TopicPartition) -> int | None:
        """The first dirty offset; None when the log was never cleaned."""
        return self._lines.offsets.get(topic_partition)

    def generation(self, topic_partition: TopicPartition) -> int:
        """Changes with every truncation."""
        return self._generations.get(topic_partition, 0)

    def put(self, topic_partition: TopicPartition, offset: int, generation: int) -> bool:
        """Durable when it returns; False when the log was truncated since the generation was asked."""
        with self._mutex:
            with self._claims:
                if self.generation(topic_partition) != generation:
                    return False
                self._under_way = topic_partition
            try:
                self._lines.replace({**self._lines.offsets, topic_partition: offset})
            finally:
                with self._claims:
                    self._under_way = None
            return True

    def lower(self, topic_partition: TopicPartition, offset: int) -> None:
        """The log is about to be cut at `offset`; durable when it returns."""
        if self._begin_generation(topic_partition):
            with self._mutex:
                self._lines.lower({topic_partition: offset})

    def remove(self, topic_partition: TopicPartition) -> None:
        """The log is gone; durable when it returns."""
        if self._begin_generation(topic_partition):
            with self._mutex:
                self._lines.forget(topic_partition)

    def _begin_generation(self, topic_partition: TopicPartition) -> bool:
        """Keeps earlier passes from raising the line. Returns whether the log has a line, or will have one."""
        with self._claims:
            self._generations[topic_partition] = self.generation(topic_partition) + 1
            return topic_partition == self._under_way or self._lines.has_line(topic_partition)

    def __repr__(self) -> str:
        return f"CleanerCheckpoint({self._lines!r})"
