"""The honest client beside the attackers: python -m tests.fuzz_live.honest DOOR BOOTSTRAP; ends when stdin does.

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

from tests.chaos.ledger import Ledger, encode_value
from tests.fuzz_live.honest_clients import CLIENTS, PARTITIONS, Acked, ClientError, Clients
from tests.fuzz_live.hostile import HONEST_TOPIC

RECORDS_PER_S = 200
TICK_S = 0.02
END_TIMEOUT_S = 60.0


class Honest:
    """Acks come on any thread, ticks on the main one, records on the consumer's."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self.ledger = Ledger()
        self.log = self.ledger.created(HONEST_TOPIC)
        self._lock = threading.Lock()
        self._waiting: dict[int, float] = {}
        self._acked = self._failed = 0
        self._worst_s = 0.0
        self._errors: dict[str, int] = {}
        self._ends: dict[int, int] | None = None
        self._possible_duplicates = 0

    def produce(self, stopped: threading.Event) -> None:
        """Until told to stop; then all is acked or has failed."""
        try:
            due = time.monotonic()
            next_line_at = due
            while not stopped.is_set():
                for _ in range(int((time.monotonic() - due) * RECORDS_PER_S)):
                    due += 1 / RECORDS_PER_S
                    self._send()
                self._clients.poll()
                if time.monotonic() - next_line_at >= 1:
                    next_line_at += 1
                    self._tell()
                stopped.wait(TICK_S)
        finally:
            self._possible_duplicates = self._clients.close()
        self._tell()
        self._ends = self._clients.ends()

    def consume(self) -> None:
        """To the end, once it is known."""
        for partition in range(PARTITIONS):
            self.ledger.begin_range("poll", self.log, partition, 0)
        reader = self._clients.reader()
        try:
            moved_at = time.monotonic()
            while self._ends is None or any(reader.position(at) < end for at, end in self._ends.items()):
                records = []
                try:
                    records = list(reader.poll())
                except ClientError as error:
                    self._count_error("poll", str(error))
                for partition, offset, value in records:
                    self.ledger.read("poll", self.log, partition, [offset], [value])
                if records or self._ends is None:
                    moved_at = time.monotonic()
                elif time.monotonic() - moved_at > END_TIMEOUT_S:
                    break
            for at, end in (self._ends or {}).items():
                self.ledger.end_range("poll", self.log, at, end, reached=reader.position(at) >= end)
        finally:
            reader.close()

    def verdict(self) -> dict[str, object]:
        """After both have ended; a new consumer reads the truth."""
        ends, reader = self._ends or {}, self._clients.reader()
        try:
            deadline = time.monotonic() + END_TIMEOUT_S
            while any(reader.position(at) < end for at, end in ends.items()) and time.monotonic() < deadline:
                try:
                    for partition, offset, value in reader.poll():
                        self.ledger.read_final(self.log, partition, [offset], [value])
                except ClientError as error:
                    self._count_error("poll", str(error))
        finally:
            reader.close()
        found = self.ledger.judge({0: self._possible_duplicates})
        return {
            "anomalies": dict(found.anomalies),
            "examples": list(found.examples),
            "sent": found.sent,
            "acked": found.acked,
            "failed": self._failed,
            "errors": self._errors,
        }

    def _send(self) -> None:
        sequence = self.ledger.send(0, HONEST_TOPIC)
        with self._lock:
            self._waiting[sequence] = time.monotonic()
        try:
            self._clients.send(sequence % PARTITIONS, encode_value(0, sequence), partial(self._answered, sequence))
        except ClientError as error:
            self._done(sequence)
            self._count_error("send", str(error))

    def _answered(self, sequence: int, acked: Acked) -> None:
        if acked.error is not None:
            self._count_error("ack", acked.error)
        else:
            self.ledger.ack(0, sequence, acked.partition, acked.offset)
            with self._lock:
                self._acked += 1
        self._done(sequence)

    def _done(self, sequence: int) -> None:
        with self._lock:
            self._worst_s = max(self._worst_s, time.monotonic() - self._waiting.pop(sequence))

    def _count_error(self, what: str, error: str) -> None:
        text = f"{what}: {error}"[:160]
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


def main(door: str, bootstrap: str) -> None:
    """Until stdin ends."""
    logging.disable(logging.CRITICAL)
    honest, stopped = Honest(CLIENTS[door](bootstrap)), threading.Event()
    threading.Thread(target=_wait_stdin_end, args=(stopped,), daemon=True).start()
    consumer = threading.Thread(target=honest.consume)
    consumer.start()
    honest.produce(stopped)
    consumer.join()
    print(json.dumps({"verdict": honest.verdict()}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
