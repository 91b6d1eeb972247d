"""The tools of producers: the command line, both faces of the client, and Kafka's clients."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import confluent_kafka

from penstock import AsyncProducer, Producer
from penstock.client.admin.admin_types import Operation, ResourceType
from tests.rights import kafka_python
from tests.rights.matrix import LIMIT_S, Tool
from tests.rights.stage import IDS, OUT, Stage, Who

WRITES: Final = ((Operation.WRITE, ResourceType.TOPIC),)
MAKES_TOPICS: Final = (*WRITES, (Operation.CREATE, ResourceType.TOPIC))
IN_TRANSACTIONS: Final = (*WRITES, (Operation.WRITE, ResourceType.TRANSACTIONAL_ID))


def _command(stage: Stage, who: Who) -> None:
    who.command("produce", OUT, stdin=b"a\nb\n")


def _one_of_json(stage: Stage, who: Who) -> None:
    who.command("produce", OUT, "--json", stdin=b'{"value": "a"}\n')


def _producer(**more: Any) -> Any:
    def run(stage: Stage, who: Who) -> None:
        with Producer(who.bootstrap, **who.options, **more) as producer:
            producer.send(OUT, b"v").result()

    return run


def _async_producer(stage: Stage, who: Who) -> None:
    async def run() -> None:
        async with AsyncProducer(who.bootstrap, **who.options) as producer:
            await (await producer.send(OUT, b"v"))

    asyncio.run(run())


def _transaction(stage: Stage, who: Who) -> None:
    with (
        Producer(who.bootstrap, **who.options, transactional_id=IDS + stage.own_name()) as producer,
        producer.transaction() as transaction,
    ):
        transaction.send(OUT, b"v")


def _async_transaction(stage: Stage, who: Who) -> None:
    async def run() -> None:
        name = IDS + stage.own_name()
        async with (
            AsyncProducer(who.bootstrap, **who.options, transactional_id=name) as producer,
            producer.transaction() as transaction,
        ):
            await transaction.send(OUT, b"v")

    asyncio.run(run())


def _confluent(**more: Any) -> Any:
    def run(stage: Stage, who: Who) -> None:
        confluent_send(confluent_kafka.Producer({**who.librdkafka, **more}))

    return run


def confluent_send(producer: confluent_kafka.Producer, topic: str = OUT) -> None:
    reports: list[Any] = []

    def note(error: Any, _: Any) -> None:
        reports.append(error)

    producer.produce(topic, b"v", on_delivery=note)
    deadline = time.monotonic() + LIMIT_S * 2
    while not reports and time.monotonic() < deadline:
        producer.poll(0.02)
    if not reports or reports[0] is not None:
        raise _reason(producer, reports[0] if reports else None)


def _confluent_new_topic(stage: Stage, who: Who) -> None:
    confluent_send(confluent_kafka.Producer(who.librdkafka), f"own-{stage.own_name()}")


def _reason(producer: confluent_kafka.Producer, reported: Any) -> Exception:
    """A transaction that has failed purges its records: the end says why."""
    if reported is not None and reported.code() != confluent_kafka.KafkaError._PURGE_QUEUE:
        return confluent_kafka.KafkaException(reported)
    try:
        producer.commit_transaction(LIMIT_S)
    except confluent_kafka.KafkaException as error:
        return error
    return TimeoutError("no delivery report")


def _confluent_transaction(stage: Stage, who: Who) -> None:
    name = IDS + stage.own_name()
    producer = confluent_kafka.Producer({**who.librdkafka, "transactional.id": name})
    producer.init_transactions(LIMIT_S * 2)
    producer.begin_transaction()
    confluent_send(producer)
    producer.commit_transaction(LIMIT_S * 2)


def _kafka_python(**more: Any) -> Any:
    def run(stage: Stage, who: Who) -> None:
        producer = kafka_python.KafkaProducer(**who.kafka_python, **more, max_block_ms=LIMIT_S * 2000)
        try:
            producer.send(OUT, b"v").get(LIMIT_S * 2)
        finally:
            producer.close(1)

    return run


def _kafka_python_transaction(stage: Stage, who: Who) -> None:
    name = IDS + stage.own_name()
    producer = kafka_python.KafkaProducer(**who.kafka_python, transactional_id=name, max_block_ms=LIMIT_S * 2000)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(OUT, b"v").get(LIMIT_S * 2)
        producer.commit_transaction()
    finally:
        producer.close(1)


PRODUCER: Final = (
    Tool("penstock produce", _command, WRITES),
    Tool("penstock produce --json", _one_of_json, WRITES),
    Tool("Producer", _producer(), WRITES),
    Tool("Producer, acks=1", _producer(acks=1, enable_idempotence=False), WRITES),
    Tool("Producer, a transaction", _transaction, IN_TRANSACTIONS),
    Tool("AsyncProducer", _async_producer, WRITES),
    Tool("AsyncProducer, a transaction", _async_transaction, IN_TRANSACTIONS),
    Tool("confluent-kafka", _confluent(), WRITES, is_kafka=True),
    Tool(
        "confluent-kafka, a topic that is made",
        _confluent_new_topic,
        MAKES_TOPICS,
        is_kafka=True,
    ),
    Tool("confluent-kafka, idempotent", _confluent(**{"enable.idempotence": True}), WRITES, is_kafka=True),
    Tool("confluent-kafka, a transaction", _confluent_transaction, IN_TRANSACTIONS, is_kafka=True),
    Tool("kafka-python", _kafka_python(), WRITES, is_kafka=True),
    Tool("kafka-python, a transaction", _kafka_python_transaction, IN_TRANSACTIONS, is_kafka=True),
)
