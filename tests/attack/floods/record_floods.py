"""Floods of a tenant whose records make work for a node: batches to convert, to count, to look into, to walk over.

The topics are its own, so it chooses their configuration, and headers say what it likes. Each flood makes its topics
first, and a flood that fills one says when that is done. Not here: floods of records' bytes (kafka_floods.py).
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from penstock.pb import broker_pb2
from penstock.record.batch import HEADER_BYTES, pack_batch, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from tests.attack.floods.grpc_floods import METADATA
from tests.attack.floods.h2_link import SERVICE, H2Link
from tests.attack.floods.herd import Steps, again, drained, on_links
from tests.attack.floods.kafka_floods import CREATE_TOPICS, FETCH, LIST_OFFSETS, TENANTS_TOPIC
from tests.attack.floods.links import PRODUCE, KafkaLink, Target, data, text

PATIENT_S: Final = 20.0
"""The time that a flood gives the node for work of which it measures the time."""
HOG_BYTES: Final = 4 << 20
LARGEST_BYTES: Final = 60 << 20
TINY_BATCHES: Final = 100_000
LATER_MS: Final = 1_800_000
"""The time that headers promise is ahead by so much; records above an hour ahead are refused."""
VAIN_BATCHES, VAIN_RECORDS = 40, 100_000
SPARSE_BATCHES, SPARSE_EACH = 40_000, 2_000
LARGEST_INT: Final = str((1 << 31) - 1)


def _now_ms() -> int:
    return int(time.time() * 1_000)


def _topic(link: KafkaLink, name: str, config: dict[str, str]) -> None:
    """Makes a topic of one partition, and waits until it is written to; one that is there stays."""
    pairs = b"".join(text(key) + text(value) for key, value in config.items())
    body = struct.pack(">i", 1) + text(name) + struct.pack(">ihi", 1, 1, 0) + struct.pack(">i", len(config)) + pairs
    link.ask(CREATE_TOPICS, 2, body + struct.pack(">i?", 10_000, False))
    while link.produce(name, build_batch([b"first"], timestamps_ms=_now_ms())):
        time.sleep(0.1)


def conversion_hog(target: Target) -> Steps:
    """Batches of 4 MiB that nothing can compress, to a topic that compresses as hard as there is, on 10 connections."""
    config = {"compression.type": "zstd", "compression.zstd.level": "22", "max.message.bytes": str(2 * HOG_BYTES)}
    _topic(target.kafka_link(), "tenant-hog", config)
    batch = build_batch([os.urandom(HOG_BYTES // 2).hex().encode()], timestamps_ms=_now_ms())
    body = text(None) + struct.pack(">hii", 1, 10_000, 1) + text("tenant-hog") + struct.pack(">ii", 1, 0) + data(batch)

    def act(link: Any) -> None:
        link.send(PRODUCE, 3, body)
        drained(link)

    yield from on_links(target, partial(target.kafka_link, timeout_s=PATIENT_S), act, 10)


def large_batches_at_slow_levels(target: Target) -> Steps:
    """Batches of a record of 60 MiB, of 60 kB when they are packed, to a topic that compresses as hard as there is."""
    _topic(target.kafka_link(), "tenant-largest", {"compression.type": "zstd", "compression.zstd.level": "22"})
    batch = build_batch([bytes(LARGEST_BYTES)], timestamps_ms=_now_ms(), codec=Codec.GZIP)

    def act(link: Any) -> None:
        target.figures["code"] = link.produce("tenant-largest", batch)

    yield from on_links(target, partial(target.kafka_link, timeout_s=PATIENT_S), act, 2)


# -- batches by the thousand -------------------------------------------------------------------------------------------


def _produced(target: Target, topic: str) -> Callable[[bytes], bytes]:
    """Makes a message of gRPC's Produce of the batches for a topic."""
    asked = broker_pb2.MetadataRequest(topics=[topic]).SerializeToString()
    topics = broker_pb2.MetadataResponse.FromString(H2Link(target).ask(METADATA, asked)).topics

    def message(records: bytes) -> bytes:
        part = broker_pb2.PartitionRecords(topic=topic, partition=0, records=records, topic_id=topics[0].topic_id)
        return broker_pb2.ProduceRequest(acks=1, timeout_ms=10_000, partitions=[part]).SerializeToString()

    return message


def tiny_batches_by_grpc(target: Target) -> Steps:
    """Requests of 7 MB with 100,000 batches of a record each, on 2 connections, which wait for no answer."""
    records = build_batch([b""], timestamps_ms=_now_ms()) * TINY_BATCHES
    message = _produced(target, TENANTS_TOPIC)(records)
    yield from on_links(
        target, lambda: H2Link(target), lambda link: link.call_unread(f"{SERVICE}Produce", message), links=2
    )


