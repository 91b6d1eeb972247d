"""The driver of confluent-kafka: librdkafka, as Python users have it.

Names that came after 1.9 are taken from their module where they are needed (`serve.lacks`). Verbs that older versions
have by other calls are in confluent_before_2_3.py.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition, admin
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from tests.interop.drivers import login
from tests.interop.drivers.confluent_before_2_3 import Older
from tests.interop.drivers.confluent_transactions import Transactions
from tests.interop.drivers.serve import RESET_TO, WAIT_S, NotOffered, Progress, Shared, answers, paced, serve, tell

MEMBERS: dict[str, dict[str, str]] = {
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
AS_MEMBER = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 200}


class Driver:
    def __init__(self, bootstrap: str) -> None:
        self._common = {"bootstrap.servers": bootstrap, "log_level": 3, **login.librdkafka()}
        self._admin = AdminClient(self._common)

    # -- admin ---------------------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        new = NewTopic(topic, partitions, replicas, config=configs)
        self._admin.create_topics([new])[topic].result(WAIT_S)

    def describe(self, topic: str) -> dict[str, Any]:
        found = self._admin.describe_topics(confluent_kafka.TopicCollection([topic]))[topic].result(WAIT_S)
        return {
            "partitions": [
                {"leader": p.leader.id, "replicas": [n.id for n in p.replicas], "isr": [n.id for n in p.isr]}
                for p in found.partitions
            ]
        }

    def cluster(self) -> dict[str, Any]:
        found = self._admin.describe_cluster().result(WAIT_S)
        return {"cluster_id": found.cluster_id, "nodes": {n.id: f"{n.host}:{n.port}" for n in found.nodes}}

    def configs(self, topic: str) -> dict[str, Any]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = self._admin.describe_configs([resource])[resource].result(WAIT_S)
        return {"configs": {name: entry.value for name, entry in found.items()}}

    def alter_configs(self, topic: str, configs: dict[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=admin.AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(WAIT_S)

    def add_partitions(self, topic: str, count: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, count)])[topic].result(WAIT_S)

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(WAIT_S)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        at = TopicPartition(topic, partition, before)
        self._admin.delete_records([at])[at].result(WAIT_S)

    def offsets(self, topic: str, partition: int, timestamp: int) -> dict[str, Any]:
        at = TopicPartition(topic, partition)
        specs = {
            "earliest": admin.OffsetSpec.earliest(),
            "latest": admin.OffsetSpec.latest(),
            "at_timestamp": admin.OffsetSpec.for_timestamp(timestamp),
        }
        return {name: self._admin.list_offsets({at: spec})[at].result(WAIT_S).offset for name, spec in specs.items()}

    def operate(self, topic: str) -> dict[str, Any]:
        asked = self._admin
        node = ConfigResource(ConfigResource.Type.BROKER, str(next(iter(self.cluster()["nodes"]))))
        at = TopicPartition(topic, 0)
        return answers(
            {
                "broker configs": lambda: asked.describe_configs([node])[node].result(WAIT_S),
                "elect leaders": lambda: asked.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [at]).result(
                    WAIT_S
                ),
                "list topics": lambda: topic in asked.list_topics(timeout=WAIT_S).topics,
            }
        )

    # -- producing -----------------------------------------------------------------------------------------------------

    def produce(
        self, topic: str, partition: int, records: list[dict[str, Any]], codec: str, acks: str, idempotent: bool
    ) -> dict[str, Any]:
        offsets: list[int | None] = []
        failed: list[str] = []

        def on_delivery(error: Any, message: Message) -> None:
            if error is not None:
                failed.append(str(error))
            offsets.append(message.offset() if message.offset() is not None and message.offset() >= 0 else None)

        producer = self._producer(codec, acks, idempotent, linger_ms=50)
        for record in records:
            at = {"timestamp": record["timestamp"]} if "timestamp" in record else {}
            producer.produce(
                topic,
                record["value"],
                record["key"],
                partition,
                headers=[tuple(header) for header in record.get("headers", ())],
                on_delivery=on_delivery,
                **at,
            )
        left = producer.flush(WAIT_S)
        if failed or left:
            raise KafkaException(f"{failed or 'nothing'} failed, {left} left")
        return {"offsets": offsets}

    def stream(self, topic: str, partitions: int, count: int, seconds: float, idempotent: bool) -> dict[str, Any]:
        acked: list[tuple[int, int, str]] = []
        failed: list[str] = []
        progress = Progress(count)

        def on_delivery(error: Any, message: Message) -> None:
            if error is not None:
                return failed.append(str(error))
            acked.append((message.partition(), message.offset(), message.value().decode()))
            progress.acked()

        producer = self._producer("none", "all", idempotent, linger_ms=5)
        for number in paced(count, seconds):
            producer.produce(topic, str(number), partition=number % partitions, on_delivery=on_delivery)
            producer.poll(0)
        producer.flush(3 * WAIT_S)
        return {"acked": acked, "failed": failed}

    def _producer(self, codec: str, acks: str, idempotent: bool, linger_ms: int) -> Producer:
        how = {"compression.type": codec, "acks": acks, "enable.idempotence": idempotent, "linger.ms": linger_ms}
        return Producer({**self._common, **how})

    # -- consuming -----------------------------------------------------------------------------------------------------

    def consume(self, topic: str, partition: int, at: Any, count: int) -> dict[str, Any]:
        consumer = self._consumer()
        if isinstance(at, dict):
            asked = TopicPartition(topic, partition, at["timestamp"])
            start = consumer.offsets_for_times([asked], WAIT_S)[0].offset
        else:
            start = OFFSET_BEGINNING if at == "earliest" else at
        consumer.assign([TopicPartition(topic, partition, start)])
        return {"records": [_shown(message) for message in self._take(consumer, count)]}

    def seek(self, topic: str, partition: int, first: int, to: int, count: int) -> dict[str, Any]:
        consumer = self._consumer()
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        self._take(consumer, first, close=False)
        consumer.seek(TopicPartition(topic, partition, to))
        return {"records": [_shown(message) for message in self._take(consumer, count)]}

    def tail(self, topic: str, partition: int, count: int) -> dict[str, Any]:
        consumer = self._consumer()
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), WAIT_S)
        consumer.assign([TopicPartition(topic, partition, end)])
        consumer.poll(0.5)  # a fetch waits at the end
        tell({"ready": True})
        return {"records": [_shown(message) for message in self._take(consumer, count)]}

    def follow(self, topic: str, partitions: int, count: int) -> dict[str, Any]:
        consumer = self._consumer()
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        records: list[tuple[int, int, str]] = []
        deadline, values = time.monotonic() + 3 * WAIT_S, set[str]()
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                records.append((message.partition(), message.offset(), message.value().decode()))
                values.add(message.value().decode())
        consumer.close()
        return {"records": records}

    # -- groups --------------------------------------------------------------------------------------------------------

    def _member(self, group: str, how: str) -> Consumer:
        try:
            return Consumer({**self._common, **MEMBERS[how], "group.id": group, **AS_MEMBER})
        except KafkaException as error:
            if "No such configuration property" not in str(error):
                raise
            raise NotOffered(f"this version has no {how} protocol") from None

    def take(self, topic: str, group: str, how: str, count: int) -> dict[str, Any]:
        consumer = self._member(group, how)
        consumer.subscribe([topic])
        found = self._take(consumer, count, close=False)
        consumer.commit(asynchronous=False)
        consumer.close()
        return {"records": [_placed(message) for message in found]}

    def share(self, topic: str, group: str, how: str) -> dict[str, Any]:
        shared, consumer = Shared(), self._member(group, how)
        consumer.subscribe([topic])
        while not shared.is_over:
            message = consumer.poll(0.1)
            shared.assigned(part.partition for part in consumer.assignment())
            if message is not None and message.error() is None:
                shared.add(*_placed(message))
        consumer.commit(asynchronous=False)
        consumer.close()
        return {"records": shared.records}

    def committed(self, topic: str, group: str) -> dict[str, Any]:
        asked = confluent_kafka.ConsumerGroupTopicPartitions(group)
        found = self._admin.list_consumer_group_offsets([asked])[group].result(WAIT_S).topic_partitions
        return {"offsets": {part.partition: part.offset for part in found if part.topic == topic}}

    def administer(self, topic: str, group: str) -> dict[str, Any]:
        client, at = self._admin, TopicPartition(topic, 0, RESET_TO)

        def reset() -> bool:
            asked = confluent_kafka.ConsumerGroupTopicPartitions(group, [at])
            client.alter_consumer_group_offsets([asked])[group].result(WAIT_S)
            return self.committed(topic, group)["offsets"][0] == RESET_TO

        def groups() -> dict[str, Any]:
            return {one.group_id: one.state for one in client.list_consumer_groups().result(WAIT_S).valid}

        def delete() -> bool:
            client.delete_consumer_groups([group])[group].result(WAIT_S)
            return group not in groups()

        return answers(
            {
                "list": lambda: groups()[group] is confluent_kafka.ConsumerGroupState.EMPTY,
                "describe": lambda: (
                    client.describe_consumer_groups([group])[group].result(WAIT_S).state
                    is confluent_kafka.ConsumerGroupState.EMPTY
                ),
                "offsets": lambda: self.committed(topic, group)["offsets"][0] > RESET_TO,
                "reset": reset,
                "delete": delete,
            }
        )

    def _consumer(self) -> Consumer:
        return Consumer({**self._common, "group.id": "interop", "enable.auto.commit": False, "fetch.wait.max.ms": 200})

    def _take(self, consumer: Consumer, count: int, *, close: bool = True) -> list[Message]:
        found: list[Message] = []
        error: Any = None
        deadline = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is not None:
                error = message.error()  # the client goes on by itself after most of them
            elif message is not None:
                found.append(message)
        if len(found) < count and error is not None:
            raise KafkaException(error)
        if close:
            consumer.close()
        return found


def _placed(message: Message) -> tuple[int, int, str]:
    return message.partition(), message.offset(), message.value().decode()


def _shown(message: Message) -> dict[str, Any]:
    return {
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": _text(message.key()),
        "value": _text(message.value()),
        "headers": [[key, _text(value)] for key, value in message.headers() or ()],
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


if __name__ == "__main__":
    older = [] if hasattr(confluent_kafka, "TopicCollection") else [Older(sys.argv[1])]
    serve(*older, Driver(sys.argv[1]), Transactions(sys.argv[1]))
