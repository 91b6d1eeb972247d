"""The fast way for offsets' records says what the general codec says, or leaves the record to it."""

from __future__ import annotations

from random import Random

import pytest

from broker.coordination.record_codec import MalformedRecordError
from broker.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from broker.groups.records.record_codec import decode_group_record, encode_group_record
from broker.groups.records.record_log import read_group_records
from broker.groups.records.usual_offsets import UsualOffsetReader, UsualOffsetWriter
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


@pytest.mark.parametrize("seed", range(30))
def test_what_it_reads_and_writes_is_what_the_general_codec_does(seed: int) -> None:
    random = Random(seed)
    reader, writer = UsualOffsetReader(), UsualOffsetWriter()
    read = 0
    for _ in range(100):
        key, value = drawn_record(random)
        encoded = encode_group_record(key, value)
        if value is not None:
            assert writer.write(key, value) in (None, encoded)
        found = reader.read(*encoded)
        assert found in (None, (key, value))
        read += found is not None
    assert read > 50


@pytest.mark.parametrize("seed", range(30))
def test_damaged_bytes_are_never_read_otherwise_than_by_the_general_codec(seed: int) -> None:
    random = Random(seed)
    reader = UsualOffsetReader()
    for _ in range(200):
        parts = [bytearray(part or b"") for part in encode_group_record(*drawn_record(random))]
        part = random.choice([part for part in parts if part])
        for _ in range(random.choice((1, 1, 3))):
            part[random.randrange(len(part))] = random.choice((0, 1, 0x7F, 0xFF, random.randrange(256)))
        if random.random() < 0.2:
            part += b"more"
        key, value = bytes(parts[0]), bytes(parts[1])
        assert reader.read(key, value) in (None, general(key, value))


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
    assert found.records == [(key, None), (other, None)]
    assert (found.next_offset, found.read) == (52, 52)
