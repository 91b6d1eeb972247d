"""One Spark session and one real node for all tests of this folder: a session takes seconds to start."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import pytest
from pyspark.sql import SparkSession

from penstock.client.admin.admin import Admin
from penstock.client.producer.producer import Producer
from penstock.spark.session import spark_session
from penstock.testing import Cluster
from tests.support.python_nursery import python_nursery, pythons

FillTopic = Callable[..., str]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


CONNECT = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}
"""The session's JVM is a server of Spark Connect as well, for test_connect.py: another takes 40 s of a processor."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with python_nursery(tmp_path_factory.mktemp("nursery")) as command:
        with pythons(command):
            session = spark_session("tests", "local[2,2]", CONNECT, quick=True)  # a task that fails is tried once more
        yield session
        session.stop()


@pytest.fixture(scope="session")
def connect_url(spark: SparkSession) -> str:
    """The address of that server."""
    assert spark._jvm is not None
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return f"sc://127.0.0.1:{getattr(service, 'MODULE$').localPort()}"


@pytest.fixture(scope="session")
def fill_topic(cluster: Cluster) -> Iterator[FillTopic]:
    """Makes a topic of its own and sends it the values, in turn to its partitions; returns its name."""
    numbers = itertools.count()
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:

        def fill(values: Sequence[bytes | None] = (), partitions: int = 3) -> str:
            name = f"topic-{next(numbers)}"
            admin.create_topic(name, partitions)
            add_rows(producer, name, values, partitions)
            return name

        yield fill


def add_rows(producer: Producer, topic: str, values: Sequence[bytes | None], partitions: int) -> None:
    """Every second record has a key, every third headers."""
    for number, value in enumerate(values):
        key = b"key-%d" % number if number % 2 else None
        headers = [("n", b"%d" % number), ("null", None)] if number % 3 == 0 else None
        producer.send(topic, value=value, key=key, headers=headers, partition=number % partitions)
    producer.flush()
