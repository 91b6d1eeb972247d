"""The processor time of reading and writing Kafka's messages, beside kio (compiled readers) and kafka-python.

Prints one JSON line a row: the message, its version and partitions, what was done, by which code, the best of several
rounds in microseconds. Each code reads the same bytes and writes what it read. *make* is making our object, as a plan
of the node does for an answer. Records are 1,000 bytes a partition. `python -m benchmarks.kafka_codec` takes about
twenty seconds.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

from kio.serial import entity_reader, entity_writer

from broker.kafka.schemas import fetch, metadata, produce
from broker.kafka_codec.codec import decode, encode
from broker.kafka_codec.structs import facts_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol import consumer as kafka_python_consumer
    from kafka.protocol import metadata as kafka_python_metadata
    from kafka.protocol import producer as kafka_python_producer

ROUNDS = 7
ROUND_SECONDS = 0.02
RECORDS = memoryview(bytes(1000))
ID = "AAAAAAAAAAAAAAAAAAAAAQ"
KAFKA_PYTHON = {
    name: value
    for module in (kafka_python_consumer, kafka_python_metadata, kafka_python_producer)
    for name, value in vars(module).items()
}


def produce_request(partitions: int) -> produce.ProduceRequest:
    data = [produce.PartitionProduceData(index=n, records=RECORDS) for n in range(partitions)]
    topic = produce.TopicProduceData(name="orders", topic_id=ID, partition_data=data)
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response(partitions: int) -> produce.ProduceResponse:
    data = [produce.PartitionProduceResponse(index=n, base_offset=1000, log_start_offset=0) for n in range(partitions)]
    topic = produce.TopicProduceResponse(name="orders", topic_id=ID, partition_responses=data)
    return produce.ProduceResponse(responses=[topic])


def fetch_request(partitions: int) -> fetch.FetchRequest:
    data = [
        fetch.FetchRequestFetchPartition(partition=n, fetch_offset=99_999, partition_max_bytes=1 << 20)
        for n in range(partitions)
    ]
    topic = fetch.FetchRequestFetchTopic(topic="orders", topic_id=ID, partitions=data)
    return fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])


def fetch_response(partitions: int) -> fetch.FetchResponse:
    data = [
        fetch.FetchResponsePartitionData(
            partition_index=n,
            high_watermark=10,
            last_stable_offset=10,
            log_start_offset=0,
            aborted_transactions=None,
            records=RECORDS,
        )
        for n in range(partitions)
    ]
    topic = fetch.FetchableTopicResponse(topic="orders", topic_id=ID, partitions=data)
    return fetch.FetchResponse(session_id=77, responses=[topic])


def metadata_response(partitions: int) -> metadata.MetadataResponse:
    data = [
        metadata.MetadataResponsePartition(
            partition_index=n, leader_id=n % 3, leader_epoch=5, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]
        )
        for n in range(partitions)
    ]
    brokers = [metadata.MetadataResponseBroker(node_id=n, host="broker.example.org", port=9092) for n in range(3)]
    topic = metadata.MetadataResponseTopic(name="orders", topic_id=ID, partitions=data)
    return metadata.MetadataResponse(cluster_id="c", controller_id=1, brokers=brokers, topics=[topic])


ROWS: list[tuple[Callable[[int], Any], tuple[int, ...], tuple[int, ...]]] = [
    (produce_request, (9, 11), (1, 12)),
    (produce_response, (9, 11), (1, 12)),
    (fetch_request, (12, 16), (1, 12)),
    (fetch_response, (12, 16), (1, 12)),
    (metadata_response, (12,), (1000,)),
]
"""Messages, their versions, and how many partitions they have."""


def kio_class(cls: type, version: int) -> Any:
    kind = "request" if cls.__name__.endswith("Request") else "response"
    stem = cls.__name__.lower().removesuffix(kind)
    return getattr(importlib.import_module(f"kio.schema.{stem}.v{version}.{kind}"), cls.__name__)


def contenders(make: Callable[[int], Any], version: int, partitions: int) -> dict[tuple[str, str], Callable[[], Any]]:
    """The functions to measure, by (what is done, whose code)."""
    message = make(partitions)
    cls = type(message)
    body = b"".join(bytes(part) for part in encode(message, version))
    view = memoryview(body)
    kios = kio_class(cls, version)
    kio_read, kio_write = entity_reader(kios), entity_writer(kios)
    kio_message, _ = kio_read(body, 0)
    runs: dict[tuple[str, str], Callable[[], Any]] = {
        ("make", "penstock"): lambda: make(partitions),
        ("write", "penstock"): lambda: encode(message, version),
        ("write", "kio"): lambda: kio_write(io.BytesIO(), kio_message),
        ("read", "penstock"): lambda: decode(cls, version, view),
        ("read", "kio"): lambda: kio_read(body, 0),
    }
    theirs = KAFKA_PYTHON[cls.__name__]
    if version <= theirs.valid_versions[1]:
        their_message = theirs.decode(body, version=version)
        their_message._header = None
        runs["write", "kafka-python"] = lambda: their_message.encode(version=version)
        runs["read", "kafka-python"] = lambda: theirs.decode(body, version=version)
    return runs


def best_microseconds(run: Callable[[], Any]) -> float:
    """Many times a round, because one time is shorter than the clock can tell."""
    run()
    started = time.perf_counter()
    run()
    times = max(1, int(ROUND_SECONDS / (time.perf_counter() - started)))
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(times):
            run()
        best = min(best, time.process_time() - started)
    return best / times * 1e6


def main() -> None:
    gc.disable()
    for make, versions, sizes in ROWS:
        for version in versions:
            for partitions in sizes:
                for (what, whose), run in contenders(make, version, partitions).items():
                    row = {
                        "benchmark": "kafka codec",
                        "message": f"{type(make(0)).__name__} v{version}",
                        "api_key": facts_of(type(make(0))).key,
                        "partitions": partitions,
                        "what": what,
                        "code": whose,
                        "us": round(best_microseconds(run), 2),
                    }
                    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
