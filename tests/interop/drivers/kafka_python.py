"""The driver of kafka-python 3, and of 2 but for what its administrator's client does (kafka_python_2.py)."""

from __future__ import annotations

import sys
import time
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, admin, cluster
from kafka.admin import ConfigResource, NewPartitions, NewTopic
from kafka.structs import OffsetAndMetadata

from tests.interop.drivers import login
from tests.interop.drivers.kafka_python_2 import Admin2
from tests.interop.drivers.kafka_python_transactions import Transactions, idempotence
from tests.interop.drivers.serve import RESET_TO, WAIT_S, NotOffered, Progress, Shared, answers, paced, serve, tell

IS_2 = kafka.__version__.startswith("2.")


def _refresh_for_ever() -> None:
    """kafka-python 3.0.12 asks for metadata never again after a connection that was reset while it asked: its loop ends
    with any error but a KafkaError. The rows with a dead node are to tell of the nodes."""
    refresh_loop = cluster.ClusterMetadata._refresh_loop

    async def goes_on(self: Any) -> None:
        while not self.closed:
            try:
                await refresh_loop(self)
            except Exception:
                await self._wakeup(0.1)

    cluster.ClusterMetadata._refresh_loop = goes_on


def _assignor(how: str) -> Any:
    if how == "eager":
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        return RangePartitionAssignor
    if how == "cooperative":
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

        return CooperativeStickyAssignor
    raise NotOffered("it has no consumer protocol")


