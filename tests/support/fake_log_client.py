"""A cluster as the Spark source sees it (penstock.spark.log_client.LogClient), in memory and without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.client.consumer.raw.raw_buffer import RawBuffer
from penstock.epochs import end_offset_for
from penstock.errors import OffsetOutOfRangeError, PenstockError, TopicRecreatedError, UnknownTopicOrPartitionError
from penstock.record.builder import build_batch
from penstock.spark.planning import OffsetAt, PlannedRange, PlannedTopic
from penstock.spark.positions import SourcePositions
from penstock.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NOTHING_SEEN,
    EpochEndOffset,
    EpochEntry,
    MetadataOffset,
    TopicPartition,
)


@dataclass
class MemoryLog:
    """One partition: batches, and the bounds of what is readable."""

    start: int = 0
    end: int = 0
    epoch: int = 0
    epochs: tuple[EpochEntry, ...] = ()  # where epochs began; none: each ends at the end
    batches: list[tuple[int, int, int, bytes]] = field(default_factory=list)  # base, next, time in ms, bytes
    undecided: int = 0  # offsets beyond the end, of open transactions


class FakeLogClient:
    """Topics in memory; counts what is asked."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.metadata = NOTHING_SEEN
        self.remembered: list[SourcePositions] = []
        self.asked = 0
        self.groups: dict[str, dict[TopicPartition, OffsetAt]] = {}
        self.commits = 0
        self.commit_refusals: list[PenstockError] = []
        self.sampled: list[tuple[TopicPartition, int]] = []
        self.fetched: list[tuple[TopicPartition, int, int]] = []

    def create(self, name: str, partitions: int = 1, topic_id: str = "") -> None:
        self.ids[name] = topic_id or f"id-of-{name}"
        for tp in [tp for tp in self.logs if tp.topic == name]:
            del self.logs[tp]
        self.grow(name, partitions)

    def grow(self, name: str, partitions: int) -> None:
        for partition in range(partitions):
            self.logs.setdefault(TopicPartition(name, partition), MemoryLog())

    def delete(self, name: str) -> None:
        del self.ids[name]
        for tp in [tp for tp in self.logs if tp.topic == name]:
            del self.logs[tp]

    def append(self, topic: str, partition: int, count: int, *, timestamp_ms: int = 1000, keyed: bool = True) -> None:
        """One batch of `count` records whose values say where they are."""
        log = self.logs[TopicPartition(topic, partition)]
        values = [f"{topic}-{partition}@{log.end + i}".encode() for i in range(count)]
        data = build_batch(
            values,
            keys=[b"k"] * count if keyed else None,
            headers=[[("n", b"1")] if i % 2 else [] for i in range(count)],
            timestamps_ms=timestamp_ms,
            base_offset=log.end,
        )
        log.batches.append((log.end, log.end + count, timestamp_ms, data))
        log.end += count

    def append_bytes(self, topic: str, partition: int, batch: Callable[[int], bytes], count: int) -> None:
        """Appends what `batch` makes for the log's end, without a look at it."""
        log = self.logs[TopicPartition(topic, partition)]
        log.batches.append((log.end, log.end + count, 1000, batch(log.end)))
        log.end += count

    def append_compacted(self, topic: str, partition: int, deltas: list[int], size: int) -> None:
        """One batch that had `size` records, of which compaction has left these; perhaps none."""
        log = self.logs[TopicPartition(topic, partition)]
        data = build_batch(
            [f"{topic}-{partition}@{log.end + delta}".encode() for delta in deltas],
            timestamps_ms=[1000] * len(deltas),
            offset_deltas=deltas,
            last_offset_delta=size - 1,
            base_offset=log.end,
        )
        log.batches.append((log.end, log.end + size, 1000, data))
        log.end += size

    def delete_below(self, topic: str, partition: int, offset: int) -> None:
        self.logs[TopicPartition(topic, partition)].start = offset

    # -- LogClient -----------------------------------------------------------------------------------------------------

    def list_topics(self) -> list[str]:
        return sorted(self.ids)

    def describe(self, topics: Iterable[str]) -> dict[str, PlannedTopic]:
        found = {}
        for name in topics:
            if name in self.ids:
                count = sum(1 for tp in self.logs if tp.topic == name)
                found[name] = PlannedTopic(name, self.ids[name], count)
        return found

    def list_offsets(self, at_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]:
        self.asked += 1
        return {tp: self._offset(tp, at) for tp, at in at_ms.items()}

    def _offset(self, tp: TopicPartition, at_ms: int) -> OffsetAt:
        if tp not in self.logs:
            raise UnknownTopicOrPartitionError(f"{tp} is not known")
        log = self.logs[tp]
        if at_ms == EARLIEST_TIMESTAMP:
            return OffsetAt(log.start, log.epoch)
        if at_ms == LATEST_TIMESTAMP:
            return OffsetAt(log.end, log.epoch)
        late = [base for base, _, timestamp_ms, _ in log.batches if timestamp_ms >= at_ms]
        return OffsetAt(max(late[0], log.start), log.epoch) if late else OffsetAt(-1)

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked += 1
        return {tp: self.logs[tp].end + self.logs[tp].undecided for tp in partitions}

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAt]:
        known = self.groups.get(group_id, {})
        return {tp: known[tp] for tp in partitions if tp in known}

    def commit(self, group_id: str, positions: SourcePositions) -> None:
        self.commits += 1
        if self.commit_refusals:
            raise self.commit_refusals.pop()
        known = self.groups.setdefault(group_id, {})
        known.update((tp, OffsetAt(place.offset, place.leader_epoch)) for tp, place in positions.items())

    def remember(self, positions: SourcePositions) -> None:
        self.remembered.append(positions)

    def seen(self) -> MetadataOffset:
        return self.metadata

    def newest_topics(self, topics: Iterable[str]) -> dict[str, PlannedTopic]:
        return FakeLogClient.describe(self, topics)

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, EpochEndOffset]:
        found = {}
        for tp, epoch in epochs.items():
            log = self.logs[tp]
            found[tp] = end_offset_for(log.epochs or (EpochEntry(0, 0), EpochEntry(log.epoch, log.end)), epoch, log.end)
        return found

    def fetch(self, span: PlannedRange) -> Iterator[RawBuffer]:
        tp, from_offset, to_offset = span.topic_partition, span.lo, span.hi
        if span.topic_id != self.ids[span.topic]:
            raise TopicRecreatedError(*tp, expected_id=span.topic_id, found_id=self.ids[span.topic])
        self.fetched.append((tp, from_offset, to_offset))
        log = self.logs[tp]
        if from_offset < log.start:
            raise OffsetOutOfRangeError("below", log_start_offset=log.start, log_end_offset=log.end)
        for base, end, _, data in log.batches:
            if end > from_offset and base < to_offset:
                yield RawBuffer(data, max(base, from_offset), end)

    def sample(self, tp: TopicPartition, offset: int, topic_id: str) -> RawBuffer:
        self.sampled.append((tp, offset))
        return next(iter(self.fetch(PlannedRange(tp.topic, topic_id, tp.partition, offset, offset + 1))))
