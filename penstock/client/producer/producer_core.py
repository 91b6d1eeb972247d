"""The producer without its face: what Producer and AsyncProducer share.

Checks a record, finds its partition, appends it, and tells the caller what to wait for when it cannot: a topic's
metadata or memory. It never waits itself, so that one face can block and the other await. Not here: calls that wait
(producer_calls.py), batches (accumulator.py) and traffic (sender.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.client.cluster.arguments import checked_topic, is_whole_number
from penstock.client.cluster.by_leader import check_partition
from penstock.client.cluster.cluster import ClusterClient
from penstock.client.cluster.waiting import Waiting
from penstock.client.environment import ClientEnvironment
from penstock.client.metrics.client_metric import ClientMetric
from penstock.client.options.config import ProducerConfig, producer_config
from penstock.client.options.options import parse_bootstrap
from penstock.client.producer.accumulator import Accumulator
from penstock.client.producer.batch import ProducerBatch
from penstock.client.producer.future import RecordFuture, when_done
from penstock.client.producer.memory import MemoryPool
from penstock.client.producer.partition_queue import PartitionQueue
from penstock.client.producer.partition_queues import AccumulatorConfig
from penstock.client.producer.partitioner import partition_for_key
from penstock.client.producer.pending_record import NotAppended, PendingRecord, as_bytes, as_headers, as_timestamp
from penstock.client.producer.producer_statistics import ProducerStatistics, producer_metrics
from penstock.client.producer.sending.dispatcher import BatchDispatcher
from penstock.client.producer.sending.failed_batches import DispatchLimits
from penstock.client.producer.sending.sender import Sender
from penstock.client.producer.stalled import producer_waits
from penstock.client.producer.transactions.open_transaction import OpenTransaction
from penstock.client.producer.transactions.transaction_calls import TransactionCalls
from penstock.client.producer.transactions.transaction_core import TransactionCore
from penstock.client.producer.transactions.transactions import Transactions
from penstock.client.wire.large_buffers import reuse_large_buffers
from penstock.errors import (
    BufferExhaustedError,
    ClientClosedError,
    UnknownTopicOrPartitionError,
)
from penstock.messages.metadata import TopicInfo
from penstock.record.batch import HEADER_BYTES
from penstock.record.codecs import codec_from_name
from penstock.record.lone_batch import check_record_size
from penstock.types import TopicPartition

COUNT_ATTEMPTS = 10


class ProducerCore:
    """Everything of a producer but how to wait."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        options: Mapping[str, Any],
        environment: ClientEnvironment,
        shared: ClusterClient | None = None,
        writer: OpenTransaction | None = None,
    ) -> None:
        """`shared`: the way to the brokers, if others use it, too: they close it. `writer`: of atomic batches."""
        self.config: ProducerConfig = producer_config(options)
        self.bootstrap = parse_bootstrap(bootstrap, "Producer")
        self.clock = environment.clock
        self._threads = environment.threads
        config = self.config
        self.codec = codec_from_name(config.compression_type)
        self.memory = MemoryPool(config.buffer_memory, environment.threads)
        batch_size = min(config.batch_size, config.max_request_size)
        in_flight_max = config.max_in_flight_requests_per_connection
        limits_of_batches = AccumulatorConfig(
            batch_size, config.linger_ms, self.codec, in_flight_max if config.enable_idempotence else 0
        )
        core = TransactionCore(config.transactional_id) if config.transactional_id is not None else None
        self.transaction: OpenTransaction | None = writer or core
        self.accumulator = Accumulator(limits_of_batches, self.memory, environment.threads, self.transaction)
        self.partitions = self.accumulator.partitions
        self._is_shared = shared is not None
        self.cluster = shared or ClusterClient(self.bootstrap, config, environment)
        limits = DispatchLimits(
            config.delivery_timeout_ms, config.request_timeout_ms, config.retries, self.cluster.backoff
        )
        dispatcher = BatchDispatcher(self.accumulator, self.cluster.cache, limits)
        self.sender = Sender(
            self.cluster,
            self.accumulator,
            dispatcher,
            config.required_acks,
            in_flight_max,
            self.transaction,
        )
        self.transactions = TransactionCalls(
            Transactions(core, config, self.cluster, self.accumulator, self.sender) if core is not None else None
        )
        self.closed = False
        self.cluster.subscribe(self._check_partition_counts)
        self.cluster.tracked.add_user(self.partitions)

    def _check_partition_counts(self) -> None:
        """A topic that got more partitions, or is gone, must not be found by the old count."""
        for topic, slots in tuple(self.partitions.keyed.items()):
            info = self.cluster.cache.topic(topic)
            if info is None or len(info.partitions) != len(slots):
                self.partitions.keyed.pop(topic, None)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Starts the network half on `loop`."""
        reuse_large_buffers()
        self.transactions.start(loop)
        self.sender.start(loop)

    # -- records -------------------------------------------------------------------------------------------------------

    def pending(self, key: Any, value: Any, headers: Any, timestamp_ms: int | None) -> PendingRecord:
        """A checked record; MessageTooLargeError, TypeError or ValueError when it may not be sent."""
        if self.closed:
            raise ClientClosedError("this producer is closed; make a new one")
        if self.transaction is not None:
            self.transaction.must_take_records()
        record = PendingRecord.of(
            as_bytes("key", key), as_bytes("value", value), as_headers(headers), as_timestamp(timestamp_ms)
        )
        if record.size_bytes + HEADER_BYTES > self.config.max_request_size:
            self._check_size(record)
        return record

    def _check_size(self, record: PendingRecord) -> None:
        """Raises MessageTooLargeError if the batch that the record makes alone is over the limit. `record.size_bytes`
        is only an upper bound of its size, and was over it."""
        check_record_size(record.value, record.key, record.headers, self.config.max_request_size)

    def append(self, topic: str, record: PendingRecord, partition: int | None) -> RecordFuture | NotAppended:
        """Appends; NO_TOPIC or NO_MEMORY when the caller must wait for that and try again."""
        info = self.cluster.cache.topic(topic)
        if info is None or _is_beyond(info, partition):
            return NotAppended.NO_TOPIC
        now_ms = self.clock.now_ms()
        try:
            while True:
                queue = self.queue_for(info, record, partition)
                answer = self.accumulator.try_append(queue, record, now_ms, self.clock.wall_ms())
                if answer is NotAppended.BATCH_CLOSED:
                    self.sender.wake()
                    continue
                if not isinstance(answer, NotAppended):
                    self.sender.wake_by(now_ms + self.config.linger_ms)
                return answer
        except BaseException:  # Ctrl-C: what was appended or closed must not wait for the next call
            self.sender.wake()
            raise

    def queue_for(self, info: TopicInfo, record: PendingRecord, partition: int | None) -> PartitionQueue:
        """The partition given, else the partitioner's, else the key's, else the sticky one."""
        limit = _max_batch_bytes(info)
        if partition is None and self.config.partitioner is not None:
            partition = self.config.partitioner(info.name, record.key, record.value, len(info.partitions))
        if partition is None and record.key is not None:
            partition = partition_for_key(record.key, len(info.partitions))
            if info.name not in self.partitions.keyed and self.config.partitioner is None:
                self.partitions.keyed_slots(info.name, len(info.partitions), limit)
        if partition is None:
            return self.partitions.sticky_queue(info.name, self.cluster.cache.led_partitions(info.name), limit)
        if type(partition) is not int:  # a whole number of NumPy, maybe
            if not is_whole_number(partition):
                raise TypeError(f"partition must be an int, not {type(partition).__name__}")
            partition = int(partition)
        if not 0 <= partition < len(info.partitions):
            raise UnknownTopicOrPartitionError(
                f"topic {info.name!r} has partitions 0 to {len(info.partitions) - 1}, not {partition}"
            )
        return self.partitions.queue(TopicPartition(info.name, partition), limit)

    def least_busy_queue(self, info: TopicInfo) -> PartitionQueue:
        """The queue that a whole batch without keys goes to."""
        led = self.cluster.cache.led_partitions(info.name)
        return self.partitions.choose_queue(info.name, led, _max_batch_bytes(info))

    def batch_limit_bytes(self, info: TopicInfo) -> int:
        """How many bytes of records fit one batch of the topic."""
        return self.partitions.queue(TopicPartition(info.name, 0), _max_batch_bytes(info)).limit_bytes

    # -- waiting, for the faces ----------------------------------------------------------------------------------------

    def knows(self, topic: str, partition: Any) -> bool:
        """True if the topic is known, with the partition if one is given."""
        info = self.cluster.cache.topic(topic)
        return info is not None and not _is_beyond(info, partition)

    async def wait_topic(self, topic: Any, partition: Any = None) -> TopicInfo:
        """The topic once it is known, with the partition if one is given; raises if it does not exist, or if no broker
        answers. A topic that is known may have more partitions meanwhile, so it is asked for again, once."""
        info = await self.cluster.topic(checked_topic(topic), self.config.max_block_ms)
        if _is_beyond(info, partition):
            await check_partition(self.cluster, TopicPartition(topic, int(partition)), self.config.max_block_ms)
        return info

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        """Every partition of a topic."""
        return [TopicPartition(topic, p.partition) for p in (await self.wait_topic(topic)).partitions]

    async def waiting_for(self) -> tuple[Waiting, ...]:
        """The reasons why records that are sent are not acked, for a person."""
        queues, acks = self.partitions.queues(), self.config.required_acks
        return producer_waits(queues, self.cluster.cache, acks, self.sender.throttled_ms)

    async def unfinished(self) -> list[ProducerBatch]:
        """Every batch that is not acked and has not failed; async to be run on the loop."""
        return self.partitions.unfinished()

    def buffer_exhausted(self) -> BufferExhaustedError:
        config = self.config
        return BufferExhaustedError(
            f"the buffer had no room for max_block_ms={config.max_block_ms}: {self.memory.used_bytes} of"
            f" buffer_memory={config.buffer_memory} bytes wait to be acked"
            f"{self.accumulator.share.why_exhausted(self.clock.now_ms())}"
        )

    # -- bulk ----------------------------------------------------------------------------------------------------------

    def append_bulk(self, queue: PartitionQueue, encoded: bytes, record_count: int) -> ProducerBatch | None:
        """Queues one batch made elsewhere; None when there is no memory for it now."""
        batch = ProducerBatch(queue.topic_partition, self.clock.wall_ms(), self.clock.now_ms(), self._threads)
        batch.set_encoded(encoded, record_count)
        try:
            if not self.accumulator.take_bulk(queue, batch, len(encoded)):
                return None
            self.accumulator.append_bulk(queue, batch)
            self.sender.wake()
            return batch
        except BaseException:  # closed, or Ctrl-C: nobody else would give the memory back, or send what was closed
            self.memory.give_back(batch)
            self.sender.wake()
            raise

    # -- end -----------------------------------------------------------------------------------------------------------

    def begin_close(self) -> None:
        """No further record is taken; what was taken is still sent."""
        self.closed = True
        self.transactions.begin_close()
        self.partitions.sticky.clear()
        self.partitions.keyed.clear()

    def unacked_records(self) -> int:
        """About how many records are neither acked nor failed; the exact number while the loop does nothing."""
        for _ in range(COUNT_ATTEMPTS):
            with contextlib.suppress(RuntimeError):  # the loop moves batches at this moment
                return sum(len(batch.values) or batch.record_count for batch in self.partitions.unfinished())
        return 0

    async def close_forgotten(self) -> None:
        """The end of a producer that its user dropped: sends what it took, and ends all traffic."""
        self.begin_close()
        try:
            await self.transactions.close(None)
            with self.accumulator.flush():
                self.sender.wake()
                for batch in self.partitions.unfinished():
                    if not batch.done:
                        await when_done(batch)
        finally:
            await self.finish_close()

    async def finish_close(self) -> None:
        """Ends all traffic; whatever is not acked fails."""
        await self.sender.close()
        if not self._is_shared:
            await self.cluster.close()

    def statistics(self) -> ProducerStatistics:
        """Counts since the producer was made."""
        return self.sender.statistics()

    def metrics(self) -> tuple[ClientMetric, ...]:
        """The counts for a monitoring system, by Kafka's names, with labels; `penstock.MetricsCollector` shows them to
        Prometheus. Asks nobody; in any thread."""
        labels = {"client_id": self.config.client_id, "transactional_id": self.config.transactional_id or ""}
        return producer_metrics(self.statistics(), labels, self.cluster.connections.count)


def _is_beyond(info: TopicInfo, partition: Any) -> bool:
    return is_whole_number(partition) and bool(partition >= len(info.partitions))


def _max_batch_bytes(info: TopicInfo) -> int | None:
    """The topic's own limit of a batch, where it overrides the cluster's."""
    text = info.config.get("max.message.bytes", "")
    return int(text) if text.isdigit() else None
