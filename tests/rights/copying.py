"""The tools that read and write in one transaction: `process`, and Kafka's clients by hand."""

from __future__ import annotations

from threading import Event, Timer
from typing import Any, Final

import confluent_kafka

from penstock import Consumer, Output, Producer, process
from penstock.client.admin.admin_types import Operation, ResourceType
from tests.rights.matrix import LIMIT_S, Tool
from tests.rights.reading import confluent_read
from tests.rights.stage import GROUP, IDS, ORDERS, OUT, Stage, Who
from tests.rights.writing import confluent_send

NEEDS: Final = (
    (Operation.READ, ResourceType.TOPIC),
    (Operation.READ, ResourceType.GROUP),
    (Operation.WRITE, ResourceType.TOPIC),
    (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
)


def _process(stage: Stage, who: Who) -> None:
    stop, name = Event(), stage.own_name()

    def copy(record: Any) -> Output:
        stop.set()
        return Output(OUT, record.value)

    reads = {"group_id": GROUP + name, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with (
        Consumer(who.bootstrap, **who.options, **reads) as consumer,
        Producer(who.bootstrap, **who.options, transactional_id=IDS + name) as producer,
    ):
        consumer.subscribe([ORDERS])
        timer = Timer(2 * LIMIT_S, stop.set)
        timer.start()
        try:
            process(consumer, producer, copy, stop=stop)
        finally:
            timer.cancel()
    assert stage.admin.group_offsets(GROUP + name)


def _confluent(stage: Stage, who: Who) -> None:
    name = stage.own_name()
    reads = {"group.id": GROUP + name, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**who.librdkafka, **reads})
    producer = confluent_kafka.Producer({**who.librdkafka, "transactional.id": IDS + name})
    try:
        producer.init_transactions(LIMIT_S)
        consumer.subscribe([ORDERS])
        confluent_read(consumer)
        producer.begin_transaction()
        confluent_send(producer)
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), LIMIT_S)
        producer.commit_transaction(LIMIT_S)
    finally:
        consumer.close()


COPIER: Final = (
    Tool("process", _process, NEEDS),
    Tool("confluent-kafka, offsets in a transaction", _confluent, NEEDS, is_kafka=True),
)
