"""The tools of consumers: the command line, both faces of the client, Kafka's clients; and copies in transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import confluent_kafka

from penstock import Admin, AsyncConsumer, Consumer
from penstock.client.admin.admin_types import Operation, ResourceType
from tests.rights import kafka_python
from tests.rights.matrix import LIMIT_S, Tool
from tests.rights.stage import GROUP, LAGGING, ORDERS, Stage, Who

READS: Final = ((Operation.READ, ResourceType.TOPIC),)
AS_MEMBER: Final = (*READS, (Operation.READ, ResourceType.GROUP))
POLL_MS: Final = round(LIMIT_S * 2000)
EARLIEST: Final = {"auto_offset_reset": "earliest"}


def _command(*words: str) -> Callable[[Stage, Who], None]:
    """A command; GROUP stands for a group of its own."""

    def run(stage: Stage, who: Who) -> None:
        outcome = who.command(*(GROUP + stage.own_name() if word == GROUP else word for word in words))
        assert outcome

    return run


def _assigned(stage: Stage, who: Who) -> None:
    with Consumer(who.bootstrap, **EARLIEST, **who.options) as consumer:
        consumer.assign(consumer.partitions_for(ORDERS))
        assert consumer.poll(timeout_ms=POLL_MS)


def _member(stage: Stage, who: Who) -> None:
    with Consumer(who.bootstrap, group_id=GROUP + stage.own_name(), **EARLIEST, **who.options) as consumer:
        consumer.subscribe([ORDERS])
        assert consumer.poll(timeout_ms=POLL_MS)
        consumer.commit()


def _async_assigned(stage: Stage, who: Who) -> None:
    async def run() -> None:
        async with AsyncConsumer(who.bootstrap, **EARLIEST, **who.options) as consumer:
            await consumer.assign(await consumer.partitions_for(ORDERS))
            assert await consumer.poll(timeout_ms=POLL_MS)

    asyncio.run(run())


def _async_member(stage: Stage, who: Who) -> None:
    async def run() -> None:
        group = GROUP + stage.own_name()
        async with AsyncConsumer(who.bootstrap, group_id=group, **EARLIEST, **who.options) as consumer:
            await consumer.subscribe([ORDERS])
            assert await consumer.poll(timeout_ms=POLL_MS)
            await consumer.commit()

    asyncio.run(run())


def _lag(stage: Stage, who: Who) -> None:
    with Admin(who.bootstrap, **who.options) as admin:
        assert admin.group_lag(LAGGING)


def _confluent(protocol: str) -> Callable[[Stage, Who], None]:
    def run(stage: Stage, who: Who) -> None:
        group = {"group.id": GROUP + stage.own_name(), "group.protocol": protocol, "auto.offset.reset": "earliest"}
        consumer = confluent_kafka.Consumer({**who.librdkafka, **group})
        try:
            consumer.subscribe([ORDERS])
            confluent_read(consumer)
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    return run


def confluent_read(consumer: confluent_kafka.Consumer) -> None:
    deadline = time.monotonic() + 2 * LIMIT_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.05)
        if message is None:
            continue
        if message.error() is not None:
            raise confluent_kafka.KafkaException(message.error())
        return
    raise TimeoutError("no record")


def read_by_kafka_python(*, is_member: bool) -> Callable[[Stage, Who], None]:
    def run(stage: Stage, who: Who) -> None:
        group = GROUP + stage.own_name() if is_member else None
        consumer = kafka_python.KafkaConsumer(**who.kafka_python, group_id=group, **EARLIEST)
        try:
            if is_member:
                consumer.partitions_for_topic(ORDERS)  # else it may assign none of them, and not think again soon
                consumer.subscribe([ORDERS])
            else:
                partitions = [kafka_python.TopicPartition(ORDERS, number) for number in (0, 1)]
                consumer.beginning_offsets(partitions)  # its poll tells nobody that metadata was refused
                consumer.assign(partitions)
            _kafka_python_read(consumer)
            if is_member:
                consumer.commit()
        finally:
            consumer.close(autocommit=False)

    return run


def _kafka_python_read(consumer: Any) -> None:
    deadline = time.monotonic() + 2 * LIMIT_S
    while time.monotonic() < deadline:
        if consumer.poll(timeout_ms=100):
            return
    raise TimeoutError("no record")


CONSUMER: Final = (
    Tool("penstock consume", _command("consume", ORDERS, "--from-beginning", "--exit-at-end"), READS),
    Tool("penstock consume --json", _command("consume", ORDERS, "--json", "--from-beginning", "-n", "1"), READS),
    Tool(
        "penstock consume --group",
        _command("consume", ORDERS, "--group", GROUP, "--from-beginning", "-n", "3"),
        AS_MEMBER,
    ),
    Tool("penstock topics describe", _command("topics", "describe", ORDERS), ()),
    Tool("penstock topics offsets", _command("topics", "offsets", ORDERS), ()),
    Tool(
        "penstock groups reset-offsets",
        _command("groups", "reset-offsets", GROUP, "--topic", ORDERS, "--to-earliest"),
        AS_MEMBER,
    ),
    Tool("Admin.group_lag", _lag, ((Operation.READ, ResourceType.GROUP),)),
    Tool("Consumer, assigned", _assigned, READS),
    Tool("Consumer of a group", _member, AS_MEMBER),
    Tool("AsyncConsumer, assigned", _async_assigned, READS),
    Tool("AsyncConsumer of a group", _async_member, AS_MEMBER),
    Tool("confluent-kafka, classic group", _confluent("classic"), AS_MEMBER, is_kafka=True),
    Tool("confluent-kafka, KIP-848", _confluent("consumer"), AS_MEMBER, is_kafka=True),
    Tool("kafka-python, assigned", read_by_kafka_python(is_member=False), READS, is_kafka=True),
    Tool("kafka-python of a group", read_by_kafka_python(is_member=True), AS_MEMBER, is_kafka=True),
)
