"""Three real nodes in three racks: a consumer reads from the follower in its rack, and from the leader when that is
killed, paused or stopped; by our client and by confluent-kafka."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import TopicPartition as KafkaPartition

from penstock import Admin, Consumer, Producer, TopicPartition
from penstock.client.admin.admin_types import QuotaEntity
from penstock.testing import Cluster
from tests.support.amount import at_night
from tests.support.waiting import wait_until

RACKS = ("a", "b", "c")
RECORDS = 2_000
BACK_S = 20.0
"""A reader has gone on at the leader by then, with room for a busy machine: see docs/follower-reads.md."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    configs = [{"broker.rack": rack, "replica.selector.class": "rack-aware"} for rack in RACKS]
    with Cluster(3, node_configs=configs) as cluster:
        yield cluster


def made(cluster: Cluster, values: list[bytes]) -> tuple[TopicPartition, int]:
    """A topic of one partition with these records, and the follower whose rack its readers are in."""
    tp = TopicPartition(cluster.topic(partitions=1, replication_factor=3), 0)
    with Producer(cluster.bootstrap, acks="all") as producer:
        producer.send_many(tp.topic, values).result(60)
    return tp, (cluster.leader(tp.topic) + 1) % 3


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    wait_until(lambda: bool(found.extend(r.value for r in consumer.poll(timeout_ms=200)) or len(found) >= count))
    return found


