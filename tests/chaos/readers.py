"""The readers of a chaos run, each in a thread: by poll, by poll_arrow, by raw ranges, and by Spark in a process.

All of them tell the ledger what they were given. A reader may be refused for a while and asks again; what it may not
do is go past a record. Errors that say that acked data is gone or damaged are anomalies of their own, because every
offset that was readable once must stay so.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from penstock import Consumer, TopicPartition
from penstock.errors import CorruptMessageError, LogTruncationError, OffsetOutOfRangeError, PenstockError
from penstock.record.reader import read_columns
from tests.chaos.history import History
from tests.chaos.ledger import Ledger

POLL_TIMEOUT_MS = 100
RETRY_S = 0.2
STUCK_S = 45.0
"""So long without a record, with the end known and not reached, and a reader gives up."""
RAW_RECORDS_MAX = 4_000
RAW_FETCH_BYTES = 4_096
"""Some 35 records: a range takes many requests, so that a fault falls between two of them."""
RAW_PAUSE_S = 0.005
SPARK_TIMEOUT_S = 120.0

Piece = tuple[int, Sequence[int], Sequence[bytes | None]]
"""Partition, offsets, values."""
Take = Callable[[Consumer], Iterable[Piece]]


def take_poll(consumer: Consumer) -> Iterator[Piece]:
    """One poll, by partition."""
    found: dict[int, tuple[list[int], list[bytes | None]]] = {}
    for record in consumer.poll(timeout_ms=POLL_TIMEOUT_MS, max_records=500):
        offsets, values = found.setdefault(record.partition, ([], []))
        offsets.append(record.offset)
        values.append(record.value)
    for partition, (offsets, values) in found.items():
        yield partition, offsets, values


def take_arrow(consumer: Consumer) -> Iterator[Piece]:
    """One poll_arrow, by partition."""
    for batch in consumer.poll_arrow(timeout_ms=POLL_TIMEOUT_MS).to_batches():
        if batch.num_rows:
            yield batch["partition"][0].as_py(), batch["offset"].to_pylist(), batch["value"].to_pylist()


@dataclass(slots=True)
class Readers:
    """`ends` is set when the writers have ended: every reader then goes on to there, and ends."""

    bootstrap: str
    ledger: Ledger
    history: History
    ends: dict[str, dict[int, int]] | None = None
    errors: int = 0
    spark_reads: int = 0
    aborted: threading.Event = field(default_factory=threading.Event)

    def follow(self, reader: str, topic: str, log: int, take: Take, gone: threading.Event | None = None) -> None:
        """Reads a topic from its beginning to the end, or until it is `gone`."""
        gone = gone or threading.Event()
        moved_at = time.monotonic()
        with Consumer(self.bootstrap, auto_offset_reset="none") as consumer:
            while not (gone.is_set() or self.aborted.is_set()):
                try:
                    if not consumer.assignment():
                        self._assign(consumer, reader, topic, log)
                    for partition, offsets, values in take(consumer):
                        moved_at = time.monotonic()
                        self.ledger.read(reader, log, partition, offsets, values)
                        self.history.write("read", reader=reader, log=log, partition=partition, offsets=_span(offsets))
                except PenstockError as error:
                    self._refused(reader, error, gone)
                    gone.wait(RETRY_S)
                if self._at_end(reader, topic, log, moved_at, consumer):
                    return

    def _assign(self, consumer: Consumer, reader: str, topic: str, log: int) -> None:
        partitions = consumer.partitions_for(topic)
        for partition in partitions:
            self.ledger.begin_range(reader, log, partition.partition, 0)
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)

    def _at_end(self, reader: str, topic: str, log: int, moved_at: float, consumer: Consumer) -> bool:
        if self.ends is None:
            return False
        ends = self.ends[topic]
        behind = [p for p, end in ends.items() if self.ledger.next_offset(reader, log, p) < end]
        gave_up = time.monotonic() - moved_at > STUCK_S
        if behind and not gave_up and any(_position(consumer, topic, p) < ends[p] for p in behind):
            return False
        if behind:
            self.history.write("stuck", reader=reader, log=log, consumer=_positions_of(consumer))
        for partition in behind:
            reached = _position(consumer, topic, partition) >= ends[partition]
            self.ledger.end_range(reader, log, partition, ends[partition], reached=reached)
        return True

    def read_ranges(self, seed: int, topic: str, log: int, partitions: int) -> None:
        """Ranges of drawn partitions, again and again; at last every partition whole."""
        source = Random(seed)
        options = {"max_partition_fetch_bytes": RAW_FETCH_BYTES, "fetch_max_bytes": RAW_FETCH_BYTES}
        with Consumer(self.bootstrap, **options) as consumer:
            while self.ends is None and not self.aborted.is_set():
                tp = TopicPartition(topic, source.randrange(partitions))
                length = source.randrange(1, RAW_RECORDS_MAX)
                try:
                    end = consumer.end_offsets([tp])[tp]
                    self._read_range(consumer, log, tp, max(0, end - length), end, RAW_PAUSE_S)
                except PenstockError as error:
                    self._refused("raw", error, self.aborted)
                self.aborted.wait(RETRY_S)
        with Consumer(self.bootstrap) as consumer:
            for partition, end in (self.ends or {}).get(topic, {}).items():
                self._read_range(consumer, log, TopicPartition(topic, partition), 0, end, 0)

    def _read_range(self, consumer: Consumer, log: int, tp: TopicPartition, begin: int, end: int, pause: float) -> None:
        self.history.write("raw", log=log, partition=tp.partition, begin=begin, end=end)
        self.ledger.begin_range("raw", log, tp.partition, begin)
        for buffer in consumer.fetch_raw(tp.topic, tp.partition, begin, end):
            columns = read_columns(buffer.records, from_offset=buffer.from_offset, to_offset=end)
            self.ledger.read("raw", log, tp.partition, columns.offsets, columns.values)
            if pause and self.ends is None:
                self.aborted.wait(pause)
        self.ledger.end_range("raw", log, tp.partition, end)

    def read_with_spark(self, topic: str, log: int, partitions: int, reads_max: int) -> None:
        """Batch reads of a Spark session, each from where the one before ended; the last one reads to the end."""
        with SparkProcess(self.bootstrap) as spark, Consumer(self.bootstrap) as consumer:
            tps = [TopicPartition(topic, p) for p in range(partitions)]
            begins = dict.fromkeys(range(partitions), 0)
            while self.spark_reads < reads_max and not self.aborted.is_set():
                is_last = self.ends is not None
                try:
                    ends = {tp.partition: end for tp, end in consumer.end_offsets(tps).items()}
                    found = spark.read(topic, begins, ends)
                except PenstockError as error:
                    self._refused("spark", error, self.aborted)
                    if is_last:
                        return
                    continue
                for partition, end in ends.items():
                    offsets, values = found.get(partition, ((), ()))
                    self.ledger.begin_range("spark", log, partition, begins[partition])
                    self.ledger.read("spark", log, partition, offsets, values)
                    self.ledger.end_range("spark", log, partition, end)
                self.spark_reads += 1
                self.history.write("spark", begins=begins, ends=ends)
                begins = ends
                if is_last:
                    return

    def read_final(self, topic: str, log: int) -> None:
        """The whole topic by a new consumer, as the truth that everything else is compared with."""
        ends = (self.ends or {})[topic]
        with Consumer(self.bootstrap, auto_offset_reset="none") as consumer:
            tps = [TopicPartition(topic, p) for p in ends]
            consumer.assign(tps)
            for tp in tps:
                self.ledger.begin_range("final", log, tp.partition, 0)
                consumer.seek(tp, 0)
            moved_at = time.monotonic()
            while any(consumer.position(tp) < ends[tp.partition] for tp in tps):
                for partition, offsets, values in take_poll(consumer):
                    moved_at = time.monotonic()
                    self.ledger.read_final(log, partition, offsets, values)
                if time.monotonic() - moved_at > STUCK_S:
                    break
            for partition, end in ends.items():
                reached = _position(consumer, topic, partition) >= end
                self.ledger.end_range("final", log, partition, end, reached=reached)

    def _refused(self, reader: str, error: PenstockError, gone: threading.Event) -> None:
        self.errors += 1
        self.history.write("refused", reader=reader, error=f"{type(error).__name__}: {error}"[:300])
        is_damage = isinstance(error, CorruptMessageError | LogTruncationError | OffsetOutOfRangeError)
        if is_damage and not gone.is_set():
            self.ledger.report("refused", f"{reader}: {type(error).__name__}: {error}")


def _position(consumer: Consumer, topic: str, partition: int) -> int:
    """-1 before there is one; asks nobody."""
    tp = TopicPartition(topic, partition)
    return consumer.position(tp) if tp in consumer.assignment() else -1


def _positions_of(consumer: Consumer) -> list[str]:
    """The state of a consumer that comes no further: counts, links and where each waits, the refresh of the metadata,
    and each partition with its leader."""
    core = consumer._core
    fetcher, cache = core.fetcher, core.fetcher._cluster.cache
    partitions = [
        f"{state!r}, not before {state.not_before_ms}, {state.failures} failures, leader {cache.leader(tp)}"
        for tp, state in core.positions.states.items()
    ]
    links = [f"{link!r}, waits at {waits_at(link._fetching)}" for link in fetcher._links.values()]
    refresh = f"{cache!r} of offset {cache.metadata_offset}, refresh waits at {waits_at(fetcher._cluster._refreshing)}"
    return [repr(core.statistics()), repr(core.buffer), repr(fetcher.last_error), *links, refresh, *partitions]


def waits_at(task: object) -> str:
    """The innermost line of Python at which a task waits; "nothing" for one that has ended or is none."""
    if not isinstance(task, asyncio.Task) or task.done():
        return "nothing"
    place, awaited = "nothing", task.get_coro()
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"
        awaited = getattr(awaited, "cr_await", None)
    return place


def _span(offsets: Sequence[int]) -> list[int]:
    return [offsets[0], offsets[-1]]


class SparkProcess:
    """A Spark session in a process of its own, which reads what it is told to."""

    def __init__(self, bootstrap: str) -> None:
        command = [sys.executable, "-m", "tests.chaos.spark_reads", bootstrap]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(
        self, topic: str, begins: dict[int, int], ends: dict[int, int]
    ) -> dict[int, tuple[list[int], list[bytes]]]:
        """By partition, offsets and values in their order; PenstockError when the job failed."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the Spark process has no pipes")
        self._process.stdin.write(json.dumps({"topic": topic, "begins": begins, "ends": ends}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the Spark process ended with {self._process.wait()}")
        found = json.loads(answer)
        if "error" in found:
            raise PenstockError(found["error"])
        return {
            int(partition): (offsets, [value.encode("latin-1") for value in values])
            for partition, (offsets, values) in found.items()
        }

    def __enter__(self) -> SparkProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(SPARK_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
