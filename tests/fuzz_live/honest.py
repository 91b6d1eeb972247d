"""The honest client beside the attackers: python -m tests.fuzz_live.honest BOOTSTRAP; ends when stdin does.

One producer with acks=all at a steady rate and one consumer, in a process of its own, so that the attackers' work is
not its own. Every second a line with what was acked, and the slowest ack; at the end a line with the ledger's verdict.
An ack that is still awaited counts with its age, so that a stall shows before it ends.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from functools import partial

from penstock import Consumer, Producer, TopicPartition
from penstock.client.producer.future import RecordFuture
from penstock.errors import PenstockError
from tests.chaos.ledger import Ledger, encode_value
from tests.fuzz_live.hostile import HONEST_TOPIC

PARTITIONS = 3
RECORDS_PER_S = 200
TICK_S = 0.02
END_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 150.0


class Honest:
    """Acks come on the client's thread, ticks on the main one, records on the consumer's."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.ledger = Ledger()
        self.log = self.ledger.created(HONEST_TOPIC)
        self._lock = threading.Lock()
        self._waiting: dict[int, float] = {}
        self._acked = self._failed = 0
        self._worst_s = 0.0
        self._errors: dict[str, int] = {}
        self._ends: dict[int, int] | None = None

    def produce(self, stopped: threading.Event) -> None:
        """Until told to stop; then all is acked or has failed."""
        producer = Producer(self._bootstrap, acks="all", linger_ms=5)
        try:
            due = time.monotonic()
            told_at = due
            while not stopped.is_set():
                for _ in range(int((time.monotonic() - due) * RECORDS_PER_S)):
                    due += 1 / RECORDS_PER_S
                    self._send(producer)
                if time.monotonic() - told_at >= 1:
                    told_at += 1
                    self._tell()
                stopped.wait(TICK_S)
        finally:
            producer.close(CLOSE_TIMEOUT_S)
        self._tell()
        with Consumer(self._bootstrap) as consumer:
            tps = [TopicPartition(HONEST_TOPIC, p) for p in range(PARTITIONS)]
            self._ends = {tp.partition: end for tp, end in consumer.end_offsets(tps).items()}
        self.possible_duplicates = producer.statistics().possible_duplicates

    def consume(self) -> None:
        """To the end, once it is known."""
        tps = [TopicPartition(HONEST_TOPIC, p) for p in range(PARTITIONS)]
        with Consumer(self._bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign(tps)
            for tp in tps:
                self.ledger.begin_range("poll", self.log, tp.partition, 0)
                consumer.seek(tp, 0)
            moved_at = time.monotonic()
            while self._ends is None or any(consumer.position(tp) < self._ends[tp.partition] for tp in tps):
                try:
                    records = consumer.poll(timeout_ms=100)
                except PenstockError as error:
                    self._count_error("poll", error)
                    continue
                for record in records:
                    self.ledger.read("poll", self.log, record.partition, [record.offset], [record.value])
                if records or self._ends is None:
                    moved_at = time.monotonic()
                elif time.monotonic() - moved_at > END_TIMEOUT_S:
                    break
            for tp in tps:
                end = (self._ends or {})[tp.partition]
                self.ledger.end_range("poll", self.log, tp.partition, end, reached=consumer.position(tp) >= end)

    def verdict(self) -> dict[str, object]:
        """After both have ended; a new consumer reads the truth."""
        tps = [TopicPartition(HONEST_TOPIC, p) for p in range(PARTITIONS)]
        ends = self._ends or {}
        with Consumer(self._bootstrap, auto_offset_reset="none") as consumer:
            consumer.assign(tps)
            for tp in tps:
                consumer.seek(tp, 0)
            deadline = time.monotonic() + END_TIMEOUT_S
            while any(consumer.position(tp) < ends[tp.partition] for tp in tps) and time.monotonic() < deadline:
                for record in consumer.poll(timeout_ms=100):
                    self.ledger.read_final(self.log, record.partition, [record.offset], [record.value])
        found = self.ledger.judge({0: self.possible_duplicates})
        return {
            "anomalies": dict(found.anomalies),
            "examples": list(found.examples),
            "sent": found.sent,
            "acked": found.acked,
            "failed": self._failed,
            "errors": self._errors,
        }

    def _send(self, producer: Producer) -> None:
        sequence = self.ledger.send(0, HONEST_TOPIC)
        with self._lock:
            self._waiting[sequence] = time.monotonic()
        try:
            future = producer.send(HONEST_TOPIC, encode_value(0, sequence), partition=sequence % PARTITIONS)
        except PenstockError as error:
            self._done(sequence)
            self._count_error("send", error)
        else:
            future.add_done_callback(partial(self._answered, sequence))

    def _answered(self, sequence: int, future: RecordFuture) -> None:
        error = future.exception(0)
        if error is not None:
            self._count_error("ack", error)
        else:
            metadata = future.result(0)
            self.ledger.ack(0, sequence, metadata.partition, metadata.offset)
            with self._lock:
                self._acked += 1
        self._done(sequence)

    def _done(self, sequence: int) -> None:
        with self._lock:
            self._worst_s = max(self._worst_s, time.monotonic() - self._waiting.pop(sequence))

    def _count_error(self, what: str, error: PenstockError) -> None:
        text = f"{what}: {type(error).__name__}: {error}"[:160]
        self._failed += what != "poll"
        self._errors[text] = self._errors.get(text, 0) + 1

    def _tell(self) -> None:
        with self._lock:
            oldest = min(self._waiting.values(), default=None)
            waiting_s = time.monotonic() - oldest if oldest is not None else 0.0
            line = {"acked": self._acked, "failed": self._failed, "worst_ack_s": max(self._worst_s, waiting_s)}
            self._worst_s = 0.0
        print(json.dumps(line), flush=True)


def _wait_stdin_end(stopped: threading.Event) -> None:
    sys.stdin.read()
    stopped.set()


def main(bootstrap: str) -> None:
    """Until stdin ends."""
    logging.disable(logging.CRITICAL)
    honest, stopped = Honest(bootstrap), threading.Event()
    threading.Thread(target=_wait_stdin_end, args=(stopped,), daemon=True).start()
    consumer = threading.Thread(target=honest.consume)
    consumer.start()
    honest.produce(stopped)
    consumer.join()
    print(json.dumps({"verdict": honest.verdict()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
