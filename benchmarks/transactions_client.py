"""Writes or reads transactions for benchmarks/transactions.py as one process, and prints its figures as a JSON line.

    python -m benchmarks.transactions_client LIBRARY ROLE BOOTSTRAP TOPIC AMOUNT RECORDS

LIBRARY is `kafka` (confluent-kafka, with the settings of broker_client_kafka.py) or `penstock`. The roles:

    commit              one producer commits transactions of RECORDS records, one after the other, for AMOUNT seconds
    fill                one producer writes AMOUNT records in transactions of RECORDS
    read, read_arrow    a consumer reads AMOUNT records, RECORDS times at each isolation level; Arrow is ours alone

Records are spread over the topic's partitions. A transaction that does not commit ends the process.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from benchmarks.broker_client_common import DISTINCT_VALUES, WARM_UP, values
from benchmarks.broker_client_kafka import CONSUMER, PRODUCER, SETTINGS
from penstock import Consumer, Producer

PARTITIONS = 3
VALUE_BYTES = 100
SECONDS_MAX = 60
LEVELS = ("read_committed", "read_uncommitted")


class Writer(Protocol):
    """A transactional producer of either library."""

    def begin(self) -> None: ...

    def send(self, value: bytes, partition: int) -> object: ...

    def commit(self) -> None: ...


class KafkaWriter:
    """The producer of confluent-kafka."""

    def __init__(self, bootstrap: str, topic: str, transactional_id: str) -> None:
        from confluent_kafka import Producer as KafkaProducer

        given = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **PRODUCER}
        self._producer, self._topic = KafkaProducer(given), topic
        self._producer.init_transactions(SECONDS_MAX)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, value: bytes, partition: int) -> None:
        self._producer.produce(self._topic, value, partition=partition)

    def commit(self) -> None:
        self._producer.commit_transaction(SECONDS_MAX)


class PenstockWriter:
    """Ours, which ends with the process."""

    def __init__(self, bootstrap: str, topic: str, transactional_id: str) -> None:
        self._producer, self._topic = Producer(bootstrap, transactional_id=transactional_id), topic

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, value: bytes, partition: int) -> None:
        self._producer.send(self._topic, value, partition=partition)

    def commit(self) -> None:
        self._producer.commit_transaction()


def _transactions(writer: Writer, records: int) -> Iterator[tuple[float, float, float]]:
    """Endless; when each began, when its commit was called, and when that returned."""
    some, sent = values(VALUE_BYTES), 0
    while True:
        began = time.perf_counter()
        writer.begin()
        for _ in range(records):
            writer.send(some[sent % DISTINCT_VALUES], sent % PARTITIONS)
            sent += 1
        called = time.perf_counter()
        writer.commit()
        yield began, called, time.perf_counter()


def commit(writer: Writer, seconds: int, records: int) -> dict[str, Any]:
    """Transactions a second, and how long commits take; the first part warms the connections and does not count."""
    took, all_of_them = [], 0
    began = time.perf_counter()
    counts_from = began + WARM_UP * seconds
    for started, called, ended in _transactions(writer, records):
        all_of_them += 1
        if started >= counts_from:
            took.append((started, ended - called, ended - started))
        if ended - began > seconds:
            break
    elapsed = took[-1][0] + took[-1][2] - took[0][0]
    commits = sorted(commit for _, commit, _ in took)
    measured = {"all_transactions": all_of_them, "transactions_per_s": round(len(took) / elapsed, 1)}
    return measured | {f"p{part}_ms": round(1000 * commits[len(commits) * part // 100], 2) for part in (50, 99)}


def fill(writer: Writer, wanted: int, records: int) -> dict[str, Any]:
    """Committed transactions for readers."""
    for number, _ in enumerate(_transactions(writer, records), start=1):
        if number * records >= wanted:
            return {"records": number * records}
    raise AssertionError("transactions are endless")


Batches = Iterator[tuple[int, int]]
"""Records of each batch, and the bytes of their values; each value was looked at. The first one is empty: the client
knows the topic, and has asked for nothing yet."""


def kafka_batches(bootstrap: str, topic: str, level: str) -> Batches:
    from confluent_kafka import Consumer as KafkaConsumer
    from confluent_kafka import TopicPartition

    consumer = KafkaConsumer({"bootstrap.servers": bootstrap, **CONSUMER, "isolation.level": level})
    try:
        partitions = consumer.list_topics(topic, SECONDS_MAX).topics[topic].partitions
        yield 0, 0
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while True:
            messages = consumer.consume(SETTINGS["consume_records"], 1.0)
            yield len(messages), sum(len(message.value() or b"") for message in messages)
    finally:
        consumer.close()


def penstock_batches(bootstrap: str, topic: str, level: Any) -> Batches:
    with Consumer(bootstrap, auto_offset_reset="earliest", isolation_level=level) as consumer:
        partitions = consumer.partitions_for(topic)
        yield 0, 0
        consumer.assign(partitions)
        while True:
            records = consumer.poll(timeout_ms=1000)
            yield len(records), sum(len(record.value or b"") for record in records)


def arrow_batches(bootstrap: str, topic: str, level: Any) -> Batches:
    import pyarrow.compute as pc

    with Consumer(bootstrap, auto_offset_reset="earliest", isolation_level=level) as consumer:
        partitions = consumer.partitions_for(topic)
        yield 0, 0
        consumer.assign(partitions)
        while True:
            table = consumer.poll_arrow(timeout_ms=1000)
            yield len(table), pc.sum(pc.binary_length(table["value"])).as_py() or 0


def read(batches: Callable[[str], Batches], wanted: int, passes: int) -> dict[str, Any]:
    """Records a second at each level, the median of the passes; every other turn begins with the other level."""
    rates: dict[str, list[float]] = {level: [] for level in LEVELS}
    _rate(batches(LEVELS[1]), wanted)  # fills caches, and does not count
    for turn in range(passes):
        for level in LEVELS[:: 1 if turn % 2 == 0 else -1]:
            rates[level].append(_rate(batches(level), wanted))
    return {level: round(statistics.median(found)) for level, found in rates.items()}


def _rate(batches: Batches, wanted: int) -> float:
    next(batches)
    got = total = 0
    began = time.perf_counter()
    for count, size in batches:
        got, total = got + count, total + size
        if got >= wanted or time.perf_counter() - began > SECONDS_MAX:
            break
    seconds = time.perf_counter() - began
    if (got, total) != (wanted, wanted * VALUE_BYTES):
        raise SystemExit(f"{got} records and {total} bytes read, {wanted} records expected")
    return got / seconds


WRITERS: dict[str, Callable[[str, str, str], Writer]] = {"kafka": KafkaWriter, "penstock": PenstockWriter}
READERS: dict[tuple[str, str], Callable[[str, str, str], Batches]] = {
    ("kafka", "read"): kafka_batches,
    ("penstock", "read"): penstock_batches,
    ("penstock", "read_arrow"): arrow_batches,
}


def main() -> None:
    library, role, bootstrap, topic = sys.argv[1:5]
    amount, records = int(sys.argv[5]), int(sys.argv[6])
    if reader := READERS.get((library, role)):
        measured = read(lambda level: reader(bootstrap, topic, level), amount, records)
    else:
        writer = WRITERS[library](bootstrap, topic, f"{role}-{library}-{topic}")
        measured = {"commit": commit, "fill": fill}[role](writer, amount, records)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
