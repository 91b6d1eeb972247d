"""The topics of a run: fills the source with numbers, and tells how often each of them is in the target."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from penstock.client.admin.admin import Admin
from penstock.client.consumer.consumer import Consumer
from penstock.client.producer.producer import Producer
from penstock.types import TopicPartition
from tests.support.decided import DECIDED_S, wait_decided

PARTITIONS = 3
READ_S = 120.0


def places(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def add(bootstrap: str, topic: str, numbers: Collection[int]) -> None:
    """Sends each number to its partition."""
    with Producer(bootstrap) as producer:
        for partition in range(PARTITIONS):
            values = [b"%d" % number for number in numbers if number % PARTITIONS == partition]
            producer.send_many(topic, values, partition=partition)
        producer.flush()


def reader(bootstrap: str, *, committed: bool) -> Consumer:
    """A reader of committed records, or of all."""
    level = "read_committed" if committed else "read_uncommitted"
    return Consumer(bootstrap, isolation_level=level, auto_offset_reset="earliest")


def end(consumer: Consumer, topic: str) -> int:
    """The sum of the ends that it sees."""
    return sum(consumer.end_offsets(places(topic)).values())


def counts(bootstrap: str, topic: str, *, committed: bool = True, wait_s: float = DECIDED_S) -> Counter[int]:
    """How often each number is there, up to the present end; committed ones once nothing is open, or after `wait_s`."""
    found: Counter[int] = Counter()
    if committed and wait_s:
        wait_decided(bootstrap, places(topic), wait_s)
    deadline = time.monotonic() + READ_S
    with reader(bootstrap, committed=committed) as consumer:
        consumer.assign(places(topic))
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places(topic))
        while any(int(consumer.position(tp).offset) < ends[tp] for tp in ends):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}: {[(consumer.position(tp), ends[tp]) for tp in ends]}")
            found.update(int(value) for value in consumer.poll_arrow(500, 100_000).column("value").to_pylist())
    return found


@dataclass(frozen=True, slots=True)
class Found:
    """`written` counts the records of aborted attempts, too; `open_transactions` those of partitions when nobody
    writes any more."""

    committed: int
    missing: int
    doubled: int
    written: int
    open_transactions: int


def judge(bootstrap: str, topic: str, numbers: int) -> Found:
    committed, written = counts(bootstrap, topic), counts(bootstrap, topic, committed=False)
    with Admin(bootstrap) as admin:
        known = admin.describe_producers(places(topic))
    opened = sum(one.transaction_start_offset is not None for producers in known.values() for one in producers)
    missing = sum(not committed[number] for number in range(numbers))
    doubled = sum(count > 1 for count in committed.values())
    return Found(committed.total(), missing, doubled, written.total(), opened)
