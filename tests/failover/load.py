"""A steady producer with acks=all, and what became of its records.

One record every TICK_S to every partition, from a thread of its own. `AckGaps` measures for how long a partition acked
nothing; every ack is checked in the end (measure.py).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from functools import partial

from penstock import Producer
from penstock.client.producer.future import RecordFuture
from penstock.client.producer.producer_statistics import ProducerStatistics

TOPIC = "failover"
PARTITIONS = 3
TICK_S = 0.01


class AckGaps:
    """The longest time without an ack of each watched partition, from `begin` to the first ack of a record that was
    sent after `struck`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._last_at: dict[int, float] = {}
        self._longest_s: dict[int, float] = {}
        self._struck_at = float("inf")
        self._waiting: set[int] = set()

    def begin(self, partitions: set[int]) -> None:
        now = time.monotonic()
        with self._changed:
            self._last_at = dict.fromkeys(partitions, now)
            self._longest_s = dict.fromkeys(partitions, 0.0)
            self._struck_at = float("inf")
            self._waiting = set(partitions)

    def struck(self) -> None:
        """The fault has happened: nothing that is sent from now on goes to the old leader and is acked there."""
        with self._changed:
            self._struck_at = time.monotonic()

    def on_ack(self, partition: int, sent_at: float) -> None:
        now = time.monotonic()
        with self._changed:
            if partition not in self._waiting:
                return
            self._longest_s[partition] = max(self._longest_s[partition], now - self._last_at[partition])
            self._last_at[partition] = now
            if sent_at > self._struck_at:
                self._waiting.discard(partition)
                self._changed.notify_all()

    def wait(self, timeout_s: float) -> float:
        """The longest gap of all, in seconds, once every partition acks again."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._waiting, timeout_s):
                raise TimeoutError(f"partitions {sorted(self._waiting)} have acked nothing for {timeout_s:g} s")
            return max(self._longest_s.values())


class Load:
    """The producer; `write` is its thread."""

    def __init__(self, bootstrap: str) -> None:
        self.gaps = AckGaps()
        self.acked: dict[bytes, tuple[int, int]] = {}
        self.failed: Counter[str] = Counter()
        self.statistics = ProducerStatistics()
        self._bootstrap = bootstrap

    def write(self, is_over: threading.Event) -> None:
        """Until it is over; then every record is acked or has failed."""
        with Producer(self._bootstrap, acks="all", linger_ms=2) as producer:
            number = 0
            while not is_over.wait(TICK_S):
                for partition in range(PARTITIONS):
                    value = b"%d-%d" % (partition, number)
                    future = producer.send(TOPIC, value, partition=partition)
                    future.add_done_callback(partial(self._on_done, value, time.monotonic()))
                number += 1
            producer.flush()
            self.statistics = producer.statistics()

    def _on_done(self, value: bytes, sent_at: float, future: RecordFuture) -> None:
        error = future.exception(0)
        if error is not None:
            self.failed[type(error).__name__] += 1
            return
        metadata = future.result(0)
        self.acked[value] = (metadata.partition, metadata.offset)
        self.gaps.on_ack(metadata.partition, sent_at)
