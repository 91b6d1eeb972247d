"""Producers, consumers and admin clients have metrics of one form, and one collector shows all to Prometheus."""

from __future__ import annotations

import gc

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock import Admin, ClientMetric, Consumer, MetricsCollector, Producer, TopicPartition
from penstock.client.options.config import ProducerConfig
from tests.support.fake_broker import FakeCluster

ORDERS = TopicPartition("orders", 0)


def samples(collector: MetricsCollector) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(collector)
    text = generate_latest(registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_each_client_has_metrics_with_its_labels_and_a_meaning() -> None:
    with (
        FakeCluster(1) as cluster,
        Producer(cluster.bootstrap, client_id="till") as producer,
        Consumer(cluster.bootstrap, group_id="bill") as consumer,
        Admin(cluster.bootstrap) as admin,
    ):
        kinds: dict[str, tuple[ClientMetric, ...]] = {
            "producer": producer.metrics(),
            "consumer": consumer.metrics(),
            "admin": admin.metrics(),
        }
        assert producer.metrics()[0].labels == {"client_id": "till", "transactional_id": ""}
        assert consumer.metrics()[0].labels == {"client_id": "penstock", "group_id": "bill"}
        assert admin.metrics()[0].labels == {"client_id": "penstock"}
    for kind, metrics in kinds.items():
        assert len(metrics) > 2 and len({metric.name for metric in metrics}) == len(metrics)
        assert all(metric.group == kind and metric.meaning.endswith(".") for metric in metrics)


def test_one_collector_shows_the_numbers_of_many_clients() -> None:
    with (
        FakeCluster(1) as cluster,
        Producer(cluster.bootstrap, client_id="a") as first,
        Producer(cluster.bootstrap, client_id="b") as second,
        Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        cluster.create_topic("orders", 1)
        for producer, count in ((first, 1), (second, 2)):
            for _ in range(count):
                producer.send("orders", b"v").result(30)
        consumer.assign([ORDERS])
        assert consumer.poll(30_000, max_records=1)
        found = samples(MetricsCollector(first, second, consumer))
    sent = "penstock_producer_record_send_total"
    assert found[sent, (("client_id", "a"), ("transactional_id", ""))] == 1
    assert found[sent, (("client_id", "b"), ("transactional_id", ""))] == 2
    of = (("client_id", "penstock"), ("group_id", ""))
    assert found["penstock_consumer_records_consumed_total", of] == 1
    assert found["penstock_consumer_records_lag", (*of, ("partition", "0"), ("topic", "orders"))] >= 0


def test_two_clients_that_nobody_could_tell_apart_are_refused() -> None:
    with FakeCluster(1) as cluster, Admin(cluster.bootstrap) as admin, Admin(cluster.bootstrap) as other:
        collector = MetricsCollector(admin)
        with pytest.raises(ValueError, match=r"client_id='penstock' is there already; give each client"):
            collector.add(other)
        collector.remove(admin)
        collector.add(other)
        assert len(samples(collector)) == len(other.metrics())


def test_a_client_that_was_dropped_is_left_out() -> None:
    with FakeCluster(1) as cluster:
        admin = Admin(cluster.bootstrap)
        collector = MetricsCollector(admin)
        admin.close()
        assert samples(collector)
        del admin
        gc.collect()
        assert not samples(collector)


def test_requests_and_fetches_are_timed_and_sized() -> None:
    with (
        FakeCluster(1) as cluster,
        Producer(cluster.bootstrap, linger_ms=50) as producer,
        Consumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        cluster.create_topic("orders", 1)
        for future in [producer.send("orders", b"v" * 100) for _ in range(30)]:
            future.result(30)
        consumer.assign([ORDERS])
        while not (records := consumer.poll(30_000)):
            pass
        sent = {metric.name: metric.value for metric in producer.metrics()}
        got = {metric.name: metric.value for metric in consumer.metrics()}
    assert sent["record-send-rate"] == pytest.approx(1.0)  # 30 records, and a rate is of 30 s at least
    assert sent["records-per-request-avg"] * sent["request-total"] == pytest.approx(30)
    assert sent["batch-size-max"] >= sent["batch-size-avg"] > 100
    assert sent["request-latency-max"] >= sent["request-latency-avg"] >= 0
    assert sent["record-queue-time-max"] >= sent["record-queue-time-avg"]
    assert sent["buffer-available-bytes"] == ProducerConfig().buffer_memory
    assert got["fetch-size-avg"] > 100 and got["fetch-latency-max"] >= got["fetch-latency-avg"]
    assert got["records-consumed-rate"] == pytest.approx(len(records) / 30)
