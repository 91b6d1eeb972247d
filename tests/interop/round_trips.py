"""Each real client of Kafka in Python writes VALUES and reads them by the options with which it logs in."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer

TIMEOUT_S: Final = 60
VALUES: Final = [b"value %d" % number for number in range(10)]
REFUSED: Final = "refused"
REFUSED_MS: Final = 5_000
"""How long a client of kafka-python tries to log in with what is wrong."""
FROM_THE_START: Final = {"auto_offset_reset": "earliest"}

Options = Mapping[str, Any]


def by_confluent(how: Options, topic: str) -> list[bytes | None]:
    """Returns the values that it has read."""
    producer = Producer(dict(how))
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**how, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(len(VALUES), 1.0) if message.error() is None]
    consumer.close()
    return found


def error_of_confluent(how: Options) -> KafkaError:
    """The first error that a producer is told."""
    errors: list[KafkaError] = []
    producer = Producer({**how, "error_cb": errors.append})
    deadline = time.monotonic() + TIMEOUT_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    producer.purge()
    assert errors, f"no error within {TIMEOUT_S} s"
    return errors[0]


_KAFKA_PYTHON = """
import json, logging, sys
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider
logging.basicConfig()
how, token, topic, values, within_ms = json.loads(sys.argv[1])
class Tokens(AbstractTokenProvider):
    def token(self):
        return token
if token:
    how["sasl_oauth_token_provider"] = Tokens()
try:
    producer = KafkaProducer(**how, bootstrap_timeout_ms=within_ms)
    for value in values:
        producer.send(topic, value.encode()).get(60)
    producer.close()
    reader = KafkaConsumer(topic, auto_offset_reset="earliest", group_id=topic, **how)
    found = []
    while len(found) < len(values):
        found += [record.value.decode() for records in reader.poll(1000).values() for record in records]
    reader.close()
    print(json.dumps(found))
except Exception as error:
    print(json.dumps(repr(error)))
"""


def by_kafka_python(how: Options, topic: str, token: str = "", within_ms: int = 30_000) -> list[bytes] | str:
    """Returns the values that it has read, REFUSED if it was told that it is not who it says, or its error. It has a
    process of its own: refused, it leaves sockets open. It tries again until its time is over."""
    asked = json.dumps((how, token, topic, [value.decode() for value in VALUES], within_ms))
    command = [sys.executable, "-W", "ignore", "-c", _KAFKA_PYTHON, asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found: list[str] | str = json.loads(done.stdout)
    if isinstance(found, str):
        return REFUSED if "[Error 58] SaslAuthenticationFailedError" in done.stderr else found
    return [value.encode() for value in found]


def by_aiokafka(how: Options, topic: str) -> list[bytes | None]:
    """Returns the values that it has read."""

    async def work() -> list[bytes | None]:
        async with asyncio.timeout(TIMEOUT_S):
            async with AIOKafkaProducer(**how) as producer:
                for value in VALUES:
                    await producer.send_and_wait(topic, value)
            async with AIOKafkaConsumer(topic, group_id=topic, **FROM_THE_START, **how) as consumer:
                return [(await consumer.getone()).value for _ in VALUES]

    return asyncio.run(work())


def start_aiokafka(how: Options) -> None:
    """Raises what it says where it may not log in."""

    async def work() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            producer = AIOKafkaProducer(**how)
            try:
                await producer.start()
            finally:
                await producer.stop()

    asyncio.run(work())