class Driver:
    def __init__(self, bootstrap: str) -> None:
        self._common = {"bootstrap_servers": bootstrap.split(","), **login.kafka_python()}
        self._lazy_admin: KafkaAdminClient | None = None

    @property
    def _admin(self) -> KafkaAdminClient:
        if self._lazy_admin is None:
            self._lazy_admin = KafkaAdminClient(**self._common)
        return self._lazy_admin

    # -- admin ---------------------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, replicas, topic_configs=configs)])

    def describe(self, topic: str) -> dict[str, Any]:
        (found,) = self._admin.describe_topics([topic])
        partitions = sorted(found["partitions"], key=lambda p: p["partition_index"])
        return {
            "partitions": [
                {"leader": p["leader_id"], "replicas": p["replica_nodes"], "isr": p["isr_nodes"]} for p in partitions
            ]
        }

    def cluster(self) -> dict[str, Any]:
        found = self._admin.describe_cluster()
        nodes = {node["broker_id"]: f"{node['host']}:{node['port']}" for node in found["brokers"]}
        return {"cluster_id": found["cluster_id"], "nodes": nodes}

    def configs(self, topic: str) -> dict[str, Any]:
        resource = ConfigResource(admin.ConfigResourceType.TOPIC, topic)
        found = self._admin.describe_configs([resource], config_filter="all")
        return {
            "configs": {
                name: entry["value"]
                for name, entry in found[admin.ConfigResourceType.TOPIC.name.lower()][topic].items()
            }
        }

    def alter_configs(self, topic: str, configs: dict[str, str]) -> None:
        self._admin.alter_configs([ConfigResource(admin.ConfigResourceType.TOPIC, topic, configs)])

    def add_partitions(self, topic: str, count: int) -> None:
        self._admin.create_partitions({topic: NewPartitions(count)})

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._admin.delete_records({TopicPartition(topic, partition): before})

    def offsets(self, topic: str, partition: int, timestamp: int) -> dict[str, Any]:
        at = TopicPartition(topic, partition)
        consumer = self._consumer()
        found = consumer.offsets_for_times({at: timestamp})[at]
        shown = {"earliest": consumer.beginning_offsets([at])[at], "latest": consumer.end_offsets([at])[at]}
        consumer.close()
        return {**shown, "at_timestamp": found.offset}

    def operate(self, topic: str) -> dict[str, Any]:
        asked, at = self._admin, TopicPartition(topic, 0)
        node = ConfigResource(admin.ConfigResourceType.BROKER, str(asked.describe_cluster()["brokers"][0]["broker_id"]))
        return answers(
            {
                "log dirs": asked.describe_log_dirs,
                "quorum": asked.describe_metadata_quorum,
                "features": lambda: asked.describe_features() is not None,
                "topic partitions": lambda: asked.describe_topic_partitions([topic]),
                "producers": lambda: asked.describe_producers([at]) is not None,
                "broker configs": lambda: asked.describe_configs([node], config_filter="all"),
                "reassignments": lambda: asked.list_partition_reassignments() is not None,
                "list topics": lambda: topic in asked.list_topics(),
            }
        )

    # -- producing -----------------------------------------------------------------------------------------------------

    def produce(
        self, topic: str, partition: int, records: list[dict[str, Any]], codec: str, acks: str, idempotent: bool
    ) -> dict[str, Any]:
        producer = self._producer(codec, acks, idempotent, linger_ms=50)
        sent = [
            producer.send(
                topic,
                value=_bytes(record["value"]),
                key=_bytes(record["key"]),
                headers=[(key, _bytes(value)) for key, value in record.get("headers", ())],
                partition=partition,
                timestamp_ms=record.get("timestamp"),
            )
            for record in records
        ]
        offsets = [future.get(WAIT_S).offset for future in sent]
        producer.close()
        return {"offsets": [None if offset is None or offset < 0 else offset for offset in offsets]}

    def stream(self, topic: str, partitions: int, count: int, seconds: float, idempotent: bool) -> dict[str, Any]:
        acked: list[tuple[int, int, str]] = []
        failed: list[str] = []
        progress = Progress(count)

        def on_ack(value: str, found: Any) -> None:
            acked.append((found.partition, found.offset, value))
            progress.acked()

        producer = self._producer("none", "all", idempotent, linger_ms=5)
        for number in paced(count, seconds):
            future = producer.send(topic, value=str(number).encode(), partition=number % partitions)
            future.add_callback(lambda found, value=str(number): on_ack(value, found))
            future.add_errback(lambda error: failed.append(str(error)))
        producer.flush(3 * WAIT_S)
        producer.close()
        return {"acked": acked, "failed": failed}

    def _producer(self, codec: str, acks: str, idempotent: bool, linger_ms: int) -> KafkaProducer:
        return KafkaProducer(
            **self._common,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            linger_ms=linger_ms,
            **idempotence(idempotent),
        )

    # -- consuming -----------------------------------------------------------------------------------------------------

    def consume(self, topic: str, partition: int, at: Any, count: int) -> dict[str, Any]:
        consumer, here = self._consumer(), TopicPartition(topic, partition)
        consumer.assign([here])
        if isinstance(at, dict):
            consumer.seek(here, consumer.offsets_for_times({here: at["timestamp"]})[here].offset)
        elif at == "earliest":
            consumer.seek_to_beginning(here)
        else:
            consumer.seek(here, at)
        return {"records": self._take(consumer, count)}

    def seek(self, topic: str, partition: int, first: int, to: int, count: int) -> dict[str, Any]:
        consumer, here = self._consumer(), TopicPartition(topic, partition)
        consumer.assign([here])
        consumer.seek_to_beginning(here)
        self._take(consumer, first, close=False)
        consumer.seek(here, to)
        return {"records": self._take(consumer, count)}

    def tail(self, topic: str, partition: int, count: int) -> dict[str, Any]:
        consumer, here = self._consumer(), TopicPartition(topic, partition)
        consumer.assign([here])
        consumer.seek_to_end(here)
        consumer.position(here)
        consumer.poll(500)  # a fetch waits at the end
        tell({"ready": True})
        return {"records": self._take(consumer, count)}

    def follow(self, topic: str, partitions: int, count: int) -> dict[str, Any]:
        consumer = self._consumer()
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        consumer.seek_to_beginning()
        records: list[tuple[int, int, str]] = []
        deadline, values = time.monotonic() + 3 * WAIT_S, set[bytes]()
        while len(values) < count and time.monotonic() < deadline:
            for batch in consumer.poll(500).values():
                records += [(record.partition, record.offset, record.value.decode()) for record in batch]
                values |= {record.value for record in batch}
        consumer.close()
        return {"records": records}

    # -- groups --------------------------------------------------------------------------------------------------------

    def _member(self, topic: str, group: str, how: str) -> KafkaConsumer:
        return KafkaConsumer(
            topic,
            **self._common,
            group_id=group,
            partition_assignment_strategy=[_assignor(how)],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=200,
        )

    def take(self, topic: str, group: str, how: str, count: int) -> dict[str, Any]:
        consumer = self._member(topic, group, how)
        found: list[tuple[int, int, str]] = []
        deadline = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < deadline:
            for batch in consumer.poll(500, max_records=count - len(found)).values():
                found += [_placed(record) for record in batch]
        consumer.commit()
        consumer.close()
        return {"records": found}

    def share(self, topic: str, group: str, how: str) -> dict[str, Any]:
        shared, consumer = Shared(), self._member(topic, group, how)
        while not shared.is_over:
            batches = consumer.poll(100)
            shared.assigned(part.partition for part in consumer.assignment())
            for batch in batches.values():
                for record in batch:
                    shared.add(*_placed(record))
        consumer.commit()
        consumer.close()
        return {"records": shared.records}

    def committed(self, topic: str, group: str) -> dict[str, Any]:
        found = self._admin.list_group_offsets([group])[group]
        return {"offsets": {at.partition: one.offset for at, one in found.items() if at.topic == topic}}

    def administer(self, topic: str, group: str) -> dict[str, Any]:
        asked, at = self._admin, TopicPartition(topic, 0)

        def reset() -> bool:
            asked.alter_group_offsets(group, {at: OffsetAndMetadata(RESET_TO, "", -1)})
            return self.committed(topic, group)["offsets"][0] == RESET_TO

        def delete_offsets() -> bool:
            asked.delete_group_offsets(group, [at])
            return 0 not in self.committed(topic, group)["offsets"]

        def delete() -> bool:
            asked.delete_groups([group])
            return group not in listed()

        def listed() -> list[str]:
            return [one["group_id"] for one in asked.list_groups()]

        return answers(
            {
                "list": lambda: group in listed(),
                "describe": lambda: asked.describe_groups([group])[group]["group_state"] == "Empty",
                "offsets": lambda: self.committed(topic, group)["offsets"][0] > RESET_TO,
                "reset": reset,
                "delete offsets": delete_offsets,
                "delete": delete,
            }
        )

    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(**self._common, auto_offset_reset="earliest", fetch_max_wait_ms=200)

    def _take(self, consumer: KafkaConsumer, count: int, *, close: bool = True) -> list[dict[str, Any]]:
        found: list[Any] = []
        deadline = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < deadline:
            for batch in consumer.poll(500, max_records=count - len(found)).values():
                found += batch
        if close:
            consumer.close()
        return [_shown(record) for record in found]


def _placed(record: Any) -> tuple[int, int, str]:
    return record.partition, record.offset, record.value.decode()


def _shown(record: Any) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[key, _text(value)] for key, value in record.headers],
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


if __name__ == "__main__":
    if not IS_2:
        _refresh_for_ever()
    serve(*([Admin2(sys.argv[1])] if IS_2 else []), Driver(sys.argv[1]), Transactions(sys.argv[1]))
