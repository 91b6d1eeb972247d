"""Real clients against a cluster: those that are installed with the tests, and kcat where it is.

Each feature of the matrix but the slowest. The clients of other languages are in test_other_clients.py. A client that
is not here is skipped, with the reason, and the summary of the tests names it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from penstock import Consumer, Producer, TopicPartition
from penstock.testing import Cluster
from tests.interop.matrix.checks import SINGLE
from tests.interop.matrix.subjects import NODES, Penstock, penstock
from tests.interop.runs import Note, Runs, pairs_at_night
from tests.support.amount import at_night

CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "kcat")
KILLS = {("confluent-kafka", "kill-idempotent"), ("aiokafka", "kill-idempotent")}
"""Ten seconds each; the others are left to the whole matrix."""
NOT_OFFERED = {
    ("kcat", feature)
    for feature in (
        *("create", "configs", "partitions", "delete", "delete-records", "operate"),
        *("empties", "timestamps", "seek"),
    )
}
GROUPS = {
    ("confluent-kafka", "share-cooperative"),
    ("confluent-kafka", "share-consumer"),
    ("confluent-kafka", "groups"),
    ("aiokafka", "resume-eager"),
}
"""A few seconds each; likewise."""
TRANSACTIONS = {
    *(("confluent-kafka", f"transactions-{what}") for what in ("commit", "abort", "fence", "offsets")),
    *((client, "transactions-offsets") for client in ("kafka-python", "aiokafka")),
    *((client, "transactions-read") for client in ("kafka-python", "aiokafka")),
}
"""A second or two each: librdkafka and aiokafka speak transaction version 1, and read in their own ways."""
PAIRS = [
    *((client, feature) for client in CLIENTS for feature in SINGLE if not feature.startswith("kill")),
    *sorted(KILLS | GROUPS | TRANSACTIONS),
]
PAIRS = [pair for pair in PAIRS if pair not in NOT_OFFERED]
SECURED = [
    ("confluent-kafka", "produce-zstd"),
    ("confluent-kafka", "transactions-offsets"),
    ("kafka-python", "consume"),
    ("aiokafka", "resume-eager"),
    ("kcat", "tail"),
]
"""Over TLS, after a log-in: one or two a client; `python -m tests.interop.matrix --secure` has all."""
CODEC_FEATURES = {
    *(f"produce-{codec}" for codec in ("none", "gzip", "snappy", "lz4")),
    *(f"consume-{codec}" for codec in ("gzip", "snappy", "lz4")),
}
NIGHT = {
    *((client, feature) for client in CLIENTS[1:] for feature in CODEC_FEATURES),
    ("aiokafka", "kill-idempotent"),
    *(("confluent-kafka", feature) for feature in ("share-cooperative", "groups")),
    *(("confluent-kafka", f"transactions-{what}") for what in ("abort", "fence")),
    ("kafka-python", "transactions-offsets"),
    ("kafka-python", "transactions-read"),
}
"""Left to the night: codecs that librdkafka shows before each merge, and the slower half of what takes seconds."""
NIGHT_SECURED = {pair for pair in SECURED if pair[0] in ("kafka-python", "kcat") or pair[1] == "transactions-offsets"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(NODES) as made:
        yield made


@pytest.fixture(scope="module")
def runs(cluster: Cluster) -> Iterator[Runs]:
    with Runs(Penstock(cluster)) as made:
        yield made


@pytest.mark.parametrize(("client", "feature"), pairs_at_night(PAIRS, NIGHT))
def test_a_real_client_gets_what_it_would_get_from_kafka(
    runs: Runs, client: str, feature: str, record_property: Note
) -> None:
    runs.require(client, feature, record_property)


@pytest.fixture(scope="module")
def secured_runs() -> Iterator[Runs]:
    with penstock(secure=True) as subject, Runs(subject) as made:
        yield made


@pytest.mark.parametrize(("client", "feature"), pairs_at_night(SECURED, NIGHT_SECURED))
def test_a_real_client_gets_the_same_over_tls_after_a_log_in(
    secured_runs: Runs, client: str, feature: str, record_property: Note
) -> None:
    secured_runs.require(client, feature, record_property)


@pytest.mark.parametrize("codec", at_night(CODECS, long=["gzip", "snappy", "lz4"]))
def test_records_that_came_in_by_one_protocol_are_read_by_the_other(cluster: Cluster, codec: str) -> None:
    topic = cluster.topic(replication_factor=NODES)
    ours, theirs = [b"grpc %d" % n for n in range(100)], [b"kafka %d" % n for n in range(100)]
    with Producer(cluster.bootstrap, compression_type=codec) as producer:
        for value in ours:
            producer.send(topic, value, key=b"k", headers=[("h", b"1")])
        producer.flush()
    other = ConfluentProducer({"bootstrap.servers": cluster.kafka_bootstrap, "compression.type": codec})
    for value in theirs:
        other.produce(topic, value, b"k", headers=[("h", b"1")])
    assert other.flush(TIMEOUT_S) == 0

    how = {"bootstrap.servers": cluster.kafka_bootstrap, "group.id": "g", "enable.auto.commit": False}
    reader = ConfluentConsumer(how)
    reader.assign([ConfluentPartition(topic, 0, 0)])
    by_kafka: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(by_kafka) < 200 and time.monotonic() < deadline:
        found = reader.consume(200, 1.0)
        by_kafka += [(m.offset(), m.key(), m.value(), m.headers()) for m in found if m.error() is None]
    reader.close()
    with Consumer(cluster.bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        by_grpc: list[Any] = []
        while len(by_grpc) < 200 and time.monotonic() < deadline:
            by_grpc += [(r.offset, r.key, r.value, list(r.headers)) for r in consumer.poll(timeout_ms=1000)]

    assert by_kafka == by_grpc == [(n, b"k", value, [("h", b"1")]) for n, value in enumerate([*ours, *theirs])]
