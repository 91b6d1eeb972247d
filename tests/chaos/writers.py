"""The producers of a chaos run, each in a thread: all idempotent, as producers are by default.

Single records with keys, by the plain and by the async producer; single records to partitions; `send_many`; and an
impatient producer, whose records fail wherever an election takes longer than its patience, and so leave gaps. Keys come
spread, and in bursts of one key, which are several small batches of one partition at a time.

Each tells the ledger of a record before it is sent, and of its ack. A record that fails is neither promised nor
forbidden. Rates are steady and small: what is looked for are mistakes, not limits.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penstock import AsyncProducer, Producer, TopicPartition
from penstock.client.producer.future import BulkFuture, RecordFuture
from penstock.client.producer.producer_core import ProducerCore
from penstock.errors import PenstockError
from tests.chaos.history import History
from tests.chaos.hung_disks import HungDisks
from tests.chaos.ledger import Ledger, encode_value

TICK_S = 0.02
RECORDS_PER_TICK = 1
BURST_RECORDS = 30
BURST_EVERY_TICKS = 10
KEYS = 40
SMALL_BATCH_BYTES = 512
"""Three records with keys: a burst is ten batches, of which five are with the broker at a time."""
MAX_BLOCK_MS = 10_000
IMPATIENT_OPTIONS = {"delivery_timeout_ms": 2_500, "request_timeout_ms": 2_000}
"""Less than most hangs and elections take."""
CLOSE_TIMEOUT_S = 150.0
"""Longer than delivery_timeout_ms, after which every record was acked or has failed."""

Take = Callable[[Producer, int], None]


@dataclass(slots=True)
class Writers:
    """`possible_duplicates` is what each producer said of itself when it was closed; `in_flight_max` is how many
    batches of one partition it had with a broker at a time, as seen when one of them was answered."""

    bootstrap: str
    ledger: Ledger
    history: History
    hung_disks: HungDisks
    stopped: threading.Event = field(default_factory=threading.Event)
    possible_duplicates: dict[int, int] = field(default_factory=dict)
    in_flight_max: dict[int, int] = field(default_factory=dict)
    failed: Counter[int] = field(default_factory=Counter)
    batches_retried: int = 0
    worst_ack_s: float = 0.0

    def send_keyed(self, number: int, topic: str, **options: Any) -> None:
        """Single records, spread by their keys."""

        def tick(producer: Producer, count: int) -> None:
            for key in _keys(count):
                sequence = self.ledger.send(number, topic, key=key)
                value = encode_value(number, sequence)
                self._watch(number, sequence, producer._core, partial(producer.send, topic, value, b"key-%d" % key))

        self._run(number, tick, linger_ms=5, batch_size=SMALL_BATCH_BYTES, **options)

    def send_async(self, number: int, topic: str) -> None:
        """The same by the async producer."""
        asyncio.run(self._send_async(number, topic))

    async def _send_async(self, number: int, topic: str) -> None:
        options = {"linger_ms": 5, "batch_size": SMALL_BATCH_BYTES, "max_block_ms": MAX_BLOCK_MS}
        producer = AsyncProducer(self.bootstrap, **options)
        try:
            count = 0
            while not self.stopped.is_set():
                await asyncio.sleep(TICK_S)
                for key in _keys(count):
                    await self._send_one(number, topic, key, producer)
                count += 1
        finally:
            await producer.close(CLOSE_TIMEOUT_S)
            self._closed(number, producer)

    async def _send_one(self, number: int, topic: str, key: int, producer: AsyncProducer) -> None:
        sequence, sent_at = self.ledger.send(number, topic, key=key), time.monotonic()
        try:
            future = await producer.send(topic, encode_value(number, sequence), b"key-%d" % key)
        except PenstockError as error:
            self._failed(number, sequence, error)
        else:
            future.add_done_callback(partial(self._record_done, number, sequence, sent_at, producer._core))

    def send_to_partitions(self, number: int, topic: str, partitions: int) -> None:
        """Single records to one partition after another, each sent at once."""

        def tick(producer: Producer, count: int) -> None:
            for _ in range(RECORDS_PER_TICK):
                sequence = self.ledger.send(number, topic)
                value, chosen = encode_value(number, sequence), sequence % partitions
                send = partial(producer.send, topic, value, partition=chosen)
                self._watch(number, sequence, producer._core, send)

        self._run(number, tick, linger_ms=0)

    def send_bulk(self, number: int, topic: str, partitions: int) -> None:
        """Some records at once to one partition, by send_many."""
        waiting: deque[tuple[BulkFuture, int, float]] = deque()

        def tick(producer: Producer, count: int) -> None:
            while waiting and waiting[0][0].done():
                self._bulk_done(number, *waiting.popleft())
            if count % BURST_EVERY_TICKS:
                return
            first = self.ledger.send(number, topic, BURST_RECORDS)
            values = [encode_value(number, first + n) for n in range(BURST_RECORDS)]
            sent_at = time.monotonic()
            try:
                future = producer.send_many(topic, values, partition=count // BURST_EVERY_TICKS % partitions)
            except PenstockError as error:
                self._failed(number, first, error, BURST_RECORDS)
            else:
                waiting.append((future, first, sent_at))
                future.add_done_callback(partial(self._note_bulk, number, sent_at))

        self._run(number, tick, linger_ms=0, batch_size=SMALL_BATCH_BYTES)
        for item in waiting:
            self._bulk_done(number, *item)

    def _run(self, number: int, tick: Take, **options: Any) -> None:
        producer = Producer(self.bootstrap, max_block_ms=MAX_BLOCK_MS, **options)
        try:
            count = 0
            while not self.stopped.wait(TICK_S):
                tick(producer, count)
                count += 1
        finally:
            producer.close(CLOSE_TIMEOUT_S)
            self._closed(number, producer)

    def _closed(self, number: int, producer: Producer | AsyncProducer) -> None:
        found = producer.statistics()
        self.possible_duplicates[number] = found.possible_duplicates
        self.batches_retried += found.batches_retried
        self.history.write("closed", producer=number, statistics=str(found))

    def _watch(self, number: int, sequence: int, core: ProducerCore, send: Callable[[], RecordFuture]) -> None:
        sent_at = time.monotonic()
        try:
            future = send()
        except PenstockError as error:
            self._failed(number, sequence, error)
        else:
            future.add_done_callback(partial(self._record_done, number, sequence, sent_at, core))

    def _record_done(
        self, number: int, sequence: int, sent_at: float, core: ProducerCore, future: RecordFuture
    ) -> None:
        error = future.exception(0)
        if error is not None:
            self._failed(number, sequence, error)
            return
        metadata = future.result(0)
        queue = core.partitions.queue(TopicPartition(metadata.topic, metadata.partition), None)
        in_flight = len(queue.in_flight) + 1  # this one is answered
        self.in_flight_max[number] = max(self.in_flight_max.get(number, 0), in_flight)
        self.hung_disks.acked(number, TopicPartition(metadata.topic, metadata.partition), sent_at)
        self._acked(number, sequence, metadata.partition, metadata.offset, 1, sent_at)

    def _note_bulk(self, number: int, sent_at: float, future: BulkFuture) -> None:
        """At once; `_bulk_done` comes in the order of the sends."""
        if future.exception(0) is None:
            for found in future.ranges(0):
                self.hung_disks.acked(number, TopicPartition(found.topic, found.partition), sent_at)

    def _bulk_done(self, number: int, future: BulkFuture, first: int, sent_at: float) -> None:
        try:
            ranges = future.ranges(0)
        except PenstockError as error:
            self._failed(number, first, error, BURST_RECORDS)
            return
        for found in ranges:
            self._acked(number, first, found.partition, found.first_offset, found.record_count, sent_at)
            first += found.record_count

    def _acked(self, number: int, first: int, partition: int, offset: int, count: int, sent_at: float) -> None:
        self.worst_ack_s = max(self.worst_ack_s, time.monotonic() - sent_at)
        self.ledger.ack(number, first, partition, offset, count)
        self.history.write("ack", record=[number, first, count], at_offset=[partition, offset])

    def _failed(self, number: int, first: int, error: PenstockError, count: int = 1) -> None:
        self.failed[number] += count
        self.history.write("failed", record=[number, first, count], error=f"{type(error).__name__}: {error}"[:300])


def _keys(count: int) -> Iterator[int]:
    """The keys of the records of one tick."""
    for n in range(RECORDS_PER_TICK):
        yield (count * RECORDS_PER_TICK + n) % KEYS
    if count % BURST_EVERY_TICKS == 0:
        yield from [count // BURST_EVERY_TICKS % KEYS] * BURST_RECORDS
