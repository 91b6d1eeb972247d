"""One process of benchmarks/broker.py that uses our client: ROLE BOOTSTRAP TOPIC RECORDS BYTES [OPTIONS].

Roles: send, send_keyed, send_many, poll, poll_arrow, latency. OPTIONS are a producer's, as a JSON object. Prints one
JSON line. Not to be read as an example: error handling is that every record must be acked, or the row fails.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import chain, repeat
from typing import Any

from benchmarks.broker_client_common import DISTINCT_VALUES, OpenLoop, report, values
from penstock import Consumer, Producer
from penstock.client.producer.future import RecordFuture

RATE = 1_000
SECONDS_MAX = 120
MANY = 20_000
"""Records of one send_many."""


def send(bootstrap: str, topic: str, records: int, size: int, **options: Any) -> None:
    """One call per record."""
    some = values(size)
    with Producer(bootstrap, acks="all", **options) as producer:
        began, cpu_began = time.perf_counter(), time.process_time()
        for _ in range(records // DISTINCT_VALUES):
            for value in some:
                producer.send(topic, value)
        producer.flush(SECONDS_MAX)
        report(producer.statistics().records_acked, began, cpu_began)


def send_keyed(bootstrap: str, topic: str, records: int, size: int, **options: Any) -> None:
    """One call per record, with a key."""
    some = [(b"%d" % index, value) for index, value in enumerate(values(size))]
    with Producer(bootstrap, acks="all", **options) as producer:
        began, cpu_began = time.perf_counter(), time.process_time()
        for _ in range(records // DISTINCT_VALUES):
            for key, value in some:
                producer.send(topic, value, key)
        producer.flush(SECONDS_MAX)
        report(producer.statistics().records_acked, began, cpu_began)


def send_many(bootstrap: str, topic: str, records: int, size: int, **options: Any) -> None:
    """One call for many records, from an iterator."""
    some = values(size)
    with Producer(bootstrap, acks="all", **options) as producer:
        began, cpu_began = time.perf_counter(), time.process_time()
        for _ in range(records // MANY):
            producer.send_many(topic, chain.from_iterable(repeat(some, MANY // DISTINCT_VALUES)))
        producer.flush(SECONDS_MAX)
        report(producer.statistics().records_acked, began, cpu_began)


def poll(bootstrap: str, topic: str, records: int, size: int) -> None:
    """Record by record; each value is looked at."""
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        began, cpu_began, got, total = time.perf_counter(), time.process_time(), 0, 0
        consumer.assign(consumer.partitions_for(topic))
        while got < records and time.perf_counter() - began < SECONDS_MAX:
            for record in consumer.poll(timeout_ms=1000):
                total += len(record.value or b"")
                got += 1
        _check(total, got * size)
        report(got, began, cpu_began)


def poll_arrow(bootstrap: str, topic: str, records: int, size: int) -> None:
    """Table by table; each value is looked at by Arrow."""
    import pyarrow.compute as pc

    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        began, cpu_began, got, total = time.perf_counter(), time.process_time(), 0, 0
        consumer.assign(consumer.partitions_for(topic))
        while got < records and time.perf_counter() - began < SECONDS_MAX:
            table = consumer.poll_arrow(timeout_ms=1000)
            total += pc.sum(pc.binary_length(table["value"])).as_py() or 0
            got += len(table)
        _check(total, got * size)
        report(got, began, cpu_began)


def latency(bootstrap: str, topic: str, records: int, size: int, **options: Any) -> None:
    """An open loop; linger 0."""
    some, loop = values(size), OpenLoop(records, RATE)
    with Producer(bootstrap, acks="all", linger_ms=0, **options) as producer:

        def send_one(index: int) -> None:
            def on_done(future: RecordFuture) -> None:
                if future.exception(0) is None:
                    loop.acked(index)

            producer.send(topic, some[index % DISTINCT_VALUES]).add_done_callback(on_done)

        loop.run(send_one)
        producer.flush(SECONDS_MAX)
    loop.report()


def _check(got: int, wanted: int) -> None:
    if got != wanted:
        raise SystemExit(f"{got} bytes read, {wanted} expected")


ROLES: dict[str, Callable[..., None]] = {
    "send": send,
    "send_keyed": send_keyed,
    "send_many": send_many,
    "poll": poll,
    "poll_arrow": poll_arrow,
    "latency": latency,
}

if __name__ == "__main__":
    given = json.loads(sys.argv[6]) if len(sys.argv) > 6 else {}
    ROLES[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), **given)
