"""Promises of `RecordsField`: what it writes and reads is what protobuf would, whatever the bytes are."""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

import pytest
from google.protobuf.message import DecodeError

from penstock.pb import broker_pb2 as pb
from penstock.wire.records_field import CUT_OUT_FROM_BYTES, FIELDS_MAX, RecordsField
from tests.support.amount import usually

FETCHED = RecordsField(pb.FetchResponse)
SIZES = (0, 1, 127, 128, CUT_OUT_FROM_BYTES - 1, CUT_OUT_FROM_BYTES, 70_000)


def response(random: Random) -> pb.FetchResponse:
    made = pb.FetchResponse(correlation_id=random.randrange(1 << 40))
    for number in range(random.randrange(4)):
        entry = made.partitions.add(topic="t" * random.randrange(4), partition=number, topic_id="i" * 22)
        entry.records = random.randbytes(random.choice(SIZES))
        entry.fetch_offset = random.choice((0, 5, 1 << 62))
        if random.random() < 0.3:
            entry.diverging_epoch.epoch = 7
        if random.random() < 0.3:
            entry.error.message = "x" * random.choice(SIZES)
    return made


def taken_apart(message: pb.FetchResponse) -> tuple[Any, list[bytes]]:
    rest = pb.FetchResponse()
    rest.CopyFrom(message)
    for entry in rest.partitions:
        entry.ClearField("records")
    return rest, [entry.records for entry in message.partitions]


def put_together(raw: bytes) -> pb.FetchResponse:
    message, records = FETCHED.split(raw)
    for entry, its_own in zip(message.partitions, records, strict=True):
        entry.records = its_own
    found: pb.FetchResponse = message
    return found


@pytest.mark.parametrize("seed", range(60))
def test_what_is_joined_is_the_message_and_is_split_again(seed: int) -> None:
    message = response(Random(seed))
    raw = FETCHED.join(*taken_apart(message))
    assert pb.FetchResponse.FromString(raw) == message
    assert put_together(raw) == message


@pytest.mark.parametrize("seed", range(60))
def test_what_protobuf_wrote_is_split_as_protobuf_reads_it(seed: int) -> None:
    message = response(Random(seed))
    assert put_together(message.SerializeToString()) == message


@pytest.mark.parametrize("seed", range(usually(50, long=200)))
def test_damaged_bytes_are_refused_when_protobuf_refuses_them_and_else_read_as_protobuf_reads_them(seed: int) -> None:
    random = Random(seed)
    raw = bytearray(response(random).SerializeToString() + response(random).SerializeToString())
    for _ in range(random.randrange(1, 4)):
        if raw:
            raw[random.randrange(min(len(raw), 60)) if random.random() < 0.7 else random.randrange(len(raw))] ^= (
                1 << random.randrange(8)
            )
    damaged = bytes(raw[: len(raw) - random.randrange(3)])
    try:
        expected = pb.FetchResponse.FromString(damaged)
    except DecodeError:
        with pytest.raises(DecodeError):
            put_together(damaged)
        return
    assert put_together(damaged) == expected


def test_of_several_records_fields_the_last_counts_and_large_ones_are_not_parsed() -> None:
    one, two = (pb.PartitionFetchResult(records=bytes([n]) * 5_000).SerializeToString() for n in (1, 2))
    both = pb.PartitionFetchResult(topic="t").SerializeToString() + one + two
    raw = FETCHED.join(pb.FetchResponse(correlation_id=3), [])
    raw += bytes((0x12, *_length(len(both)))) + both
    message, records = FETCHED.split(raw)
    assert records == [bytes([2]) * 5_000]
    assert message.correlation_id == 3 and message.partitions[0].topic == "t"
    assert message.partitions[0].records == b""


PARTITION = pb.PartitionFetchResult(topic="t", records=b"r" * CUT_OUT_FROM_BYTES).SerializeToString()
PARTITIONS_TAG = 2 << 3 | 2
UNUSUAL = {
    "a tag of five bytes": bytes((PARTITIONS_TAG | 0x80, 0x80, 0x80, 0x80, 0)),
    "a tag of six bytes": bytes((PARTITIONS_TAG | 0x80, 0x80, 0x80, 0x80, 0x80, 0)),
    "a tag of more than 32 bits": bytes((PARTITIONS_TAG | 0x80, 0x80, 0x80, 0x80, 0x10)),
    "a group before it": bytes((0x7B, 0x08, 0x01, 0x7C, PARTITIONS_TAG)),
    "the end of a group before it": bytes((0x7C, PARTITIONS_TAG)),
    "field number 0 before it": bytes((0x00, 0x01, PARTITIONS_TAG)),
    "a number in place of a partition before it": bytes((2 << 3, 0x05, PARTITIONS_TAG)),
    "a partition before it that is empty": bytes((PARTITIONS_TAG, 0x00, PARTITIONS_TAG)),
}
PADDED_LENGTHS = (b"", b"\x80", b"\x80\x80\x80\x80")
"""The bytes between a length's last byte and the 0 that ends it."""


@pytest.mark.parametrize("padding", PADDED_LENGTHS)
@pytest.mark.parametrize("tag", UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_unusual_on_the_wire_is_read_or_refused_as_protobuf_does(tag: bytes, padding: bytes) -> None:
    low, high = _length(len(PARTITION))
    raw = tag + bytes((low, high | 0x80)) + padding + b"\x00" + PARTITION
    try:
        expected = pb.FetchResponse.FromString(raw)
    except DecodeError:
        with pytest.raises(DecodeError):
            put_together(raw)
    else:
        assert put_together(raw) == expected


@pytest.mark.parametrize("in_partition", [False, True])
def test_a_message_of_very_many_fields_is_left_to_protobuf_which_is_quicker(in_partition: bool) -> None:
    unknown = bytes((15 << 3, 1)) * FIELDS_MAX
    partition = pb.PartitionFetchResult(records=b"r" * CUT_OUT_FROM_BYTES).SerializeToString()
    holding = pb.FetchResponse()
    holding.partitions.add().MergeFromString(unknown)
    raw = FETCHED.join(holding, [b"r"])
    if not in_partition:
        raw = unknown + bytes((PARTITIONS_TAG, *_length(len(partition)))) + partition
    message, records = FETCHED.split(raw)
    assert [one.records for one in message.partitions] == records != [b""]


def test_what_is_no_records_is_not_copied_once_more_before_protobuf_does() -> None:
    size = 4 << 20
    entry = pb.PartitionFetchResult(topic="t", records=b"r" * CUT_OUT_FROM_BYTES)
    entry.error.message = "x" * size
    raw = pb.FetchResponse(partitions=[entry]).SerializeToString()
    tracemalloc.start()
    try:
        message, records = FETCHED.split(raw)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert records == [b"r" * CUT_OUT_FROM_BYTES] and len(message.partitions[0].error.message) == size
    assert peak < size // 4, "a broker counts the bytes of a request, not copies of them"


def _length(number: int) -> tuple[int, int]:
    return number & 0x7F | 0x80, number >> 7
