"""Verbs of confluent-kafka before 2.3, whose AdminClient describes and looks up less: by the calls that it had then."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from tests.interop.drivers import login
from tests.interop.drivers.serve import WAIT_S


class Older:
    def __init__(self, bootstrap: str) -> None:
        self._common = {"bootstrap.servers": bootstrap, "log_level": 3, **login.librdkafka()}
        self._admin = AdminClient(self._common)

    def describe(self, topic: str) -> dict[str, Any]:
        found = self._admin.list_topics(topic, timeout=WAIT_S).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        partitions = [found.partitions[number] for number in sorted(found.partitions)]
        return {"partitions": [{"leader": p.leader, "replicas": p.replicas, "isr": p.isrs} for p in partitions]}

    def cluster(self) -> dict[str, Any]:
        found = self._admin.list_topics(timeout=WAIT_S)
        return {"cluster_id": found.cluster_id, "nodes": {n.id: f"{n.host}:{n.port}" for n in found.brokers.values()}}

    def alter_configs(self, topic: str, configs: dict[str, str]) -> None:
        """By the request that sets every key of a topic anew."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=configs)
        self._admin.alter_configs([resource])[resource].result(WAIT_S)

    def offsets(self, topic: str, partition: int, timestamp: int) -> dict[str, Any]:
        consumer = Consumer({**self._common, "group.id": "interop"})
        earliest, latest = consumer.get_watermark_offsets(TopicPartition(topic, partition), WAIT_S)
        (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], WAIT_S)
        consumer.close()
        return {"earliest": earliest, "latest": latest, "at_timestamp": found.offset}
