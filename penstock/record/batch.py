"""The record batch header, read and set in place (Kafka magic 2, KIP-98).

     at  bytes  field
      0      8  base_offset              \\
      8      4  batch_length              | the placement: what a broker knows better than the producer. Outside the
     12      4  leader_epoch             /  checksum, so an append leaves the body alone. Length counts from byte 12.
     16      1  magic = 2                outside the checksum, because it says how to find the checksum
     17      4  crc                      CRC-32C of everything from byte 21 to the end of the batch
     21      2  attributes               bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
     23      4  last_offset_delta
     27      8  base_timestamp_ms        the delete horizon where bit 6 is set (KIP-534): from then on the cleaner may
                                         take the tombstones out. Record times are relative to it in either case.
     35      8  max_timestamp_ms         the time of every record where bit 3 is set
     43      8  producer_id
     51      2  producer_epoch
     53      4  base_sequence
     57      4  record_count
     61         records, compressed as one stream where the codec is not none

All integers are big-endian. One record (its varints are zig-zag, see varint.py):

     length varint | attributes int8 = 0 | timestamp delta varlong | offset delta varint
     | key length varint (-1: null) | key | value length varint (-1: null) | value
     | header count varint | per header: name length varint, name (UTF-8), value length varint (-1: null), value

The checksum guards what the producer wrote. It does not guard the placement: a changed base_offset is found by the log
(offsets are dense), a changed batch_length by the checksum or, where it grew, by the batch being partial. Records are
not parsed here; that is reader.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from penstock.errors import CorruptMessageError
from penstock.record.codecs import Codec, codec_from_id

Buffer = bytes | bytearray | memoryview

BASE_OFFSET_AT, BASE_OFFSET_BYTES = 0, 8
BATCH_LENGTH_AT, BATCH_LENGTH_BYTES = BASE_OFFSET_AT + BASE_OFFSET_BYTES, 4
LEADER_EPOCH_AT, LEADER_EPOCH_BYTES = BATCH_LENGTH_AT + BATCH_LENGTH_BYTES, 4
MAGIC_AT, MAGIC_BYTES = LEADER_EPOCH_AT + LEADER_EPOCH_BYTES, 1
CRC_AT, CRC_BYTES = MAGIC_AT + MAGIC_BYTES, 4
ATTRIBUTES_AT, ATTRIBUTES_BYTES = CRC_AT + CRC_BYTES, 2
LAST_OFFSET_DELTA_AT, LAST_OFFSET_DELTA_BYTES = ATTRIBUTES_AT + ATTRIBUTES_BYTES, 4
BASE_TIMESTAMP_AT, BASE_TIMESTAMP_BYTES = LAST_OFFSET_DELTA_AT + LAST_OFFSET_DELTA_BYTES, 8
MAX_TIMESTAMP_AT, MAX_TIMESTAMP_BYTES = BASE_TIMESTAMP_AT + BASE_TIMESTAMP_BYTES, 8
PRODUCER_ID_AT, PRODUCER_ID_BYTES = MAX_TIMESTAMP_AT + MAX_TIMESTAMP_BYTES, 8
PRODUCER_EPOCH_AT, PRODUCER_EPOCH_BYTES = PRODUCER_ID_AT + PRODUCER_ID_BYTES, 2
BASE_SEQUENCE_AT, BASE_SEQUENCE_BYTES = PRODUCER_EPOCH_AT + PRODUCER_EPOCH_BYTES, 4
RECORD_COUNT_AT, RECORD_COUNT_BYTES = BASE_SEQUENCE_AT + BASE_SEQUENCE_BYTES, 4
HEADER_BYTES = RECORD_COUNT_AT + RECORD_COUNT_BYTES

PLACEMENT_BYTES = MAGIC_AT
"""The first bytes of a batch, which a log writes anew and the checksum leaves out."""
LENGTH_OVERHEAD_BYTES = LEADER_EPOCH_AT
"""The bytes that `batch_length` does not count."""
MIN_BATCH_LENGTH = HEADER_BYTES - LENGTH_OVERHEAD_BYTES
MIN_RECORD_BYTES = 7
"""One byte each for length, attributes, time, offset, key length, value length, header count."""
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

HEADER = Struct(">qiibIhiqqqhii")
_PLACEMENT = Struct(">qii")
_CHECKED = Struct(">qiibIhi")
"""The header up to the last offset delta."""
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")
_CRC = Struct(">I")
_PRODUCER = Struct(">qhi")


class BatchHeader(NamedTuple):
    """The 61 bytes, in wire order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return LENGTH_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """The codec of the batch; UnsupportedCompressionTypeError for an id that no codec has."""
        return codec_from_id(self.attributes & CODEC_MASK)

    @property
    def is_control(self) -> bool:
        """A transaction marker or the like: for brokers and readers to act on, not for users to see."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_numbered(self) -> bool:
        """A batch of an idempotent producer. Without a producer id, a sequence means nothing."""
        return self.base_sequence >= 0 and self.producer_id >= 0

    @property
    def is_log_append_time(self) -> bool:
        """The broker's clock counts: every record has `max_timestamp_ms`, whatever its own delta says."""
        return bool(self.attributes & LOG_APPEND_TIME_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may remove the batch's tombstones; None if no cleaner has set it yet."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None


def read_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """The header at `at`. The batch itself may reach beyond the buffer; see `iter_headers`."""
    if at < 0 or len(buffer) - at < HEADER_BYTES:
        raise CorruptMessageError(f"a record batch header needs {HEADER_BYTES} bytes at {at}, {len(buffer)} are there")
    header = BatchHeader._make(HEADER.unpack_from(buffer, at))
    if header.magic != MAGIC:
        raise CorruptMessageError(f"record batch at byte {at}: magic is {header.magic}, only {MAGIC} is known")
    if header.batch_length < MIN_BATCH_LENGTH:
        raise CorruptMessageError(
            f"record batch at byte {at}: its length says {header.batch_length}, the least is {MIN_BATCH_LENGTH}"
        )
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise CorruptMessageError(
            f"record batch at byte {at}: {header.record_count} records, last offset delta {header.last_offset_delta}"
        )
    return header


def iter_headers(buffer: Buffer, at: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; a partial last batch ends it quietly, as a fetch may end in one."""
    end = len(buffer)
    while end - at >= HEADER_BYTES:
        header = read_header(buffer, at)
        after = at + LENGTH_OVERHEAD_BYTES + header.batch_length
        if after > end:
            return
        yield at, header
        at = after


def verify_crc(buffer: Buffer, at: int, header: BatchHeader) -> bool:
    """True if the batch at `at` is whole and is what its producer wrote."""
    after = at + LENGTH_OVERHEAD_BYTES + header.batch_length
    if after > len(buffer):
        return False
    with memoryview(buffer) as view:
        return crc32c(view[at + ATTRIBUTES_AT : after]) == header.crc


class CheckedBatch(NamedTuple):
    """The fields of a batch that a log compares besides its checksum, and where the batch ends in the buffer."""

    at: int
    after: int
    base_offset: int
    next_offset: int
    leader_epoch: int
    crc_is_right: bool


def iter_checked(buffer: Buffer) -> Iterator[CheckedBatch]:
    """Iterates like `iter_headers` with `verify_crc`, for callers that look at very many batches and at little of
    each."""
    end, at = len(buffer), 0
    unpack, make = _CHECKED.unpack_from, CheckedBatch._make
    with memoryview(buffer) as view:
        while end - at >= HEADER_BYTES:
            base_offset, batch_length, leader_epoch, magic, crc, _, last_offset_delta = unpack(view, at)
            after = at + LENGTH_OVERHEAD_BYTES + batch_length
            if magic != MAGIC or batch_length < MIN_BATCH_LENGTH or last_offset_delta < 0:
                read_header(buffer, at)  # raises, and says why
            if after > end:
                return
            right = crc32c(view[at + ATTRIBUTES_AT : after]) == crc
            yield make((at, after, base_offset, base_offset + last_offset_delta + 1, leader_epoch, right))
            at = after


def placement(base_offset: int, batch_length: int, leader_epoch: int) -> bytes:
    """The bytes to write instead of the batch's own first `PLACEMENT_BYTES`; the rest goes to writev uncopied."""
    return _PLACEMENT.pack(base_offset, batch_length, leader_epoch)


def set_placement(buffer: bytearray | memoryview, at: int, base_offset: int, leader_epoch: int) -> None:
    """Gives the batch its place in the log. The checksum stays right, because it leaves these fields out."""
    _TIMESTAMP.pack_into(buffer, at + BASE_OFFSET_AT, base_offset)
    buffer[at + LEADER_EPOCH_AT : at + MAGIC_AT] = leader_epoch.to_bytes(LEADER_EPOCH_BYTES, "big", signed=True)


def set_max_timestamp_log_append_time(buffer: bytearray | memoryview, at: int, ms: int) -> None:
    """Stamps the batch with the broker's time (message.timestamp.type=LogAppendTime) and computes the checksum anew."""
    header = read_header(buffer, at)
    if at + header.size_bytes > len(buffer):
        raise CorruptMessageError(f"record batch at byte {at} is partial: {header.size_bytes} bytes are wanted")
    _ATTRIBUTES.pack_into(buffer, at + ATTRIBUTES_AT, header.attributes | LOG_APPEND_TIME_BIT)
    _TIMESTAMP.pack_into(buffer, at + MAX_TIMESTAMP_AT, ms)
    with memoryview(buffer) as view:
        _CRC.pack_into(buffer, at + CRC_AT, crc32c(view[at + ATTRIBUTES_AT : at + header.size_bytes]))


def with_producer(
    batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int, *, is_transactional: bool = False
) -> bytes:
    """The batch under another producer id, epoch and sequence. Its body is copied once, and not looked at."""
    head = bytearray(batch[:HEADER_BYTES])
    _PRODUCER.pack_into(head, PRODUCER_ID_AT, producer_id, producer_epoch, base_sequence)
    if is_transactional:
        head[ATTRIBUTES_AT + 1] |= TRANSACTIONAL_BIT
    with memoryview(batch) as view, view[HEADER_BYTES:] as body:
        _CRC.pack_into(head, CRC_AT, crc32c(body, crc32c(memoryview(head)[ATTRIBUTES_AT:])))
        return b"".join((head, body))


def pack_batch(header: BatchHeader, body: Buffer) -> bytes:
    """One batch from its parts. The length and the checksum of `header` are computed here, not taken."""
    fields = header._replace(batch_length=MIN_BATCH_LENGTH + len(body), crc=0)
    head = bytearray(HEADER.pack(*fields))
    _CRC.pack_into(head, CRC_AT, crc32c(body, crc32c(memoryview(head)[ATTRIBUTES_AT:])))
    return b"".join((head, body))
