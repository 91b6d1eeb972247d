"""A member of librdkafka whose assignment changes while a transaction that commits its offsets is open: it goes on
where the group is, and not where `auto.offset.reset` says (broker/kafka/apis/groups/offset_fetch.py, ASK_AGAIN).
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.testing import Cluster
from tests.interop.test_mixed_group import COMMON, KIP_848, PARTITIONS, QUICK, WAIT_S, Member, running, wait_shared

SENT, COMMITTED, PENDING = 60, 40, 50


def test_a_new_assignment_under_an_open_transaction_begins_nothing_anew() -> None:
    with Cluster(1, QUICK) as cluster:
        topic = cluster.topic(partitions=PARTITIONS)
        places = {"bootstrap.servers": cluster.kafka_bootstrap, "log_level": 0}
        _fill(Producer(places), topic)
        consumer = Consumer({**places, "group.id": "g", **COMMON, **KIP_848})
        producer = Producer({**places, "transactional.id": "t"})
        producer.init_transactions(WAIT_S)
        consumer.subscribe([topic])
        deadline = time.monotonic() + WAIT_S
        while len(consumer.assignment()) < PARTITIONS:
            assert time.monotonic() < deadline
            consumer.poll(0.05)
        consumer.commit(offsets=_positions(topic, COMMITTED), asynchronous=False)
        producer.begin_transaction()
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(_positions(topic, PENDING), metadata, WAIT_S)
        consumer.close()

        one, other = Member(cluster, topic), Member(cluster, topic)
        with running(one, lambda: one.theirs(KIP_848)):
            wait_shared(one)
            with running(other, lambda: other.theirs(KIP_848)):
                while len(one.partitions) == PARTITIONS:  # what it keeps it asks for anew
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
                assert one.values == other.values == [], "nobody knows yet where to begin"
                producer.commit_transaction(WAIT_S)
                while len([*one.values, *other.values]) < PARTITIONS * (SENT - PENDING):
                    assert time.monotonic() < deadline, (one.values, other.values)
                    time.sleep(0.05)
        wanted = [b"%d of %d" % (number, part) for part in range(PARTITIONS) for number in range(PENDING, SENT)]
        assert sorted([*one.values, *other.values]) == sorted(wanted)


def _fill(producer: Producer, topic: str) -> None:
    for partition in range(PARTITIONS):
        for number in range(SENT):
            producer.produce(topic, b"%d of %d" % (number, partition), partition=partition)
    assert producer.flush(WAIT_S) == 0


def _positions(topic: str, offset: int) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for partition in range(PARTITIONS)]
