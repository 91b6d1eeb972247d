"""Transactions of our own clients on a real cluster: whole or not at all, while brokers are killed and come back."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.errors import ProducerFencedError, TransactionAbortedError
from penstock.testing import Cluster
from tests.support.decided import wait_topic_decided

PATIENCE_S = 60
NODES = 3
CONFIG: dict[str, object] = {"group.consumer.heartbeat.interval.ms": 300, "group.consumer.session.timeout.ms": 12_000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=NODES, config=CONFIG) as running:
        yield running


def values_of(cluster: Cluster, topic: str, level: str = "read_committed", *, is_open: bool = False) -> list[bytes]:
    """All that the topic has for such a reader, once nothing is open any more; with `is_open` at once."""
    assert is_open or wait_topic_decided(cluster.bootstrap, topic), f"{topic} has a transaction that does not end"
    with Consumer(cluster.bootstrap, auto_offset_reset="earliest", isolation_level=level) as consumer:  # type: ignore[arg-type]
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[bytes] = []
        while any(consumer.position(tp) < ends[tp] for tp in partitions):
            found += [record.value or b"" for record in consumer.poll(timeout_ms=200)]
        return found


def test_a_transaction_is_read_whole_and_an_aborted_one_never(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=3)
    with Producer(cluster.bootstrap, transactional_id=topic) as producer:
        for number in range(30):
            try:
                with producer.transaction() as t:
                    for partition in range(3):
                        t.send(topic, b"%d" % number, partition=partition)
                    if number % 3 == 0:
                        producer.flush()
                        raise ZeroDivisionError
            except ZeroDivisionError:
                pass
    committed = {b"%d" % n: 3 for n in range(30) if n % 3}
    assert Counter(values_of(cluster, topic)) == committed
    assert Counter(values_of(cluster, topic, "read_uncommitted")) == {b"%d" % n: 3 for n in range(30)}


def test_what_waits_for_decided_records_waits_for_the_last_open_transaction(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=2)
    with Producer(cluster.bootstrap, transactional_id=topic) as producer:
        with producer.transaction() as t:
            t.send(topic, b"1", partition=0)
            producer.flush()
            assert not wait_topic_decided(cluster.bootstrap, topic, timeout_s=0.1)
        assert wait_topic_decided(cluster.bootstrap, topic)
    assert values_of(cluster, topic) == [b"1"]


def test_a_newer_producer_fences_the_older_and_ends_what_it_has_open(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=1)
    with Producer(cluster.bootstrap, transactional_id=topic) as old:
        old.begin_transaction()
        old.send(topic, b"old").result(PATIENCE_S)
        with Producer(cluster.bootstrap, transactional_id=topic) as new, new.transaction() as t:
            t.send(topic, b"new")
        with pytest.raises(ProducerFencedError):
            old.commit_transaction()
    assert values_of(cluster, topic) == [b"new"]


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_goes_on(cluster: Cluster) -> None:
    topic = cluster.topic(partitions=1)
    with Producer(cluster.bootstrap, transactional_id=topic, transaction_timeout_ms=3_000) as producer:
        producer.begin_transaction()
        producer.send(topic, b"late").result(PATIENCE_S)
        with Consumer(cluster.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
            tp = TopicPartition(topic, 0)
            consumer.assign([tp])
            while consumer.position(tp) < 2:  # the record and the marker
                assert consumer.poll(timeout_ms=100) == []
        with pytest.raises(TransactionAbortedError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction() as t:
            t.send(topic, b"next")
    assert values_of(cluster, topic) == [b"next"]


def test_a_transaction_with_a_time_above_a_lowered_maximum_can_be_aborted(tmp_path: Path) -> None:
    with Cluster(directory=tmp_path) as first:
        topic = first.topic(partitions=1)
        producer = Producer(first.bootstrap, transactional_id="long", transaction_timeout_ms=600_000)
        producer.begin_transaction()
        producer.send(topic, b"1").result(PATIENCE_S)
        first.stop(0)
    with Cluster(config={"transaction.max.timeout.ms": 60_000}, directory=tmp_path) as second:
        with Admin(second.bootstrap) as admin:
            admin.fence_producer("long")
        assert values_of(second, topic) == []
    producer.close(0)


@pytest.mark.long  # simulation/cluster/sink/test_exactly_once.py
def test_reading_and_writing_are_one_act_while_brokers_are_killed(cluster: Cluster) -> None:
    """Each record of the source is in the sink once, though transactions are aborted, and every broker dies once."""
    source, sink, group = cluster.topic(partitions=3), cluster.topic(partitions=3), "copies"
    count = 3_000
    with Producer(cluster.bootstrap) as producer:
        producer.send_many(source, [b"%d" % n for n in range(count)], keys=[b"%d" % n for n in range(count)])
    errors: list[BaseException] = []
    copied = threading.Event()

    def copy() -> None:
        try:
            with (
                Consumer(
                    cluster.bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
                ) as consumer,
                Producer(cluster.bootstrap, transactional_id=group) as producer,
            ):
                consumer.subscribe([source])
                done, turns = 0, 0
                while done < count:
                    records = consumer.poll(timeout_ms=500, max_records=50)
                    turns += bool(records)
                    try:
                        with producer.transaction() as t:
                            for record in records:
                                t.send(sink, record.value, key=record.key)
                            t.send_offsets(consumer)
                            if turns % 7 == 3:
                                raise ZeroDivisionError
                        done += len(records)
                    except (ZeroDivisionError, TransactionAbortedError):
                        consumer.seek_to_committed()
                        turns += 1
        except BaseException as error:
            errors.append(error)
        finally:
            copied.set()

    thread = threading.Thread(target=copy)
    thread.start()
    for node in range(NODES):
        if copied.wait(1.5):
            break
        cluster.kill(node)
        copied.wait(1)
        cluster.start(node)
    thread.join(2 * PATIENCE_S)
    assert not errors and not thread.is_alive(), errors
    assert Counter(values_of(cluster, sink)) == {b"%d" % n: 1 for n in range(count)}
    with Admin(cluster.bootstrap) as admin:
        committed = admin.group_offsets(group)
    assert sum(found.offset for found in committed.values()) == count
