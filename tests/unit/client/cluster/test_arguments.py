"""A wrong argument to a method of a client gets one error that names it and says what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.client.cluster.arguments import checked_number, checked_partition
from penstock.errors import ConfigError, InvalidTopicError
from penstock.testing import Cluster
from tests.support.fake_broker import FakeCluster

T0 = TopicPartition("t", 0)


def reading(consumer: Consumer) -> Consumer:
    consumer.assign([T0])
    return consumer


ADMIN: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (
        lambda admin: admin.create_topic("x", "6"),
        TypeError,
        "partitions='6' must be an int, not str; write partitions=6",
    ),
    (lambda admin: admin.create_topic("x", 1.5), TypeError, "partitions=1.5 must be an int, not float"),
    (lambda admin: admin.create_topic("x", 2**40), ValueError, "partitions=1099511627776 must be from -1 to"),
    (lambda admin: admin.create_topic("x", 1, "3"), TypeError, "write replication_factor=3"),
    (lambda admin: admin.create_topic("x", config=["a"]), TypeError, "config must be a dict, like {"),
    (lambda admin: admin.create_topic(["x"]), TypeError, "topic must be a str, not list; call once for each topic"),
    (lambda admin: admin.create_topic(None), TypeError, "topic must be a str, not NoneType"),
    (lambda admin: admin.create_topic(""), InvalidTopicError, "the topic name is empty"),
    (lambda admin: admin.delete_topic(b"x"), TypeError, "topic must be a str, not bytes"),
    (lambda admin: admin.describe_topic(7), TypeError, "topic must be a str, not int"),
    (lambda admin: admin.describe_topic_config(None), TypeError, "topic must be a str, not NoneType"),
    (lambda admin: admin.describe_broker_config("1"), TypeError, "write node_id=1"),
    (lambda admin: admin.alter_topic_config("t", "a=b"), TypeError, "changes must be a dict, like {"),
    (lambda admin: admin.delete_records([T0]), TypeError, "before_offsets must be a dict, like {TopicPartition("),
    (lambda admin: admin.delete_records({T0: "5"}), TypeError, "offset='5' must be an int, not str; write offset=5"),
    (lambda admin: admin.list_offsets("t"), TypeError, r"every partition of a topic is partitions_for('t')"),
    (lambda admin: admin.list_offsets({T0: 1.5}), TypeError, "time_ms=1.5 must be an int, not float"),
]
CONSUMER: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda consumer: consumer.assign(T0), TypeError, "give a list of TopicPartition(topic, partition), not"),
    (lambda consumer: consumer.assign(None), TypeError, "give a list of TopicPartition(topic, partition), not None"),
    (lambda consumer: consumer.assign(["t"]), TypeError, "every partition of a topic is partitions_for('t')"),
    (lambda consumer: consumer.assign([("t", "0")]), TypeError, "write TopicPartition('t', 0)"),
    (lambda consumer: consumer.assign([TopicPartition("t", None)]), TypeError, "must be an int, not NoneType"),  # type: ignore[arg-type]
    (lambda consumer: consumer.partitions_for(["t"]), TypeError, "topic must be a str, not list"),
    (lambda consumer: consumer.seek("t", 0), TypeError, "a partition is TopicPartition('t', 0), a topic and a number"),
    (lambda consumer: consumer.seek(T0, "5"), TypeError, "offset='5' must be an int, not str; write offset=5"),
    (lambda consumer: consumer.seek(T0, -1), ValueError, "use seek_to_beginning or seek_to_end"),
    (lambda consumer: consumer.seek(T0, 2**63), ValueError, "offset=9223372036854775808 must be from 0 to"),
    (lambda consumer: consumer.position(("t", 0, 1)), TypeError, "a partition is TopicPartition('orders', 0)"),
    (lambda consumer: consumer.end_offsets("t"), TypeError, "every partition of a topic is partitions_for('t')"),
    (lambda consumer: consumer.offsets_for_times([T0]), TypeError, "times_ms must be a dict, like {TopicPartition("),
    (lambda consumer: consumer.offsets_for_times({T0: "1"}), TypeError, "time_ms='1' must be an int"),
    (lambda consumer: consumer.poll(timeout_ms="1"), TypeError, "poll('1'): the time limit is a whole number of milli"),
    (lambda consumer: consumer.poll(timeout=1.0), TypeError, "there is no argument 'timeout'; write timeout_ms=1000"),
    (
        lambda consumer: consumer.poll_arrow(timeout=1),
        TypeError,
        "poll_arrow(timeout=1): there is no argument 'timeout'",
    ),
    (lambda consumer: consumer.poll(num_messages=1), TypeError, "write max_records=100"),
    (lambda consumer: consumer.poll(max_records="5"), TypeError, "max_records='5' must be an int, not str; write"),
    (lambda consumer: consumer.poll(max_records=-1), ValueError, "max_records=-1 must be from 0 to"),
    (lambda consumer: next(consumer.fetch_raw("t", "0", 0, 5)), TypeError, "write TopicPartition('t', 0)"),
    (lambda consumer: next(consumer.fetch_raw("t", 0, 0, None)), TypeError, "to_offset=None must be an int"),
]
PRODUCER: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda producer: producer.send(None, b"v"), TypeError, "topic must be a str, not NoneType"),
    (lambda producer: producer.partitions_for(["t"]), TypeError, "topic must be a str, not list"),
]
CASES = [
    (client, *case) for client, cases in ((Admin, ADMIN), (Consumer, CONSUMER), (Producer, PRODUCER)) for case in cases
]


def test_a_wrong_argument_is_named_with_what_to_write() -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        for client, call, kind, message in CASES:
            with client(cluster.bootstrap) as made:
                subject = reading(made) if isinstance(made, Consumer) else made
                with pytest.raises(kind) as met:
                    call(subject)
            assert message in str(met.value)


@pytest.mark.parametrize("nodes", ["3", 1.0, True, 0])
def test_the_number_of_nodes_is_a_whole_number(nodes: Any) -> None:
    with pytest.raises(ConfigError, match=f"nodes = {nodes!r}: must be a whole number from 1 to "):
        Cluster(nodes=nodes)


def test_a_whole_number_of_numpy_is_one() -> None:
    number = checked_number("offset", numpy.int64(5), 0)
    assert (number, type(number)) == (5, int)
    partition = checked_partition(("t", numpy.int32(1)))
    assert (partition, type(partition.partition)) == (TopicPartition("t", 1), int)
    with pytest.raises(TypeError, match="must be an int"):
        checked_number("offset", numpy.float64(5), 0)
