"""The producers of a chaos run, each in a thread: by send with keys, by send to partitions, by send_many; acks=all.

Each tells the ledger of a record before it is sent, and of its ack. A record that fails is neither promised nor
forbidden. Rates are steady and small: what is looked for are mistakes, not limits.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from penstock import Producer
from penstock.client.producer.future import BulkFuture, RecordFuture
from penstock.errors import PenstockError
from tests.chaos.history import History
from tests.chaos.ledger import Ledger, encode_value

TICK_S = 0.02
RECORDS_PER_TICK = 3
BULK_RECORDS = 30
BULK_EVERY_TICKS = 10
KEYS = 40
MAX_BLOCK_MS = 10_000
CLOSE_TIMEOUT_S = 150.0
"""Longer than delivery_timeout_ms, after which every record was acked or has failed."""

Take = Callable[[Producer, int], None]


@dataclass(slots=True)
class Writers:
    """`possible_duplicates` is what each producer said of itself when it was closed."""

    bootstrap: str
    ledger: Ledger
    history: History
    stopped: threading.Event = field(default_factory=threading.Event)
    possible_duplicates: dict[int, int] = field(default_factory=dict)
    failed: int = 0
    worst_ack_s: float = 0.0

    def send_keyed(self, number: int, topic: str) -> None:
        """Single records, spread by their keys."""

        def tick(producer: Producer, count: int) -> None:
            for _ in range(RECORDS_PER_TICK):
                sequence = self.ledger.send(number, topic)
                value, key = encode_value(number, sequence), b"key-%d" % (sequence % KEYS)
                self._watch(number, sequence, partial(producer.send, topic, value, key))

        self._run(number, tick, linger_ms=5)

    def send_to_partitions(self, number: int, topic: str, partitions: int) -> None:
        """Single records to one partition after another, each sent at once."""

        def tick(producer: Producer, count: int) -> None:
            for _ in range(RECORDS_PER_TICK):
                sequence = self.ledger.send(number, topic)
                value, chosen = encode_value(number, sequence), sequence % partitions
                self._watch(number, sequence, partial(producer.send, topic, value, partition=chosen))

        self._run(number, tick, linger_ms=0)

    def send_bulk(self, number: int, topic: str, partitions: int) -> None:
        """Some records at once to one partition, by send_many."""
        waiting: deque[tuple[BulkFuture, int, float]] = deque()

        def tick(producer: Producer, count: int) -> None:
            while waiting and waiting[0][0].done():
                self._bulk_done(number, *waiting.popleft())
            if count % BULK_EVERY_TICKS:
                return
            first = self.ledger.send(number, topic, BULK_RECORDS)
            values = [encode_value(number, first + n) for n in range(BULK_RECORDS)]
            sent_at = time.monotonic()
            try:
                future = producer.send_many(topic, values, partition=count // BULK_EVERY_TICKS % partitions)
            except PenstockError as error:
                self._failed(number, first, error, BULK_RECORDS)
            else:
                waiting.append((future, first, sent_at))

        self._run(number, tick, linger_ms=0)
        for item in waiting:
            self._bulk_done(number, *item)

    def _run(self, number: int, tick: Take, linger_ms: int) -> None:
        producer = Producer(self.bootstrap, acks="all", linger_ms=linger_ms, max_block_ms=MAX_BLOCK_MS)
        try:
            count = 0
            while not self.stopped.wait(TICK_S):
                tick(producer, count)
                count += 1
        finally:
            producer.close(CLOSE_TIMEOUT_S)
            self.possible_duplicates[number] = producer.statistics().possible_duplicates

    def _watch(self, number: int, sequence: int, send: Callable[[], RecordFuture]) -> None:
        sent_at = time.monotonic()
        try:
            future = send()
        except PenstockError as error:
            self._failed(number, sequence, error)
        else:
            future.add_done_callback(partial(self._record_done, number, sequence, sent_at))

    def _record_done(self, number: int, sequence: int, sent_at: float, future: RecordFuture) -> None:
        error = future.exception(0)
        if error is not None:
            self._failed(number, sequence, error)
            return
        metadata = future.result(0)
        self._acked(number, sequence, metadata.partition, metadata.offset, 1, sent_at)

    def _bulk_done(self, number: int, future: BulkFuture, first: int, sent_at: float) -> None:
        try:
            ranges = future.ranges(0)
        except PenstockError as error:
            self._failed(number, first, error, BULK_RECORDS)
            return
        for found in ranges:
            self._acked(number, first, found.partition, found.first_offset, found.record_count, sent_at)
            first += found.record_count

    def _acked(self, number: int, first: int, partition: int, offset: int, count: int, sent_at: float) -> None:
        self.worst_ack_s = max(self.worst_ack_s, time.monotonic() - sent_at)
        self.ledger.ack(number, first, partition, offset, count)
        self.history.write("ack", record=[number, first, count], at_offset=[partition, offset])

    def _failed(self, number: int, first: int, error: PenstockError, count: int = 1) -> None:
        self.failed += count
        self.history.write("failed", record=[number, first, count], error=f"{type(error).__name__}: {error}"[:300])
