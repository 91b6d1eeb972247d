"""Clients that nobody here wrote push their metrics to a broker, which shows them (KIP-714)."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer as ConfluentProducer
from prometheus_client.parser import text_string_to_metric_families

from penstock import Admin
from penstock.testing import Cluster

TIMEOUT_S = 60
Labels = dict[str, str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as made:
        yield made


def subscribe(cluster: Cluster, name: str, **values: object) -> None:
    with Admin(cluster.bootstrap) as admin:
        admin.alter_client_metrics(name, {key.replace("_", "."): value for key, value in values.items()})


def pushed(cluster: Cluster, **labels: str) -> list[tuple[str, Labels, float]]:
    text = urllib.request.urlopen(cluster.metrics_url(0)).read().decode()
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("penstock_client_pushed") and labels.items() <= sample.labels.items()
    ]


def eventually(look: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + TIMEOUT_S
    while not look():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_librdkafka_pushes_what_a_subscription_asks_it_for(cluster: Cluster) -> None:
    topic = cluster.topic()
    subscribe(cluster, "tills", metrics="org.apache.kafka.producer.", interval_ms=200, match="client_id=till-.*")
    till, other = (
        ConfluentProducer({"bootstrap.servers": cluster.kafka_bootstrap, "client.id": name}) for name in ("till-1", "x")
    )
    for producer in (till, other):
        producer.produce(topic, b"v")
        assert producer.flush(TIMEOUT_S) == 0
    assert eventually(lambda: bool(pushed(cluster, client_id="till-1")))
    found = pushed(cluster, client_id="till-1")
    assert {labels["metric"].split(".")[0] for _, labels, _ in found} == {"producer"}
    assert any(labels["node"] == "0" for _, labels, _ in found)
    assert not pushed(cluster, client_id="x")
