"""The codec of metadata records: what is written is read back, and nothing is guessed."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, replace
from typing import get_args

import pytest

from metadata.codec import (
    MAX_RECORD_BYTES,
    MalformedMetadataRecordError,
    UnsupportedMetadataRecordError,
    decode_record,
    encode_record,
    record_version,
)
from metadata.records import (
    ADDED_IN,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    ScramSecretRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    VotersRecord,
)
from metadata.registrations import PartitionRegistration
from penstock.errors import InvariantViolation
from penstock.types import Endpoint, ListenerEndpoint
from raft.voter_records import voters_value
from raft.voters import Voter, VoterSet

VOTERS = VoterSet(
    (
        Voter(1, "dir-a", (ListenerEndpoint("CONTROLLER", Endpoint("höst", 9193)),)),
        Voter(2, "dir-b"),
    )
)

RECORDS: list[Record] = [
    RegisterBrokerRecord(1, "incarnation", 42, "höst", 9192, "rack", True, False, ("dir-a", "dir-b")),
    RegisterBrokerRecord(1, "incarnation", 42, "host", 9192),
    RegisterBrokerRecord(1, "incarnation", 42, "host", 9192, inter_broker_host="inside", inter_broker_port=9194),
    UnregisterBrokerRecord(1, 42),
    BrokerRegistrationChangeRecord(1, 42, fenced=False),
    BrokerRegistrationChangeRecord(1, 42, in_controlled_shutdown=True),
    BrokerRegistrationChangeRecord(1, 42, offline_log_dirs=("dir-a",)),
    TopicRecord("orders", "id"),
    PartitionRecord("id", 0, (1, 2, 3), (1, 2), 1, 7, 9),
    PartitionChangeRecord("id", 0, isr=(2,), leader_id=-1),
    PartitionChangeRecord("id", 0),
    PartitionRecord("id", 0, (1, 2), (1,), -1, 7, 9, log_lost=True),
    PartitionChangeRecord("id", 0, log_lost=False),
    RegisterBrokerRecord(1, "incarnation", 42, "host", 9192, log_dirs=("a", "b"), offline_log_dirs=("b",)),
    PartitionRecord("id", 0, (1, 2), (1,), 1, 7, 9, directories=("dir-a", "")),
    PartitionChangeRecord("id", 0, directories=("dir-a", "dir-b")),
    PartitionChangeRecord("id", 0, directories=()),
    RegisterBrokerRecord(1, "incarnation", 42, "host", 9192, flush_policy="os"),
    RegisterBrokerRecord(1, "incarnation", 42, "host", 9192, listeners=("OUTSIDE://node-1:9093", "LAB://[::1]:1")),
    PartitionRecord("id", 0, (1, 2), (1,), -1, 7, 9, elr=(2,)),
    PartitionChangeRecord("id", 0, elr=()),
    RemoveTopicRecord("id"),
    ConfigRecord("topic", "orders", "retention.ms", "-1"),
    ConfigRecord("topic", "orders", "retention.ms"),
    ProducerIdsRecord(1_000, 1, 42),
    ProducerIdsRecord((1 << 63) - 1),
    UserScramCredentialRecord("älice", 1, 4096, "c2FsdA==", "c3RvcmVk", "c2VydmVy"),
    RemoveUserScramCredentialRecord("älice", 2),
    ScramSecretRecord("secret"),
    AccessControlEntryRecord("id", "TOPIC", "örders", "PREFIXED", "User:anna", "*", "READ", "ALLOW"),
    RemoveAccessControlEntryRecord("id"),
    ClientQuotaRecord("request_percentage", "", "äpp", None, 0.5),
    ClientQuotaRecord("producer_byte_rate", "anna"),
    VotersRecord(VOTERS),
    FeatureLevelRecord("metadata.version", 2, "0.3.0"),
    RegisterBrokerRecord(1, "incarnation", 42, "host", 9192, features="metadata.version=1-2"),
    NoOpRecord(),
]

VERSION_0: list[tuple[bytes, Record]] = [
    (
        b'{"type":"RegisterBroker","version":0,"broker_id":1,"incarnation_id":"i","broker_epoch":42,"host":"h\xc3\xb6st",'
        b'"port":9192,"rack":"r","fenced":true,"in_controlled_shutdown":false,"log_dirs":["a","b"]}',
        RegisterBrokerRecord(1, "i", 42, "höst", 9192, "r", True, False, ("a", "b")),
    ),
    (b'{"type":"UnregisterBroker","version":0,"broker_id":1,"broker_epoch":42}', UnregisterBrokerRecord(1, 42)),
    (
        b'{"type":"BrokerRegistrationChange","version":0,"broker_id":1,"broker_epoch":42,"fenced":false,'
        b'"in_controlled_shutdown":true}',
        BrokerRegistrationChangeRecord(1, 42, False, True),
    ),
    (b'{"type":"Topic","version":0,"name":"orders","topic_id":"id"}', TopicRecord("orders", "id")),
    (
        b'{"type":"Partition","version":0,"topic_id":"id","partition":3,"replicas":[1,2,3],"isr":[1,2],"leader_id":1,'
        b'"leader_epoch":7,"partition_epoch":9}',
        PartitionRecord("id", 3, (1, 2, 3), (1, 2), 1, 7, 9),
    ),
    (
        b'{"type":"PartitionChange","version":0,"topic_id":"id","partition":3,"isr":[2],"leader_id":-1}',
        PartitionChangeRecord("id", 3, (2,), -1),
    ),
    (b'{"type":"RemoveTopic","version":0,"topic_id":"id"}', RemoveTopicRecord("id")),
    (
        b'{"type":"Config","version":0,"resource_type":"topic","resource_name":"orders","key":"retention.ms","value":"1"}',
        ConfigRecord("topic", "orders", "retention.ms", "1"),
    ),
    (
        b'{"type":"ProducerIds","version":0,"next_producer_id":1000,"broker_id":1,"broker_epoch":42}',
        ProducerIdsRecord(1_000, 1, 42),
    ),
    (
        b'{"type":"UserScramCredential","version":0,"name":"alice","mechanism":1,"iterations":4096,"salt":"c2FsdA==",'
        b'"stored_key":"c3RvcmVk","server_key":"c2VydmVy"}',
        UserScramCredentialRecord("alice", 1, 4096, "c2FsdA==", "c3RvcmVk", "c2VydmVy"),
    ),
    (
        b'{"type":"RemoveUserScramCredential","version":0,"name":"alice","mechanism":2}',
        RemoveUserScramCredentialRecord("alice", 2),
    ),
    (b'{"type":"ScramSecret","version":0,"secret":"s"}', ScramSecretRecord("s")),
    (
        b'{"type":"AccessControlEntry","version":0,"id":"i","resource_type":"TOPIC","resource_name":"orders",'
        b'"pattern_type":"LITERAL","principal":"User:anna","host":"*","operation":"READ","permission_type":"ALLOW"}',
        AccessControlEntryRecord("i", "TOPIC", "orders", "LITERAL", "User:anna", "*", "READ", "ALLOW"),
    ),
    (
        b'{"type":"ClientQuota","version":0,"key":"producer_byte_rate","user":"anna","value":1000.0}',
        ClientQuotaRecord("producer_byte_rate", "anna", value=1000.0),
    ),
    (b'{"type":"RemoveAccessControlEntry","version":0,"id":"i"}', RemoveAccessControlEntryRecord("i")),
    (
        b'{"type":"Voters","version":0,"voters":[{"voter_id":1,"directory_id":"dir-a","endpoints":'
        b'[{"name":"CONTROLLER","host":"h\\u00f6st","port":9193}]},{"voter_id":2,"directory_id":"dir-b","endpoints":[]}]}',
        VotersRecord(VOTERS),
    ),
    (b'{"type":"NoOp","version":0}', NoOpRecord()),
    (
        b'{"type":"FeatureLevel","version":0,"name":"group.version","level":0,"since":"0.2.0"}',
        FeatureLevelRecord("group.version", 0, "0.2.0"),
    ),
]
"""Logs on disk hold these bytes: never edit a line, only add some. One of each type."""


@pytest.mark.parametrize(("value", "record"), VERSION_0, ids=lambda part: part.__class__.__name__)
def test_version_0_of_each_type_reads_as_ever_and_is_still_what_is_written(value: bytes, record: Record) -> None:
    assert decode_record(value) == record
    assert encode_record(record) == value


def test_record_is_written_in_the_oldest_version_that_can_say_it() -> None:
    def version(record: Record) -> object:
        return json.loads(encode_record(record))["version"]

    assert version(PartitionChangeRecord("id", 0, isr=(1,))) == 0
    assert version(PartitionChangeRecord("id", 0, log_lost=True)) == 1
    assert version(PartitionChangeRecord("id", 0, log_lost=True, directories=("a",))) == 2
    assert version(BrokerRegistrationChangeRecord(1, 42, fenced=True)) == 0
    assert version(BrokerRegistrationChangeRecord(1, 42, offline_log_dirs=())) == 1
    assert version(PartitionRecord("id", 0, (1, 2), (1,), 1)) == 0
    assert version(PartitionRecord("id", 0, (1, 2), (1,), 1, directories=("a", ""))) == 2
    assert version(PartitionRecord("id", 0, (1, 2), (1,), 1, elr=(2,))) == 3
    assert version(PartitionChangeRecord("id", 0, elr=())) == 3
    assert version(PartitionChangeRecord("id", 0, replicas=(1, 2), adding_replicas=(2,), removing_replicas=())) == 4
    moved = PartitionRecord("id", 0, (1, 3, 2), (1,), 1, adding_replicas=(3,))
    assert [version(moved), version(replace(moved, replicas_before=(2, 1)))] == [4, 5]
    registered = RegisterBrokerRecord(1, "i", 42, "host", 9192, inter_broker_host="in", flush_policy="os")
    assert version(registered) == 3, "a broker with one listener for clients: nodes of the release before read it"
    assert version(replace(registered, listeners=("OUTSIDE://node-1:9093",))) == 4
    assert version(replace(registered, features="metadata.version=1-2")) == 5


def test_partition_of_an_older_release_has_no_directories_and_a_change_of_them_is_read() -> None:
    older = decode_record(
        b'{"type":"Partition","version":1,"topic_id":"id","partition":0,"replicas":[1,2],"isr":[1],'
        b'"leader_id":-1,"leader_epoch":0,"partition_epoch":0,"log_lost":true}'
    )
    assert isinstance(older, PartitionRecord)
    partition = PartitionRegistration.from_record(older)
    assert partition.directories == () and partition.directory_of(1) == partition.directory_of(9) == ""
    change = decode_record(
        b'{"type":"PartitionChange","version":2,"topic_id":"id","partition":0,"directories":["a",""]}'
    )
    assert isinstance(change, PartitionChangeRecord)
    changed = partition.merge(change)
    assert (changed.directory_of(1), changed.directory_of(2)) == ("a", "")
    assert (changed.partition_epoch, changed.log_lost) == (partition.partition_epoch, True)
    assert changed.directories_with(1, "") == () and changed.directories_with(2, "b") == ("a", "b")


@pytest.mark.parametrize("directories", [("a",), ("a", "b", "c")])
def test_directories_that_are_not_one_for_each_replica_make_no_partition(directories: tuple[str, ...]) -> None:
    with pytest.raises(InvariantViolation, match="one for each replica"):
        PartitionRegistration.from_record(PartitionRecord("id", 0, (1, 2), (1,), 1, directories=directories))


def test_field_of_a_later_version_is_refused_in_a_record_of_an_earlier_one() -> None:
    value = b'{"type":"PartitionChange","version":0,"topic_id":"id","partition":0,"log_lost":true}'
    with pytest.raises(UnsupportedMetadataRecordError, match="log_lost"):
        decode_record(value)


def test_every_record_type_has_its_bytes_of_version_0_on_file() -> None:
    assert {type(record) for _, record in VERSION_0} == set(get_args(Record))


@pytest.mark.parametrize("cls", get_args(Record), ids=lambda cls: cls.__name__)
def test_field_that_was_added_later_has_a_default_for_the_records_before_it(cls: type[Record]) -> None:
    added = [field for field in fields(cls) if field.metadata.get(ADDED_IN, 0)]
    assert all(field.default is not MISSING for field in added)
    assert {field.metadata[ADDED_IN] for field in added} == set(range(1, record_version(cls) + 1)), (
        "a version was left out"
    )


@pytest.mark.parametrize("record", RECORDS, ids=repr)
def test_record_is_read_back_as_it_was_written(record: Record) -> None:
    assert decode_record(encode_record(record)) == record


def test_fields_that_are_none_are_left_out() -> None:
    written = json.loads(encode_record(PartitionChangeRecord("id", 3, isr=(2,))))
    assert written == {"type": "PartitionChange", "version": 0, "topic_id": "id", "partition": 3, "isr": [2]}


def test_voters_are_written_as_the_quorum_writes_them() -> None:
    assert encode_record(VotersRecord(VOTERS)) == voters_value(VOTERS)


def test_leader_change_of_the_quorum_reads_as_nothing() -> None:
    assert decode_record(b'{"type":"LeaderChange","leader_id":1,"epoch":4}') == NoOpRecord()


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (b'{"type":"Teleport","version":0}', "Teleport"),
        (b'{"type":"Topic","version":99,"name":"a"}', "version 99"),
        (b'{"type":"Voters","version":1,"voters":[]}', "version 1"),
        (b'{"type":"RemoveTopic","version":0,"topic_id":"a","more":1}', "more"),
    ],
)
def test_unknown_type_version_or_field_is_refused_with_the_remedy_and_not_guessed(value: bytes, word: str) -> None:
    with pytest.raises(UnsupportedMetadataRecordError, match=rf"{word}.*upgrade"):
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
        b'{"type":"Voters","version":0}',
        b'{"type":"Voters","version":true,"voters":[]}',
        b'{"type":"Voters","version":0,"voters":[]}',
        b'{"type":"Voters","version":0,"voters":[{"voter_id":1,"directory_id":"","endpoints":[]}]}',
        b'{"type":"RemoveTopic"}',
        b'{"type":"RemoveTopic","version":-1,"topic_id":"a"}',
        b'{"type":"RemoveTopic","version":true,"topic_id":"a"}',
        b'{"type":"RemoveTopic","version":0}',
        b'{"type":"RemoveTopic","version":0,"topic_id":null}',
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
