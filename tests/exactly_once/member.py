"""One member, as a process: copies each record of the input to the output, in transactions with the group's offsets.

    python -m tests.exactly_once.member KIND NAME BOOTSTRAP

KIND is `ours` or `confluent`; java_member.py has Java's. NAME is its transactional id: whoever comes in its place has
the same, and fences it. SIGTERM ends it in order. An error that ends a client (it was fenced, or left behind) has it
begin with new clients, as an application would. And as an application would it gives up a batch that takes too long:
librdkafka's send_offsets_to_transaction does not return when the coordinator that it knew is gone (its issues 5456 and
5511). The process ends then, and the campaign begins it anew.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import Any

from tests.exactly_once.places import BATCH, GROUP, INPUT, OUTPUT

WATCH_S = 45.0
STOP = threading.Event()


def ours(name: str, bootstrap: str) -> None:
    from penstock import Consumer, ConsumerRecord, Output, Producer, process
    from penstock.errors import PenstockError

    def copied(record: ConsumerRecord) -> Output:
        return Output(OUTPUT, record.value, record.key)

    while not STOP.is_set():
        try:
            with (
                Consumer(bootstrap, group_id=GROUP, enable_auto_commit=False, auto_offset_reset="earliest") as consumer,
                Producer(bootstrap, transactional_id=name, transaction_timeout_ms=10_000) as producer,
            ):
                consumer.subscribe([INPUT])
                process(consumer, producer, copied, batch_records=BATCH, stop=STOP)
        except PenstockError as error:
            print(f"begins anew: {error!r}", flush=True)


def confluent(name: str, bootstrap: str) -> None:
    from confluent_kafka import KafkaException

    while not STOP.is_set():
        try:
            _confluent_turns(name, bootstrap)
        except KafkaException as error:
            print(f"begins anew: {error!r}", flush=True)


def _confluent_turns(name: str, bootstrap: str) -> None:
    from confluent_kafka import Consumer, KafkaException, Producer

    common = {"bootstrap.servers": bootstrap, "log_level": 0}
    consumer = Consumer(
        {
            **common,
            "group.id": GROUP,
            "group.protocol": "consumer",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    producer = Producer({**common, "transactional.id": name, "transaction.timeout.ms": 10_000})
    watch = _watch()
    try:
        producer.init_transactions(30)
        consumer.subscribe([INPUT])
        while not STOP.is_set():
            found = [each for each in consumer.consume(BATCH, 0.2) if each.error() is None]
            if not found:
                continue
            watch.cancel()
            watch = _watch()
            producer.begin_transaction()
            try:
                for each in found:
                    producer.produce(OUTPUT, each.value(), each.key())
                    producer.poll(0)
                positions = consumer.position(consumer.assignment())
                producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
                _commit(producer)
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(30)
                raise  # begin with a new consumer: the next one reads from where the group is
            watch.cancel()
    finally:
        with contextlib.suppress(KafkaException):
            consumer.close()
        watch.cancel()


def _watch() -> threading.Timer:
    timer = threading.Timer(WATCH_S, lambda: os._exit(3))
    timer.daemon = True
    timer.start()
    return timer


def _commit(producer: Any) -> None:
    from confluent_kafka import KafkaException

    while True:
        try:
            producer.commit_transaction(30)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def main() -> int:
    kind, name, bootstrap = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: STOP.set())
    {"ours": ours, "confluent": confluent}[kind](name, bootstrap)
    return 0


if __name__ == "__main__":
    sys.exit(main())
