"""One group with members of both protocols, in both protocols: each record is read once, and the group goes on as
members come and go.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer

from penstock import Consumer
from penstock.testing import Cluster

PARTITIONS, RECORDS = 6, 300
WAIT_S = 60.0
QUICK = {"group.consumer.heartbeat.interval.ms": 200}
COMMON = {"log_level": 0, "auto.offset.reset": "earliest", "enable.auto.commit": False}
CLASSIC = {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 300}
KIP_848 = {"group.protocol": "consumer"}


class Member:
    """One member in a thread: what it has, and what it has read."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.cluster, self.topic = cluster, topic
        self.partitions: set[int] = set()
        self.values: list[bytes] = []
        self.is_over = False

    def ours(self) -> None:
        with Consumer(self.cluster.bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe([self.topic])
            while not self.is_over:
                self.values += [record.value or b"" for record in consumer.poll(timeout_ms=100)]
                self.partitions = {part.partition for part in consumer.assignment()}

    def theirs(self, how: dict[str, object]) -> None:
        consumer = ConfluentConsumer(
            {"bootstrap.servers": self.cluster.kafka_bootstrap, "group.id": "g", **COMMON, **how}
        )
        consumer.subscribe([self.topic])
        while not self.is_over:
            message = consumer.poll(0.1)
            self.partitions = {part.partition for part in consumer.assignment()}
            if message is not None and message.error() is None:
                self.values.append(message.value() or b"")
        if self.values:
            consumer.commit(asynchronous=False)
        consumer.close()


@contextmanager
def running(member: Member, run: Callable[[], None]) -> Iterator[Member]:
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield member
    finally:
        member.is_over = True
        thread.join(WAIT_S)


def wait_shared(*members: Member) -> None:
    """Until each has something, and together they have everything once."""
    deadline = time.monotonic() + WAIT_S
    while True:
        has = [member.partitions for member in members]
        if all(has) and sorted(one for some in has for one in some) == list(range(PARTITIONS)):
            return
        assert time.monotonic() < deadline, has
        time.sleep(0.05)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(1, QUICK) as made:
        yield made


def test_members_of_both_group_protocols_share_one_topic_by_both_wires(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=PARTITIONS)
    classic, newer, ours = (Member(cluster, topic) for _ in range(3))
    producer = ConfluentProducer({"bootstrap.servers": cluster.kafka_bootstrap, "log_level": 0})
    with running(classic, lambda: classic.theirs(CLASSIC)):
        wait_shared(classic)
        with running(newer, lambda: newer.theirs(KIP_848)):  # the group moves to the consumer protocol
            wait_shared(classic, newer)
            with running(ours, ours.ours):
                wait_shared(classic, newer, ours)
                sent = [b"%d" % number for number in range(RECORDS)]
                for number, value in enumerate(sent):
                    producer.produce(topic, value, partition=number % PARTITIONS)
                assert producer.flush(WAIT_S) == 0
                deadline = time.monotonic() + WAIT_S
                while len(read := [*classic.values, *newer.values, *ours.values]) < RECORDS:
                    assert time.monotonic() < deadline, len(read)
                    time.sleep(0.05)
                assert sorted(read) == sorted(sent)
                assert classic.values and newer.values and ours.values
        wait_shared(classic)  # the last one of the consumer protocol has left: the group is classic again
        producer.produce(topic, b"last", partition=0)
        producer.flush(WAIT_S)
        deadline = time.monotonic() + WAIT_S
        while b"last" not in classic.values:
            assert time.monotonic() < deadline
            time.sleep(0.05)