def series(cluster: Cluster, index: int, name: str) -> float:
    with urllib.request.urlopen(cluster.metrics_url(index), timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def stop(cluster: Cluster, index: int) -> None:
    cluster.stop(index)


TROUBLES: dict[str, tuple[Callable[[Cluster, int], None], Callable[[Cluster, int], None]]] = {
    "killed": (Cluster.kill, Cluster.start),
    "paused": (Cluster.pause, Cluster.resume),
    "stopped": (stop, Cluster.start),
}


def test_all_records_come_from_the_follower_and_none_crosses_racks(cluster: Cluster) -> None:
    values = [b"%d" % number for number in range(RECORDS)]
    tp, follower = made(cluster, values)
    before = series(cluster, follower, "penstock_follower_bytes_out_total")
    with Consumer(cluster.bootstrap, client_rack=RACKS[follower], auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        assert read(consumer, RECORDS) == values
        counts = consumer.statistics().fetch
        numbers = {metric.name: metric.value for metric in consumer.metrics()}
    assert counts.bytes_from_followers == counts.bytes_fetched > 0
    assert (counts.moves_to_followers, counts.returns_to_leaders) == (1, 0)
    assert numbers["follower-partitions"] == 1
    assert series(cluster, follower, "penstock_follower_bytes_out_total") - before >= counts.bytes_fetched
    assert sum(series(cluster, index, "penstock_cross_rack_bytes_out_total") for index in range(3)) == 0


@pytest.mark.parametrize("trouble", at_night(TROUBLES, ["killed", "stopped"]))
def test_a_reader_goes_on_at_the_leader_when_its_follower_is(cluster: Cluster, trouble: str) -> None:
    begin, end = TROUBLES[trouble]
    tp, follower = made(cluster, [b"before"])
    with (
        Consumer(cluster.bootstrap, client_rack=RACKS[follower], auto_offset_reset="earliest") as consumer,
        Producer(cluster.bootstrap, acks="all") as producer,
    ):
        consumer.assign([tp])
        assert read(consumer, 1) == [b"before"]
        assert consumer.statistics().fetch.moves_to_followers == 1
        begin(cluster, follower)
        try:
            producer.send(tp.topic, b"meanwhile")
            begun_s = time.monotonic()
            assert read(consumer, 1) == [b"meanwhile"]
            assert time.monotonic() - begun_s < BACK_S
            assert consumer.statistics().fetch.returns_to_leaders >= 1
        finally:
            end(cluster, follower)
        wait_until(lambda: is_whole(cluster, tp.topic))
        producer.send(tp.topic, b"after").result(60)
        assert read(consumer, 1) == [b"after"]


def test_a_reader_goes_on_at_its_follower_after_the_leader_has_named_it_again(cluster: Cluster) -> None:
    tp, follower = made(cluster, [b"before"])
    with (
        Consumer(
            cluster.bootstrap, client_rack=RACKS[follower], auto_offset_reset="earliest", metadata_max_age_ms=500
        ) as consumer,
        Producer(cluster.bootstrap, acks="all") as producer,
    ):
        consumer.assign([tp])
        assert read(consumer, 1) == [b"before"]
        wait_until(lambda: not consumer.poll(timeout_ms=100) and consumer.statistics().fetch.moves_to_followers >= 3)
        producer.send(tp.topic, b"after").result(60)
        assert read(consumer, 1) == [b"after"]
        assert consumer.statistics().fetch.returns_to_leaders == 0


def is_whole(cluster: Cluster, topic: str) -> bool:
    with Admin(cluster.bootstrap) as admin:
        return len(admin.describe_topic(topic).partitions[0].isr) == 3


def test_aborted_records_are_left_out_at_a_follower(cluster: Cluster) -> None:
    tp, follower = made(cluster, [b"plain"])
    with Producer(cluster.bootstrap, transactional_id=f"id-{tp.topic}") as producer:
        for value, commits in ((b"aborted", False), (b"committed", True), (b"aborted too", False)):
            producer.begin_transaction()
            producer.send(tp.topic, value)
            if commits:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    with Consumer(
        cluster.bootstrap,
        client_rack=RACKS[follower],
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        consumer.assign([tp])
        assert read(consumer, 2) == [b"plain", b"committed"]
        consumer.poll(timeout_ms=500)
        counts = consumer.statistics().fetch
        assert counts.bytes_from_followers == counts.bytes_fetched > 0


def test_a_clients_quota_counts_at_the_follower(cluster: Cluster) -> None:
    tp, follower = made(cluster, [bytes(1_000)] * 4_000)
    with Admin(cluster.bootstrap) as admin:
        admin.alter_client_quotas({QuotaEntity(client_id="slow"): {"consumer_byte_rate": 2_000_000}})
    with Consumer(
        cluster.bootstrap, client_rack=RACKS[follower], client_id="slow", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([tp])
        assert len(read(consumer, 4_000)) == 4_000
        counts = consumer.statistics().fetch
    assert counts.throttle_time_ms > 0 and counts.bytes_from_followers == counts.bytes_fetched
    assert counts.returns_to_leaders == 0, "a broker that reads nothing for a while is not silent"


def polled(consumer: KafkaConsumer, count: int, timeout_s: float = 60.0) -> list[bytes]:
    found: list[bytes] = []
    ends_s = time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < ends_s:
        for message in consumer.consume(500, timeout=0.2):
            assert message.error() is None, message.error()
            found.append(message.value())
    return found


def test_confluent_kafka_reads_from_the_follower_and_goes_back(cluster: Cluster) -> None:
    values = [b"%d" % number for number in range(RECORDS)]
    tp, follower = made(cluster, values)
    options = {
        "bootstrap.servers": cluster.kafka_bootstrap,
        "group.id": tp.topic,
        "client.rack": RACKS[follower],
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
    }
    before = series(cluster, follower, "penstock_follower_bytes_out_total")
    consumer = KafkaConsumer(options)
    try:
        consumer.assign([KafkaPartition(tp.topic, 0, 0)])
        assert polled(consumer, RECORDS) == values
        assert series(cluster, follower, "penstock_follower_bytes_out_total") > before
        with Producer(cluster.bootstrap, acks="all") as producer:
            cluster.kill(follower)
            try:
                producer.send(tp.topic, b"meanwhile")
                assert polled(consumer, 1) == [b"meanwhile"]
            finally:
                cluster.start(follower)
            wait_until(lambda: is_whole(cluster, tp.topic))
            producer.send(tp.topic, b"after").result(60)
            assert polled(consumer, 1) == [b"after"]
    finally:
        consumer.close()
