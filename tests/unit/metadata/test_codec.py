"""The codec of metadata records: what is written is read back, and nothing is guessed."""

from __future__ import annotations

import json

import pytest

from metadata.codec import (
    MAX_RECORD_BYTES,
    MalformedMetadataRecordError,
    UnsupportedMetadataRecordError,
    decode_record,
    encode_record,
)
from metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

RECORDS: list[Record] = [
    RegisterBrokerRecord(1, "incarnation", 42, "höst", 9192, "rack", True, False, ("dir-a", "dir-b")),
    RegisterBrokerRecord(1, "incarnation", 42, "host", 9192),
    UnregisterBrokerRecord(1, 42),
    BrokerRegistrationChangeRecord(1, 42, fenced=False),
    BrokerRegistrationChangeRecord(1, 42, in_controlled_shutdown=True),
    TopicRecord("orders", "id"),
    PartitionRecord("id", 0, (1, 2, 3), (1, 2), 1, 7, 9),
    PartitionChangeRecord("id", 0, isr=(2,), leader_id=-1),
    PartitionChangeRecord("id", 0),
    RemoveTopicRecord("id"),
    ConfigRecord("topic", "orders", "retention.ms", "-1"),
    ConfigRecord("topic", "orders", "retention.ms"),
    NoOpRecord(),
]


@pytest.mark.parametrize("record", RECORDS, ids=repr)
def test_record_is_read_back_as_it_was_written(record: Record) -> None:
    assert decode_record(encode_record(record)) == record


def test_fields_that_are_none_are_left_out() -> None:
    written = json.loads(encode_record(PartitionChangeRecord("id", 3, isr=(2,))))
    assert written == {"type": "PartitionChange", "version": 0, "topic_id": "id", "partition": 3, "isr": [2]}


def test_leader_change_of_the_quorum_reads_as_nothing() -> None:
    assert decode_record(b'{"type":"LeaderChange","leader_id":1,"epoch":4}') == NoOpRecord()


@pytest.mark.parametrize(
    ("value", "word"),
    [(b'{"type":"Teleport","version":0}', "Teleport"), (b'{"type":"Topic","version":1,"name":"a"}', "version 1")],
)
def test_unknown_type_or_newer_version_is_refused_and_not_guessed(value: bytes, word: str) -> None:
    with pytest.raises(UnsupportedMetadataRecordError, match=word):
        decode_record(value)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'{"type":7,"version":0}',
        b'{"type":"RemoveTopic"}',
        b'{"type":"RemoveTopic","version":-1,"topic_id":"a"}',
        b'{"type":"RemoveTopic","version":true,"topic_id":"a"}',
        b'{"type":"RemoveTopic","version":0}',
        b'{"type":"RemoveTopic","version":0,"topic_id":null}',
        b'{"type":"RemoveTopic","version":0,"topic_id":"a","more":1}',
        b'{"type":"PartitionChange","version":0,"topic_id":"a","partition":1.5}',
        b'{"type":"PartitionChange","version":0,"topic_id":"a","partition":true}',
        b'{"type":"PartitionChange","version":0,"topic_id":"a","partition":1,"isr":["1"]}',
        b'{"type":"PartitionChange","version":0,"topic_id":"a","partition":9223372036854775808}',
        b'{"type":"PartitionChange","version":0,"topic_id":"a","partition":' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        b" " * (MAX_RECORD_BYTES + 1),
    ],
    ids=lambda value: value[:60].decode("latin-1"),
)
def test_damaged_record_is_a_typed_error(value: bytes) -> None:
    with pytest.raises(MalformedMetadataRecordError):
        decode_record(value)


@pytest.mark.parametrize("record", RECORDS, ids=repr)
def test_no_prefix_of_a_record_reads_as_a_record(record: Record) -> None:
    whole = encode_record(record)
    for length in range(len(whole)):
        with pytest.raises(MalformedMetadataRecordError):
            decode_record(whole[:length])
