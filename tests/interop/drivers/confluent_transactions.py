"""Transactions of confluent-kafka, for its driver."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

from tests.interop.drivers import login
from tests.interop.drivers.serve import RELAYED, WAIT_S


class Transactions:
    def __init__(self, bootstrap: str) -> None:
        self._common = {"bootstrap.servers": bootstrap, "log_level": 3, **login.librdkafka()}

    def transact(self, topic: str, partition: int, id: str, transactions: list[dict[str, Any]]) -> None:
        producer = self._producer(id)
        for one in transactions:
            producer.begin_transaction()
            for value in one["values"]:
                producer.produce(topic, value, partition=partition)
            producer.flush(WAIT_S)
            getattr(producer, f"{one['end']}_transaction")(WAIT_S)

    def fence(self, topic: str, partition: int, id: str, older: str, newer: str) -> dict[str, Any]:
        first = self._producer(id)
        first.begin_transaction()
        first.produce(topic, older, partition=partition)
        first.flush(WAIT_S)
        self.transact(topic, partition, id, [{"values": [newer], "end": "commit"}])
        try:
            first.commit_transaction(WAIT_S)
        except KafkaException as error:
            return {"refused": str(error)}
        return {"refused": None}

    def relay(self, source: str, topic: str, group: str, id: str, ends: list[str]) -> None:
        producer = self._producer(id)
        for end in ends:
            consumer = self._consumer(group, "read_committed")
            consumer.subscribe([source])
            found = _taken(consumer, RELAYED)
            producer.begin_transaction()
            for message in found:
                producer.produce(topic, message.value(), partition=0)
            offset = found[-1].offset()
            assert offset is not None
            at = [TopicPartition(source, 0, offset + 1)]
            producer.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), WAIT_S)
            getattr(producer, f"{end}_transaction")(WAIT_S)
            consumer.close()

    def read(self, topic: str, partition: int, isolation: str, count: int) -> dict[str, Any]:
        consumer = self._consumer("interop", isolation)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        values = [(message.value() or b"").decode() for message in _taken(consumer, count)]
        consumer.close()
        return {"values": values}

    def _producer(self, id: str) -> Producer:
        producer = Producer({**self._common, "transactional.id": id, "linger.ms": 5})
        producer.init_transactions(WAIT_S)
        return producer

    def _consumer(self, group: str, isolation: str) -> Consumer:
        how = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 200}
        return Consumer({**self._common, **how, "group.id": group, "isolation.level": isolation})


def _taken(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message)
    return found
