"""Transactions of kafka-python, for its driver."""

from __future__ import annotations

import time
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.interop.drivers import login
from tests.interop.drivers.serve import RELAYED, WAIT_S, NotOffered

RETRIES = 100
IS_2 = kafka.__version__.startswith("2.")


class Transactions:
    def __init__(self, bootstrap: str) -> None:
        self._common = {"bootstrap_servers": bootstrap.split(","), **login.kafka_python()}

    def transact(self, topic: str, partition: int, id: str, transactions: list[dict[str, Any]]) -> None:
        producer = self._producer(id)
        for one in transactions:
            producer.begin_transaction()
            sent = [producer.send(topic, value=value.encode(), partition=partition) for value in one["values"]]
            for future in sent:
                future.get(WAIT_S)
            getattr(producer, f"{one['end']}_transaction")()
        producer.close()

    def fence(self, topic: str, partition: int, id: str, older: str, newer: str) -> dict[str, Any]:
        first = self._producer(id)
        first.begin_transaction()
        first.send(topic, value=older.encode(), partition=partition).get(WAIT_S)
        self.transact(topic, partition, id, [{"values": [newer], "end": "commit"}])
        try:
            first.commit_transaction()
        except KafkaError as error:
            return {"refused": repr(error)}
        return {"refused": None}

    def relay(self, source: str, topic: str, group: str, id: str, ends: list[str]) -> None:
        producer = self._producer(id)
        for end in ends:
            consumer = self._consumer("read_committed", group_id=group)
            consumer.subscribe([source])
            found = _taken(consumer, RELAYED)
            producer.begin_transaction()
            for record in found:
                producer.send(topic, value=record.value, partition=0)
            at = {TopicPartition(source, 0): OffsetAndMetadata(found[-1].offset + 1, "", -1)}
            whose = group if IS_2 else consumer.group_metadata()
            producer.send_offsets_to_transaction(at, whose)
            getattr(producer, f"{end}_transaction")()
            consumer.close()
        producer.close()

    def read(self, topic: str, partition: int, isolation: str, count: int) -> dict[str, Any]:
        consumer, here = self._consumer(isolation), TopicPartition(topic, partition)
        consumer.assign([here])
        consumer.seek_to_beginning(here)
        values = [record.value.decode() for record in _taken(consumer, count)]
        consumer.close()
        return {"values": values}

    def _producer(self, id: str) -> KafkaProducer:
        if "transactional_id" not in KafkaProducer.DEFAULT_CONFIG:
            raise NotOffered("this version has no transactions")
        producer = KafkaProducer(**self._common, transactional_id=id, linger_ms=5)
        producer.init_transactions()
        return producer

    def _consumer(self, isolation: str, **group: str) -> KafkaConsumer:
        how = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 200}
        if "isolation_level" not in KafkaConsumer.DEFAULT_CONFIG:
            raise NotOffered("this version has no isolation level")
        return KafkaConsumer(**self._common, **how, **group, isolation_level=isolation)


def idempotence(wanted: bool) -> dict[str, Any]:
    """The producer's option. Versions before 2.1 do not have it, and send a batch once unless they are told."""
    if "enable_idempotence" in KafkaProducer.DEFAULT_CONFIG:
        return {"enable_idempotence": wanted}
    if wanted:
        raise NotOffered("this version has no idempotent producer")
    return {"retries": RETRIES}


def _taken(consumer: KafkaConsumer, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        for batch in consumer.poll(500, max_records=count - len(found)).values():
            found += batch
    return found
