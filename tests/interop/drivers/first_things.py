"""A client of Kafka makes a topic of three replicas, writes to it in a transaction, and reads that in a group.

    python -m tests.interop.drivers.first_things CLIENT BOOTSTRAP

A process of its own, because some clients leave sockets behind where a node is down. The topic, the group and the
transactional id have the client's name. It prints the value that was read. Not here: what has come of the topic, which
the test looks at (test_one_broker_down.py).
"""

from __future__ import annotations

import asyncio
import sys

PARTITIONS, REPLICAS = 6, 3
WAIT_S = 60
VALUE = b"value"


def confluent_kafka(name: str, bootstrap: str) -> bytes:
    """librdkafka."""
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    common = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(common)
    for topic, replicas in ((name, REPLICAS), (f"{name}-by-default", -1)):
        admin.create_topics([NewTopic(topic, PARTITIONS, replicas)])[topic].result(WAIT_S)
    producer = Producer({**common, "transactional.id": name})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(name, VALUE)
    producer.commit_transaction(WAIT_S)
    consumer = Consumer({**common, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    message = consumer.poll(WAIT_S)
    assert message is not None and message.error() is None, message
    consumer.commit(message, asynchronous=False)
    consumer.close()
    return message.value() or b""


def kafka_python(name: str, bootstrap: str) -> bytes:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(name, PARTITIONS, REPLICAS)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(name, VALUE).get(WAIT_S)
    producer.commit_transaction()
    producer.close()
    consumer = KafkaConsumer(name, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest")
    value = next(consumer).value
    consumer.commit()
    consumer.close()
    return bytes(value)


def aiokafka(name: str, bootstrap: str) -> bytes:
    return asyncio.run(asyncio.wait_for(_aiokafka(name, bootstrap), WAIT_S))


async def _aiokafka(name: str, bootstrap: str) -> bytes:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(name, PARTITIONS, REPLICAS)])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as producer, producer.transaction():
        await producer.send_and_wait(name, VALUE)
    options = {"group_id": name, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(name, bootstrap_servers=bootstrap, **options) as consumer:
        value = (await consumer.getone()).value
        await consumer.commit()
    return bytes(value)


CLIENTS = {"confluent-kafka": confluent_kafka, "kafka-python": kafka_python, "aiokafka": aiokafka}

if __name__ == "__main__":
    client, address = sys.argv[1:]
    sys.stdout.write(CLIENTS[client](client, address).decode())
