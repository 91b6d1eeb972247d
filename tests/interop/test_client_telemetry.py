"""Clients that nobody here wrote push their metrics to a broker, which shows them (KIP-714)."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer as ConfluentProducer
from prometheus_client.parser import text_string_to_metric_families

from penstock import Admin
from penstock.testing import Cluster
from tests.interop.matrix.clients import QUICK_JAVA, java_jars
from tests.interop.matrix.installs import MissingError

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


@pytest.mark.long
def test_kafkas_own_tool_subscribes_and_javas_producer_pushes(cluster: Cluster) -> None:
    """Kafka's classes, unchanged, in a JVM of their own."""
    try:
        java, jars, _ = java_jars()
    except MissingError as error:
        pytest.skip(str(error))
    command = [java, *QUICK_JAVA, "-cp", f"{jars}/*"]
    tool = [*command, "org.apache.kafka.tools.ClientMetricsCommand", "--bootstrap-server", cluster.kafka_bootstrap]
    asked = ["--alter", "--name", "java", "--metrics", "org.apache.kafka.producer.", "--interval", "300"]
    done = subprocess.run(
        [*tool, *asked, "--match", "client_id=java-.*"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    listed = subprocess.run([*tool, "--list"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert "java" in listed.stdout.split()
    words = ["org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", cluster.kafka_bootstrap]
    words += ["--topic", cluster.topic(), "--command-property", "client.id=java-1"]
    with subprocess.Popen([*command, *words], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"one\ntwo\n")
        producer.stdin.flush()
        try:
            assert eventually(lambda: bool(pushed(cluster, client_id="java-1"))), producer.poll()
        finally:
            producer.communicate()
    found = {labels["software"] for _, labels, _ in pushed(cluster, client_id="java-1")}
    assert all(software.startswith("apache-kafka-java") for software in found) and found