def _many_small_batches(target: Target, link: KafkaLink, name: str, now_ms: int) -> Steps:
    """Writes them to the topic, of which a record is there, and waits until they are in the log."""
    writer, message = H2Link(target), _produced(target, name)(build_batch([b""], timestamps_ms=now_ms) * SPARSE_EACH)
    asked = struct.pack(">ii", -1, 1) + text(name) + struct.pack(">iiq", 1, 0, -1)
    for number in range(1, 1 + SPARSE_BATCHES // SPARSE_EACH):
        writer.call_unread(f"{SERVICE}Produce", message)
        while struct.unpack(">q", link.ask(LIST_OFFSETS, 1, asked)[-8:])[0] <= number * SPARSE_EACH:
            yield 0.02
        target.add("written", SPARSE_EACH)


def fetches_far_from_the_index(target: Target) -> Steps:
    """A log of 40,000 small batches, whose entries shall be far apart, is read from its middle, on 4 connections."""
    name = "tenant-sparse"
    link = target.kafka_link(timeout_s=PATIENT_S)
    _topic(link, name, {"index.interval.bytes": LARGEST_INT})
    yield from _many_small_batches(target, link, name, _now_ms())
    offsets = iter(random.Random(1).sample(range(SPARSE_BATCHES // 2, SPARSE_BATCHES), SPARSE_BATCHES // 2))

    def act(link: Any) -> None:
        body = struct.pack(">iiiibi", -1, 0, 1, 1 << 20, 0, 1) + text(name)
        link.ask(FETCH, 4, body + struct.pack(">iiqi", 1, 0, next(offsets), 1_000))

    yield from on_links(target, partial(target.kafka_link, timeout_s=PATIENT_S), act, 4)


# -- look-ups by time --------------------------------------------------------------------------------------------------


def _promising(values: list[bytes]) -> bytes:
    """A small batch of these records, whose header promises a time that none of them has."""
    now_ms = _now_ms()
    batch = build_batch(values, timestamps_ms=now_ms, codec=Codec.GZIP)
    return pack_batch(read_header(batch)._replace(max_timestamp_ms=now_ms + LATER_MS), batch[HEADER_BYTES:])


def look_ups_in_vain(target: Target) -> Steps:
    """40 batches of 100,000 records each, of 1 kB when they are packed, promise a time that none has; two connections
    ask for that time."""
    name, batch = "tenant-times", _promising([b""] * VAIN_RECORDS)
    link = target.kafka_link(timeout_s=PATIENT_S)
    _topic(link, name, {"record.validation": "headers"})
    for _ in range(VAIN_BATCHES):
        link.produce(name, batch)
        target.add("written")
        yield 0.0
    body = struct.pack(">ii", -1, 1) + text(name) + struct.pack(">iiq", 1, 0, _now_ms() + LATER_MS // 2)

    def act(link: Any) -> None:
        began = time.monotonic()
        link.ask(LIST_OFFSETS, 1, body)
        target.most("look_up_s", round(time.monotonic() - began, 2))

    yield from on_links(target, partial(target.kafka_link, timeout_s=PATIENT_S), act, 2)


def look_ups_far_from_the_index(target: Target) -> Steps:
    """40,000 small batches are older than the first one of their log, and the last one is younger: its time is asked
    for, on 4 connections, and the index of times has no entry between the two."""
    name, now_ms = "tenant-late", _now_ms()
    link = target.kafka_link(timeout_s=PATIENT_S)
    _topic(link, name, {})
    link.produce(name, build_batch([b""], timestamps_ms=now_ms + LATER_MS))
    yield from _many_small_batches(target, link, name, now_ms - LATER_MS)
    link.produce(name, build_batch([b""], timestamps_ms=now_ms + LATER_MS + 1))
    body = struct.pack(">ii", -1, 1) + text(name) + struct.pack(">iiq", 1, 0, now_ms + LATER_MS + 1)

    def act(link: Any) -> None:
        began = time.monotonic()
        link.ask(LIST_OFFSETS, 1, body)
        target.most("look_up_s", round(time.monotonic() - began, 2))

    yield from on_links(target, partial(target.kafka_link, timeout_s=PATIENT_S), act, 4)


# -- segments by the thousand ------------------------------------------------------------------------------------------


def segments_without_end(target: Target) -> Steps:
    """Each batch rolls a segment: its topic lets one be as old as a millisecond, and an index have two entries. Four
    connections write, and a fifth looks up a time, for which every segment has to be looked at."""
    name = "tenant-segments"
    link = target.kafka_link(timeout_s=PATIENT_S)
    _topic(link, name, {"segment.ms": "1", "segment.index.bytes": "24", "index.interval.bytes": "0"})
    batch = build_batch([b""], timestamps_ms=_now_ms())
    body = struct.pack(">ii", -1, 1) + text(name) + struct.pack(">iiq", 1, 0, _now_ms() + LATER_MS)
    acts: list[Callable[[Any], object]] = 4 * [lambda link: link.produce(name, batch)]
    acts.append(lambda link: link.ask(LIST_OFFSETS, 1, body))
    links = [target.kafka_link(timeout_s=PATIENT_S) for _ in acts]

    def act() -> None:
        for one, its_act in zip(links, acts, strict=True):
            its_act(one)

    yield from again(target, act)


RECORD_FLOODS: Final[dict[str, Callable[[Target], Steps]]] = {
    flood.__name__.replace("_", "-"): flood
    for flood in (
        conversion_hog,
        large_batches_at_slow_levels,
        tiny_batches_by_grpc,
        fetches_far_from_the_index,
        look_ups_in_vain,
        look_ups_far_from_the_index,
        segments_without_end,
    )
}
