"""Each origin of an append writes what it may: a producer, or a coordinator. A replica takes what its leader has."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidRecordError, MessageTooLargeError, RecordListTooLargeError
from penstock.record.batch import HEADER_BYTES, pack_batch, placement, read_header
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec
from storage.append.append_origin import COORDINATOR, PRODUCER
from storage.log_config import LogConfig
from tests.support.losing_fs import LosingFileSystem
from tests.support.producer_node import ME, Node
from tests.support.storage import NOW_MS, batch, new_log

CONFIG = LogConfig()
MARKER = build_batch([b"\x00" * 6], keys=[b"\x00\x00\x00\x01"], timestamps_ms=NOW_MS, is_control=True)


def made(source: bytes = MARKER, **fields: int) -> bytes:
    return pack_batch(read_header(source)._replace(**fields), source[HEADER_BYTES:])


BATCHES: dict[str, tuple[bytes, str | None, str | None]] = {
    "records": (batch(b"value"), None, None),
    "a control batch": (MARKER, "is a control batch; clients may not write them", None),
    "the end of a transaction": (
        made(attributes=0x30, producer_id=5, producer_epoch=1),
        "has producer id 5, epoch 1 and sequence -1: none of them may be negative",
        None,
    ),
    "a control batch with a sequence": (
        made(producer_id=5, producer_epoch=1, base_sequence=0),
        "is a control batch; clients may not write them",
        "the control batch at byte 0 has producer id 5, epoch 1 and sequence 0: the sequence must be -1",
    ),
    "a control batch of half a producer": (
        made(producer_id=5),
        "has producer id 5, epoch -1 and sequence -1: none of them may be negative",
        "the control batch at byte 0 has producer id 5, epoch -1",
    ),
    "transactional records": (
        made(batch(b"value"), attributes=0x10),
        r"is transactional \(attribute bit 4\), and has no producer id",
        r"is transactional \(attribute bit 4\), and has no producer id",
    ),
    "a control batch with a delete horizon": (
        made(attributes=0x60),
        "is a control batch; clients may not write them",
        "has a delete horizon",
    ),
    "a control batch with unknown attributes": (
        made(attributes=0xA0),
        "is a control batch; clients may not write them",
        "some bits are not known",
    ),
}


@pytest.mark.parametrize("which", BATCHES)
def test_a_leader_takes_of_each_origin_what_it_may_write(which: str) -> None:
    records, producer, coordinator = BATCHES[which]
    for origin, refusal in ((PRODUCER, producer), (COORDINATOR, coordinator)):
        log = new_log(LosingFileSystem(), CONFIG)
        if refusal is None:
            log.append.as_leader(records, 3, NOW_MS, origin)
        else:
            with pytest.raises(InvalidRecordError, match=refusal):
                log.append.as_leader(records, 3, NOW_MS, origin)
        assert log.log_end_offset == (0 if refusal else 1)


@pytest.mark.parametrize("which", BATCHES)
def test_a_replica_takes_what_its_leader_has(which: str) -> None:
    records, _, _ = BATCHES[which]
    log = new_log(LosingFileSystem(), CONFIG)

    log.append.as_follower(placement(0, read_header(records).batch_length, 3) + records[16:])

    assert log.log_end_offset == 1


@pytest.mark.parametrize("codec", ["producer", "uncompressed", "gzip"])
def test_the_limits_of_sizes_are_for_producers(codec: str) -> None:
    """A coordinator has taken a record while the limit was higher, and the end of a transaction must be written."""
    config = LogConfig(max_message_bytes=100, segment_bytes=200, compression_type=codec)
    log, large = new_log(LosingFileSystem(), config), batch(bytes(range(256)))

    with pytest.raises(RecordListTooLargeError):
        log.append.as_leader(large, 3, NOW_MS)
    with pytest.raises(MessageTooLargeError):
        log.append.as_leader(batch(bytes(range(100))), 3, NOW_MS)
    log.append.as_leader(MARKER, 3, NOW_MS, COORDINATOR)
    log.append.as_leader(large, 3, NOW_MS, COORDINATOR)
    log.append.as_leader(large, 3, NOW_MS, COORDINATOR)

    assert log.log_end_offset == 3


def test_an_append_is_a_producers_unless_it_says_otherwise() -> None:
    with pytest.raises(InvalidRecordError, match="is a control batch"):
        new_log(LosingFileSystem(), CONFIG).append.as_leader(MARKER, 3, NOW_MS)


def test_the_end_of_a_transaction_is_no_batch_of_its_producer_also_after_a_crash() -> None:
    node = Node()
    node.send(0, epoch=1)
    marker = made(attributes=0x30, producer_id=ME, producer_epoch=1)

    ends = [node.log.append.as_leader(marker, 0, NOW_MS, COORDINATOR) for _ in range(2)]
    node.log.flush()
    node.restart()

    assert [(end.first_offset, end.is_duplicate) for end in ends] == [(1, False), (2, False)]
    assert node.known() == [(0, 0)] and node.log.log_end_offset == 3
    assert node.send(0, epoch=1).is_duplicate
    assert node.send(1, epoch=1).first_offset == 3


def test_a_control_batch_keeps_its_form_on_a_topic_with_a_codec_or_without_records_that_lack_a_key() -> None:
    log = new_log(LosingFileSystem(), LogConfig(compression_type="zstd", cleanup_policy="compact"))
    plain = build_batch([b"v"], keys=[b"k"], timestamps_ms=NOW_MS)

    log.append.as_leader(plain + MARKER, 3, NOW_MS, COORDINATOR)

    first = log.reader.read(0, 10_000).records
    second = first[read_header(first).size_bytes :]
    assert [read_header(found).codec for found in (first, second)] == [Codec.ZSTD, Codec.NONE]
    assert bytes(second[HEADER_BYTES:]) == MARKER[HEADER_BYTES:]
