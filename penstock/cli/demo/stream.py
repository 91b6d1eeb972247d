"""Streams the demo's text into its topic with acks=all, one line a record, while others kill nodes.

The key of a record is the file's name, so that a file stays in one partition and in order. The header `line` is the
line's number within the file, from 0: only a number tells a line that was sent twice (a retry) from a line that occurs
twice in the text. Files are interleaved by partition, so that every partition always has work. The returned sums are of
the files; verify.py compares them with the log.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock import Producer
from penstock.cli.demo.ledger import Ledger, Sent
from penstock.cli.demo.source import SourceFile, read_lines
from penstock.cli.output import Progress
from penstock.client.producer.future import RecordFuture
from penstock.client.producer.partitioner import partition_for_key
from penstock.errors import PenstockError

LINE_HEADER = "line"
TURN_LINES_MAX = 500
"""At most this many lines of one partition are sent before the next partition has its turn."""
TURNS_MIN = 400
"""A small text has shorter turns, so that a fault can still happen in its middle."""
LINE_BYTES_TYPICAL = 40
SLOW_PAUSE_S = 0.02
BUFFER_BYTES = 8 * 1024 * 1024
"""Small: records that wait in memory are not yet sent when a node is killed."""
FLUSH_TIMEOUT_S = 120.0


class FileSum(NamedTuple):
    """Lines, bytes and checksum of one file, as the source, the log or the table has it."""

    lines: int
    size_bytes: int
    sha256: bytes


Sums = Mapping[bytes, FileSum]
"""By key."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """The sums of what was sent, and the producer's counts."""

    sums: dict[bytes, FileSum]
    acked: int
    failed: int
    retried: int
    seconds: float

    @property
    def records(self) -> int:
        return sum(file.lines for file in self.sums.values())

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.sums.values())


class Lane:
    """The files of one partition, line after line."""

    def __init__(self, partition: int, files: Sequence[SourceFile], sums: dict[bytes, FileSum]) -> None:
        self.partition = partition
        self._files = deque(files)
        self._sums = sums
        self._key = b""
        self._lines: list[bytes] = []
        self._at = 0

    def take(self, count: int) -> tuple[bytes, int, list[bytes]]:
        """(key, number of the first line, at most `count` lines) of one file; no lines: this lane has ended."""
        while self._at == len(self._lines) and self._files:
            file = self._files.popleft()
            self._key, self._lines, self._at = file.key, read_lines(file), 0
            content = b"".join(self._lines)
            self._sums[file.key] = FileSum(len(self._lines), len(content), hashlib.sha256(content).digest())
        first = self._at
        self._at = min(first + count, len(self._lines))
        return self._key, first, self._lines[first : self._at]


def plan_lanes(files: Sequence[SourceFile], partitions: int) -> dict[int, list[SourceFile]]:
    """The files by the partition of their key."""
    lanes: dict[int, list[SourceFile]] = {}
    for file in files:
        lanes.setdefault(partition_for_key(file.key, partitions), []).append(file)
    return lanes


def stream(
    bootstrap: str, topic: str, lanes: Mapping[int, Sequence[SourceFile]], ledger: Ledger, bar: Progress
) -> Streamed:
    """Sends all lines and returns when all are acked; raises the first failure."""
    sums: dict[bytes, FileSum] = {}
    turn_lines = max(1, min(TURN_LINES_MAX, ledger.total_bytes // LINE_BYTES_TYPICAL // TURNS_MIN))
    began = time.monotonic()
    with Producer(bootstrap, acks="all", buffer_memory=BUFFER_BYTES) as producer:
        running = deque(Lane(partition, files, sums) for partition, files in lanes.items())
        while running:
            lane = running.popleft()
            count = turn_lines if ledger.wait_turn(SLOW_PAUSE_S) else 1
            sent = _send_turn(producer, topic, lane, count, ledger)
            if sent:
                running.append(lane)
                bar.advance(sent)
        producer.flush(FLUSH_TIMEOUT_S)
        seconds = time.monotonic() - began
        told = producer.statistics()
    return Streamed(sums, told.records_acked, told.records_failed, told.records_retried, seconds)


def _send_turn(producer: Producer, topic: str, lane: Lane, count: int, ledger: Ledger) -> int:
    """One turn of one lane; the number of bytes sent, 0 at its end."""
    key, first, lines = lane.take(count)
    if not lines:
        return 0
    send, partition = producer.send, lane.partition
    sent = Sent(partition, sum(map(len, lines)), time.monotonic())
    for number, line in enumerate(lines, first):
        last = send(topic, line, key, [(LINE_HEADER, b"%d" % number)], partition)
    # A partition's batches are acked in order, so the ack of the turn's last line covers the whole turn.
    last.add_done_callback(lambda future: _on_done(future, sent, ledger))
    ledger.on_sent(sent.size_bytes)
    return sent.size_bytes


def _on_done(future: RecordFuture, sent: Sent, ledger: Ledger) -> None:
    error: PenstockError | None = future.exception(0)
    if error is None:
        ledger.on_acked(sent)
    else:
        ledger.fail(error)
