"""A process of producers in an overload run: python -m tests.overload.sender BOOTSTRAP TOPIC NUMBER RESULTS TIMEOUT_MS.

It obeys lines on stdin and ends with it. Each line is answered by one JSON line when it is done:

    {"do": "closed", "seconds": S}               at most WINDOW chunks are unacked: what can the cluster take?
    {"do": "open", "seconds": S, "rate": R}      R chunks a second are offered, whatever became of those before
    {"do": "end"}                                waits for what is unacked, and writes RESULTS

One producer is closed. OPEN_PRODUCERS others are open, in turns: each has its own batches with the brokers, so that
queues form there. A chunk is one batch of CHUNK_RECORDS. An open producer never blocks: a chunk for which its buffer
has no room is refused and counted, and its records are offered again as the next chunk. A request of it that is not
answered within TIMEOUT_MS is sent again, which makes things worse; after twice that time its records have failed.
RESULTS has signed 64-bit integers, five for each acked range: producer, first sequence, count, partition, first offset.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from penstock import Producer
from penstock.client.producer.future import BulkFuture
from penstock.errors import PenstockError
from tests.chaos.ledger import VALUE_BYTES, encode_value

CHUNK_RECORDS = 32
RECORD_BYTES = 1_000
PADDING = bytes(range(1, 101)) * ((RECORD_BYTES - VALUE_BYTES) // 100)
WINDOW = 64
"""Chunks of a closed producer: 2 MiB."""
OPEN_PRODUCERS = 8
BUFFER_BYTES = 4 * 1024 * 1024
SLEEP_S = 0.005
CLOSE_TIMEOUT_S = 150.0


def made_value(producer: int, sequence: int) -> bytes:
    """The value of a record: what the ledger knows, and padding."""
    return encode_value(producer, sequence) + PADDING


def bare_value(value: bytes | None) -> bytes | None:
    """The part of the value that the ledger knows; the value itself if its padding is damaged, and then nobody has sent
    it."""
    return value[:VALUE_BYTES] if value is not None and value[VALUE_BYTES:] == PADDING else value


class Sender:
    """One producer, of one kind; `number` is its name in the ledger."""

    def __init__(self, bootstrap: str, topic: str, number: int, **options: Any) -> None:
        self.number, self._topic = number, topic
        self._producer = Producer(bootstrap, acks="all", linger_ms=0, buffer_memory=BUFFER_BYTES, **options)
        self._room = threading.Semaphore(WINDOW)
        self._values: list[bytes] = []
        self.sent = self.offered = self.refused = 0
        """Records that were taken; chunks that were offered, and those of them that were refused."""
        self.acked = array("q")
        self.times: list[float] = []
        """Seconds from when a chunk was due to its ack."""
        self.failed: Counter[str] = Counter()

    def run_closed(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self._room.acquire()
            self.offer(time.monotonic())

    def offer(self, due: float) -> None:
        self.offered += 1
        self._values = self._values or [made_value(self.number, self.sent + n) for n in range(CHUNK_RECORDS)]
        try:
            future = self._producer.send_many(self._topic, self._values)
        except PenstockError as error:  # the batch is the whole chunk, so nothing of it was queued
            self.refused += 1
            self.failed[f"at once: {type(error).__name__}"] += 1
            self._room.release()
            return
        self._values = []
        future.add_done_callback(partial(self._done, self.sent, due))
        self.sent += CHUNK_RECORDS

    def _done(self, first: int, due: float, future: BulkFuture) -> None:
        self._room.release()
        try:
            ranges = future.ranges(0)
        except PenstockError as error:
            self.failed[f"later: {type(error).__name__}"] += 1
            return
        self.times.append(time.monotonic() - due)
        for found in ranges:
            self.acked.extend((self.number, first, found.record_count, found.partition, found.first_offset))
            first += found.record_count

    def report(self) -> dict[str, object]:
        times = sorted(self.times) or [0.0]
        return {
            "producer": self.number,
            "offered": self.offered,
            "refused": self.refused,
            "sent_records": self.sent,
            "acked": len(self.times),
            "failed": dict(self.failed),
            "p50_ms": round(1000 * times[len(times) // 2], 1),
            "p99_ms": round(1000 * times[int(len(times) * 0.99)], 1),
        }

    def close(self) -> dict[str, object]:
        """Waits for what is unacked."""
        self._producer.close(CLOSE_TIMEOUT_S)
        found = self._producer.statistics()
        return {
            **self.report(),
            "possible_duplicates": found.possible_duplicates,
            "batches_retried": found.batches_retried,
        }


def main() -> None:
    """Obeys until stdin ends."""
    bootstrap, topic, number, results = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    timeout_ms = int(sys.argv[5])
    patience = {"request_timeout_ms": timeout_ms, "delivery_timeout_ms": 2 * timeout_ms}
    first = number * (1 + OPEN_PRODUCERS)
    closed = Sender(bootstrap, topic, first)
    opened = [Sender(bootstrap, topic, first + n, max_block_ms=0, **patience) for n in range(1, 1 + OPEN_PRODUCERS)]
    for sender in opened:
        _know(sender, topic)
    print(json.dumps([]), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "closed":
            closed.run_closed(order["seconds"])
            answer = [closed.report()]
        elif order["do"] == "open":
            _run_open(opened, order["seconds"], order["rate"])
            answer = [sender.report() for sender in opened]
        else:
            answer = [sender.close() for sender in (closed, *opened)]
            results.write_bytes(b"".join(sender.acked.tobytes() for sender in (closed, *opened)))
        print(json.dumps({"producers": answer, "cpu_s": time.process_time()}), flush=True)


def _run_open(senders: Sequence[Sender], seconds: float, rate: float) -> None:
    """Sends every chunk that is due; if the processor was elsewhere, several at once."""
    began, offered = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        due = began + offered / rate
        wait = due - time.monotonic()
        if wait > 0:
            time.sleep(max(wait, SLEEP_S))
        senders[offered % len(senders)].offer(due)
        offered += 1


def _know(sender: Sender, topic: str) -> None:
    """A producer that never blocks must know the topic before its first record."""
    while True:
        try:
            sender._producer.partitions_for(topic)
            return
        except PenstockError:
            time.sleep(SLEEP_S)


if __name__ == "__main__":
    main()
