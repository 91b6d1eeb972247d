"""The fast way for offsets' records says what the general codec says, or leaves the record to it."""

from __future__ import annotations

from random import Random

import pytest

from broker.coordination.record_codec import MalformedRecordError
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from broker.groups.records.record_codec import decode_group_record, encode_group_record
from broker.groups.records.record_log import read_group_records
from broker.groups.records.usual_offsets import UsualOffsetWriter, usual_runs
from broker.kafka_codec.primitives import EncodeError
from penstock.record.reader import read_records
from tests.support.group_log import written_batches
from tests.support.kafka_messages import drawn

TOPIC_ID = "A" * 21 + "w"


def drawn_record(random: Random) -> tuple[OffsetCommitKey, OffsetCommitValue | None]:
    key = OffsetCommitKey(
        group=random.choice(("g", "grüppe", "")),
        topic=random.choice("tu"),
        partition=random.choice((0, 7, -1, 1 << 30)),
    )
    if random.random() < 0.1:
        return key, None
    value = drawn(OffsetCommitValue, 4, random)
    if random.random() < 0.7:
        value.metadata = ""
    if random.random() < 0.1:
        value.expire_timestamp, value.leader_epoch, value.topic_id = 5, -1, ""
    return key, value


def general(key: bytes, value: bytes | None) -> object:
    try:
        return decode_group_record(key, value)
    except MalformedRecordError:
        return None


def read_usual(keys: list[bytes], values: list[bytes | None]) -> dict[bytes, object]:
    """The records as the reader has them, by key. Each is either in one run or among the others."""
    runs, others = usual_runs(keys, values, range(len(keys)))
    found: dict[bytes, object] = {}
    for run in runs:
        partitions = list(run.values.partitions)
        assert partitions == sorted(set(partitions)) and len(partitions) == run.size
        for partition, value in run.values.items():
            key = OffsetCommitKey(group=run.key.group, topic=run.key.topic, partition=partition)
            found[encode_group_record(key, None)[0]] = key, value
    assert len(found) + len(others) == len(keys)
    assert {keys[place] for place in others}.isdisjoint(found)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_what_it_reads_and_writes_is_what_the_general_codec_does(seed: int) -> None:
    random = Random(seed)
    writer = UsualOffsetWriter()
    records = {}
    for _ in range(100):
        key, value = drawn_record(random)
        key.partition += random.randrange(20)
        encoded = encode_group_record(key, value)
        if value is not None:
            assert writer.write(key, value) in (None, encoded)
        records[encoded[0]] = encoded[1], (key, value)
    found = read_usual(list(records), [value for value, _ in records.values()])
    assert {key: record for key, (_, record) in records.items() if key in found} == found
    assert len(found) > len(records) / 3


@pytest.mark.parametrize("seed", range(30))
def test_damaged_bytes_are_never_read_otherwise_than_by_the_general_codec(seed: int) -> None:
    random = Random(seed)
    damaged: dict[bytes, bytes] = {}
    for _ in range(200):
        parts = [bytearray(part or b"") for part in encode_group_record(*drawn_record(random))]
        part = random.choice([part for part in parts if part])
        for _ in range(random.choice((1, 1, 3))):
            part[random.randrange(len(part))] = random.choice((0, 1, 0x7F, 0xFF, random.randrange(256)))
        if random.random() < 0.2:
            part += b"more"
        key, value = bytes(parts[0]), bytes(parts[1])
        assert read_usual([key], [value]) in ({}, {key: general(key, value)})
        damaged[key] = value
    found = read_usual(list(damaged), list(damaged.values()))
    assert {key: general(key, damaged[key]) for key in found} == found


def test_the_order_of_partitions_does_not_matter() -> None:
    keys = [encode_group_record(OffsetCommitKey(group="g", topic="t", partition=n), None)[0] for n in (5, 700, -1, 0)]
    values = [encode_group_record(OffsetCommitKey(), OffsetCommitValue(offset=n))[1] for n in range(4)]
    runs, others = usual_runs(keys, values, [3, 1, 0, 2])
    assert [(one.key, one.size, list(one.values.partitions)) for one in runs] == [(("g", "t"), 4, [-1, 0, 5, 700])]
    assert [value.offset for _, value in runs[0].values.items()] == [2, 3, 0, 1]
    assert others == []


def test_a_number_that_has_no_place_is_the_general_codecs_error() -> None:
    with pytest.raises(EncodeError):
        written_batches([(OffsetCommitKey(partition=1 << 40), OffsetCommitValue())])
    with pytest.raises(EncodeError):
        written_batches([(OffsetCommitKey(), OffsetCommitValue(topic_id="no id"))])


def test_of_many_commits_of_one_place_the_last_is_read() -> None:
    key, other = OffsetCommitKey(group="g", topic="t"), OffsetCommitKey(group="g", topic="t", partition=1)
    records = [(key, OffsetCommitValue(offset=n, topic_id=TOPIC_ID)) for n in range(50)]
    (batch,) = written_batches([*records, (other, None), (key, None)])
    assert len(read_records(batch)) == 52
    found = read_group_records(batch, 0)
    assert sorted(found.records, key=lambda entry: entry[0].partition) == [(key, None), (other, None)]
    assert (found.next_offset, found.read) == (52, 52)
