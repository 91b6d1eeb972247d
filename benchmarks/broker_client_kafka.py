"""One process of benchmarks/broker.py that uses confluent-kafka: ROLE BOOTSTRAP TOPIC RECORDS BYTES.

Roles: send, poll, latency, serial. The same work, values and clock as broker_client_penstock.py. SETTINGS is what an
expert of librdkafka would set for this work, and the benchmark prints it. With its defaults librdkafka's consumer stops
fetching at 100,000 queued messages of a partition and then sleeps for a second: a comparison with that says nothing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from benchmarks.broker_client_common import DISTINCT_VALUES, WARM_UP, OpenLoop, report, values

SECURITY_VARIABLE = "BENCHMARK_KAFKA_SECURITY"
"""The environment variable with a JSON object of librdkafka's keys, for clusters that want TLS or log-ins."""
SECURITY: dict[str, Any] = json.loads(os.environ.get(SECURITY_VARIABLE, "{}"))
RATE = 1_000
SECONDS_MAX = 120
POLL_EVERY = 1_024
PRODUCER = {
    "acks": "all",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 1_000_000,
    "socket.nagle.disable": True,
}
CONSUMER = {
    "group.id": "benchmark",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "check.crcs": False,
    "fetch.queue.backoff.ms": 0,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1_048_576,
    "fetch.max.bytes": 104_857_600,
    "max.partition.fetch.bytes": 10_485_760,
    "socket.nagle.disable": True,
}
LATENCY = {"linger.ms": 0}
SETTINGS: dict[str, Any] = {"producer": PRODUCER, "consumer": CONSUMER, "latency": LATENCY, "consume_records": 10_000}


def send(bootstrap: str, topic: str, records: int, size: int) -> None:
    """One call per record."""
    from confluent_kafka import Producer

    some, failed = values(size), 0

    def on_delivery(error: Any, message: Any) -> None:
        nonlocal failed
        failed += error is not None

    producer = Producer({"bootstrap.servers": bootstrap, **SECURITY, **PRODUCER})
    began, cpu_began, sent = time.perf_counter(), time.process_time(), 0
    for _ in range(records // DISTINCT_VALUES):
        for value in some:
            while True:
                try:
                    producer.produce(topic, value, on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.01)
            sent += 1
            if not sent % POLL_EVERY:
                producer.poll(0)
    producer.flush(SECONDS_MAX)
    report(sent - failed, began, cpu_began)


def poll(bootstrap: str, topic: str, records: int, size: int) -> None:
    """Record by record; each value is looked at."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, **SECURITY, **CONSUMER})
    began, cpu_began, got, total = time.perf_counter(), time.process_time(), 0, 0
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    while got < records and time.perf_counter() - began < SECONDS_MAX:
        for message in consumer.consume(SETTINGS["consume_records"], 1.0):
            total += len(message.value() or b"")
            got += 1
    if total != got * size:
        raise SystemExit(f"{total} bytes read, {got * size} expected")
    report(got, began, cpu_began)
    consumer.close()


def latency(bootstrap: str, topic: str, records: int, size: int) -> None:
    """An open loop; linger 0. Acks are taken by a thread that waits for them, so none waits for the next send."""
    from confluent_kafka import Producer

    some, loop, ended = values(size), OpenLoop(records, RATE), threading.Event()
    producer = Producer({"bootstrap.servers": bootstrap, **SECURITY, **PRODUCER, **LATENCY})

    def take_acks() -> None:
        while not ended.is_set():
            producer.poll(0.1)

    def send_one(index: int) -> None:
        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                loop.acked(index)

        producer.produce(topic, some[index % DISTINCT_VALUES], on_delivery=on_delivery)

    taker = threading.Thread(target=take_acks)
    taker.start()
    loop.run(send_one)
    producer.flush(SECONDS_MAX)
    ended.set()
    taker.join()
    loop.report()


def serial(bootstrap: str, topic: str, records: int, size: int) -> None:
    """One record after the other: the next is sent when the one before it is acked."""
    from confluent_kafka import Producer

    some, acked = values(size), 0

    def on_delivery(error: Any, message: Any) -> None:
        nonlocal acked
        acked += error is None

    producer = Producer({"bootstrap.servers": bootstrap, **SECURITY, **PRODUCER, **LATENCY})
    took: list[float] = []
    for index in range(records):
        began = time.perf_counter()
        producer.produce(topic, some[index % DISTINCT_VALUES], on_delivery=on_delivery)
        producer.flush(SECONDS_MAX)
        took.append(time.perf_counter() - began)
    if acked != records:
        raise SystemExit(f"{records - acked} of {records} records were not acked")
    counted = sorted(took[int(records * WARM_UP) :])
    p50, p99 = (round(1000 * counted[int(len(counted) * part)], 3) for part in (0.5, 0.99))
    print(json.dumps({"records": records, "p50_ms": p50, "p99_ms": p99}))


ROLES = {"send": send, "poll": poll, "latency": latency, "serial": serial}

if __name__ == "__main__":
    ROLES[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
