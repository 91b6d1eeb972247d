"""Makes batches of the values of one send_many: an iterator of encoded batches, each with the partition it is for.

Both faces of the producer walk it and queue each batch as memory allows; nothing is encoded before the batch ahead of
it was queued, so a long iterable needs no more memory than the buffer. Cutting is cutting.py's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from penstock.client.producer.bulk import cutting
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.pending_record import PendingRecord
from penstock.client.producer.producer_core import ProducerCore
from penstock.errors import UnknownTopicOrPartitionError
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from penstock.record.lone_batch import smallest_batch

EncodedBatch = tuple[PartitionQueue, bytes, int]


class BulkPlan:
    """One send_many: where its records go and how they are cut."""

    __slots__ = ("_core", "_info", "_partition", "_timestamp_ms")

    def __init__(self, core: ProducerCore, topic: str, partition: int | None, timestamp_ms: int | None) -> None:
        info = core.cluster.cache.topic(topic)
        if info is None:
            raise UnknownTopicOrPartitionError(f"topic {topic!r} was deleted")
        self._core = core
        self._info = info
        self._partition = partition
        self._timestamp_ms = None if timestamp_ms is None else int(timestamp_ms)

    def batches(
        self, values: Iterable[bytes | None] | Any, keys: Iterable[bytes | None] | Any
    ) -> Iterator[EncodedBatch]:
        """Every batch in turn."""
        if cutting.is_arrow(values):
            from penstock.client.producer.bulk.bulk_arrow import arrow_batches

            return arrow_batches(self, values, keys)
        if isinstance(values, (bytes, bytearray, memoryview, str)):
            raise TypeError(
                f"send_many takes an iterable of bytes, not one {type(values).__name__}; use send for one record"
            )
        if keys is None and self._core.config.partitioner is None:
            return self._unkeyed(values)
        return self._keyed(values, keys)

    @property
    def limit_bytes(self) -> int:
        """How much fits one batch."""
        return self._core.batch_limit_bytes(self._info)

    @property
    def record_limit_bytes(self) -> int:
        return self._core.config.max_request_size

    @property
    def timestamp_ms(self) -> int:
        """The records' time: the one given, or now."""
        return self._core.clock.wall_ms() if self._timestamp_ms is None else self._timestamp_ms

    @property
    def has_partition(self) -> bool:
        """True if the caller has named the partition."""
        return self._partition is not None

    @property
    def has_partitioner(self) -> bool:
        return self._core.config.partitioner is not None

    @property
    def partition_count(self) -> int:
        return len(self._info.partitions)

    @property
    def codec(self) -> Codec:
        return self._core.codec

    def queue(self, key: bytes | None = None, value: bytes | None = None) -> PartitionQueue:
        """The queue that a record goes to; without partition, key and partitioner that of the least busy partition."""
        if key is None and self._partition is None and self._core.config.partitioner is None:
            return self._core.least_busy_queue(self._info)
        return self._core.queue_for(self._info, PendingRecord(key, value, (), None, 0), self._partition)

    def queue_of(self, partition: int) -> PartitionQueue:
        """The queue of one partition."""
        return self._core.queue_for(self._info, PendingRecord(None, None, (), None, 0), partition)

    def _unkeyed(self, values: Iterable[bytes | None]) -> Iterator[EncodedBatch]:
        for run in cutting.runs(values, self.limit_bytes, self.record_limit_bytes):
            build = partial(build_batch, run.values, timestamps_ms=self.timestamp_ms)
            encoded = smallest_batch(build, self.codec, len(run.values))
            yield self.queue(), encoded, len(run.values)

    def _keyed(self, values: Iterable[bytes | None], keys: Iterable[bytes | None] | None) -> Iterator[EncodedBatch]:
        """The records by partition within each chunk, so that those of one key stay in their order."""
        for chunk, their_keys in cutting.keyed_chunks(values, keys):
            by_queue: dict[int, tuple[PartitionQueue, list[bytes | None], list[bytes | None]]] = {}
            sticky = self.queue() if self._core.config.partitioner is None else None
            for key, value in zip(their_keys, chunk, strict=True):
                queue = sticky if key is None and sticky is not None else self.queue(key, value)
                found = by_queue.setdefault(id(queue), (queue, [], []))
                found[1].append(value)
                found[2].append(key)
            for queue, own_values, own_keys in by_queue.values():
                for run in cutting.cut_keyed(own_values, own_keys, queue.limit_bytes, self.record_limit_bytes):
                    build = partial(build_batch, run.values, keys=run.keys, timestamps_ms=self.timestamp_ms)
                    encoded = smallest_batch(build, self.codec, len(run.values))
                    yield queue, encoded, len(run.values)
