"""Atomic batches as a client of Kafka reads them: what is committed, all of it, and nothing else."""

from __future__ import annotations

from collections import Counter

from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

from penstock import AtomicBatches, Producer
from penstock.testing import Cluster

END = b"end"


def by_confluent(cluster: Cluster, topic: str) -> list[bytes]:
    consumer = ConfluentConsumer(
        {"bootstrap.servers": cluster.kafka_bootstrap, "group.id": "g", "isolation.level": "read_committed"}
    )
    consumer.assign([ConfluentPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[bytes] = []
    while END not in found:
        found += [message.value() or b"" for message in consumer.consume(1_000, timeout=1)]
    consumer.close()
    return found


def test_a_reader_of_committed_records_gets_a_version_whole() -> None:
    with Cluster(nodes=1) as cluster, AtomicBatches(cluster.bootstrap) as batches:
        topic = cluster.topic(partitions=1)
        for version in range(4):
            identities = []
            for number in range(3):
                writer = batches.begin("app", version)
                assert writer is not None
                with writer:
                    writer.send_many(topic, [b"%d-%d" % (version, number)] * 10)
                identities.append(writer.identity)
            if version == 2:
                batches.abort("app", version)
            else:
                batches.commit("app", version, identities[:2])
        with Producer(cluster.bootstrap) as producer:
            producer.send(topic, END).result(60)
        assert Counter(by_confluent(cluster, topic)) == {b"%d-%d" % (v, n): 10 for v in (0, 1, 3) for n in (0, 1)} | {
            END: 1
        }
