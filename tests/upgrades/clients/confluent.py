"""A client by confluent-kafka, as a process: a producer, a writer of transactions, or a member by either protocol.

    confluent.py produce|transact|classic|consumer CONFIG TOPIC[,TOPIC…] NAME

CONFIG is librdkafka's, as JSON: addresses, and how to log in. The rest is as in ours.py.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from telling import ABORTED_EACH, FAILED, IN_TRANSACTION, KEYS, QUIET_S, TICK_S, ended, tell

CALL_S = 60.0


def produce(config: dict[str, Any], topic: str, name: str) -> None:
    """Sends numbers under a few keys, in order, idempotent."""
    is_over = ended()
    producer = Producer({**config, "enable.idempotence": True, "acks": "all", "linger.ms": 5})

    def on_acked(key: str, value: int, sent_at: float) -> Callable[[Any, Any], None]:
        def on_delivery(error: Any, message: Any) -> None:
            if error is not None:
                tell(FAILED, str(error), sent_at)
            else:
                tell(message.partition(), message.offset(), key, value, sent_at, time.monotonic())

        return on_delivery

    for number in count():
        if is_over.wait(TICK_S):
            break
        key = f"{name}-{number % KEYS}"
        producer.produce(topic, b"%d" % number, key, on_delivery=on_acked(key, number, time.monotonic()))
        producer.poll(0)
    if left := producer.flush(CALL_S):
        raise SystemExit(f"{left} records are not acked after {CALL_S:g} s")


def transact(config: dict[str, Any], topic: str, name: str) -> None:
    """Writes numbers in transactions, some of which it aborts."""
    is_over = ended()
    producer = Producer({**config, "transactional.id": name})
    producer.init_transactions(CALL_S)
    for turn in count():
        if is_over.wait(TICK_S):
            return
        key, began = f"{name}-{turn % KEYS}", time.monotonic()
        values = list(range(turn * IN_TRANSACTION, (turn + 1) * IN_TRANSACTION))
        is_aborted = turn % ABORTED_EACH == ABORTED_EACH - 1
        try:
            producer.begin_transaction()
            for value in values:
                producer.produce(topic, b"%d" % value, key)
            _until_answered(producer.abort_transaction if is_aborted else producer.commit_transaction)
        except KafkaException as error:
            tell(FAILED, str(error), began)
            if not error.args[0].txn_requires_abort():
                raise
            _until_answered(producer.abort_transaction)
            continue
        tell("aborted" if is_aborted else "committed", key, values, began, time.monotonic())


def _until_answered(call: Callable[[float], None]) -> None:
    """The end of a transaction is asked for again where librdkafka says that this is safe."""
    while True:
        try:
            call(CALL_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def member(protocol: str, config: dict[str, Any], topics: str, name: str) -> None:
    """Reads topics as a member of a group, committed records alone, and commits what it has read."""
    is_over, quiet_since = ended(), time.monotonic()
    consumer = Consumer(
        {
            **config,
            "group.id": name,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(topics.split(","))
    while not is_over.is_set() or time.monotonic() - quiet_since < QUIET_S:
        for message in consumer.consume(500, 0.2):
            if message.error() is None:
                quiet_since = time.monotonic()
                key, value = (message.key() or b"").decode(), int(message.value() or b"")
                tell(message.topic(), message.partition(), message.offset(), key, value)
            else:
                print(message.error(), file=sys.stderr, flush=True)
    consumer.close()


ROLES: dict[str, Callable[[dict[str, Any], str, str], None]] = {
    "produce": produce,
    "transact": transact,
    "classic": lambda config, topics, name: member("classic", config, topics, name),
    "consumer": lambda config, topics, name: member("consumer", config, topics, name),
}

if __name__ == "__main__":
    role, config_json, *more = sys.argv[1:]
    ROLES[role](json.loads(config_json), *more)
