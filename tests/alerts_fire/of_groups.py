"""Faults of consumer groups: members that are too slow, that hang, and that come and go without end, and
a log that its coordinator cannot read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from penstock import Consumer, Producer, TopicPartition
from tests.alerts_fire.stage import Stage, again_and_again, must_come
from tests.alerts_fire.unreadable_end import unreadable_end

GROUP = "shop"
BATCH = 100
"""Records that are written each tenth of a second: some thousand in the shortest time of the rules."""


def joined(stage: Stage, topic: str) -> Consumer:
    """A member of the group that has a partition, and commits only when it is told to."""
    consumer = Consumer(stage.cluster.bootstrap, group_id=GROUP, enable_auto_commit=False, auto_offset_reset="earliest")
    consumer.subscribe([topic])
    must_come(lambda: bool(consumer.poll(timeout_ms=200)) or bool(consumer.assignment()), "a member with a partition")
    return consumer


@contextmanager
def consumer_that_is_too_slow(stage: Stage) -> Iterator[None]:
    """It commits, and reads a record where a hundred are written."""
    topic, place = stage.topic("t"), TopicPartition("t", 0)
    with Producer(stage.cluster.bootstrap) as producer, joined(stage, topic) as consumer:
        producer.send_many(topic, [b"v"] * BATCH)
        producer.flush()
        reached = 0

        def read_little() -> None:
            nonlocal reached
            producer.send_many(topic, [b"v"] * BATCH)
            producer.flush()
            reached += 1
            consumer.poll(timeout_ms=10)
            consumer.commit({place: reached})

        stage.begins()
        with again_and_again(read_little, pause_s=0.1):
            yield
        consumer.seek_to_end()
        consumer.commit({place: consumer.end_offsets([place])[place]})


@contextmanager
def consumer_that_hangs(stage: Stage) -> Iterator[None]:
    """Its heartbeats go on, and it processes nothing."""
    topic, place = stage.topic("t"), TopicPartition("t", 0)
    with joined(stage, topic) as consumer, Producer(stage.cluster.bootstrap) as producer:
        for _ in range(2):
            producer.send(topic, value=b"v").result(30)
        consumer.commit({place: 1})

        def read_nothing() -> None:
            consumer.poll(timeout_ms=10)

        stage.begins()
        with again_and_again(read_nothing, pause_s=0.5):
            yield
        consumer.commit({place: 2})


@contextmanager
def consumer_that_hangs_at_its_first_record(stage: Stage) -> Iterator[None]:
    """It has never committed, so it has no lag; records come."""
    topic, place = stage.topic("t"), TopicPartition("t", 0)
    with joined(stage, topic) as consumer, Producer(stage.cluster.bootstrap) as producer:

        def write_and_read_nothing() -> None:
            producer.send(topic, value=b"v").result(30)
            consumer.poll(timeout_ms=10)

        stage.begins()
        with again_and_again(write_and_read_nothing, pause_s=0.5):
            yield
        consumer.commit({place: consumer.end_offsets([place])[place]})


@contextmanager
def members_that_come_and_go(stage: Stage) -> Iterator[None]:
    topic = stage.topic("t", partitions=2)

    def visit() -> None:
        with Consumer(stage.cluster.bootstrap, group_id=GROUP) as consumer:
            consumer.subscribe([topic])
            consumer.poll(timeout_ms=300)

    with joined(stage, topic):
        stage.begins()
        with again_and_again(visit, pause_s=0.1):
            yield


@contextmanager
def record_of_a_later_release(stage: Stage) -> Iterator[None]:
    """Every replica ends with a committed offset in a version that this release does not know."""
    with joined(stage, stage.topic("t")) as consumer:
        consumer.commit({TopicPartition("t", 0): 0})
    with unreadable_end(
        stage, "__consumer_offsets", struct.pack(">hh4sh1si", 1, len(GROUP), GROUP.encode(), 1, b"t", 0)
    ):
        yield
