"""Snapshots of the metadata as bytes: they give the image back, or are refused."""

from __future__ import annotations

import pytest

from metadata.codec import UnsupportedMetadataRecordError
from metadata.delta import MetadataDelta
from metadata.image import EMPTY_IMAGE, MetadataImage
from metadata.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    VotersRecord,
)
from metadata.snapshot import decode_snapshot, encode_snapshot, snapshot_id_of
from penstock.errors import CorruptMessageError
from penstock.messages.configs import ConfigResource
from penstock.record.batch import iter_headers
from penstock.record.builder import build_batch
from penstock.types import EpochEndOffset
from raft.voters import Voter, VoterSet

TIME_MS = 1_700_000_000_000


def image_of(*records: Record, on: MetadataImage = EMPTY_IMAGE) -> MetadataImage:
    delta = MetadataDelta(on)
    for record in records:
        delta.replay(record)
    return delta.apply(on.offset + len(records), 3)


def topic(name: str, partitions: int) -> list[Record]:
    made = (PartitionRecord(f"id-{name}", n, (1, 2), (1,), 1, 4, 9, elr=(2,)) for n in range(partitions))
    return [TopicRecord(name, f"id-{name}"), *made]


IMAGE = image_of(
    RegisterBrokerRecord(1, "process", 0, "host", 9192, log_dirs=("a", "b"), offline_log_dirs=("b",)),
    *topic("orders", 5),
    *topic("users", 2),
    ConfigRecord("topic", "users", "cleanup.policy", "compact"),
    ProducerIdsRecord(3_000, 1, 0),
    VotersRecord(VoterSet((Voter(1, "dir-a"), Voter(2, "dir-b")))),
)


def snapshot(image: MetadataImage = IMAGE, batch_bytes: int = 300) -> bytes:
    return b"".join(encode_snapshot(image, TIME_MS, batch_bytes))


DATA = snapshot()


def test_a_snapshot_gives_the_image_back() -> None:
    assert len(list(iter_headers(DATA))) > 3
    for batch_bytes in (1, 300, 1 << 20):
        again = decode_snapshot(snapshot(batch_bytes=batch_bytes), snapshot_id_of(IMAGE))
        assert again == IMAGE
    assert snapshot_id_of(IMAGE) == EpochEndOffset(3, IMAGE.offset + 1)


def test_equal_images_have_equal_snapshots_whatever_the_way_there() -> None:
    other = image_of(
        ProducerIdsRecord(1_000, 1, 0),
        *topic("users", 2),
        VotersRecord(VoterSet((Voter(1, "dir-a"),))),
        VotersRecord(VoterSet((Voter(1, "dir-a"), Voter(2, "dir-b")))),
        RegisterBrokerRecord(1, "process", 0, "host", 9192, log_dirs=("a", "b"), offline_log_dirs=("b",)),
        *topic("orders", 5),
        ConfigRecord("topic", "users", "cleanup.policy", "compact"),
        ProducerIdsRecord(3_000, 1, 0),
    )
    same_place = MetadataDelta(other).apply(IMAGE.offset + 9, 3)
    assert snapshot(same_place) == snapshot(MetadataDelta(IMAGE).apply(IMAGE.offset + 9, 3))


def test_every_cut_and_every_flipped_bit_is_found() -> None:
    for length in range(len(DATA)):
        with pytest.raises(CorruptMessageError):
            decode_snapshot(DATA[:length], snapshot_id_of(IMAGE))
    for at in range(len(DATA)):
        damaged = DATA[:at] + bytes([DATA[at] ^ (1 << at % 8)]) + DATA[at + 1 :]
        with pytest.raises(CorruptMessageError):
            decode_snapshot(damaged, snapshot_id_of(IMAGE))


def batches() -> list[bytes]:
    return [DATA[at : at + header.size_bytes] for at, header in iter_headers(DATA)]


@pytest.mark.parametrize("what", ["a batch less", "twice", "another order", "something behind it", "of another offset"])
def test_whole_batches_in_another_arrangement_are_refused(what: str) -> None:
    first, second, *rest = batches()
    arranged = {
        "a batch less": [first, *rest],
        "twice": [first, second, second, *rest],
        "another order": [second, first, *rest],
        "something behind it": [first, second, *rest, first],
        "of another offset": [first, second, *rest],
    }
    snapshot_id = (
        snapshot_id_of(IMAGE)._replace(end_offset=99) if what == "of another offset" else snapshot_id_of(IMAGE)
    )
    with pytest.raises(CorruptMessageError):
        decode_snapshot(b"".join(arranged[what]), snapshot_id)


def test_a_snapshot_of_a_newer_release_is_not_guessed_at() -> None:
    header, *_ = encode_snapshot(IMAGE, TIME_MS, 1)
    count = next(iter_headers(header))[1].record_count
    newer = [b'{"type":"Quota","version":0}', b'{"type":"SnapshotFooter","version":0,"records":1}']
    data = header + build_batch(newer, timestamps_ms=TIME_MS, base_offset=count, leader_epoch=0)
    with pytest.raises(UnsupportedMetadataRecordError, match="upgrade"):
        decode_snapshot(data, snapshot_id_of(IMAGE))


def test_the_difference_of_two_images_says_what_the_records_between_them_said() -> None:
    records: list[Record] = [
        RemoveTopicRecord("id-users"),
        TopicRecord("users", "id-new"),
        PartitionRecord("id-new", 0, (2,), (2,), 2),
        PartitionChangeRecord("id-orders", 3, isr=(1, 2), elr=()),
        RegisterBrokerRecord(2, "other", 10, "host", 9193),
        BrokerRegistrationChangeRecord(1, 0, fenced=False),
        ConfigRecord("topic", "orders", "retention.ms", "1"),
    ]
    delta = MetadataDelta(IMAGE)
    for record in records:
        delta.replay(record)
    newer = delta.apply(IMAGE.offset + len(records), 4)
    found = MetadataDelta.between(IMAGE, newer)

    assert found.image is IMAGE
    assert found.changed_topics == delta.changed_topics == {"id-new": {0}, "id-orders": {3}}
    assert found.created_topic_ids == delta.created_topic_ids == {"id-new"}
    assert found.deleted_topic_ids == delta.deleted_topic_ids == {"id-users"}
    assert found.changed_brokers == delta.changed_brokers == {1, 2}
    gone, changed = ConfigResource("topic", "users"), ConfigResource("topic", "orders")
    assert found.changed_configs == delta.changed_configs == {gone, changed}
    assert MetadataDelta.between(newer, newer).is_empty


def test_a_broker_that_is_gone_is_a_difference() -> None:
    assert MetadataDelta.between(IMAGE, image_of(UnregisterBrokerRecord(1, 0), on=IMAGE)).changed_brokers == {1}
