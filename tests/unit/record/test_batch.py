"""The batch header: the layout byte by byte, what the checksum covers, and headers one after another."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from penstock.errors import CorruptMessageError, UnsupportedCompressionTypeError
from penstock.record import batch
from penstock.record.builder import build_batch
from penstock.record.codecs import Codec

# One record, value b"v", written down by hand from the layout at the head of batch.py.
RECORD = bytes.fromhex("0e 00 00 00 01 02 76 00")
AFTER_CRC = (
    bytes.fromhex("0000 00000000 00000000000003e8 00000000000003e8 ffffffffffffffff ffff ffffffff 00000001") + RECORD
)
BY_HAND = bytes.fromhex("0000000000000007 00000039 00000002 02") + crc32c(AFTER_CRC).to_bytes(4, "big") + AFTER_CRC


def one_batch(**options: object) -> bytearray:
    return bytearray(build_batch([b"a", b"bb"], timestamps_ms=[10, 12], **options))  # type: ignore[arg-type]


def test_layout_is_kafkas_byte_for_byte() -> None:
    assert build_batch([b"v"], timestamps_ms=1000, base_offset=7, leader_epoch=2) == BY_HAND


def test_header_is_61_bytes_of_which_16_are_the_placement() -> None:
    assert (batch.HEADER_BYTES, batch.PLACEMENT_BYTES, batch.HEADER.size) == (61, 16, 61)


def test_fields_are_read_in_wire_order() -> None:
    header = batch.read_header(BY_HAND)

    assert header == (7, 57, 2, 2, crc32c(AFTER_CRC), 0, 0, 1000, 1000, -1, -1, -1, 1)
    assert (header.size_bytes, header.last_offset, header.next_offset) == (69, 7, 8)


def test_attributes_are_told_apart() -> None:
    header = batch.read_header(
        one_batch(codec=Codec.ZSTD, is_control=True, is_transactional=True, is_log_append_time=True)
    )

    assert (header.codec, header.is_control, header.is_transactional, header.is_log_append_time) == (
        Codec.ZSTD,
        True,
        True,
        True,
    )


def test_unknown_codec_is_its_own_error() -> None:
    header = batch.read_header(BY_HAND)._replace(attributes=5)

    with pytest.raises(UnsupportedCompressionTypeError, match="codec 5"):
        _ = header.codec


@pytest.mark.parametrize(
    ("at", "value"),
    [(batch.MAGIC_AT, b"\x01"), (batch.BATCH_LENGTH_AT, b"\0\0\0\x30"), (batch.RECORD_COUNT_AT, b"\xff" * 4)],
)
def test_nonsense_in_a_header_is_corrupt(at: int, value: bytes) -> None:
    data = bytearray(BY_HAND)
    data[at : at + len(value)] = value

    with pytest.raises(CorruptMessageError):
        batch.read_header(data)


@pytest.mark.parametrize("at", [-1, 9, 69, 1000])
def test_short_header_is_corrupt(at: int) -> None:
    with pytest.raises(CorruptMessageError):
        batch.read_header(BY_HAND, at)


def test_headers_of_all_whole_batches_are_found_and_a_partial_last_one_ends_quietly() -> None:
    data = bytes(one_batch()) + BY_HAND + BY_HAND[:-1]

    found = list(batch.iter_headers(data))

    assert [(at, header.base_offset) for at, header in found] == [(0, 0), (len(one_batch()), 7)]


@pytest.mark.parametrize("at", range(len(BY_HAND)))
def test_checksum_covers_attributes_and_after_and_nothing_before(at: int) -> None:
    data = bytearray(BY_HAND)
    data[at] ^= 0x01
    header = batch.read_header(BY_HAND)._replace(crc=int.from_bytes(data[17:21], "big"))

    assert batch.verify_crc(data, 0, header) == (at < batch.CRC_AT)


def test_checksum_of_a_partial_batch_is_not_right() -> None:
    assert not batch.verify_crc(BY_HAND[:-1], 0, batch.read_header(BY_HAND))


def test_placement_is_what_set_placement_writes() -> None:
    data = one_batch()
    length = batch.read_header(data).batch_length

    batch.set_placement(data, 0, 1 << 40, 9)

    assert data[: batch.PLACEMENT_BYTES] == batch.placement(1 << 40, length, 9)
    assert batch.verify_crc(data, 0, batch.read_header(data))


def test_placement_is_set_through_a_memoryview_at_a_position() -> None:
    data = one_batch() + one_batch()
    at = len(one_batch())

    batch.set_placement(memoryview(data), at, 5, 3)

    assert [header.base_offset for _, header in batch.iter_headers(data)] == [0, 5]
    assert batch.read_header(data, at).leader_epoch == 3


def test_a_batch_gets_a_producer_and_a_right_checksum_and_nothing_else_changes() -> None:
    data = bytes(one_batch())

    stamped = batch.with_producer(data, 1 << 40, 3, 2**31 - 1)

    header = batch.read_header(stamped)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1 << 40, 3, 2**31 - 1)
    assert batch.verify_crc(stamped, 0, header)
    assert batch.with_producer(stamped, -1, -1, -1) == data
    transactional = batch.with_producer(data, 1 << 40, 3, 2**31 - 1, is_transactional=True)
    header = batch.read_header(transactional)
    assert header.is_transactional and not header.is_control and batch.verify_crc(transactional, 0, header)


def test_log_append_time_sets_bit_and_time_and_a_right_checksum() -> None:
    data = one_batch()

    batch.set_max_timestamp_log_append_time(data, 0, 99)

    header = batch.read_header(data)
    assert (header.is_log_append_time, header.max_timestamp_ms, header.base_timestamp_ms) == (True, 99, 10)
    assert batch.verify_crc(data, 0, header)


def test_log_append_time_of_a_partial_batch_is_corrupt() -> None:
    with pytest.raises(CorruptMessageError):
        batch.set_max_timestamp_log_append_time(one_batch()[:-1], 0, 99)
