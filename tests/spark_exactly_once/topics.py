"""The topics of a run: fills the source with numbers, and tells how often each of them is in the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from penstock.client.consumer.consumer import Consumer
from penstock.client.producer.producer import Producer
from penstock.types import TopicPartition
from tests.support.campaign.reading import COMMITTED, EVERYTHING, numbers_of, places_of
from tests.support.decided import DECIDED_S

PARTITIONS = 3


def places(topic: str) -> list[TopicPartition]:
    return places_of(topic, PARTITIONS)


def add(bootstrap: str, topic: str, numbers: Collection[int]) -> None:
    """Sends each number to its partition."""
    with Producer(bootstrap) as producer:
        for partition in range(PARTITIONS):
            values = [b"%d" % number for number in numbers if number % PARTITIONS == partition]
            producer.send_many(topic, values, partition=partition)
        producer.flush()


def reader(bootstrap: str, *, committed: bool) -> Consumer:
    """A reader of committed records, or of all."""
    return Consumer(bootstrap, isolation_level=COMMITTED if committed else EVERYTHING, auto_offset_reset="earliest")


def end(consumer: Consumer, topic: str) -> int:
    """The sum of the ends that it sees."""
    return sum(consumer.end_offsets(places(topic)).values())


def counts(bootstrap: str, topic: str, *, committed: bool = True, wait_s: float = DECIDED_S) -> Counter[int]:
    """How often each number is there, up to the present end; committed ones once nothing is open, or after `wait_s`."""
    return numbers_of(bootstrap, places(topic), COMMITTED if committed else EVERYTHING, decided_s=wait_s)
