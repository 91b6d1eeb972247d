from __future__ import annotations

from random import Random

import pytest

from broker.coordination.record_codec import MalformedRecordError, RecordType
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from broker.groups.records.record_codec import RECORD_TYPES, decode_group_record, encode_group_record, encoded_size
from broker.groups.records.record_log import read_group_records
from broker.kafka_codec.primitives import EncodeError
from penstock.record.builder import build_batch
from tests.support.group_log import written_batches
from tests.support.kafka_messages import drawn

KEY = OffsetCommitKey(group="g", topic="t", partition=1)
KEY_BYTES = bytes.fromhex("0001 0001 67 0001 74 00000001")
by_type = pytest.mark.parametrize("kind", RECORD_TYPES, ids=lambda kind: kind.key.__name__)


@by_type
def test_a_record_returns_as_it_was_written(kind: RecordType) -> None:
    for seed in range(20):
        random = Random(f"{kind.number} {seed}")
        key, value = drawn(kind.key, 0, random), drawn(kind.value, kind.version(kind.value()), random)
        key_bytes, value_bytes = encode_group_record(key, value)

        assert decode_group_record(key_bytes, value_bytes) == (key, value)
        assert decode_group_record(*encode_group_record(key, None)) == (key, None)
        assert len(written_batches([(key, value)])[0]) <= encoded_size(key, value)


@by_type
def test_a_record_that_is_cut_anywhere_is_malformed(kind: RecordType) -> None:
    random = Random(kind.number)
    key, value = drawn(kind.key, 0, random), drawn(kind.value, kind.version(kind.value()), random)
    key_bytes, value_bytes = encode_group_record(key, value)
    assert value_bytes is not None
    for end in range(len(value_bytes)):
        with pytest.raises(MalformedRecordError):
            decode_group_record(key_bytes, value_bytes[:end])
    for end in range(len(key_bytes)):
        with pytest.raises(MalformedRecordError):
            decode_group_record(key_bytes[:end], value_bytes)


def test_the_versions_of_an_offset() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=7, metadata="m", commit_timestamp=9, topic_id="A" * 21 + "w")
    assert encode_group_record(KEY, value)[1] == bytes.fromhex(
        "0004 0000000000000005 00000007 02 6d 0000000000000009 01 00 10" + "00" * 15 + "03"
    )
    value.expire_timestamp = 11
    assert encode_group_record(KEY, value) == (
        KEY_BYTES,
        bytes.fromhex("0001 0000000000000005 0001 6d 0000000000000009 000000000000000b"),
    )


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (None, b"", "has no key"),
        (b"", b"", "a key has 0 bytes"),
        (b"\0", b"", "a key has 1 bytes"),
        (KEY_BYTES, b"", "a OffsetCommitValue has 0 bytes"),
        (KEY_BYTES, b"\0\5", "has the versions 0 to 4, and not 5"),
        (KEY_BYTES, b"\xff\xff", "has the versions 0 to 4, and not -1"),
        (KEY_BYTES, b"\0\4" + b"\xff" * 40, "a varint"),
        (b"\0\1\xff\xff", None, "OffsetCommitKey.group is null"),
        (b"\0\1\0\3abc\0\1\xff\0\0\0\1", None, "not UTF-8"),
    ],
)
def test_bytes_that_are_no_record_are_malformed(key: bytes | None, value: bytes | None, says: str) -> None:
    with pytest.raises(MalformedRecordError, match=says):
        decode_group_record(key, value)


@pytest.mark.parametrize("number", [9, 10, 15, 17, -1, 32_767])
def test_a_type_that_is_not_known_is_no_error_and_counted(number: int) -> None:
    key = number.to_bytes(2, "big", signed=True) + b"whatever"
    assert decode_group_record(key, b"\0\0") is None

    ours = encode_group_record(KEY, None)
    batch = build_batch([b"\0\0", ours[1]], keys=[key, ours[0]], timestamps_ms=1)
    found = read_group_records(batch, 0)
    assert (found.records, found.unknown, found.next_offset) == ([(KEY, None)], 1, 2)


def test_a_control_batch_that_is_no_marker_is_passed_over() -> None:
    batch = build_batch([b"whatever"], keys=[b"\0\0\0\2"], timestamps_ms=1, is_control=True)
    found = read_group_records(batch, 0)
    assert (found.records, found.transactional, found.next_offset) == ([], 0, 1)


def test_a_malformed_record_is_told_with_its_offset() -> None:
    batch = build_batch([b"\0"], keys=[KEY_BYTES], timestamps_ms=1, base_offset=77)
    with pytest.raises(MalformedRecordError, match="offset 77: a OffsetCommitValue has 1 bytes"):
        read_group_records(batch, 0)


def test_a_value_of_another_key_has_no_encoding() -> None:
    with pytest.raises(EncodeError, match="the value of a OffsetCommitKey is no OffsetCommitKey"):
        encode_group_record(KEY, KEY)
